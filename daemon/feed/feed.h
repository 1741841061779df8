/* A stream of batches: reader thread, shuffle buffer, batches in the making, slots, arena.
 *
 * feed_open blocks (helper thread); everything else is called on the loop thread and does not
 * block. News come through the mailbox, on the loop thread, batches in step order. */
#ifndef FEED_H
#define FEED_H

#include "base/bad.h"
#include "base/budget.h"
#include "base/error.h"
#include "base/mailbox.h"
#include "device/borrower.h"
#include "feed/feed_stats.h"
#include "feed/shares.h"
#include "feed/spec.h"
#include "feed/workers.h"
#include "proto/slot.h"

struct feed;
struct uploader;
struct arena_cuda_offer;

struct feed_place { /* of a batch */
    uint64_t epoch, step;
};

struct feed_batch {
    uint32_t slot;
    uint64_t generation;
    struct feed_place place;
    uint32_t rows, valid;
    uint64_t bytes;
    uint64_t begun; /* trace_now() when it had its slot */
};

/* Loop thread. After `closed` none comes any more. */
struct feed_events {
    void (*ready)(void *context, const struct feed_batch *batch);
    /* bad_samples: fail. The slot is the client's, as with a batch. */
    void (*failed)(void *context, const struct feed_batch *batch, const char *text);
    void (*bad)(void *context, const struct bad_report *report,
                struct feed_place place); /* in plan order */
    /* This port's batches end, and those of others go on. */
    void (*port_lost)(void *context, uint32_t port, const struct error *err);
    void (*stopped)(
        void *context,
        const struct error *err);  /* no batch will follow: bad_limit, no memory, the GPUs */
    void (*closed)(void *context); /* all threads and memory are gone */
};

struct feed_params {
    const struct feed_spec *spec;
    struct dataset *dataset; /* the feed takes a reference */
    uint32_t rank, world, batch, slots;
    uint64_t seed, start_epoch, start_position; /* of the job: p applies to this epoch only */
    struct feed_place first;                    /* batch to begin with */
    bool probe, shared;        /* shared: the arena has many readers, and none of them may write */
    enum dlp_memory memory;    /* where the slots are to lie; where it is not the host's: */
    struct uploader *uploader; /* of that GPU, port 0 */
    pid_t reader;              /* process near whose CPUs the slots are to lie; 0 = anywhere */
    struct workers *workers;
    struct budget *budget;
    struct orphans *orphans; /* where it is shared */
    struct mailbox *mailbox;
    struct feed_events events;
    void *context;
    struct share_terms terms;
};

/* Bytes that a feed will take: arena, or with the arena on a GPU staging, and shuffle buffer; for
 * refusals and --check-config. */
struct feed_memory {
    uint64_t slot_bytes, arena, staging, shuffle;
    double lane_factor;
};
int feed_memory(const struct feed_spec *spec, const struct dataset *dataset, uint32_t world,
                uint32_t batch, uint32_t slots, struct feed_memory *out, struct error *err);
/* The layout of a batch of a feed. -EINVAL with a reason. */
int feed_layout(const struct feed_spec *spec, const struct dataset *dataset, uint32_t batch,
                struct dlp_layout *out, struct error *err);

/* Plans, makes the arena and reserves its first slot. -ENODEV: the GPU cannot have it;
 * -ENOSPC: nor so many slots. */
int feed_open(const struct feed_params *params, struct feed **out, struct error *err);
/* The reader begins; further slots are reserved in the background. */
void feed_start(struct feed *feed);
/* By a daemon that ends, before feed_close: what the peer still maps keeps its bytes. */
void feed_keep(struct feed *feed);
/* The memory of a port is offered by a handle. Before feed_close. */
void feed_lend(struct feed *feed, uint32_t port, struct borrower *borrower);
/* Frees a feed that was opened, started or not; asynchronous, ends in events.closed. */
void feed_close(struct feed *feed);
/* Somebody waits for memory (budget_press): the reader gives back what it holds ahead of need. */
void feed_shed(struct feed *feed);
void feed_set_terms(struct feed *feed, const struct share_terms *terms); /* from now on */

/* Where the slots lie and what a client needs to map them. */
struct feed_arena {
    enum dlp_memory kind;
    int fd; /* borrowed; -1: there is none */
    uint64_t bytes;
    const struct arena_cuda_offer *offer; /* of a GPU; NULL: shared memory */
};
void feed_get_arena(const struct feed *feed, uint32_t port, struct feed_arena *out);
const struct dlp_layout *feed_get_layout(const struct feed *feed);
uint64_t feed_steps(const struct feed *feed, uint64_t epoch); /* of this rank */
const char *feed_plan_id(const struct feed *feed);

/* -EINVAL: not this client's. */
int feed_hold(struct feed *feed, uint32_t slot, uint64_t generation);
int feed_release(struct feed *feed, uint32_t slot, uint64_t generation);
/* A batch that is ready or held is lent once more; returns its new generation. */
uint64_t feed_renew(struct feed *feed, uint32_t slot);
/* The next batch is the first of this epoch; what was filled ahead or handed to the client unread
 * is dropped: batches announced before and not held are void. Returns how many were dropped. */
uint32_t feed_seek(struct feed *feed, uint64_t epoch);

void feed_get_stats(struct feed *feed, struct feed_stats *out);

#endif
