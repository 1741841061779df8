/* control/window.c: rates over whole steps of trainers quick and slow. */
#include <check.h>
#include <stdlib.h>

#include "control/window.h"

#define T0 (100 * CLOCK_SECOND)
#define MS CLOCK_MS

static struct window window;
static struct window_point counters;
static struct window_rates rates;
static uint64_t last;

static void setup(void)
{
    counters = (struct window_point){.at = T0};
    window = (struct window){0};
    window_begin(&window, &counters);
    last = T0;
}

/* A batch of 32 samples is taken after a wait; the rest of the step it is held. */
static void take(uint64_t at, uint64_t wait_ns)
{
    uint64_t own_ns = at - last > wait_ns ? at - last - wait_ns : 0;
    counters.at = last = at;
    counters.samples += 32;
    counters.batches++;
    counters.wait_ns += wait_ns;
    counters.work.decoded += 32;
    counters.work.decode_ns += 64 * MS;
    if (window_take(&window, at, own_ns))
        window_note(&window, &counters);
}

static void look(uint64_t at)
{
    counters.at = at;
    window_rates(&window, &counters, &rates);
}

static void near(double value, double wanted, double tolerance)
{
    ck_assert_double_eq_tol(value, wanted, tolerance * wanted + 1e-9);
}

/* At any moment after the first steps, whatever the step. */
START_TEST(steps_of_any_length)
{
    static const uint64_t steps[] = {1, 7, 90, 249, 251, 700, 1300, 2600, 4000, 7000, 30000};
    uint64_t step = steps[_i] * MS, at = T0 + 100 * MS;
    for (unsigned n = 0; at < T0 + 20 * CLOCK_SECOND + 4 * step; n++, at += step) {
        take(at, step / 4);
        for (unsigned part = 0; n > 3 && at > T0 + 8 * CLOCK_SECOND && part < 10; part++) {
            look(at + part * step / 10);
            near(rates.samples_per_s, 32e9 / (double)step, 1e-3);
            near(rates.wait_share, 0.25, 1e-3);
            near(rates.compute_limit, 32e9 / (double)step / 0.75, 1e-3);
            near(rates.decode_per_worker, 500, 1e-3);
            near(rates.decode_busy, 64e6 / (double)step, 1e-3);
            near(rates.slot_wait_share, 0, 0);
        }
    }
}
END_TEST

/* Four batches at once, then their work. */
START_TEST(several_at_a_time)
{
    for (unsigned n = 0; n < 8; n++) {
        for (unsigned i = 0; i < 4; i++)
            take(T0 + n * 2000 * MS + i * 3 * MS, i ? 0 : 500 * MS);
        for (unsigned part = 0; n > 4 && part < 10; part++) {
            look(T0 + n * 2000 * MS + 20 * MS + part * 190 * MS);
            near(rates.samples_per_s, 64, 1e-3);
            near(rates.wait_share, 0.25, 1e-3);
        }
    }
}
END_TEST

/* It waits for each of them: 700 ms and 900 ms, then works on both for 400 ms. */
START_TEST(several_that_are_waited_for)
{
    uint64_t at = T0 + 10 * MS;
    for (unsigned n = 0; n < 10; n++) {
        take(at += 1100 * MS, 700 * MS);
        take(at += 900 * MS, 900 * MS);
        for (unsigned part = 0; n > 4 && part < 10; part++) {
            look(at + part * 100 * MS);
            near(rates.samples_per_s, 32, 1e-3);
            near(rates.wait_share, 0.8, 1e-3);
            near(rates.compute_limit, 160, 1e-3);
        }
    }
}
END_TEST

START_TEST(one_that_stops)
{
    for (unsigned n = 0; n <= 100; n++)
        take(T0 + n * 100 * MS, 0);
    look(last + 100 * MS);
    near(rates.samples_per_s, 320, 1e-3);
    double before = rates.samples_per_s;
    for (unsigned s = 1; s <= 5; s++) {
        look(last + s * CLOCK_SECOND);
        ck_assert_double_lt(rates.samples_per_s, before);
        before = rates.samples_per_s;
    }
    look(last + 6 * CLOCK_SECOND);
    near(rates.samples_per_s, 0, 0);
    near(rates.window_s, 6.1, 0.001);
    near(rates.decode_per_worker, 500, 1e-3); /* of the whole run */
}
END_TEST

START_TEST(one_that_becomes_slow)
{
    for (unsigned n = 0; n <= 100; n++)
        take(T0 + n * 100 * MS, 0);
    for (unsigned n = 1; n <= 4; n++)
        take(T0 + (10 + 4 * n) * CLOCK_SECOND, 0);
    look(T0 + 27 * CLOCK_SECOND);
    near(rates.samples_per_s, 8, 1e-3);
}
END_TEST

/* What it has waited for before its first batch does not count for long. */
START_TEST(the_begin_is_left_out)
{
    for (unsigned n = 0; n <= 15; n++)
        take(T0 + 3 * CLOCK_SECOND + n * 100 * MS, n ? 0 : 3 * CLOCK_SECOND);
    look(T0 + 4500 * MS);
    near(rates.samples_per_s, 320, 0.01);
    near(rates.wait_share, 0, 0);
}
END_TEST

START_TEST(short_windows_tell_nothing)
{
    take(T0 + 5 * MS, 0);
    look(T0 + 999 * MS);
    near(rates.window_s, 0, 0);
    near(rates.samples_per_s, 0, 0);
    look(T0 + 1000 * MS);
    near(rates.samples_per_s, 32, 1e-9);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("window");
    TCase *test = tcase_create("window");
    tcase_add_checked_fixture(test, setup, NULL);
    tcase_add_loop_test(test, steps_of_any_length, 0, 11);
    tcase_add_test(test, several_at_a_time);
    tcase_add_test(test, several_that_are_waited_for);
    tcase_add_test(test, one_that_stops);
    tcase_add_test(test, one_that_becomes_slow);
    tcase_add_test(test, the_begin_is_left_out);
    tcase_add_test(test, short_windows_tell_nothing);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
