/* The figures of a feed: counters since its start, and what its reader is at. Plain values, taken
 * at any moment by feed_get_stats. */
#ifndef FEED_STATS_H
#define FEED_STATS_H

#include <stdint.h>

enum feed_wait {
    FEED_RUNS,
    FEED_WAITS_SLOT, /* for the trainer: the slots are ready or held */
    FEED_WAITS_STORAGE,
    FEED_WAITS_DESCRIPTOR, /* to open what is to be read: the process or the system has no more */
    FEED_WAITS_MEMORY,
    FEED_WAITS_DECODE, /* for a slot too, but no batch is ready: they are being filled */
    FEED_WAITS_COPY,   /* of batches to the GPU: no memory to copy from is free */
    FEED_ENDED
};

struct feed_stats {
    uint32_t ready, held, slots;
    uint64_t samples, batches, bytes; /* completed */
    uint64_t bad, damaged, dropped, marks_used, marks_wrong, marks_kept;
    uint64_t read_busy_ns, read_bytes, read_samples;
    uint64_t decode_busy_ns, decoded; /* worker time on this feed's rows, rows done */
    uint64_t finish_busy_ns;          /* completing batches: replacement, packing */
    uint64_t slot_wait_ns;            /* reader waited for a FREE slot */
    /* The next `shuffle` records of this rank's lanes, and those of them that are here. */
    uint64_t shuffle_held, shuffle_target;
    uint64_t shuffle_bytes;
    uint64_t arena_bytes;
    uint64_t rows_queued; /* encoded rows waiting for a worker */
    enum feed_wait wait;
    uint64_t wait_since_ns; /* clock_ns() at which that began */
    char wait_what[256];    /* shard being read, for instance */
};

#endif
