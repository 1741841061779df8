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
    FEED_WAITS_COPY, /* of batches to the GPU: no memory to copy from is free */
    FEED_ENDED,
    FEED_WAITS_DECODE, /* for a slot too, but no batch is ready: they are being filled */
};

/* As they were when the reader last had read something: what it reads at once may be a good part of
 * a window. */
struct feed_reads {
    uint64_t at; /* clock_ns() */
    uint64_t count, samples, bytes, busy_ns;
};

/* What its stages have done, and the time it took them. Where the reader fills small rows by itself
 * that is its own time. */
struct feed_work {
    uint64_t samples; /* of complete batches */
    uint64_t read_bytes, read_errors;
    uint64_t read_busy_ns; /* the reader waited for neither slot, memory nor copies */
    struct feed_reads reads;
    uint64_t decoded;               /* rows done */
    uint64_t decode_ns, augment_ns; /* workers' time on rows, and its part after decoding */
    uint64_t finish_ns;             /* workers' time to complete batches: replacement, packing */
    uint64_t dry_ns;                /* no row was there to be decoded */
    uint64_t copy_ns;               /* copies to a GPU were under way */
    uint64_t slot_wait_ns;          /* the reader waited for a FREE slot */
    uint64_t share_wait_ns; /* reads waited for their turn: others had their share of the storage */
};

struct feed_stats {
    uint32_t ready, held, slots, batch;
    uint64_t batches, bytes; /* completed */
    uint64_t bad, damaged, dropped, marks_used, marks_wrong, marks_kept;
    struct feed_work work;
    /* The next `shuffle` records of this rank's lanes, and those of them that are here. */
    uint64_t shuffle_held, shuffle_target;
    uint64_t shuffle_bytes;
    uint64_t arena_bytes;
    uint64_t bytes_queued; /* asked of storage */
    /* Reads that wait for their turn; users who read there too. */
    uint32_t share_waiting, share_others;
    uint64_t rows_queued;         /* encoded rows waiting for a worker */
    uint32_t copies, copies_room; /* batches on their way to a GPU; 0 = it has none */
    enum feed_wait wait;
    uint64_t wait_since_ns; /* clock_ns() at which that began */
    char wait_what[256];    /* shard being read, for instance */
};

void feed_work_add(struct feed_work *sum, const struct feed_work *more);

#endif
