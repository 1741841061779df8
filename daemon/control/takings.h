/* What the trainers of a feed have taken and waited in all, those that have left too: the numbers
 * only grow. Loop thread. */
#ifndef TAKINGS_H
#define TAKINGS_H

#include "control/gauge.h"
#include "dataload.pb-c.h"

struct takings {
    uint64_t batches, samples, bytes, wait_ns, hold_ns;
    uint64_t waits[DLP_WAIT_CLASSES];
    struct gauge_stalls stalls[GAUGE_CAUSES];
};

struct takings_status { /* what a FeedStatus points to */
    struct takings sum;
    Dlp__CauseStatus causes[GAUGE_CAUSES], *list[GAUGE_CAUSES];
};

void takings_add(struct takings *sum, const struct gauge *gauge, uint64_t now);
/* Of takings->sum; all causes are told. */
void takings_fill(struct takings_status *takings, Dlp__FeedStatus *out);

#endif
