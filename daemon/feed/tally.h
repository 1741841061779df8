/* The figures of one feed, kept by its reader and the workers, read by feed_get_stats. Counters
 * since start; each is right by itself, together they are of nearly the same moment. */
#ifndef TALLY_H
#define TALLY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/trace.h"
#include "feed/feed.h"
#include "feed/phases.h"
#include "feed/storage.h"

struct tally {
    _Atomic uint64_t samples, batches, bytes;
    _Atomic uint64_t bad, damaged, dropped;
    _Atomic uint64_t marks_used, marks_wrong, marks_kept;
    _Atomic uint64_t read_bytes, read_errors, bytes_queued;
    _Atomic uint64_t decode_ns, augment_ns, decoded, finish_ns;
    _Atomic uint64_t shuffle_held, shuffle_target;
    _Atomic uint64_t rows_queued, dry_since, dry_ns; /* dry: none is */
    _Atomic uint64_t crew_ns, reader_ns; /* CPU time; the latter once the reader has ended */
    struct phases reader;                /* enum feed_wait: what it is at */
    const char *feed;                    /* its name, for recordings */
    struct storage_waits share;
    struct { /* struct feed_reads */
        _Atomic uint64_t at, count, samples, bytes, busy_ns;
    } reads;
};

static inline void tally_add(_Atomic uint64_t *figure, uint64_t more)
{
    atomic_fetch_add_explicit(figure, more, memory_order_relaxed);
}

static inline void tally_sub(_Atomic uint64_t *figure, uint64_t less)
{
    atomic_fetch_sub_explicit(figure, less, memory_order_relaxed);
}

static inline void tally_set(_Atomic uint64_t *figure, uint64_t value)
{
    atomic_store_explicit(figure, value, memory_order_relaxed);
}

static inline uint64_t tally_get(const _Atomic uint64_t *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

/* A recording is told of the wait that ends now. Reader thread only, like what follows. */
void tally_trace(const struct tally *tally);

static inline void tally_wait(struct tally *tally, enum feed_wait wait, const char *what)
{
    if (trace_on())
        tally_trace(tally);
    phases_enter(&tally->reader, wait, what);
}

/* Reader thread only: its time counts from now on. */
void tally_begin(struct tally *tally);
/* Reader thread only: so many samples have been taken in since the last call. */
void tally_read(struct tally *tally, uint64_t samples);

/* Rows come to be decoded, reader thread only; they are done, any thread. */
void tally_push(struct tally *tally, uint32_t rows);
void tally_pop(struct tally *tally, uint32_t rows, uint64_t now);

#endif
