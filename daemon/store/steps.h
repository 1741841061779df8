/* Which positions of the order make up which batch of which rank: pure arithmetic.
 *
 * With G = world * batch, global batch t is the window of positions p + tG .. p + tG + h - 1, its
 * rows sorted by lane (position mod L), stably; of the h rows rank r has those from ceil(r*h/n) up
 * to, not including, ceil((r+1)*h/n). */
#ifndef STEPS_H
#define STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum tail { TAIL_WRAP, TAIL_DROP, TAIL_PARTIAL };

struct steps {
    uint64_t records; /* N */
    uint64_t start;   /* p */
    uint32_t lanes;   /* L */
    uint32_t world;   /* n */
    uint32_t batch;   /* B */
    enum tail tail;
};

const char *tail_name(enum tail tail);
/* Global steps T of the epoch; 0 = none. */
uint64_t steps_total(const struct steps *steps);
/* Steps in which the rank has at least one row: T or T - 1. */
uint64_t steps_of_rank(const struct steps *steps, uint32_t rank);
/* Checks that world, batch and lanes are not 0, that p <= N, and that an epoch from its beginning
 * has a step; -EINVAL with the numbers. No step at p > 0 is no error: the epoch is over. Nor is a
 * rank without a row in the only step of TAIL_PARTIAL: it has no batch in such an epoch. */
int steps_check(const struct steps *steps, struct error *err);
/* Rows of global batch t < T: G, or fewer in the last one of TAIL_PARTIAL. */
uint64_t steps_rows(const struct steps *steps, uint64_t t);
/* Positions of the rank's rows in batch t < T, in row order, to out (room for B); returns their
 * number. A position >= N is a repeated row (wrap): it shows O[position mod N] and is not valid. */
uint32_t steps_positions(const struct steps *steps, uint64_t t, uint32_t rank, uint64_t *out);
/* The row that shows position i: the inverse of the above, for any position that is in a batch. */
struct steps_row {
    uint64_t step;
    uint32_t rank, row;
};
struct steps_row steps_row_of(const struct steps *steps, uint64_t i);
/* Number of lanes that the rank touches in whole batches, however long the epoch. */
uint32_t steps_lanes_touched(const struct steps *steps, uint32_t rank);
/* lanes_touched over lanes / world, the factor on a rank's shuffle memory, of the rank with the
 * most (of ranks evenly spaced, where all would take too long); and the nearest lanes and batch
 * values for which it is 1 from any start (0 = none). */
double steps_lane_factor(const struct steps *steps, uint32_t *better_lanes, uint32_t *better_batch);

#endif
