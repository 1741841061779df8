/* control/gauge.c: waits, holds, stalls with causes, rates over the window. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/gauge.h"

#define T0 (100 * CLOCK_SECOND)
#define MS CLOCK_MS

static struct gauge gauge;
static struct feed_stats stats;
static struct window_rates rates;

static void setup(void)
{
    stats = (struct feed_stats){.slots = 4};
    gauge_begin(&gauge, T0, &stats);
}

/* As the session does it. */
static void take(uint64_t now, uint64_t wait_ns, uint32_t rows)
{
    const struct gauge_batch batch = {rows, rows * 100ULL};
    if (gauge_take(&gauge, now, wait_ns, &batch))
        gauge_note(&gauge, now, &stats);
}

static void near(double value, double wanted)
{
    ck_assert_double_eq_tol(value, wanted, 1e-6 * (1 + wanted));
}

START_TEST(rates_over_one_second)
{
    take(T0 + 100 * MS, 0, 32);
    gauge_release(&gauge, T0 + 350 * MS);
    take(T0 + 600 * MS, 250 * MS, 32);
    stats.work = (struct feed_work){
        .samples = 64,
        .reads = {.samples = 128, .busy_ns = 500 * MS, .at = T0 + 900 * MS},
        .read_busy_ns = 600 * MS, /* more is being read */
        .read_bytes = 1 << 20,
        .decode_ns = 1500 * MS, /* 1.5 workers, */
        .augment_ns = 500 * MS, /* a third of it augments */
        .decoded = 150,
        .finish_ns = 10 * MS,
        .copy_ns = 250 * MS,
    };
    gauge_rates(&gauge, T0 + CLOCK_SECOND, &stats, &rates);
    near(rates.window_s, 1);
    near(rates.samples_per_s, 64);
    near(rates.batches_per_s, 2);
    near(rates.wait_share, 0.25);
    near(rates.hold_share, 0.25 + 0.4); /* the second one is held still */
    near(rates.read_limit, 256);
    near(rates.bytes_per_s, 6400);
    near(rates.compute_limit, 64 / 0.75);
    near(rates.read_busy, 0.6);
    near(rates.read_bytes_per_s, 1 << 20);
    near(rates.decode_busy, 1);
    near(rates.augment_busy, 0.5);
    near(rates.finish_busy, 0.01);
    near(rates.decode_rate, 150);
    near(rates.augment_rate, 300);
    near(rates.finish_rate, 15000);
    near(rates.decode_per_worker, 150 / 1.51);
    near(rates.copy_busy, 0.25);
    near(rates.copy_limit, 256);
}
END_TEST

START_TEST(own_words_are_cut_to_what_is_possible)
{
    take(T0 + 10 * MS, UINT64_MAX, 1);
    ck_assert_uint_eq(gauge.wait_ns, 10 * MS);
    take(T0 + 15 * MS, 3600 * CLOCK_SECOND, 1);
    ck_assert_uint_eq(gauge.wait_ns, 15 * MS);
}
END_TEST

START_TEST(short_windows_tell_nothing)
{
    take(T0 + 5 * MS, 5 * MS, 32);
    gauge_rates(&gauge, T0 + 999 * MS, &stats, &rates);
    near(rates.window_s, 0);
    near(rates.samples_per_s, 0);
    gauge_rates(&gauge, T0 + 1000 * MS, &stats, &rates);
    near(rates.samples_per_s, 32);
}
END_TEST

START_TEST(waiting_now_counts)
{
    gauge_wait(&gauge, T0 + 500 * MS, &stats);
    gauge_wait(&gauge, T0 + 700 * MS, &stats); /* said again: it began before */
    gauge_rates(&gauge, T0 + 1000 * MS, &stats, &rates);
    near(rates.wait_share, 0.5);
}
END_TEST

/* The first stall is named while it lasts: in a total one no end ever comes. */
/* However long it does not take it. */
START_TEST(a_wait_is_over_when_the_batch_is_there)
{
    gauge_come(&gauge, T0 + 100 * MS); /* it does not wait */
    gauge_wait(&gauge, T0 + 500 * MS, &stats);
    ck_assert_uint_eq(gauge_waiting(&gauge, T0 + 600 * MS), 100 * MS);
    gauge_come(&gauge, T0 + 750 * MS);
    gauge_come(&gauge, T0 + 800 * MS); /* another one */
    ck_assert_uint_eq(gauge_waiting(&gauge, T0 + 900 * MS), 0);
    gauge_rates(&gauge, T0 + CLOCK_SECOND, &stats, &rates);
    near(rates.wait_share, 0.25);
    take(T0 + 2 * CLOCK_SECOND, 300 * MS, 32);
    near(gauge_wait_share(&gauge, T0 + 3 * CLOCK_SECOND), 0.1);
    gauge_wait(&gauge, T0 + 3 * CLOCK_SECOND, &stats);
    near(gauge_wait_share(&gauge, T0 + 4 * CLOCK_SECOND), 1.3 / 4);
}
END_TEST

