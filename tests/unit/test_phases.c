/* feed/phases.c: time in each phase, read by others while it changes. */
#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "feed/phases.h"

static struct phases phases;

START_TEST(time_is_in_one_phase)
{
    struct phases_now now;
    phases_begin(&phases, 2);
    uint64_t begin = phases.since;
    phases_enter(&phases, 3, "shard");
    uint64_t middle = phases.since;
    phases_enter(&phases, 2, NULL);
    uint64_t end = phases.since;
    phases_read(&phases, end + 500, &now);
    ck_assert_uint_eq(now.at, 2);
    ck_assert_uint_eq(now.since, end);
    ck_assert_uint_eq(now.ns[2], middle - begin + 500);
    ck_assert_uint_eq(now.ns[3], end - middle);
    ck_assert_uint_eq(phases_past(&phases, 2), middle - begin);
    phases_enter(&phases, 4, "other");
    phases_read(&phases, phases.since, &now);
    ck_assert_str_eq(now.what, "other");
    phases_begin(&phases, 1); /* what was before does not count */
    phases_read(&phases, phases.since, &now);
    ck_assert_uint_eq(now.ns[4], 0);
}
END_TEST

static _Atomic bool stop;

static void *enter(void *context)
{
    (void)context;
    for (uint32_t i = 0; !atomic_load(&stop); i++)
        phases_enter(&phases, i % 4, NULL);
    return NULL;
}

/* All phases together are the time since the begin, whenever they are read. */
START_TEST(what_is_read_fits_together)
{
    pthread_t thread;
    phases = (struct phases){0};
    phases_begin(&phases, 0);
    uint64_t begin = phases.since;
    pthread_create(&thread, NULL, enter, NULL);
    uint64_t before = 0;
    for (int i = 0; i < 20000; i++) {
        struct phases_now now;
        uint64_t time = clock_ns(), sum = 0;
        phases_read(&phases, time, &now);
        for (int phase = 0; phase < 4; phase++)
            sum += now.ns[phase];
        uint64_t upto = now.since > time ? now.since : time;
        ck_assert_uint_eq(sum, upto - begin);
        ck_assert_uint_ge(sum, before);
        before = sum;
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("phases");
    TCase *test = tcase_create("phases");
    tcase_add_test(test, time_is_in_one_phase);
    tcase_add_test(test, what_is_read_fits_together);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
