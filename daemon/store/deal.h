/* The order in which runs follow each other in S, the sequence that the lanes are cut from: sorted
 * by mean record size (exactly; equal ones in random order), dealt a group of one run for each lane
 * at a time to the lanes' lists, each list permuted. So each list has nearly equal bytes. */
#ifndef DEAL_H
#define DEAL_H

#include <stdint.h>

#include "store/runs.h"

/* Run numbers in the order of S, runs->count of them; NULL where memory is short. free() it. */
uint32_t *deal_runs(const struct runs *runs, uint64_t seed, uint64_t epoch, uint32_t lanes);

#endif
