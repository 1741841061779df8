/* Adds up what each rank gets of one epoch, by walking the whole order. Pure apart from reading the
 * data set's tables; takes about a second for a million records. Any thread. */
#ifndef SLICE_SUM_H
#define SLICE_SUM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/dataset.h"
#include "store/plan.h"
#include "store/steps.h"

#define SLICE_SPREAD_WARNING 0.05

struct slice_rank {
    uint32_t shards; /* that it reads from; 0 = not counted, there are too many */
    uint64_t records, bytes, steps;
    uint64_t repeated; /* rows that show a record again (tail: wrap) */
};

struct slice_sum {
    uint32_t world;
    struct slice_rank *ranks;
    uint64_t records, bytes, steps;
    uint64_t lost;      /* records that no rank gets (tail: drop) */
    double spread;      /* (largest - smallest) / mean of the ranks' bytes */
    double lane_factor; /* steps_lane_factor */
    char note[1000];    /* why the spread is over SLICE_SPREAD_WARNING; "" = it is not */
};

/* -ECANCELED once *cancel is true; -ENOMEM. Free with slice_sum_free. */
int slice_sum_new(const struct dataset *dataset, const struct plan_settings *settings,
                  const struct steps *steps, uint64_t epoch, const _Atomic bool *cancel,
                  struct slice_sum **out, struct error *err);
void slice_sum_free(struct slice_sum *sum);

#endif
