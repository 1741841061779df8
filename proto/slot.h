/* What stands where in a slot: the tensors of a batch. Written by the daemon's feed, checked by
 * the client before it maps. */
#ifndef DLP_SLOT_H
#define DLP_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

/* clang-format off */
#define DLP_DTYPES(X) \
    X(1, U8,   1) \
    X(2, I32,  4) \
    X(3, I64,  8) \
    X(4, U64,  8) \
    X(5, F16,  2) \
    X(6, BF16, 2) \
    X(7, F32,  4)
/* clang-format on */

enum dlp_dtype {
#define X(code, name, size) DLP_DTYPE_##name = (code),
    DLP_DTYPES(X)
#undef X
};

/* Where slots lie, and how they reach the client: as a memfd; as memory of a GPU, by a descriptor
 * (cuMemExportToShareableHandle) or by a handle (cuIpcGetMemHandle). */
enum dlp_memory { DLP_MEMORY_HOST, DLP_MEMORY_VMM, DLP_MEMORY_IPC };

#define DLP_NONCE 16U /* bytes that a client reads back from a GPU's arena */

/* One tensor of every batch. Dense: shape [B, ...], row r at offset + r * (size / B). Ragged:
 * u64 offsets[B + 1] at offset, row r is bytes offsets[r] .. offsets[r + 1] of data_offset. */
struct dlp_tensor {
    char name[DLP_NAME_MAX + 1];
    enum dlp_dtype dtype;
    uint32_t ndim;
    uint64_t shape[DLP_DIMS_MAX];
    uint64_t offset; /* from the start of the slot, a multiple of DLP_TENSOR_ALIGN */
    uint64_t size;   /* bytes */
    bool ragged;
    uint64_t data_offset;
    uint64_t data_size; /* room for all rows */
};

/* Every layout has, besides the feed's fields, "valid" (u8 [B], 1 = row is what the plan says) and
 * "index" (i64 [B], sample id). */
struct dlp_layout {
    uint32_t batch;
    uint32_t ntensors;
    struct dlp_tensor tensors[DLP_TENSORS_MAX];
    uint64_t slot_bytes; /* a multiple of DLP_SLOT_ALIGN */
};

size_t dlp_dtype_size(unsigned dtype); /* 0 = unknown */

/* Appends a dense tensor of shape [layout->batch, dims...] or a ragged one of `row_max` bytes a row
 * to the layout at the next free place; returns it, or NULL when it does not fit the limits or
 * overflows. dlp_layout_seal rounds slot_bytes up. */
struct dlp_tensor *dlp_layout_add(struct dlp_layout *layout, const char *name, enum dlp_dtype dtype,
                                  const uint64_t *dims, uint32_t ndims);
struct dlp_tensor *dlp_layout_add_ragged(struct dlp_layout *layout, const char *name,
                                         uint64_t row_max);
void dlp_layout_seal(struct dlp_layout *layout);

/* 0 when all tensors lie inside the slot, are aligned, do not overlap, have sizes that
 * fit their shapes; else -EPROTO. */
int dlp_layout_check(const struct dlp_layout *layout);
const struct dlp_tensor *dlp_layout_find(const struct dlp_layout *layout, const char *name);

#endif
