/* control/takings.c: totals of trainers that come and go, which only grow. */
#include <check.h>
#include <string.h>

#include "control/takings.h"

static struct gauge gauge;
static struct feed_stats stats;

START_TEST(waits_that_were_overestimated_are_not_taken_back)
{
    gauge_begin(&gauge, 1 * CLOCK_SECOND, &stats);
    gauge_wait(&gauge, 1 * CLOCK_SECOND, &stats);
    gauge_look(&gauge, 4 * CLOCK_SECOND, &stats);
    ck_assert_uint_eq(gauge_wait_told(&gauge), 3 * CLOCK_SECOND);
    const struct gauge_batch batch = {4, 100};
    gauge_take(&gauge, 5 * CLOCK_SECOND, 1 * CLOCK_SECOND, &batch);
    ck_assert_uint_eq(gauge_waited(&gauge, 5 * CLOCK_SECOND), 1 * CLOCK_SECOND);
    ck_assert_uint_eq(gauge_wait_told(&gauge), 3 * CLOCK_SECOND);
    gauge_take(&gauge, 9 * CLOCK_SECOND, 4 * CLOCK_SECOND, &batch);
    ck_assert_uint_eq(gauge_wait_told(&gauge), 5 * CLOCK_SECOND);
}
END_TEST

START_TEST(all_of_a_gauge_is_added)
{
    struct takings_status takings = {0};
    Dlp__FeedStatus out = DLP__FEED_STATUS__INIT;
    const struct gauge_batch batch = {4, 100};
    stats.wait = FEED_WAITS_STORAGE;
    gauge_begin(&gauge, 1 * CLOCK_SECOND, &stats);
    for (uint64_t second = 2; second <= 4; second++) {
        gauge_wait(&gauge, second * CLOCK_SECOND, &stats);
        gauge_take(&gauge, second * CLOCK_SECOND, CLOCK_SECOND / 2, &batch);
    }
    takings_add(&takings.sum, &gauge, 5 * CLOCK_SECOND);
    takings_add(&takings.sum, &gauge, 6 * CLOCK_SECOND);
    takings_fill(&takings, &out);
    ck_assert_uint_eq(out.batches, 6);
    ck_assert_uint_eq(out.samples, 24);
    ck_assert_uint_eq(out.bytes, 600);
    ck_assert_uint_eq(out.wait_ns, 3 * CLOCK_SECOND);
    ck_assert_uint_eq(out.hold_ns, 7 * CLOCK_SECOND); /* from 2 to 5 and from 2 to 6 */
    ck_assert_uint_eq(out.n_wait_counts, DLP_WAIT_CLASSES);
    uint64_t counted = 0, stalls = 0;
    for (size_t i = 0; i < out.n_wait_counts; i++)
        counted += out.wait_counts[i];
    ck_assert_uint_eq(counted, 6);
    ck_assert_uint_eq(out.n_causes, GAUGE_CAUSES - 1);
    for (size_t i = 0; i < out.n_causes; i++) {
        stalls += out.causes[i]->stalls;
        if (!strcmp(out.causes[i]->name, "storage"))
            ck_assert_uint_eq(out.causes[i]->wait_ns, 3 * CLOCK_SECOND);
    }
    ck_assert_uint_eq(stalls, 6);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("takings");
    TCase *tcase = tcase_create("takings");
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, waits_that_were_overestimated_are_not_taken_back);
    tcase_add_test(tcase, all_of_a_gauge_is_added);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
