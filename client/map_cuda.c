#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/mapping.h"

static dlp_cu_pointer at(const struct mapping *mapping)
{
    return (uintptr_t)mapping->bytes;
}

/* An address of the GPU, or the number of a descriptor, where a pointer is expected. */
static void *pointer(uint64_t value)
{
    return (void *)(uintptr_t)value; /* NOLINT(performance-no-int-to-ptr) */
}

static bool import(const struct dlp_cuda *cu, int fd, dlp_cu_memory *memory,
                   struct device_answer *answer)
{
    return device_did(answer, "cuMemImportFromShareableHandle",
                      cu->memory_import(memory, pointer((uint64_t)fd), DLP_CU_HANDLE_POSIX_FD));
}

static bool place(const struct device *device, struct mapping *mapping, dlp_cu_memory memory,
                  dlp_cu_pointer address, struct device_answer *answer)
{
    const struct dlp_cuda *cu = &device->cu;
    const dlp_cu_access access = {{DLP_CU_LOCATION_DEVICE, device->number},
                                  mapping->shared ? DLP_CU_ACCESS_READ : DLP_CU_ACCESS_READWRITE};
    if (!device_did(answer, "cuMemMap", cu->memory_map(address, mapping->size, 0, memory, 0)))
        return false;
    if (device_did(answer, "cuMemSetAccess", cu->memory_access(address, mapping->size, &access, 1)))
        return true;
    cu->memory_unmap(address, mapping->size);
    return false;
}

static bool map_vmm(const struct device *device, const struct mapping_offer *offer,
                    struct mapping *mapping, struct device_answer *answer)
{
    const struct dlp_cuda *cu = &device->cu;
    dlp_cu_memory memory;
    dlp_cu_pointer address = 0;
    if (!import(cu, offer->fd, &memory, answer))
        return false;
    bool done = device_did(answer, "cuMemAddressReserve",
                           cu->address_reserve(&address, mapping->size, 0, 0, 0));
    if (done && !place(device, mapping, memory, address, answer)) {
        cu->address_free(address, mapping->size);
        done = false;
    }
    cu->memory_release(memory); /* what is mapped keeps it */
    mapping->bytes = pointer(address);
    return done;
}

/* The handle is of the whole allocation: is it as large as was said? */
static bool map_ipc(const struct device *device, const struct mapping_offer *offer,
                    struct mapping *mapping, struct device_answer *answer)
{
    const struct dlp_cuda *cu = &device->cu;
    dlp_cu_ipc_memory handle;
    dlp_cu_pointer address;
    size_t size = 0;
    memcpy(&handle, offer->handle, sizeof handle);
    if (!device_did(answer, "cuIpcOpenMemHandle",
                    cu->ipc_open(&address, handle, DLP_CU_IPC_LAZY_PEER_ACCESS)))
        return false;
    mapping->bytes = pointer(address);
    bool done = device_did(answer, "cuPointerGetAttribute",
                           cu->pointer_attribute(&size, DLP_CU_POINTER_SIZE, address));
    if (done && size >= mapping->size)
        return true;
    if (done)
        answer->result = DLP_CU_INVALID_VALUE;
    cu->ipc_close(address);
    return false;
}

static bool unmap(const struct mapping *mapping)
{
    const struct dlp_cuda *cu = &mapping->device->cu;
    if (mapping->memory == DLP_MEMORY_IPC)
        return cu->ipc_close(at(mapping)) == DLP_CU_SUCCESS;
    bool unmapped = cu->memory_unmap(at(mapping), mapping->size) == DLP_CU_SUCCESS;
    cu->address_free(at(mapping), mapping->size);
    return unmapped;
}

/* In the context. */
static bool map_and_read(const struct device *device, const struct mapping_offer *offer,
                         struct mapping *mapping, uint8_t *nonce, struct device_answer *answer)
{
    bool mapped = offer->memory == DLP_MEMORY_VMM ? map_vmm(device, offer, mapping, answer)
                                                  : map_ipc(device, offer, mapping, answer);
    if (!mapped)
        return false;
    mapping->device = device;
    if (device_read(device, nonce, at(mapping) + offer->nonce_offset, DLP_NONCE, answer))
        return true;
    unmap(mapping);
    return false;
}

static struct mapping *prepare(const struct mapping_offer *offer, const struct dlp_layout *layout)
{
    struct mapping *mapping = mapping_new(offer->slots, offer->shared, layout);
    if (!mapping)
        return NULL;
    mapping->memory = offer->memory;
    mapping->size = offer->bytes;
    for (uint32_t i = 0; i < layout->ntensors; i++)
        mapping->nragged += layout->tensors[i].ragged;
    size_t offsets = (size_t)offer->slots * mapping->nragged * (layout->batch + 1);
    mapping->offsets = calloc(offsets + 1, sizeof *mapping->offsets);
    if (mapping->offsets)
        return mapping;
    free(mapping);
    return NULL;
}

int mapping_cuda(const struct device *device, const struct mapping_offer *offer,
                 const struct dlp_layout *layout, struct mapping **out, uint8_t nonce[DLP_NONCE],
                 struct device_answer *answer)
{
    *answer = (struct device_answer){"calloc", DLP_CU_SUCCESS};
    struct mapping *mapping = prepare(offer, layout);
    if (!mapping)
        return -ENOMEM;
    bool entered = device_enter(device, answer);
    bool done = entered && map_and_read(device, offer, mapping, nonce, answer);
    if (entered)
        device_leave(device);
    if (done) {
        *out = mapping;
        return 0;
    }
    free(mapping->offsets);
    free(mapping);
    return -dlp_cu_result_errno(answer->result);
}

static void end_event(const struct dlp_cuda *cu, const struct dataload_batch *batch)
{
    if (batch->state == BATCH_GIVEN)
        cu->event_synchronize(batch->released);
    if (batch->released)
        cu->event_destroy(batch->released);
}

bool mapping_cuda_end(struct mapping *mapping)
{
    struct device_answer answer;
    if (!device_enter(mapping->device, &answer))
        return false;
    for (uint32_t i = 0; i < mapping->slots; i++)
        end_event(&mapping->device->cu, &mapping->batches[i]);
    bool unmapped = unmap(mapping);
    device_leave(mapping->device);
    return unmapped;
}

/* In the context. */
static bool fetch(const struct dataload_batch *batch, struct device_answer *answer)
{
    const struct mapping *mapping = batch->mapping;
    const struct dlp_layout *layout = &mapping->layout;
    for (uint32_t i = 0; i < layout->ntensors; i++) {
        const struct dlp_tensor *field = &layout->tensors[i];
        dlp_cu_pointer from = at(mapping) + batch->slot * layout->slot_bytes + field->offset;
        void *to = (void *)mapping_offsets(batch, field);
        if (field->ragged &&
            !device_read(mapping->device, to, from, (layout->batch + 1) * sizeof(uint64_t), answer))
            return false;
    }
    return true;
}

bool mapping_cuda_fetch(struct dataload_batch *batch, struct device_answer *answer)
{
    const struct device *device = batch->mapping->device;
    if (batch->mapping->nragged == 0)
        return true;
    if (!device_enter(device, answer))
        return false;
    bool done = fetch(batch, answer);
    device_leave(device);
    return done;
}
