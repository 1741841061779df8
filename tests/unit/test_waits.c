/* control/waits.c: counts of waits by length, percentiles within 2.5 %. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "control/waits.h"

static struct waits waits;

static void setup(void)
{
    waits = (struct waits){0};
}

START_TEST(none)
{
    ck_assert_uint_eq(waits_quantile(&waits, 0.5), 0);
}
END_TEST

START_TEST(each_length_is_found_again)
{
    for (uint64_t ns = 1024; ns < 100000000000ULL; ns += ns / 37 + 1) {
        setup();
        waits_add(&waits, ns);
        waits_add(&waits, ns * 2); /* so that the longest does not cut it */
        double found = (double)waits_quantile(&waits, 0.5);
        ck_assert_double_le(fabs(found / (double)ns - 1), 0.016);
    }
}
END_TEST

START_TEST(ends_of_the_scale)
{
    waits_add(&waits, 0);
    ck_assert_uint_eq(waits_quantile(&waits, 1), 0);
    waits_add(&waits, UINT64_MAX);
    ck_assert_uint_gt(waits_quantile(&waits, 1), 130000000000ULL);
    ck_assert_uint_eq(waits.max_ns, UINT64_MAX);
}
END_TEST

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

START_TEST(percentiles_of_many)
{
    enum { COUNT = 20000 };
    static double all[COUNT];
    srand48(1);
    for (int i = 0; i < COUNT; i++) {
        all[i] = exp(8 + 12 * drand48());
        waits_add(&waits, (uint64_t)all[i]);
    }
    qsort(all, COUNT, sizeof *all, compare);
    static const double shares[] = {0.01, 0.25, 0.5, 0.9, 0.99, 0.999};
    for (int i = 0; i < 6; i++) {
        double wanted = all[(int)ceil(shares[i] * COUNT) - 1];
        ck_assert_double_le(fabs((double)waits_quantile(&waits, shares[i]) / wanted - 1), 0.025);
    }
    ck_assert_uint_eq(waits_quantile(&waits, 1) > waits.max_ns, 0);
}
END_TEST

START_TEST(classes)
{
    static const uint64_t bounds[] = {
#define BOUND(ns) ns,
        DLP_WAIT_BOUNDS(BOUND)
#undef BOUND
    };
    ck_assert_uint_eq(sizeof bounds / sizeof *bounds + 1, DLP_WAIT_CLASSES);
    for (uint32_t i = 0; i + 1 < DLP_WAIT_CLASSES; i++) {
        waits_add(&waits, bounds[i]); /* a bound is in its class */
        waits_add(&waits, bounds[i] + 1);
    }
    ck_assert_uint_eq(waits.classes[0], 1);
    for (uint32_t i = 1; i + 1 < DLP_WAIT_CLASSES; i++)
        ck_assert_uint_eq(waits.classes[i], 2);
    ck_assert_uint_eq(waits.classes[DLP_WAIT_CLASSES - 1], 1);
    ck_assert_uint_eq(waits.count, 2 * (DLP_WAIT_CLASSES - 1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("waits");
    TCase *test = tcase_create("waits");
    tcase_add_checked_fixture(test, setup, NULL);
    tcase_add_test(test, none);
    tcase_add_test(test, each_length_is_found_again);
    tcase_add_test(test, ends_of_the_scale);
    tcase_add_test(test, percentiles_of_many);
    tcase_add_test(test, classes);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
