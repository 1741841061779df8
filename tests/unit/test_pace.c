/* control/pace.c: what a stream and its trainers could do, from the counters of one second. */
#include "control/pace.h"

#include <check.h>
#include <string.h>

#include "base/clock.h"

#define MS CLOCK_MS
#define T0 (100 * CLOCK_SECOND)

static struct pace_stream stream;
static struct pace_taker taker;
static struct gauge gauge;
static struct feed_stats stats;
static struct governor_stream out;
static uint64_t now;

static void setup(void)
{
    memset(&stream, 0, sizeof stream);
    memset(&taker, 0, sizeof taker);
    memset(&stats, 0, sizeof stats);
    now = T0;
    gauge_begin(&gauge, now, &stats);
}

static void look(void)
{
    pace_look_stream(&stream, &stats, &out);
    pace_look_taker(&taker, &stream, &gauge, now, &out);
}

/* A second of steps: each waits and then computes; batches of 10 rows. */
static void step(unsigned steps, uint64_t wait_ns, uint64_t compute_ns)
{
    const struct gauge_batch batch = {.rows = 10};
    for (unsigned i = 0; i < steps; i++) {
        gauge_wait(&gauge, now, &stats);
        now += wait_ns;
        gauge_come(&gauge, now);
        gauge_take(&gauge, now, wait_ns, &batch);
        gauge_release(&gauge, now);
        now += compute_ns;
    }
}

static void near(double value, double wanted)
{
    ck_assert_double_eq_tol(value, wanted, 1e-6 * (1 + wanted));
}

START_TEST(demand_is_what_it_takes_without_waiting)
{
    step(5, 150 * MS, 50 * MS);
    look();
    step(5, 150 * MS, 50 * MS);
    look();
    near(out.demand, 200);
    near(out.wait_share, 0.75);
    step(20, 0, 50 * MS);
    look(); /* first is a step of the second before, all are alike */
    near(out.demand, 200);
    near(out.wait_share, 0);
    step(40, 0, 25 * MS);
    look();
    ck_assert_double_ge(out.demand, 390);
    step(40, 0, 25 * MS);
    look();
    near(out.demand, 400);
}
END_TEST

START_TEST(steps_that_are_longer_than_a_look)
{
    step(1, 0, 2500 * MS);
    look();
    step(1, 0, 2500 * MS);
    look();
    near(out.demand, 4);
    now += CLOCK_SECOND;
    look();
    near(out.demand, 4); /* as it was, while it is at a step */
    now += 40 * CLOCK_SECOND;
    look();
    near(out.demand, 0); /* it asks for nothing */
    step(2, 0, 2500 * MS);
    look();
    ck_assert_double_gt(out.demand, 0);
}
END_TEST

START_TEST(nothing_is_known_of_one_that_is_new)
{
    look();
    ck_assert(out.fresh);
    step(1, 0, 0);
    look();
    look();
    ck_assert(out.fresh);
    near(out.demand, 0);
    gauge_wait(&gauge, now, &stats);
    now += CLOCK_SECOND;
    look(); /* it waits for its second batch, so it could take more */
    ck_assert(!out.fresh);
    near(out.demand, PACE_ALL);
    near(out.wait_share, 1);
}
END_TEST

START_TEST(one_that_never_takes_anything)
{
    for (int i = 0; i < 10; i++) {
        now += CLOCK_SECOND;
        look();
        ck_assert(out.fresh);
    }
    now += CLOCK_SECOND;
    look();
    ck_assert(!out.fresh);
    near(out.demand, 0);
}
END_TEST

START_TEST(rates_of_workers_and_storage)
{
    look();
    near(out.supply, PACE_ALL);
    near(out.rate, 0);
    stats.work = (struct feed_work){.decoded = 90,
                                    .decode_ns = 800 * MS,
                                    .finish_ns = 200 * MS,
                                    .reads = {.samples = 100, .busy_ns = 500 * MS}};
    look();
    near(out.rate, 90);
    near(out.supply, 200);
    near(stream.rows, 90);
    look(); /* a second without any */
    near(out.rate, 90);
    near(out.supply, 200);
    near(stream.rows, 0);
    stats.work.decoded += 30;
    stats.work.decode_ns += 1000 * MS;
    look();
    near(out.rate, 60); /* half of it the rate before */
}
END_TEST

/* A stream goes as fast as its slowest member. */
START_TEST(members_of_a_group)
{
    struct pace_taker other = {0};
    struct gauge slow;
    gauge_begin(&slow, now, &stats);
    for (int i = 0; i < 3; i++) {
        const struct gauge_batch batch = {.rows = 10};
        uint64_t begin = now;
        gauge_take(&slow, begin, 0, &batch);
        step(5, 160 * MS, 40 * MS);
        gauge_take(&slow, begin + 500 * MS, 0, &batch);
        look();
        pace_look_taker(&other, &stream, &slow, now, &out);
    }
    near(out.demand, 20);
    near(out.wait_share, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pace");
    TCase *tests = tcase_create("pace");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, demand_is_what_it_takes_without_waiting);
    tcase_add_test(tests, steps_that_are_longer_than_a_look);
    tcase_add_test(tests, nothing_is_known_of_one_that_is_new);
    tcase_add_test(tests, one_that_never_takes_anything);
    tcase_add_test(tests, rates_of_workers_and_storage);
    tcase_add_test(tests, members_of_a_group);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
