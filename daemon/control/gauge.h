/* What status says about one client: waits, holds and stalls as its messages tell them, and rates
 * over a window of the last seconds. Pure: the clock and the feed's counters are given. Loop
 * thread. */
#ifndef GAUGE_H
#define GAUGE_H

#include <stdint.h>

#include "control/strip.h"
#include "control/waits.h"
#include "control/window.h"
#include "feed/feed.h"

#define GAUGE_STALL_NS 1000000ULL /* a longer wait for a batch that was not there is a stall */

/* The closed list of causes. */
enum gauge_cause {
    GAUGE_NONE,
    GAUGE_STORAGE,
    GAUGE_DECODE,
    GAUGE_SHUFFLE_FILL,
    GAUGE_SLOTS_HELD,
    GAUGE_MEMORY_LIMIT,
    GAUGE_COPY, /* to the GPU */
    GAUGE_CAUSES
};

struct gauge_stalls { /* of one cause */
    uint64_t count, wait_ns;
};

struct gauge {
    uint64_t begun;                   /* when the client's first batch could come */
    uint64_t samples, batches, bytes; /* taken by the client */
    uint64_t wait_ns, waiting_since;
    uint64_t wait_told; /* as gauge_look has found it */
    uint64_t came;      /* what it waits for; 0 = not yet */
    uint64_t hold_ns, held_since;
    uint32_t held; /* slots lent now */
    uint64_t ready_ns, ready_since;
    uint32_t ready; /* batches that it has not taken */
    uint64_t last_take;
    uint64_t stalls, longest_stall_ns;
    enum gauge_cause last_cause, cause_now;
    struct gauge_stalls by_cause[GAUGE_CAUSES];
    struct waits waits;
    struct window window;
    struct strip strip;
};

void gauge_begin(struct gauge *gauge, uint64_t now, const struct feed_stats *stats);
/* The client says that it waits; stats tell what for. */
void gauge_wait(struct gauge *gauge, uint64_t now, const struct feed_stats *stats);
/* A batch is there for it: what follows is its own time. */
void gauge_come(struct gauge *gauge, uint64_t now);
/* In all, up to now. */
uint64_t gauge_waited(const struct gauge *gauge, uint64_t now);
/* The same for counters, which must not go back where a wait was overestimated: of one that lasts,
 * as much as gauge_look has seen. */
uint64_t gauge_wait_told(const struct gauge *gauge);
uint64_t gauge_holding(const struct gauge *gauge, uint64_t now);
/* How long it has waited by now for a batch that is not there. */
uint64_t gauge_waiting(const struct gauge *gauge, uint64_t now);
/* So many more batches, or fewer, are there for it to take. */
void gauge_ready(struct gauge *gauge, uint64_t now, int more);
struct gauge_batch { /* rows 0: one that has failed */
    uint32_t rows;
    uint64_t bytes;
};
/* It took a batch after wait_ns by its own word, cut to what is possible. True: gauge_note is due,
 * for the rates. */
bool gauge_take(struct gauge *gauge, uint64_t now, uint64_t wait_ns,
                const struct gauge_batch *batch);
void gauge_note(struct gauge *gauge, uint64_t now, const struct feed_stats *stats);
void gauge_release(struct gauge *gauge, uint64_t now);
/* Of all the time since the first batch could come, 0..1. */
double gauge_wait_share(const struct gauge *gauge, uint64_t now);
/* Once a second: what it waits for may have changed, and the strip goes on. */
void gauge_look(struct gauge *gauge, uint64_t now, const struct feed_stats *stats);
void gauge_rates(const struct gauge *gauge, uint64_t now, const struct feed_stats *stats,
                 struct window_rates *out);

/* Share of the window in which a client held up the slots: while it waits itself, or there are rows
 * to be decoded, slots are being filled. */
double gauge_held_up(const struct window_rates *rates, double wait_share);
enum gauge_cause gauge_cause(const struct feed_stats *stats);
/* Of the stall that lasts, else of the last one. */
enum gauge_cause gauge_last_cause(const struct gauge *gauge, uint64_t now,
                                  const struct feed_stats *stats);
const char *gauge_cause_name(enum gauge_cause cause); /* "" for GAUGE_NONE */
/* What the reader does or waits for now, in words; returns text. */
char *gauge_reason(const struct feed_stats *stats, uint64_t now, char *text, size_t size);

#endif
