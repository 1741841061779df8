/* The memory of all slots of one feed on a GPU, and what a client needs to map it. It lies in one
 * piece: slot i at i * slot_bytes, after the last a nonce that the client reads back through its
 * own driver. Only one client, or the members of one mirror group, ever get it. Helper threads. */
#ifndef ARENA_CUDA_H
#define ARENA_CUDA_H

#include "device/borrower.h"
#include "device/uploader.h"
#include "proto/slot.h"

struct arena_cuda;

struct arena_cuda_offer {
    enum dlp_memory kind;
    uint64_t bytes, nonce_offset;
    uint8_t nonce[DLP_NONCE];
    int fd;                   /* DLP_MEMORY_VMM: borrowed; else -1 */
    dlp_cu_ipc_memory handle; /* DLP_MEMORY_IPC */
};

/* Reserves it whole, clears it and writes the nonce. The uploader is held by the caller until after
 * arena_cuda_free. -ENOSPC: the GPU's memory is short; -ENODEV: the call that failed, and why. It
 * has nothing of it then. */
int arena_cuda_new(struct uploader *uploader, enum dlp_memory kind, uint32_t slots,
                   uint64_t slot_bytes, struct arena_cuda **out, struct error *err);
/* It is offered by a handle. Before arena_cuda_free, by one thread. */
void arena_cuda_lend(struct arena_cuda *arena, struct borrower *borrower);
/* What a client has mapped by a descriptor stays until it unmaps it or ends; what is lent is freed
 * when no borrower maps it any more, by the uploader. On a lost GPU only our part is given back. */
void arena_cuda_free(struct arena_cuda *arena);

const struct arena_cuda_offer *arena_cuda_offer(const struct arena_cuda *arena);
dlp_cu_pointer arena_cuda_slot(const struct arena_cuda *arena, uint32_t slot);

#endif
