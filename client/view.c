#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/client_parts.h"

#define SAME(name, code) _Static_assert((int)(name) == (int)(code), #name)
SAME(DATALOAD_UINT8, DLP_DTYPE_U8);
SAME(DATALOAD_INT32, DLP_DTYPE_I32);
SAME(DATALOAD_INT64, DLP_DTYPE_I64);
SAME(DATALOAD_UINT64, DLP_DTYPE_U64);
SAME(DATALOAD_FLOAT16, DLP_DTYPE_F16);
SAME(DATALOAD_BFLOAT16, DLP_DTYPE_BF16);
SAME(DATALOAD_FLOAT32, DLP_DTYPE_F32);
SAME(DATALOAD_IN_HOST, DLP_MEMORY_HOST);
SAME(DATALOAD_IN_VMM, DLP_MEMORY_VMM);
SAME(DATALOAD_IN_IPC, DLP_MEMORY_IPC);

uint64_t dataload_batch_epoch(const dataload_batch *batch)
{
    return batch->at.epoch;
}

uint64_t dataload_batch_step(const dataload_batch *batch)
{
    return batch->at.step;
}

int dataload_batch_is_replay(const dataload_batch *batch)
{
    return batch->replay;
}

uint32_t dataload_batch_rows(const dataload_batch *batch)
{
    return batch->rows;
}

uint32_t dataload_batch_valid(const dataload_batch *batch)
{
    return batch->valid;
}

/* The offsets stand in shared memory: they are followed only where they stay inside the data. */
static int ragged_view(const struct dlp_tensor *field, const uint64_t *offsets, uint8_t *slot,
                       dataload_tensor *tensor)
{
    uint64_t rows = tensor->shape[0];
    bool fine = offsets[0] == 0 && offsets[rows] <= field->data_size;
    for (uint64_t i = 0; fine && i < rows; i++)
        fine = offsets[i] <= offsets[i + 1];
    if (!fine)
        return -EPROTO;
    tensor->offsets = offsets;
    tensor->data = slot + field->data_offset;
    tensor->bytes = offsets[rows];
    return 0;
}

static int view(const struct dataload_batch *batch, const struct dlp_tensor *field,
                dataload_tensor *tensor)
{
    const struct mapping *mapping = batch->mapping;
    uint8_t *slot = mapping_slot(mapping, batch->slot);
    *tensor = (dataload_tensor){.name = field->name,
                                .dtype = (dataload_dtype)field->dtype,
                                .ndim = field->ndim,
                                .data = slot + field->offset};
    memcpy(tensor->shape, field->shape, sizeof field->shape);
    tensor->shape[0] = batch->rows;
    if (field->ragged)
        return ragged_view(field, mapping_offsets(batch, field), slot, tensor);
    tensor->bytes = field->size / mapping->layout.batch * batch->rows;
    return 0;
}

/* The mapping is not there in a forked child; what an IPC handle has mapped is not defined once the
 * process that made it has ended. */
static int lent(const struct dataload_batch *batch)
{
    const struct mapping *mapping = batch->mapping;
    if (getpid() != mapping->owner)
        return -ENOLCK;
    if (batch->state != BATCH_HELD)
        return -EINVAL;
    return mapping->lost && mapping->memory == DLP_MEMORY_IPC ? -EOWNERDEAD : 0;
}

int dataload_batch_tensor_at(const dataload_batch *batch, uint32_t number, dataload_tensor *tensor)
{
    int r = lent(batch);
    if (r < 0)
        return r;
    const struct dlp_layout *layout = &batch->mapping->layout;
    return number < layout->ntensors ? view(batch, &layout->tensors[number], tensor) : -ENOENT;
}

int dataload_batch_tensor(const dataload_batch *batch, const char *name, dataload_tensor *tensor)
{
    int r = lent(batch);
    if (r < 0)
        return r;
    const struct dlp_tensor *field = dlp_layout_find(&batch->mapping->layout, name);
    return field ? view(batch, field, tensor) : -ENOENT;
}

uint64_t view_bytes(const struct dataload_batch *batch)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < batch->mapping->layout.ntensors; i++) {
        dataload_tensor tensor;
        if (view(batch, &batch->mapping->layout.tensors[i], &tensor) == 0)
            bytes += tensor.bytes;
    }
    return bytes;
}

/* In the context. */
static bool copy(const struct device *device, dlp_cu_pointer to, const dataload_tensor *tensor,
                 dlp_cu_stream stream, struct device_answer *answer)
{
    return device_idle_capture(device, stream, answer) &&
           device_did(
               answer, "cuMemcpyDtoDAsync",
               device->cu.copy_on_device(to, (uintptr_t)tensor->data, tensor->bytes, stream));
}

int dataload_batch_copy_to(const dataload_batch *batch, const char *name, void *to, uint64_t bytes,
                           void *stream)
{
    dataload_tensor tensor;
    struct device_answer answer;
    char text[DLP_TEXT_MAX];
    int r = dataload_batch_tensor(batch, name, &tensor);
    if (r < 0)
        return r;
    struct mapping *mapping = batch->mapping;
    if (tensor.bytes > bytes)
        return handle_fail(mapping->handle, -ENOSPC,
                           "field %s has %llu bytes, there is room for %llu", tensor.name,
                           (unsigned long long)tensor.bytes, (unsigned long long)bytes);
    if (tensor.bytes == 0)
        return 0;
    if (!mapping->device) {
        memcpy(to, tensor.data, tensor.bytes);
        return 0;
    }
    bool entered = device_enter(mapping->device, &answer);
    bool done = entered && copy(mapping->device, (uintptr_t)to, &tensor, stream, &answer);
    if (entered)
        device_leave(mapping->device);
    if (done)
        return 0;
    r = device_explain(&answer, text, sizeof text);
    return handle_fail(mapping->handle, r, "field %s: %s", tensor.name, text);
}
