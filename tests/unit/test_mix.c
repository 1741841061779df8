/* feed/mix.c against counting every draw, class by class. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/philox.h"
#include "feed/mix.h"

/* Half the sum of the differences of the shares, class by class: classes are 0 .. 9. */
static double plain_distance(const int64_t *a, uint64_t na, const int64_t *b, uint64_t nb)
{
    double sum = 0;
    for (int64_t class = 0; class < 10; class ++) {
        double in_a = 0, in_b = 0;
        for (uint64_t i = 0; i < na; i++)
            in_a += a[i] == class;
        for (uint64_t i = 0; i < nb; i++)
            in_b += b[i] == class;
        sum += fabs(in_a / (double)na - in_b / (double)nb);
    }
    return sum / 2;
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

static uint64_t random_list(struct philox *stream, int64_t *out)
{
    uint64_t count = 1 + philox_below(stream, 40);
    for (uint64_t i = 0; i < count; i++)
        out[i] = (int64_t)philox_below(stream, 1 + philox_below(stream, 10));
    qsort(out, count, sizeof *out, compare);
    return count;
}

START_TEST(distance_is_that_of_the_definition)
{
    struct philox stream;
    philox_start(&stream, 1, PHILOX_MIX, 0, 0, 0);
    for (int i = 0; i < 2000; i++) {
        int64_t a[40], b[40];
        uint64_t na = random_list(&stream, a), nb = random_list(&stream, b);
        ck_assert_double_eq_tol(mix_distance(a, na, b, nb), plain_distance(a, na, b, nb), 1e-12);
    }
    static const int64_t ones[] = {1, 1}, twos[] = {2}, ends[] = {INT64_MIN, INT64_MAX};
    ck_assert_double_eq(mix_distance(ones, 2, twos, 1), 1);
    ck_assert_double_eq(mix_distance(ends, 2, ends, 2), 0);
    ck_assert_double_eq(mix_distance(ones, 0, twos, 1), 0);
}
END_TEST

/* Every subset of `drawn` of the classes, by bit pattern. */
static double mean_over_all_draws(const int64_t *classes, uint32_t records, uint32_t drawn)
{
    double sum = 0;
    uint64_t draws = 0;
    for (uint32_t bits = 0; bits < 1U << records; bits++) {
        int64_t draw[16];
        uint64_t count = 0;
        if ((uint32_t)__builtin_popcount(bits) != drawn)
            continue;
        for (uint32_t i = 0; i < records; i++)
            if (bits >> i & 1)
                draw[count++] = classes[i];
        sum += plain_distance(draw, count, classes, records);
        draws++;
    }
    return sum / (double)draws;
}

START_TEST(expected_is_the_mean_over_every_draw)
{
    static const int64_t sets[][12] = {
        {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9}, {0, 0, 0, 1, 1, 2, 2, 2, 2, 5, 5, 5},
        {3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3},
    };
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        double counts[10] = {0};
        for (int i = 0; i < 12; i++)
            counts[sets[s][i]]++;
        for (uint32_t drawn = 1; drawn <= 12; drawn++)
            ck_assert_double_eq_tol(mix_expected(counts, 10, 12, drawn),
                                    mean_over_all_draws(sets[s], 12, drawn), 1e-9);
    }
    ck_assert_double_eq(mix_expected(NULL, 0, 12, 0), 0);
}
END_TEST

/* The figure that the order's definition names: 20 batches of 8 x 256 of ImageNet. */
START_TEST(expected_of_imagenet)
{
    double counts[1000];
    for (int c = 0; c < 1000; c++)
        counts[c] = 1281.167;
    ck_assert_double_eq_tol(mix_expected(counts, 1000, 1281167, 40960), 0.061, 0.002);
}
END_TEST

/* Draws by a true shuffle stay within the bound in 99 of 100 cases and more. */
START_TEST(bound_holds)
{
    double counts[10] = {30, 30, 30, 30, 30, 10, 10, 10, 10, 10};
    int64_t set[200];
    uint32_t at[200], over = 0;
    struct philox stream;
    for (int c = 0, n = 0; c < 10; c++)
        for (int i = 0; i < (int)counts[c]; i++)
            set[n++] = c;
    philox_start(&stream, 7, PHILOX_MIX, 0, 0, 0);
    double bound = mix_bound(mix_expected(counts, 10, 200, 40), 40), sum = 0;
    for (int trial = 0; trial < 2000; trial++) {
        int64_t draw[40];
        for (uint32_t i = 0; i < 200; i++)
            at[i] = i;
        philox_permute(&stream, at, 200);
        for (int i = 0; i < 40; i++)
            draw[i] = set[at[i]];
        double distance = plain_distance(draw, 40, set, 200);
        sum += distance;
        over += distance > bound;
    }
    ck_assert_uint_le(over, 20);
    ck_assert_double_eq_tol(sum / 2000, mix_expected(counts, 10, 200, 40), 0.005);
}
END_TEST

START_TEST(neighbours)
{
    static const uint64_t numbers[] = {1, 2, 5, 7, 8, 9, 20};
    ck_assert_double_eq_tol(mix_neighbours(numbers, 7), 5 / 7.0, 1e-12);
    ck_assert_double_eq(mix_neighbours(numbers, 0), 0);
    for (uint32_t records = 2; records <= 12; records++)
        for (uint32_t drawn = 1; drawn <= records; drawn++) {
            double sum = 0;
            uint64_t draws = 0, draw[12];
            for (uint32_t bits = 0; bits < 1U << records; bits++) {
                uint64_t count = 0;
                if ((uint32_t)__builtin_popcount(bits) != drawn)
                    continue;
                for (uint32_t i = 0; i < records; i++)
                    if (bits >> i & 1)
                        draw[count++] = i;
                sum += mix_neighbours(draw, count);
                draws++;
            }
            ck_assert_double_eq_tol(mix_neighbours_expected(records, drawn), sum / (double)draws,
                                    1e-12);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mix");
    TCase *tests = tcase_create("mix");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, distance_is_that_of_the_definition);
    tcase_add_test(tests, expected_is_the_mean_over_every_draw);
    tcase_add_test(tests, expected_of_imagenet);
    tcase_add_test(tests, bound_holds);
    tcase_add_test(tests, neighbours);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
