/* How the batches of a feed get to a GPU: rows are written into staging, and a complete batch is
 * copied from there into its slot of the arena on the GPU. Only when the host has seen the copy end
 * has the batch landed (belt_landed), and its place in staging is free for another. */
#ifndef FERRY_H
#define FERRY_H

#include "base/budget.h"
#include "device/arena_cuda.h"
#include "feed/batch.h"

struct ferry;

struct ferry_params {
    struct uploader *uploader;
    enum dlp_memory kind;
    struct budget *budget;
    uint32_t slots;
    uint64_t slot_bytes;
    /* No batch will follow: a copy has failed, err says why. Before that batch lands, marked as
     * lost. The uploader's thread. */
    void (*failed)(void *context, const struct error *err);
    void *context;
};

/* Holds the GPU and makes arena and staging. Helper thread. -ENODEV: the GPU;
 * -ENOSPC: its memory is short; -ENOMEM: staging. */
int ferry_new(const struct ferry_params *params, struct ferry **out, struct error *err);
/* Of staging, ferry_berths slots in order; batches can come from the first on. Helper thread. */
int ferry_reserve(struct ferry *ferry, uint32_t berth, struct error *err);
uint32_t ferry_berths(const struct ferry *ferry);
/* Bytes of the host that a feed of so many slots takes. */
uint64_t ferry_staging_bytes(uint32_t slots, uint64_t slot_bytes);

/* The reader: a place in staging for the batch, in batch->memory. -ECANCELED, -EINTR as slots_take,
 * -EAGAIN never. */
int ferry_board(struct ferry *ferry, struct batch *batch);
void ferry_leave(struct ferry *ferry, struct batch *batch); /* it will not be filled */
void ferry_interrupt(struct ferry *ferry, bool on);
void ferry_cancel(struct ferry *ferry);

/* The batch is complete, or void: it lands, at once or later, on any thread. */
void ferry_carry(struct ferry *ferry, struct batch *batch);

const struct arena_cuda_offer *ferry_offer(const struct ferry *ferry);
/* arena_cuda_lend. */
void ferry_lend(struct ferry *ferry, struct borrower *borrower);
/* Waits for what is under way. No thread boards or carries any more. Helper thread. */
void ferry_free(struct ferry *ferry);

#endif
