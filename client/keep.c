#include "client/keep.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "client/client_parts.h"

int keep_batch(dataload_batch *batch, void **memory, size_t *size)
{
    struct mapping *mapping = batch->mapping;
    if (mapping->device)
        return -EOPNOTSUPP;
    size_t bytes = mapping->layout.slot_bytes;
    uint8_t *slot = mapping_slot(mapping, batch->slot);
    void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return -ENOMEM;
    memcpy(copy, slot, bytes);
    if ((mapping->shared && mprotect(copy, bytes, PROT_READ) < 0) ||
        mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, slot) == MAP_FAILED) {
        munmap(copy, bytes);
        return -ENOMEM;
    }
    batch->kept = true;
    *memory = slot;
    *size = bytes;
    return 0;
}
