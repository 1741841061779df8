/* Rates of one client over the last seconds. Counters are noted at moments at which it takes a
 * batch, so that the time between two of them has whole steps in it: a trainer that takes a batch
 * each four seconds has a quarter of one a second at any moment, and not none or half of one. One
 * that has become slower than that is seen in time: then the window ends now.
 *
 * Pure. Owner: the gauge of a client; loop thread. */
#ifndef WINDOW_H
#define WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "feed/feed_stats.h"

#define WINDOW_LENGTH (5 * CLOCK_SECOND) /* longer where steps are */
#define WINDOW_MIN CLOCK_SECOND          /* a shorter window tells no rates */
#define WINDOW_APART (250 * CLOCK_MS)    /* between two points, at least */
#define WINDOW_POINTS 24

struct window_point { /* counters at one moment */
    uint64_t at;
    uint64_t samples, batches, bytes; /* taken by the client */
    uint64_t wait_ns, hold_ns, ready_ns;
    struct feed_work work;
};

struct window {
    struct window_point points[WINDOW_POINTS]; /* oldest first */
    uint32_t count;
    bool begun;       /* the oldest is no batch's, but that of the begin */
    uint64_t most_ns; /* of the client's own work between two batches, of late */
};

struct window_rates {
    double window_s; /* 0 = nothing known yet, and all else 0 too */
    double samples_per_s, batches_per_s, bytes_per_s;
    double wait_share, hold_share, ready_share; /* 0..1 of the window, and what follows */
    double slot_wait_share;                     /* the reader waited for a slot */
    double share_wait_share;                    /* reads waited for their turn at the storage */
    double dry_share;                           /* no row was there to be decoded */
    double compute_limit;                       /* samples/s if it never waited; 0 = not known */
    double read_limit, read_busy, read_bytes_per_s;
    /* Workers: seconds of theirs a second; samples/s of one that does nothing else. */
    double decode_busy, augment_busy, finish_busy; /* decode without augment */
    double decode_rate, augment_rate, finish_rate;
    double decode_per_worker; /* all three together */
    double copy_busy, copy_limit;
};

void window_begin(struct window *window, const struct window_point *point);
/* It takes a batch, for which it did not wait own_ns of the time since the last one. True: to be
 * noted. Of several batches that it takes in a row, before it works on all, only the first is. */
bool window_take(struct window *window, uint64_t now, uint64_t own_ns);
void window_note(struct window *window, const struct window_point *point);
/* For all the time that points are kept of: the workers have run out of rows again and again, and
 * slots for more were there. */
bool window_runs_dry(const struct window *window, uint64_t now, const struct feed_work *work);
/* now: the counters as they are. */
void window_rates(const struct window *window, const struct window_point *now,
                  struct window_rates *out);

#endif
