/* feed/crew.c: each item is done once, many at a time; the caller names what it waits for. */
#include "feed/crew.h"

#include <check.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic uint64_t cpu_ns;

#define MOST 1000

static struct {
    _Atomic int times[MOST];
    _Atomic int now, most;
    _Atomic bool open; /* what holds item 0 back */
    size_t named[MOST];
    size_t nnamed;
    pid_t caller;
    _Atomic int by_caller;
} seen;

static void setup(void)
{
    memset((void *)&seen, 0, sizeof seen);
    seen.caller = (pid_t)syscall(SYS_gettid);
}

static void count(void *context, size_t item)
{
    ck_assert_ptr_eq(context, &seen);
    atomic_fetch_add(&seen.times[item], 1);
    seen.by_caller += syscall(SYS_gettid) == seen.caller;
}

static void name(void *context, size_t item)
{
    ck_assert_ptr_eq(context, &seen);
    seen.named[seen.nnamed++] = item;
}

START_TEST(each_item_once_in_many_runs)
{
    struct crew *crew = crew_new(&cpu_ns);
    for (size_t run = 0; run < 300; run++) {
        size_t items = run * 7 % MOST;
        setup();
        crew_run(crew, items, count, name, &seen);
        for (size_t i = 0; i < MOST; i++)
            ck_assert_int_eq(seen.times[i], i < items);
        for (size_t i = 1; i < seen.nnamed; i++)
            ck_assert_uint_gt(seen.named[i], seen.named[i - 1]);
        ck_assert_int_eq(seen.by_caller, 0);
    }
    crew_free(crew);
}
END_TEST

static void meet(void *context, size_t item)
{
    int now = atomic_fetch_add(&seen.now, 1) + 1;
    if (now > atomic_load(&seen.most))
        atomic_store(&seen.most, now);
    for (int i = 0; i < 20000 && item < CREW_MOST && atomic_load(&seen.most) < CREW_MOST; i++)
        usleep(1000);
    count(context, item);
    atomic_fetch_sub(&seen.now, 1);
}

START_TEST(sixteen_at_a_time)
{
    struct crew *crew = crew_new(&cpu_ns);
    crew_run(crew, 100, meet, name, &seen);
    ck_assert_int_eq(seen.most, CREW_MOST);
    crew_free(crew);
}
END_TEST

/* Item 0 ends when all others have, item 1 hangs until it is named. */
static void hang(void *context, size_t item)
{
    for (int i = 0; i < 20000 && item == 0 && atomic_load(&seen.now) < 99; i++)
        usleep(1000);
    for (int i = 0; i < 20000 && item == 1 && !atomic_load(&seen.open); i++)
        usleep(1000);
    count(context, item);
    atomic_fetch_add(&seen.now, item != 1);
}

static void name_and_open(void *context, size_t item)
{
    name(context, item);
    atomic_store(&seen.open, item == 1);
}

START_TEST(one_that_hangs_keeps_none_up_and_is_named)
{
    struct crew *crew = crew_new(&cpu_ns);
    seen.now = 1; /* item 1 is not counted */
    crew_run(crew, 100, hang, name_and_open, &seen);
    ck_assert_uint_ge(seen.nnamed, 2);
    ck_assert_uint_eq(seen.named[0], 0);
    ck_assert_uint_eq(seen.named[1], 1);
    ck_assert(seen.open);
    crew_free(crew);
}
END_TEST

START_TEST(without_threads_the_caller_works)
{
    struct rlimit before;
    getrlimit(RLIMIT_NPROC, &before);
    struct rlimit none = {0, before.rlim_max};
    uid_t uid = getuid();
    ck_assert_int_eq(setrlimit(RLIMIT_NPROC, &none), 0);
    ck_assert(uid != 0 || setresuid(65534, 65534, 0) == 0); /* root has no limit */
    struct crew *crew = crew_new(&cpu_ns);
    crew_run(crew, 10, count, name, &seen);
    ck_assert(uid != 0 || setresuid(0, 0, 0) == 0);
    setrlimit(RLIMIT_NPROC, &before);
    ck_assert_int_eq(seen.by_caller, 10);
    ck_assert_uint_eq(seen.nnamed, 10);
    crew_run(crew, 10, count, name, &seen); /* there are threads again */
    ck_assert_int_eq(seen.by_caller, 10);
    crew_free(crew);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("crew");
    TCase *tests = tcase_create("crew");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, each_item_once_in_many_runs);
    tcase_add_test(tests, sixteen_at_a_time);
    tcase_add_test(tests, one_that_hangs_keeps_none_up_and_is_named);
    tcase_add_test(tests, without_threads_the_caller_works);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