START_TEST(a_stall_that_lasts_has_a_cause)
{
    stats.wait = FEED_WAITS_STORAGE;
    ck_assert_int_eq(gauge_last_cause(&gauge, T0 + CLOCK_SECOND, &stats), GAUGE_NONE);
    gauge_wait(&gauge, T0, &stats);
    ck_assert_int_eq(gauge_last_cause(&gauge, T0 + MS, &stats), GAUGE_NONE);
    ck_assert_int_eq(gauge_last_cause(&gauge, T0 + 2 * MS, &stats), GAUGE_STORAGE);
    stats.wait = FEED_WAITS_MEMORY; /* as it is now, not as it began */
    ck_assert_int_eq(gauge_last_cause(&gauge, T0 + 3 * MS, &stats), GAUGE_MEMORY_LIMIT);
}
END_TEST

START_TEST(stalls_have_length_and_cause)
{
    stats.wait = FEED_WAITS_STORAGE;
    gauge_wait(&gauge, T0, &stats);
    take(T0 + 7 * MS, 7 * MS, 1);
    ck_assert_uint_eq(gauge.stalls, 1);
    ck_assert_uint_eq(gauge.longest_stall_ns, 7 * MS);
    ck_assert_str_eq(gauge_cause_name(gauge.last_cause), "storage");
    stats.wait = FEED_RUNS;
    ck_assert_int_eq(gauge_last_cause(&gauge, T0 + 8 * MS, &stats), GAUGE_STORAGE);
    gauge_wait(&gauge, T0 + 10 * MS, &stats);
    take(T0 + 11 * MS, MS, 1);     /* a millisecond is none */
    take(T0 + 20 * MS, 5 * MS, 1); /* the batch was there: it never said that it waits */
    ck_assert_uint_eq(gauge.stalls, 1);
}
END_TEST

START_TEST(cause_of_a_long_stall_is_the_latest)
{
    stats.rows_queued = 3;
    gauge_wait(&gauge, T0, &stats);
    stats.rows_queued = 0;
    stats.wait = FEED_WAITS_MEMORY;
    gauge_look(&gauge, T0 + CLOCK_SECOND, &stats);
    take(T0 + 2 * CLOCK_SECOND, 2 * CLOCK_SECOND, 1);
    ck_assert_str_eq(gauge_cause_name(gauge.last_cause), "memory_limit");
}
END_TEST

START_TEST(rows_behind_storage)
{
    stats.rows_queued = 3;
    stats.work.dry_ns = 150 * MS;
    gauge_wait(&gauge, T0 + CLOCK_SECOND, &stats);
    ck_assert_int_eq(gauge.cause_now, GAUGE_STORAGE);
    take(T0 + 1010 * MS, 10 * MS, 1);
    stats.work.slot_wait_ns = 300 * MS; /* no, the slots are full */
    gauge_wait(&gauge, T0 + 2 * CLOCK_SECOND, &stats);
    ck_assert_int_eq(gauge.cause_now, GAUGE_DECODE);
}
END_TEST

static enum gauge_cause cause(enum feed_wait wait, uint32_t held, uint64_t queued, uint64_t batches)
{
    struct feed_stats s = {
        .slots = 4, .wait = wait, .held = held, .rows_queued = queued, .batches = batches};
    return gauge_cause(&s);
}

START_TEST(causes)
{
    ck_assert_int_eq(cause(FEED_WAITS_STORAGE, 0, 0, 1), GAUGE_STORAGE);
    ck_assert_int_eq(cause(FEED_WAITS_STORAGE, 0, 5, 1), GAUGE_DECODE);
    ck_assert_int_eq(cause(FEED_WAITS_DESCRIPTOR, 0, 0, 1), GAUGE_STORAGE);
    ck_assert_int_eq(cause(FEED_WAITS_MEMORY, 0, 5, 1), GAUGE_MEMORY_LIMIT);
    ck_assert_int_eq(cause(FEED_WAITS_SLOT, 3, 0, 1), GAUGE_SLOTS_HELD);
    ck_assert_int_eq(cause(FEED_WAITS_SLOT, 0, 0, 1), GAUGE_DECODE);
    ck_assert_int_eq(cause(FEED_WAITS_DECODE, 0, 0, 0), GAUGE_DECODE);
    ck_assert_int_eq(cause(FEED_RUNS, 0, 0, 1), GAUGE_DECODE);
    ck_assert_int_eq(cause(FEED_RUNS, 0, 0, 0), GAUGE_SHUFFLE_FILL);
}
END_TEST

START_TEST(slots_held_up_by_the_trainer_or_by_decoding)
{
    stats.work.slot_wait_ns = 600 * MS;
    stats.work.dry_ns = 700 * MS;
    take(T0 + 1000 * MS, 100 * MS, 1);
    gauge_rates(&gauge, T0 + 1000 * MS, &stats, &rates);
    near(gauge_held_up(&rates, rates.wait_share),
         0.6); /* it waited for little: it held them */
    setup();
    stats.work.slot_wait_ns = 600 * MS;
    stats.work.dry_ns = 700 * MS;
    take(T0 + 1000 * MS, 900 * MS, 1);
    gauge_rates(&gauge, T0 + 1000 * MS, &stats, &rates);
    near(gauge_held_up(&rates, rates.wait_share),
         0.1); /* it waited most of the time */
    setup();
    stats.work.slot_wait_ns = 600 * MS;
    stats.work.dry_ns = 50 * MS; /* the workers were at it */
    take(T0 + 1000 * MS, 100 * MS, 1);
    gauge_rates(&gauge, T0 + 1000 * MS, &stats, &rates);
    near(gauge_held_up(&rates, rates.wait_share), 0.05);
}
END_TEST

