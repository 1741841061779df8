/* How the batches of a feed get to GPUs: rows are written into staging, and a complete batch is
 * copied from there into its slot of the arena on each GPU of the feed, its ports. Only when the
 * host has seen all of these copies end has the batch landed (belt_landed), and its place in
 * staging is free for another. A port whose GPU is lost is left out from then on. */
#ifndef FERRY_H
#define FERRY_H

#include "base/budget.h"
#include "device/arena_cuda.h"
#include "feed/batch.h"

struct ferry;

struct ferry_params {
    struct uploader *uploader; /* of port 0 */
    enum dlp_memory kind;      /* of all ports */
    struct budget *budget;
    uint32_t slots;
    uint64_t slot_bytes;
    /* A copy to this port has failed, err says why: none is made to it any more. Before any batch
     * lands that has the port among those that have lost it. Not to call the ferry. Any thread. */
    void (*lost)(void *context, uint32_t port, const struct error *err);
    /* No batch will follow: there is no memory to copy from. The reader's thread. */
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

/* From the announcement, on any thread, until it is withdrawn the ferry is there for this, on a
 * helper thread: the port of a GPU, its arena made where it is a new one; no batch goes there yet.
 * -ENOSPC: its memory is short; -ENODEV: it cannot have it, or has lost it. */
void ferry_announce(struct ferry *ferry);
void ferry_withdraw(struct ferry *ferry);
int ferry_add(struct ferry *ferry, struct uploader *uploader, uint32_t *port, struct error *err);
bool ferry_has_lost(struct ferry *ferry, uint32_t port, struct error *err); /* and why */
const struct arena_cuda_offer *ferry_offer(const struct ferry *ferry, uint32_t port);

/* The reader: a place in staging for the batch, in batch->memory. -ECANCELED, -EINTR as slots_take,
 * -EAGAIN never. */
int ferry_board(struct ferry *ferry, struct batch *batch);
void ferry_leave(struct ferry *ferry, struct batch *batch); /* it will not be filled */
void ferry_interrupt(struct ferry *ferry, bool on);
void ferry_cancel(struct ferry *ferry);

/* The batch is complete, or void: it lands, at once or later, on any thread. */
void ferry_carry(struct ferry *ferry, struct batch *batch);

/* Any thread: how long copies have been under way, how many batches are, of how many. */
void ferry_figures(struct ferry *ferry, uint64_t now, struct feed_stats *out);

/* arena_cuda_lend. */
void ferry_lend(struct ferry *ferry, uint32_t port, struct borrower *borrower);
/* Waits for what is under way and gives the memory back; figures can still be asked for. No thread
 * boards or carries any more. Helper thread. */
void ferry_end(struct ferry *ferry);
void ferry_free(struct ferry *ferry); /* after ferry_end; loop thread */

#endif
