#include "feed/mix.h"

#include <math.h>
#include <stdbool.h>

#define ONE_OF 100.0 /* draws that exceed mix_bound, at most */

static uint64_t run_length(const int64_t *list, uint64_t count, uint64_t at, int64_t class)
{
    uint64_t end = at;
    while (end < count && list[end] == class)
        end++;
    return end - at;
}

double mix_distance(const int64_t *a, uint64_t na, const int64_t *b, uint64_t nb)
{
    double sum = 0;
    uint64_t i = 0, j = 0;
    if (na == 0 || nb == 0)
        return 0;
    while (i < na || j < nb) {
        int64_t class = j == nb || (i < na && a[i] < b[j]) ? a[i] : b[j];
        uint64_t in_a = run_length(a, na, i, class), in_b = run_length(b, nb, j, class);
        sum += fabs((double)in_a / (double)na - (double)in_b / (double)nb);
        i += in_a;
        j += in_b;
    }
    return sum / 2;
}

static double log_choose(double n, double k)
{
    int sign;
    return lgamma_r(n + 1, &sign) - lgamma_r(k + 1, &sign) - lgamma_r(n - k + 1, &sign);
}

/* Mean of |X - its mean|, X of the hypergeometric distribution. With v the least whole number over
 * the mean: 2 v (N - K - m + v) P(X = v) / N. */
static double deviation(double of_class, double records, double drawn)
{
    double v = floor(drawn * of_class / records) + 1;
    double others = records - of_class - (drawn - v);
    if (v > of_class || v > drawn || others <= 0)
        return 0;
    double chance = log_choose(of_class, v) + log_choose(records - of_class, drawn - v) -
                    log_choose(records, drawn);
    return 2 * v * others * exp(chance) / records;
}

double mix_expected(const double *counts, uint64_t classes, double records, double drawn)
{
    double sum = 0;
    if (drawn <= 0)
        return 0;
    for (uint64_t c = 0; c < classes; c++)
        sum += deviation(counts[c], records, drawn);
    return sum / drawn / 2;
}

double mix_bound(double expected, double drawn)
{
    return drawn > 0 ? expected + sqrt(log(ONE_OF) / (2 * drawn)) : 1;
}

double mix_neighbours(const uint64_t *numbers, uint64_t count)
{
    uint64_t with = 0;
    for (uint64_t i = 0; i < count; i++) {
        bool before = i > 0 && numbers[i - 1] + 1 == numbers[i];
        bool after = i + 1 < count && numbers[i] + 1 == numbers[i + 1];
        with += before || after;
    }
    return count ? (double)with / (double)count : 0;
}

/* Of the m - 1 others none is one of its two neighbours (the first and the last record have one),
 * averaged over the records. */
double mix_neighbours_expected(double records, double drawn)
{
    if (records < 2 || drawn < 2)
        return 0;
    double one = (records - drawn) / (records - 1);
    double two = records > 2 ? one * (records - drawn - 1) / (records - 2) : 0;
    double none = (2 * one + (records - 2) * (two > 0 ? two : 0)) / records;
    return 1 - none;
}
