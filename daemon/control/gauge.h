/* What status says about one client: waits, holds and stalls as its messages tell them, and rates
 * over a window of the last seconds. Pure: the clock and the feed's counters are given. Loop
 * thread. */
#ifndef GAUGE_H
#define GAUGE_H

#include <stdint.h>

#include "base/clock.h"
#include "feed/feed.h"

#define GAUGE_POINTS 6                /* samples kept, one a second: a window of about 5 s */
#define GAUGE_WINDOW_MIN CLOCK_SECOND /* a shorter window tells no rates */
#define GAUGE_STALL_NS 1000000ULL     /* a longer wait for a batch that was not there is a stall */

/* The closed list of causes. */
enum gauge_cause {
    GAUGE_NONE,
    GAUGE_STORAGE,
    GAUGE_DECODE,
    GAUGE_SHUFFLE_FILL,
    GAUGE_SLOTS_HELD,
    GAUGE_MEMORY_LIMIT,
    GAUGE_COPY, /* to the GPU */
};

struct gauge_point { /* counters at one moment */
    uint64_t at;
    uint64_t samples, batches; /* taken by the client */
    uint64_t wait_ns, hold_ns;
    struct feed_stats feed;
};

struct gauge {
    uint64_t begun;            /* when the client's first batch could come */
    uint64_t samples, batches; /* taken by the client */
    uint64_t wait_ns, waiting_since;
    uint64_t came; /* what it waits for; 0 = not yet */
    uint64_t hold_ns, held_since;
    uint32_t held; /* slots lent now */
    uint64_t last_take;
    uint64_t stalls, longest_stall_ns;
    enum gauge_cause last_cause, cause_now;
    struct gauge_point points[GAUGE_POINTS];
    uint32_t npoints, newest;
};

struct gauge_rates {
    double window_s; /* 0 = nothing known yet, and all else 0 too */
    double samples_per_s, batches_per_s;
    double wait_share, hold_share;                  /* 0..1 of the window, and what follows */
    double slot_wait_share;                         /* the reader waited for a slot */
    double read_limit, read_busy, read_bytes_per_s; /* busy: share of one thread's time */
    double decode_per_worker, decode_busy;          /* busy: workers' seconds a second */
    double finish_busy;                             /* completing batches */
};

void gauge_begin(struct gauge *gauge, uint64_t now, const struct feed_stats *stats);
/* The client says that it waits; stats tell what for. */
void gauge_wait(struct gauge *gauge, uint64_t now, const struct feed_stats *stats);
/* A batch is there for it: what follows is its own time. */
void gauge_come(struct gauge *gauge, uint64_t now);
/* How long it has waited by now for a batch that is not there. */
uint64_t gauge_waiting(const struct gauge *gauge, uint64_t now);
/* It took a batch of `rows` (0: one that has failed) after wait_ns by its own word, cut to what is
 * possible. */
void gauge_take(struct gauge *gauge, uint64_t now, uint64_t wait_ns, uint32_t rows);
void gauge_release(struct gauge *gauge, uint64_t now);
/* Of all the time since the first batch could come, 0..1. */
double gauge_wait_share(const struct gauge *gauge, uint64_t now);
/* Once a second. */
void gauge_sample(struct gauge *gauge, uint64_t now, const struct feed_stats *stats);
/* From the oldest sample kept to now. */
void gauge_rates(const struct gauge *gauge, uint64_t now, const struct feed_stats *stats,
                 struct gauge_rates *out);

/* Share of the window in which a client held up the slots: while it waits itself, they are all
 * being filled. */
double gauge_held_up(double slot_wait_share, double wait_share);
enum gauge_cause gauge_cause(const struct feed_stats *stats);
/* Of the stall that lasts, else of the last one. */
enum gauge_cause gauge_last_cause(const struct gauge *gauge, uint64_t now,
                                  const struct feed_stats *stats);
const char *gauge_cause_name(enum gauge_cause cause); /* "" for GAUGE_NONE */
/* What the reader does or waits for now, in words; returns text. */
char *gauge_reason(const struct feed_stats *stats, uint64_t now, char *text, size_t size);

#endif