START_TEST(idle_window_keeps_the_limits_of_the_run)
{
    stats.work.decode_ns = 100 * MS;
    stats.work.decoded = 50;
    for (unsigned s = 1; s <= 10; s++)
        take(T0 + s * CLOCK_SECOND, 0, 1);
    gauge_rates(&gauge, T0 + 10 * CLOCK_SECOND + MS, &stats, &rates);
    near(rates.decode_per_worker, 500);
    near(rates.decode_busy, 0);
}
END_TEST

START_TEST(reason_names_shard_and_seconds)
{
    char text[600];
    stats.wait = FEED_WAITS_STORAGE;
    stats.wait_since_ns = T0;
    strcpy(stats.wait_what, "/data/a-00007.tar");
    gauge_reason(&stats, T0 + 12 * CLOCK_SECOND, text, sizeof text);
    ck_assert_str_eq(text, "waits for storage for 12.0 s: /data/a-00007.tar");
    stats.wait = FEED_WAITS_DECODE;
    strcpy(stats.wait_what, "7 rows queued");
    gauge_reason(&stats, T0 + 30 * MS, text, sizeof text); /* no seconds yet */
    ck_assert_str_eq(text, "waits for decoding: 7 rows queued");
    stats.wait = FEED_WAITS_SLOT;
    stats.held = 1;
    stats.ready = 2;
    gauge_reason(&stats, T0 + CLOCK_SECOND, text, sizeof text);
    ck_assert_str_eq(text, "waits for a free slot for 1.0 s: 1 held, 2 ready, 1 being filled");
}
END_TEST

START_TEST(ready_while_there_is_one_to_take)
{
    gauge_ready(&gauge, T0 + 100 * MS, 1);
    gauge_ready(&gauge, T0 + 200 * MS, 1);
    gauge_ready(&gauge, T0 + 300 * MS, -1);
    gauge_ready(&gauge, T0 + 400 * MS, -1);
    gauge_ready(&gauge, T0 + 900 * MS, 1);
    gauge_rates(&gauge, T0 + 1000 * MS, &stats, &rates);
    near(rates.ready_share, 0.4);
}
END_TEST

START_TEST(stalls_are_counted_by_cause)
{
    static const enum feed_wait waits[] = {FEED_WAITS_STORAGE, FEED_WAITS_MEMORY,
                                           FEED_WAITS_STORAGE};
    for (unsigned i = 0; i < 3; i++) {
        stats.wait = waits[i];
        gauge_wait(&gauge, T0 + i * 100 * MS, &stats);
        take(T0 + i * 100 * MS + 10 * MS, 10 * MS, 1);
    }
    ck_assert_uint_eq(gauge.by_cause[GAUGE_STORAGE].count, 2);
    ck_assert_uint_eq(gauge.by_cause[GAUGE_STORAGE].wait_ns, 20 * MS);
    ck_assert_uint_eq(gauge.by_cause[GAUGE_MEMORY_LIMIT].count, 1);
    ck_assert_uint_eq(gauge.by_cause[GAUGE_DECODE].count, 0);
    ck_assert_uint_eq(gauge.waits.count, 3);
    ck_assert_uint_eq(gauge.bytes, 300);
}
END_TEST

START_TEST(releases_without_a_take_do_no_harm)
{
    gauge_release(&gauge, T0 + MS);
    ck_assert_uint_eq(gauge.held, 0);
    ck_assert_uint_eq(gauge.hold_ns, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gauge");
    TCase *test = tcase_create("gauge");
    tcase_add_checked_fixture(test, setup, NULL);
    tcase_add_test(test, rates_over_one_second);
    tcase_add_test(test, own_words_are_cut_to_what_is_possible);
    tcase_add_test(test, short_windows_tell_nothing);
    tcase_add_test(test, waiting_now_counts);
    tcase_add_test(test, a_wait_is_over_when_the_batch_is_there);
    tcase_add_test(test, a_stall_that_lasts_has_a_cause);
    tcase_add_test(test, stalls_have_length_and_cause);
    tcase_add_test(test, cause_of_a_long_stall_is_the_latest);
    tcase_add_test(test, rows_behind_storage);
    tcase_add_test(test, causes);
    tcase_add_test(test, slots_held_up_by_the_trainer_or_by_decoding);
    tcase_add_test(test, idle_window_keeps_the_limits_of_the_run);
    tcase_add_test(test, reason_names_shard_and_seconds);
    tcase_add_test(test, ready_while_there_is_one_to_take);
    tcase_add_test(test, stalls_are_counted_by_cause);
    tcase_add_test(test, releases_without_a_take_do_no_harm);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
