/* What a stream and its trainers have done since the last look, for the number of workers: over one
 * second where status looks at five, so that a change is seen at once. Pure. */
#ifndef PACE_H
#define PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "control/gauge.h"
#include "control/governor.h"
#include "feed/feed_stats.h"

#define PACE_ALL 1e9 /* rows/s: as many as there are */

struct pace_taker { /* one trainer */
    uint64_t at, waited_ns;
    bool begun;                   /* has taken a batch: */
    uint64_t samples, compute_ns; /* with the last one it took */
    double demand;                /* 0: not known */
};

struct pace_stream {
    uint32_t looks;
    struct feed_work work;
    double supply, rate;
    double rows; /* in the last look */
};

/* Each trainer of a stream after the stream: out becomes that of the one that waits least and of
 * the one that could take least. */
void pace_look_stream(struct pace_stream *pace, const struct feed_stats *stats,
                      struct governor_stream *out);
void pace_look_taker(struct pace_taker *pace, const struct pace_stream *stream,
                     const struct gauge *gauge, uint64_t now, struct governor_stream *out);

#endif
