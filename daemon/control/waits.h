/* How long a trainer waited for each of its batches: counts by length, and percentiles from them.
 * Pure. Owner: the gauge of a client; loop thread. */
#ifndef WAITS_H
#define WAITS_H

#include <stdint.h>

#include "proto/limits.h"

/* Each doubling from WAITS_FINE ns on is cut into so many equal parts: the middle of one is within
 * 1.6 % of all in it. What is shorter counts as one, what is longer than all as the last. */
#define WAITS_PARTS 32
#define WAITS_FINE_BITS 10 /* 1,024 ns */
#define WAITS_DOUBLINGS 27 /* up to 137 s */

struct waits {
    uint64_t count, max_ns;
    uint64_t classes[DLP_WAIT_CLASSES]; /* by DLP_WAIT_BOUNDS */
    uint64_t fine[1 + WAITS_DOUBLINGS * WAITS_PARTS];
};

void waits_add(struct waits *waits, uint64_t ns);
/* The wait that this share (0..1) of them did not exceed; 0 where there is none. */
uint64_t waits_quantile(const struct waits *waits, double share);

#endif
