/* How well an order mixes: what a draw of records holds against what all of them hold. Pure
 * arithmetic.
 *
 * The measure is the total variation distance: half the sum over all classes of the difference of
 * their shares; 0 = the same mix, 1 = nothing in common. */
#ifndef MIX_H
#define MIX_H

#include <stdint.h>

/* Between two lists of classes, both sorted; 0 where one is empty. */
double mix_distance(const int64_t *a, uint64_t na, const int64_t *b, uint64_t nb);
/* Its mean over all draws of `drawn` of the records without replacement, where each class has
 * counts[c] of them (whole or estimated). Exact: a class's number in the draw is hypergeometric,
 * whose mean absolute deviation has the closed form of Diaconis and Zabell, "Closed form summation
 * for classical distributions" (Statistical Science 6, 1991). */
double mix_expected(const double *counts, uint64_t classes, double records, double drawn);
/* What 99 of 100 such draws do not exceed, by McDiarmid's inequality: one record more or less moves
 * the distance by 1 / drawn at most. */
double mix_bound(double expected, double drawn);
/* Share of the numbers (sorted, different) of which one more or one less is among them too. */
double mix_neighbours(const uint64_t *numbers, uint64_t count);
/* Its mean over all draws. */
double mix_neighbours_expected(double records, double drawn);

#endif
