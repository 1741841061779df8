/* feed/read_depth.c: the number of reads at a time, on storages that are reckoned and not waited
 * for. */
#include "feed/read_depth.h"

#include <check.h>

#include "base/clock.h"

#define MIB (1ULL << 20)

static struct read_depth depth;
static uint64_t now;

/* A storage with one rate for all, and a time that each read takes; whoever reads has so many reads
 * that could begin. Returns bytes/s. */
static double run(double seconds, double rate, double latency, uint32_t readers)
{
    uint64_t begin = now, bytes = 0;
    while ((double)(now - begin) < seconds * 1e9) {
        uint32_t reading = readers < depth.reads ? readers : depth.reads;
        double each = latency / reading, least = (double)MIB / rate;
        now += (uint64_t)((each > least ? each : least) * 1e9);
        bytes += MIB;
        read_depth_began(&depth, reading);
        read_depth_ended(&depth, MIB, readers > reading, now);
    }
    return (double)bytes / (double)(now - begin) * 1e9;
}

static void setup(void)
{
    now = 1000 * CLOCK_SECOND;
    read_depth_init(&depth, now);
}

START_TEST(few_where_the_rate_is_limited)
{
    run(5, 200e6, 0.001, 80);
    ck_assert_uint_le(depth.before, 6);
    ck_assert_double_ge(run(20, 200e6, 0.001, 80), 199e6);
}
END_TEST

START_TEST(all_where_each_takes_its_time)
{
    run(3, 1e12, 0.05, 80);
    ck_assert_uint_ge(depth.reads, 60);
    ck_assert_double_ge(run(30, 1e12, 0.05, 80), 0.95 * 80 * MIB / 0.05);
}
END_TEST

/* 2 GB/s with 20 ms a read: 40 reads at a time have it. */
START_TEST(as_many_as_it_takes)
{
    run(10, 2e9, 0.02, 500);
    ck_assert_double_ge(run(30, 2e9, 0.02, 500), 0.9 * 2e9);
    ck_assert_uint_le(depth.reads, 80);
}
END_TEST

START_TEST(follows_a_storage_that_changes)
{
    run(5, 1e12, 0.05, 80);
    run(60, 100e6, 0.001, 80);
    ck_assert_uint_le(depth.before, 6);
    run(20, 1e12, 0.05, 80);
    ck_assert_uint_ge(depth.reads, 50);
}
END_TEST

START_TEST(a_pause_ends_a_trial)
{
    run(30, 1e12, 0.05, 80);
    while (depth.trial == READ_DEPTH_RESTS)
        run(0.1, 1e12, 0.05, 80);
    uint32_t before = depth.before;
    read_depth_pause(&depth, now);
    ck_assert_uint_eq(depth.reads, before);
    ck_assert_int_eq(depth.trial, READ_DEPTH_RESTS);
}
END_TEST

START_TEST(slow_is_no_reason)
{
    run(60, 1e6, 0.001, 80);
    ck_assert_uint_ge(depth.reads, READ_DEPTH_LEAST);
    ck_assert_double_ge(run(60, 1e6, 0.001, 80), 0.9e6);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("read_depth");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, few_where_the_rate_is_limited);
    tcase_add_test(tcase, all_where_each_takes_its_time);
    tcase_add_test(tcase, as_many_as_it_takes);
    tcase_add_test(tcase, follows_a_storage_that_changes);
    tcase_add_test(tcase, a_pause_ends_a_trial);
    tcase_add_test(tcase, slow_is_no_reason);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
