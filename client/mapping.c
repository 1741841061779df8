#include "client/mapping.h"

#include <stdlib.h>
#include <unistd.h>

struct mapping *mapping_new(uint32_t slots, bool shared, const struct dlp_layout *layout)
{
    struct mapping *mapping = calloc(1, sizeof *mapping);
    if (!mapping)
        return NULL;
    mapping->owner = getpid();
    mapping->slots = slots;
    mapping->shared = shared;
    mapping->layout = *layout;
    for (uint32_t i = 0; i < slots; i++)
        mapping->batches[i] = (struct dataload_batch){.mapping = mapping, .slot = i};
    return mapping;
}

bool mapping_free(struct mapping *mapping)
{
    bool unmapped = true;
    /* In a forked child these addresses may by now be somebody else's. */
    if (getpid() == mapping->owner && mapping->device)
        unmapped = mapping_cuda_end(mapping);
    else if (getpid() == mapping->owner)
        mapping_memfd_end(mapping);
    free(mapping->offsets);
    free(mapping);
    return unmapped;
}

uint8_t *mapping_slot(const struct mapping *mapping, uint32_t slot)
{
    return mapping->bytes + slot * mapping->layout.slot_bytes;
}

const uint64_t *mapping_offsets(const struct dataload_batch *batch, const struct dlp_tensor *field)
{
    const struct mapping *mapping = batch->mapping;
    const struct dlp_layout *layout = &mapping->layout;
    if (!mapping->device)
        return (const uint64_t *)(const void *)(mapping_slot(mapping, batch->slot) + field->offset);
    size_t before = (size_t)batch->slot * mapping->nragged;
    for (const struct dlp_tensor *other = layout->tensors; other < field; other++)
        before += other->ragged;
    return mapping->offsets + before * (layout->batch + 1);
}

bool mapping_populate(struct dataload_batch *batch, struct device_answer *answer)
{
    if (batch->mapping->device)
        return mapping_cuda_fetch(batch, answer);
    mapping_memfd_populate(batch);
    return true;
}
