/* The stages of a batch's way as status tells them, of one stream or of all of a feed: read,
 * decode, augment, shuffle, slots, copy. Pure. */
#ifndef STAGES_H
#define STAGES_H

#include "control/window.h"
#include "dataload.pb-c.h"

#define STAGES 6

struct stages_rate { /* of workers, samples/s: the mean of streams, by how busy they are with it */
    double busy, weighted, plain;
};

struct stages { /* what streams add up to */
    uint32_t streams;
    struct feed_work work; /* since their start */
    double workers;        /* that they could have */
    double read_busy, read_limit, slot_wait, copy_busy, copy_limit;
    struct stages_rate decode, augment, finish;
    uint64_t bytes_queued, rows_queued, rows_room, shuffle_held, shuffle_target;
    uint64_t ready, slots, copies, copies_room;
};

struct stages_status { /* room for what a reply points to */
    Dlp__StageStatus stages[STAGES];
    Dlp__StageStatus *list[STAGES];
};

/* Begins as zeros; workers and work are the caller's to set. */
void stages_add(struct stages *sum, const struct window_rates *rates,
                const struct feed_stats *stats);
void stages_fill(const struct stages *sum, struct stages_status *out);

#endif
