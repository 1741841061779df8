/* Addresses, allocations, and what an operation may touch. */
#include "standin_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "standin_stream.h"

struct si_range *si_ranges;
enum { SMALL_UNIT = 512 };

dlp_cu_pointer si_address_take(size_t size, size_t align)
{
    unsigned char *at =
        mmap(NULL, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return 0;
    size_t before = (align - (uintptr_t)at % align) % align;
    if (before)
        munmap(at, before);
    if (align > before)
        munmap(at + before + size, align - before);
    return (uintptr_t)(at + before);
}

void si_address_give(dlp_cu_pointer at, size_t size)
{
    munmap((void *)(uintptr_t)at, size);
}

struct si_range *si_range_add(dlp_cu_pointer base, size_t size, enum si_kind kind,
                              struct si_store *store, size_t offset, struct si_context *context)
{
    struct si_range *range = calloc(1, sizeof *range);
    if (!range)
        si_abort("out of memory");
    *range = (struct si_range){si_ranges, base, size, kind, store, offset, context, {0}, 1};
    if (context)
        range->access[context->device] = DLP_CU_ACCESS_READWRITE;
    return si_ranges = range;
}

void si_range_remove(struct si_range *range)
{
    for (struct si_range **at = &si_ranges; *at; at = &(*at)->next)
        if (*at == range) {
            *at = range->next;
            break;
        }
    si_store_drop(range->store);
    free(range);
}

struct si_range *si_range_at(dlp_cu_pointer at)
{
    struct si_range *range = si_ranges;
    while (range && (at < range->base || at - range->base >= range->size))
        range = range->next;
    return range;
}

struct si_range *si_range_of(dlp_cu_pointer base, enum si_kind kind)
{
    struct si_range *range = si_range_at(base);
    return range && range->base == base && range->kind == kind ? range : NULL;
}

bool si_in_bounds(dlp_cu_pointer at, size_t size, const struct si_context *context)
{
    const struct si_range *range = si_range_at(at);
    return range && size <= range->size - (at - range->base) &&
           (!range->context || range->context == context);
}

unsigned char *si_bytes(dlp_cu_pointer at, size_t size, bool write,
                        const struct si_context *context)
{
    const struct si_range *range = si_range_at(at);
    unsigned needed = write ? DLP_CU_ACCESS_READWRITE : DLP_CU_ACCESS_READ;
    if (!si_in_bounds(at, size, context) || (range->access[context->device] & needed) != needed)
        return NULL;
    bool imported = range->kind == SI_IMPORTED;
    if (imported && (__atomic_load_n(&range->store->trailer->freed, __ATOMIC_ACQUIRE) ||
                     (!si_knobs.keep && !si_peer_alive(range->store))))
        return NULL;
    return range->store->alias + range->offset + (at - range->base);
}

/* A block that has room for a small allocation: as the driver does, several lie in one, and none
 * at its beginning, so that nobody takes the block's address for an allocation's. */
static struct si_range *small(struct si_context *context, size_t size)
{
    struct si_store *block = NULL;
    dlp_cu_pointer base = 0;
    for (struct si_range *range = si_ranges; range && !block; range = range->next)
        if (range->kind == SI_ALLOCATED && range->context == context && range->store->filled &&
            range->store->filled + size <= SI_GRANULE) {
            block = range->store;
            block->refs++;
            base = range->base - range->offset;
        }
    if (!block) {
        block = si_store_new(context, SI_GRANULE, false);
        if (!block)
            return NULL;
        base = si_address_take(SI_GRANULE, SI_GRANULE);
        block->filled = SMALL_UNIT;
    }
    struct si_range *range =
        si_range_add(base + block->filled, size, SI_ALLOCATED, block, block->filled, context);
    block->filled += (size + SMALL_UNIT - 1) / SMALL_UNIT * SMALL_UNIT;
    return range;
}

dlp_cu_result cuMemAlloc_v2(dlp_cu_pointer *at, size_t size)
{
    SI_ENTER(SI_IN_CONTEXT);
    if (size == 0 || size > UINT64_MAX / 4)
        return DLP_CU_INVALID_VALUE;
    struct si_range *range;
    if (size <= SI_GRANULE - SMALL_UNIT) {
        range = small(si_current(), size);
    } else {
        size_t whole = (size + SI_GRANULE - 1) / SI_GRANULE * SI_GRANULE;
        struct si_store *store = si_store_new(si_current(), whole, false);
        range = store ? si_range_add(si_address_take(whole, SI_GRANULE), size, SI_ALLOCATED, store,
                                     0, si_current())
                      : NULL;
    }
    if (!range)
        return DLP_CU_OUT_OF_MEMORY;
    *at = range->base;
    return 0;
}

/* Importers hold a lock on their own opening of the file; it goes with them. */
static bool open_elsewhere(const struct si_store *store)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    return fcntl(store->fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

dlp_cu_result cuMemFree_v2(dlp_cu_pointer at)
{
    SI_ENTER(SI_IN_CONTEXT);
    si_streams_drain(__func__);
    struct si_range *range = si_range_of(at, SI_ALLOCATED);
    if (!range || range->context != si_current())
        return DLP_CU_INVALID_VALUE;
    struct si_store *store = range->store;
    bool last = store->refs == 1;
    if (last && open_elsewhere(store)) {
        si_report("cuMemFree: %zu bytes are freed while another process has them open",
                  range->size);
        __atomic_store_n(&store->trailer->freed, 1, __ATOMIC_RELEASE);
    }
    if (last)
        si_address_give(range->base - range->offset, store->size);
    si_range_remove(range);
    return 0;
}

dlp_cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    SI_ENTER(SI_IN_CONTEXT);
    uint64_t used = si_used(si_current());
    *free_bytes = used < si_knobs.memory ? si_knobs.memory - used : 0;
    *total = si_knobs.memory;
    return 0;
}

dlp_cu_result cuMemGetAddressRange_v2(dlp_cu_pointer *base, size_t *size, dlp_cu_pointer at)
{
    SI_ENTER(SI_IN_CONTEXT);
    const struct si_range *range = si_range_at(at);
    if (!range)
        return DLP_CU_INVALID_VALUE;
    if (base)
        *base = range->base;
    if (size)
        *size = range->size;
    return 0;
}

dlp_cu_result cuPointerGetAttribute(void *value, dlp_cu_pointer_attribute attribute,
                                    dlp_cu_pointer at)
{
    SI_ENTER(SI_IN_CONTEXT);
    const struct si_range *range = si_range_at(at);
    const void *host = (const void *)(uintptr_t)at;
    if (attribute == DLP_CU_POINTER_MEMORY_TYPE && !range && si_is_pinned(host, 1)) {
        *(unsigned *)value = DLP_CU_MEMORY_HOST;
        return 0;
    }
    if (!range)
        return DLP_CU_INVALID_VALUE;
    switch (attribute) {
    case DLP_CU_POINTER_CONTEXT:
        *(dlp_cu_context *)value = (dlp_cu_context)range->context;
        return 0;
    case DLP_CU_POINTER_MEMORY_TYPE:
        *(unsigned *)value = DLP_CU_MEMORY_DEVICE;
        return 0;
    case DLP_CU_POINTER_DEVICE:
        *(int *)value = (int)range->store->context->device;
        return 0;
    case DLP_CU_POINTER_IPC_CAPABLE:
        *(int *)value = range->kind == SI_ALLOCATED && si_knobs.ipc;
        return 0;
    case DLP_CU_POINTER_START:
        *(dlp_cu_pointer *)value = range->base;
        return 0;
    case DLP_CU_POINTER_SIZE:
        *(size_t *)value = range->size;
        return 0;
    default:
        return DLP_CU_INVALID_VALUE;
    }
}

void si_leaks_memory(const struct si_context *context)
{
    unsigned allocated = 0, imported = 0;
    for (const struct si_range *range = si_ranges; range; range = range->next)
        if (range->context == context) {
            allocated += range->kind == SI_ALLOCATED;
            imported += range->kind == SI_IMPORTED;
        }
    if (allocated)
        si_report("leak: %u allocations of cuMemAlloc on GPU %u", allocated, context->device);
    if (imported)
        si_report("leak: %u memory handles are open on GPU %u", imported, context->device);
    si_leaks_host(context);
}

void si_leaks_process(void)
{
    si_leaks_vmm();
    si_leaks_fds();
}
