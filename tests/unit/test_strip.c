#include <check.h>
#include <math.h>

#include "base/clock.h"
#include "control/strip.h"

#define T0 (5 * CLOCK_SECOND)

static struct strip strip;

static void setup(void)
{
    strip_begin(&strip, T0);
}

static void expect(uint32_t number, double share, double rate)
{
    struct strip_point point = strip_point(&strip, number);
    ck_assert_double_eq_tol(point.wait_share, share, 0.0051);
    ck_assert_double_eq_tol(point.samples_per_s, rate, 0.001 * rate + 1e-9);
}

START_TEST(a_point_a_second)
{
    strip_add(&strip, T0 + CLOCK_SECOND, CLOCK_SECOND / 4, 100);
    strip_add(&strip, T0 + 2 * CLOCK_SECOND, CLOCK_SECOND / 4, 100);
    strip_add(&strip, T0 + 3 * CLOCK_SECOND, 5 * CLOCK_SECOND / 4, 1100);
    ck_assert_uint_eq(strip.count, 3);
    expect(0, 0.25, 100);
    expect(1, 0, 0);
    expect(2, 1, 1000);
}
END_TEST

START_TEST(a_late_second_fills_its_gap)
{
    strip_add(&strip, T0 + 3 * CLOCK_SECOND, 3 * CLOCK_SECOND / 2, 30);
    ck_assert_uint_eq(strip.count, 3);
    for (uint32_t i = 0; i < 3; i++)
        expect(i, 0.5, 10);
    strip_add(&strip, T0 + 3 * CLOCK_SECOND + CLOCK_SECOND / 4, 3 * CLOCK_SECOND / 2, 30);
    ck_assert_uint_eq(strip.count, 3); /* too soon: it counts with the next */
    strip_add(&strip, T0 + 4 * CLOCK_SECOND, 3 * CLOCK_SECOND / 2, 40);
    expect(3, 0, 10);
}
END_TEST

START_TEST(the_oldest_go)
{
    for (uint32_t i = 1; i <= STRIP_POINTS + 5; i++)
        strip_add(&strip, T0 + i * CLOCK_SECOND, 0, (uint64_t)i * (i + 1) / 2);
    ck_assert_uint_eq(strip.count, STRIP_POINTS);
    expect(0, 0, 6);
    expect(STRIP_POINTS - 1, 0, STRIP_POINTS + 5);
    strip_add(&strip, T0 + 9999 * CLOCK_SECOND, 0, 0); /* longer than it is */
    ck_assert_uint_eq(strip.count, STRIP_POINTS);
    expect(0, 0, 0);
}
END_TEST

START_TEST(counters_that_fall_and_clocks_that_rest_do_no_harm)
{
    strip_add(&strip, T0 + CLOCK_SECOND, CLOCK_SECOND, 50);
    strip_add(&strip, T0 + 2 * CLOCK_SECOND, 0, 10);
    expect(1, 0, 0);
    strip_add(&strip, T0, 0, 10);
    ck_assert_uint_eq(strip.count, 2);
    strip_add(&strip, T0 + 3 * CLOCK_SECOND, 99 * CLOCK_SECOND, 10);
    expect(2, 1, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("strip");
    TCase *test = tcase_create("strip");
    tcase_add_checked_fixture(test, setup, NULL);
    tcase_add_test(test, a_point_a_second);
    tcase_add_test(test, a_late_second_fills_its_gap);
    tcase_add_test(test, the_oldest_go);
    tcase_add_test(test, counters_that_fall_and_clocks_that_rest_do_no_harm);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
