/* The cut of a data set into runs, the unit of sequential reading. Runs are numbered in listed
 * order: shard by shard, from the front of each. Immutable after the cut; all threads.
 *
 * unit = max(1, ceil(sum / 2^20), min(4 MiB, ceil(sum / (64 * lanes)))) with sum = bytes of all
 * records. A shard of c > 0 records and b bytes has R = max(1, min(c, ceil(b / unit))) runs; run j
 * of it holds the records from j*c/R up to, not including, (j+1)*c/R. */
#ifndef RUNS_H
#define RUNS_H

#include <stdint.h>

#include "store/plan.h"

struct runs {
    struct plan_source source;
    uint32_t *first; /* number of the first run of each shard; one more: the number of all */
    uint32_t count;
    uint64_t records;
};

struct runs_span {
    uint32_t shard;
    uint64_t first; /* record of the shard */
    uint64_t records;
};

/* -ENOMEM where memory is short or runs do not fit 32 bits. */
int runs_cut(struct runs *runs, const struct plan_source *source, uint32_t lanes);
void runs_drop(struct runs *runs);
struct runs_span runs_span(const struct runs *runs, uint32_t run);
/* The run of a record, which the shard has. */
uint32_t runs_of(const struct runs *runs, uint32_t shard, uint64_t record);

#endif
