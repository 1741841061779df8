/* Memory without an address, addresses without memory, and both together. */
#include <fcntl.h>
#include <stdlib.h>

#include "standin_memory.h"
#include "standin_stream.h"

/* What cuMemCreate and an import give: one reference on the store. */
static struct handle {
    struct handle *next;
    dlp_cu_memory number;
    struct si_store *store;
} * handles;

static struct reservation {
    struct reservation *next;
    dlp_cu_pointer at;
    size_t size;
} * reservations;

static bool whole(size_t size)
{
    return size > 0 && size % SI_GRANULE == 0 && size < UINT64_MAX / 4;
}

static struct handle *handle_of(dlp_cu_memory number)
{
    struct handle *handle = handles;
    while (handle && handle->number != number)
        handle = handle->next;
    return handle;
}

static dlp_cu_memory handle_add(struct si_store *store)
{
    static dlp_cu_memory numbers = 0x5000;
    struct handle *handle = malloc(sizeof *handle);
    if (!handle)
        si_abort("out of memory");
    *handle = (struct handle){handles, ++numbers, store};
    handles = handle;
    return handle->number;
}

static dlp_cu_result check(const dlp_cu_allocation *what)
{
    if (!what || what->type != DLP_CU_ALLOCATION_PINNED ||
        what->location.type != DLP_CU_LOCATION_DEVICE || what->windows ||
        what->handle_types & ~(unsigned)DLP_CU_HANDLE_POSIX_FD || what->flags.compression ||
        what->flags.usage)
        return DLP_CU_INVALID_VALUE;
    if (what->location.id < 0 || what->location.id >= (int)si_visible)
        return DLP_CU_INVALID_DEVICE;
    if (!si_knobs.vmm || (what->handle_types && !si_knobs.fd))
        return DLP_CU_NOT_SUPPORTED;
    return 0;
}

dlp_cu_result cuMemGetAllocationGranularity(size_t *bytes, const dlp_cu_allocation *what,
                                            dlp_cu_granularity which)
{
    SI_ENTER(SI_INITIALISED);
    if (which > DLP_CU_GRANULARITY_RECOMMENDED)
        return DLP_CU_INVALID_VALUE;
    *bytes = SI_GRANULE;
    return check(what);
}

dlp_cu_result cuMemCreate(dlp_cu_memory *memory, size_t size, const dlp_cu_allocation *what,
                          unsigned long long flags)
{
    SI_ENTER(SI_INITIALISED);
    dlp_cu_result code = check(what);
    if (code || flags || !whole(size))
        return code ? code : DLP_CU_INVALID_VALUE;
    struct si_store *store =
        si_store_new(&si_contexts[what->location.id], size, what->handle_types != 0);
    if (!store)
        return DLP_CU_OUT_OF_MEMORY;
    *memory = handle_add(store);
    return 0;
}

dlp_cu_result cuMemRelease(dlp_cu_memory memory)
{
    SI_ENTER(SI_INITIALISED);
    for (struct handle **at = &handles; *at; at = &(*at)->next)
        if ((*at)->number == memory) {
            struct handle *handle = *at;
            *at = handle->next;
            si_store_drop(handle->store);
            free(handle);
            return 0;
        }
    return DLP_CU_INVALID_VALUE;
}

