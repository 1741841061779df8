#include "proto/slot.h"

#include <errno.h>
#include <string.h>

#include "proto/frames.h"

/* A part of the slot. */
struct extent {
    uint64_t offset, size;
};

size_t dlp_dtype_size(unsigned dtype)
{
    switch (dtype) {
#define X(code, name, size)                                                                        \
    case (code):                                                                                   \
        return (size);
        DLP_DTYPES(X)
#undef X
    default:
        return 0;
    }
}

/* Rounds up to a multiple of a power of two; false on overflow. */
static bool align(uint64_t value, uint64_t to, uint64_t *out)
{
    if (__builtin_add_overflow(value, to - 1, out))
        return false;
    *out &= ~(to - 1);
    return true;
}

/* Product of all dimensions and the size of an element; false when it is 0 or overflows. */
static bool dense_size(const struct dlp_tensor *tensor, uint64_t *bytes)
{
    *bytes = dlp_dtype_size(tensor->dtype);
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        if (__builtin_mul_overflow(*bytes, tensor->shape[i], bytes))
            return false;
    }
    return *bytes > 0;
}

/* A free tensor of the layout with this name; it counts only once its size is known. */
static struct dlp_tensor *blank(struct dlp_layout *layout, const char *name)
{
    if (layout->ntensors >= DLP_TENSORS_MAX || layout->batch == 0 ||
        layout->batch > DLP_BATCH_MAX || !dlp_name_valid(name) || dlp_layout_find(layout, name))
        return NULL;
    struct dlp_tensor *tensor = &layout->tensors[layout->ntensors];
    memset(tensor, 0, sizeof *tensor);
    memcpy(tensor->name, name, strlen(name) + 1);
    return tensor;
}

static bool place(uint64_t end, uint64_t size, uint64_t *offset, uint64_t *new_end)
{
    return align(end, DLP_TENSOR_ALIGN, offset) && !__builtin_add_overflow(*offset, size, new_end);
}

struct dlp_tensor *dlp_layout_add(struct dlp_layout *layout, const char *name, enum dlp_dtype dtype,
                                  const uint64_t *dims, uint32_t ndims)
{
    struct dlp_tensor *tensor = blank(layout, name);
    if (!tensor || ndims >= DLP_DIMS_MAX)
        return NULL;
    tensor->dtype = dtype;
    tensor->ndim = ndims + 1;
    tensor->shape[0] = layout->batch;
    for (uint32_t i = 0; i < ndims; i++)
        tensor->shape[i + 1] = dims[i];
    if (!dense_size(tensor, &tensor->size) ||
        !place(layout->slot_bytes, tensor->size, &tensor->offset, &layout->slot_bytes))
        return NULL;
    layout->ntensors++;
    return tensor;
}

struct dlp_tensor *dlp_layout_add_ragged(struct dlp_layout *layout, const char *name,
                                         uint64_t row_max)
{
    struct dlp_tensor *tensor = blank(layout, name);
    if (!tensor)
        return NULL;
    tensor->ragged = true;
    tensor->dtype = DLP_DTYPE_U8;
    tensor->ndim = 1;
    tensor->shape[0] = layout->batch + 1ULL;
    tensor->size = tensor->shape[0] * sizeof(uint64_t);
    uint64_t end;
    if (__builtin_mul_overflow(row_max, layout->batch, &tensor->data_size) ||
        !place(layout->slot_bytes, tensor->size, &tensor->offset, &end) ||
        !place(end, tensor->data_size, &tensor->data_offset, &end))
        return NULL;
    layout->slot_bytes = end;
    layout->ntensors++;
    return tensor;
}

void dlp_layout_seal(struct dlp_layout *layout)
{
    uint64_t whole;
    /* What cannot be rounded up stays unaligned, and dlp_layout_check refuses it. */
    if (align(layout->slot_bytes, DLP_SLOT_ALIGN, &whole))
        layout->slot_bytes = whole;
}

static bool tensor_fits(const struct dlp_layout *layout, const struct dlp_tensor *tensor)
{
    if (!dlp_name_valid(tensor->name) || tensor->ndim == 0 || tensor->ndim > DLP_DIMS_MAX)
        return false;
    if (tensor->ragged)
        return tensor->dtype == DLP_DTYPE_U8 && tensor->ndim == 1 &&
               tensor->shape[0] == layout->batch + 1ULL &&
               tensor->size == tensor->shape[0] * sizeof(uint64_t);
    uint64_t bytes;
    return tensor->shape[0] == layout->batch && dense_size(tensor, &bytes) &&
           bytes == tensor->size && tensor->data_offset == 0 && tensor->data_size == 0;
}

static bool inside(const struct dlp_layout *layout, const struct extent *extent)
{
    uint64_t end;
    return extent->offset % DLP_TENSOR_ALIGN == 0 &&
           !__builtin_add_overflow(extent->offset, extent->size, &end) && end <= layout->slot_bytes;
}

static bool overlaps(const struct extent *a, const struct extent *b)
{
    return a->offset < b->offset + b->size && b->offset < a->offset + a->size;
}

int dlp_layout_check(const struct dlp_layout *layout)
{
    if (layout->batch == 0 || layout->batch > DLP_BATCH_MAX || layout->ntensors == 0 ||
        layout->ntensors > DLP_TENSORS_MAX || layout->slot_bytes == 0 ||
        layout->slot_bytes % DLP_SLOT_ALIGN != 0)
        return -EPROTO;
    struct extent extents[2 * DLP_TENSORS_MAX];
    size_t count = 0;
    for (uint32_t i = 0; i < layout->ntensors; i++) {
        const struct dlp_tensor *tensor = &layout->tensors[i];
        if (!tensor_fits(layout, tensor) || dlp_layout_find(layout, tensor->name) != tensor)
            return -EPROTO;
        extents[count++] = (struct extent){tensor->offset, tensor->size};
        if (tensor->ragged)
            extents[count++] = (struct extent){tensor->data_offset, tensor->data_size};
    }
    for (size_t i = 0; i < count; i++) {
        if (!inside(layout, &extents[i]))
            return -EPROTO;
        for (size_t j = 0; j < i; j++) {
            if (overlaps(&extents[i], &extents[j]))
                return -EPROTO;
        }
    }
    return 0;
}

const struct dlp_tensor *dlp_layout_find(const struct dlp_layout *layout, const char *name)
{
    for (uint32_t i = 0; i < layout->ntensors; i++) {
        if (strcmp(layout->tensors[i].name, name) == 0)
            return &layout->tensors[i];
    }
    return NULL;
}
