/* The figures of one feed, kept by its reader and the workers, read by feed_get_stats. Counters
 * since start; each is right by itself, together they are of nearly the same moment. */
#ifndef TALLY_H
#define TALLY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/trace.h"
#include "feed/feed.h"

struct tally {
    _Atomic uint64_t samples, batches, bytes;
    _Atomic uint64_t bad, damaged, dropped;
    _Atomic uint64_t marks_used, marks_wrong, marks_kept;
    _Atomic uint64_t read_busy_ns, read_bytes, read_samples;
    _Atomic uint64_t decode_busy_ns, decoded, finish_busy_ns, slot_wait_ns;
    _Atomic uint64_t shuffle_held, shuffle_target, rows_queued;
    _Atomic int wait; /* enum feed_wait: what the reader is at */
    _Atomic uint64_t wait_since_ns;
    const char *feed;                /* its name; NULL: no recording is told */
    _Atomic(const char *) wait_what; /* lives as long as the feed */
};

static inline void tally_add(_Atomic uint64_t *figure, uint64_t more)
{
    atomic_fetch_add_explicit(figure, more, memory_order_relaxed);
}

static inline void tally_sub(_Atomic uint64_t *figure, uint64_t less)
{
    atomic_fetch_sub_explicit(figure, less, memory_order_relaxed);
}

static inline uint64_t tally_get(const _Atomic uint64_t *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

/* A recording is told of the wait that ends now. Reader thread only, like what follows. */
void tally_trace(const struct tally *tally, uint64_t now);

static inline void tally_wait(struct tally *tally, enum feed_wait wait, const char *what)
{
    uint64_t now = clock_ns();
    if (trace_on())
        tally_trace(tally, now);
    atomic_store(&tally->wait_since_ns, now);
    atomic_store(&tally->wait_what, what);
    atomic_store(&tally->wait, (int)wait);
}

#endif