dlp_cu_result cuMemExportToShareableHandle(void *fd, dlp_cu_memory memory, dlp_cu_handle_type type,
                                           unsigned long long flags)
{
    SI_ENTER(SI_INITIALISED);
    const struct handle *handle = handle_of(memory);
    if (!handle || type != DLP_CU_HANDLE_POSIX_FD || flags || !handle->store->trailer->exportable)
        return DLP_CU_INVALID_VALUE;
    int copy = fcntl(handle->store->fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return DLP_CU_OPERATING_SYSTEM;
    si_fd_watch(copy, "exported");
    *(int *)fd = copy;
    return 0;
}

dlp_cu_result cuMemImportFromShareableHandle(dlp_cu_memory *memory, void *fd,
                                             dlp_cu_handle_type type)
{
    SI_ENTER(SI_INITIALISED);
    dlp_cu_result code = 0;
    if (!si_knobs.vmm || !si_knobs.fd)
        return DLP_CU_NOT_SUPPORTED;
    if (type != DLP_CU_HANDLE_POSIX_FD)
        return DLP_CU_INVALID_VALUE;
    struct si_store *store = si_store_of_fd((int)(intptr_t)fd, &code);
    if (!store)
        return code;
    if (!store->trailer->exportable) {
        si_store_drop(store);
        return DLP_CU_INVALID_VALUE;
    }
    si_fd_watch((int)(intptr_t)fd, "imported and still the caller's");
    *memory = handle_add(store);
    return 0;
}

dlp_cu_result cuMemAddressReserve(dlp_cu_pointer *at, size_t size, size_t align,
                                  dlp_cu_pointer wish, unsigned long long flags)
{
    (void)wish; /* only a wish */
    SI_ENTER(SI_INITIALISED);
    if (!whole(size) || flags || (align & (align - 1)))
        return DLP_CU_INVALID_VALUE;
    struct reservation *one = malloc(sizeof *one);
    if (!one)
        si_abort("out of memory");
    *one = (struct reservation){reservations, 0, size};
    one->at = si_address_take(size, align > SI_GRANULE ? align : SI_GRANULE);
    reservations = one;
    *at = one->at;
    return one->at ? 0 : DLP_CU_OUT_OF_MEMORY;
}

static bool any_mapped(dlp_cu_pointer at, size_t size)
{
    for (const struct si_range *range = si_ranges; range; range = range->next)
        if (range->base < at + size && at < range->base + range->size)
            return true;
    return false;
}

dlp_cu_result cuMemAddressFree(dlp_cu_pointer at, size_t size)
{
    SI_ENTER(SI_INITIALISED);
    for (struct reservation **from = &reservations; *from; from = &(*from)->next)
        if ((*from)->at == at && (*from)->size == size && !any_mapped(at, size)) {
            struct reservation *one = *from;
            *from = one->next;
            si_address_give(at, size);
            free(one);
            return 0;
        }
    return DLP_CU_INVALID_VALUE;
}

static bool reserved(dlp_cu_pointer at, size_t size)
{
    for (const struct reservation *one = reservations; one; one = one->next)
        if (at >= one->at && at - one->at < one->size && size <= one->size - (at - one->at))
            return true;
    return false;
}

dlp_cu_result cuMemMap(dlp_cu_pointer at, size_t size, size_t offset, dlp_cu_memory memory,
                       unsigned long long flags)
{
    SI_ENTER(SI_INITIALISED);
    struct handle *handle = handle_of(memory);
    if (!handle || flags || offset || !whole(size) || at % SI_GRANULE ||
        size > handle->store->size || !reserved(at, size) || any_mapped(at, size))
        return DLP_CU_INVALID_VALUE;
    handle->store->refs++;
    si_range_add(at, size, SI_MAPPED, handle->store, 0, NULL);
    return 0;
}

dlp_cu_result cuMemUnmap(dlp_cu_pointer at, size_t size)
{
    SI_ENTER(SI_INITIALISED);
    si_streams_drain(__func__);
    struct si_range *range = si_range_of(at, SI_MAPPED);
    if (!range || range->size != size)
        return DLP_CU_INVALID_VALUE;
    si_range_remove(range);
    return 0;
}

static dlp_cu_result check_access(const struct si_range *range, const dlp_cu_access *access)
{
    int id = access->location.id;
    if (access->location.type != DLP_CU_LOCATION_DEVICE ||
        (access->flags != DLP_CU_ACCESS_NONE && access->flags != DLP_CU_ACCESS_READ &&
         access->flags != DLP_CU_ACCESS_READWRITE))
        return DLP_CU_INVALID_VALUE;
    if (id < 0 || id >= (int)si_visible)
        return DLP_CU_INVALID_DEVICE;
    return id == (int)range->store->context->device ? 0 : DLP_CU_PEER_ACCESS_UNSUPPORTED;
}

dlp_cu_result cuMemSetAccess(dlp_cu_pointer at, size_t size, const dlp_cu_access *access,
                             size_t count)
{
    SI_ENTER(SI_INITIALISED);
    struct si_range *range = si_range_of(at, SI_MAPPED);
    if (!range || range->size != size || !access || !count)
        return DLP_CU_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        dlp_cu_result code = check_access(range, &access[i]);
        if (code)
            return code;
    }
    for (size_t i = 0; i < count; i++)
        range->access[access[i].location.id] = (unsigned char)access[i].flags;
    return 0;
}

void si_leaks_vmm(void)
{
    unsigned mapped = 0, unreleased = 0, addresses = 0;
    for (const struct si_range *range = si_ranges; range; range = range->next)
        mapped += range->kind == SI_MAPPED;
    for (const struct handle *handle = handles; handle; handle = handle->next)
        unreleased++;
    for (const struct reservation *one = reservations; one; one = one->next)
        addresses++;
    if (mapped)
        si_report("leak: %u mappings of cuMemMap", mapped);
    if (unreleased)
        si_report("leak: %u memory handles of cuMemCreate or an import", unreleased);
    if (addresses)
        si_report("leak: %u address ranges of cuMemAddressReserve", addresses);
}
