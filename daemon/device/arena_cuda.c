#include "device/arena_cuda.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/mem.h"

#define MB 1e6
/* Smaller allocations share a block, which a handle would pass on whole. */
#define IPC_GRANULE (2U << 20)

struct arena_cuda {
    struct uploader *uploader;
    struct arena_cuda_offer offer;
    uint32_t slots;
    uint64_t slot_bytes;
    /* What there is of it, in the order in which it is made. */
    dlp_cu_memory memory;
    dlp_cu_pointer at;
    bool created, reserved, mapped, allocated, lent;
    struct borrower **borrowers;
    uint32_t nborrowers;
    struct uploader_later later; /* its end, while they map it */
};

static dlp_cu_allocation kind_of(const struct uploader_gpu *gpu)
{
    return (dlp_cu_allocation){.type = DLP_CU_ALLOCATION_PINNED,
                               .handle_types = DLP_CU_HANDLE_POSIX_FD,
                               .location = {DLP_CU_LOCATION_DEVICE, gpu->device}};
}

static int check(const struct uploader_gpu *gpu, dlp_cu_result code, const char *symbol,
                 struct error *err)
{
    return uploader_check(gpu->uploader, code, symbol, err);
}

/* Of a call that takes memory. */
static int check_room(const struct uploader_gpu *gpu, dlp_cu_result code, const char *symbol,
                      struct error *err)
{
    int failed = check(gpu, code, symbol, err);
    if (code == DLP_CU_OUT_OF_MEMORY)
        failed = err->code = -ENOSPC;
    return failed;
}

static int choose_size(struct arena_cuda *arena, const struct uploader_gpu *gpu, struct error *err)
{
    const dlp_cu_allocation kind = kind_of(gpu);
    size_t granule = IPC_GRANULE, room = 0, all = 0;
    int code = 0;
    if (arena->offer.kind == DLP_MEMORY_VMM)
        code =
            check(gpu, gpu->cuda->memory_granularity(&granule, &kind, DLP_CU_GRANULARITY_MINIMUM),
                  "cuMemGetAllocationGranularity", err);
    if (code == 0)
        code = check(gpu, gpu->cuda->memory_info(&room, &all), "cuMemGetInfo", err);
    if (code < 0)
        return code;
    uint64_t used = arena->offer.nonce_offset + DLP_NONCE;
    arena->offer.bytes = (used + granule - 1) / granule * granule;
    if (arena->offer.bytes <= room)
        return 0;
    return error_set(err, -ENOSPC,
                     "%s: %u slots of %.1f MB take %.1f MB of its memory, and %.1f MB of %.1f MB "
                     "are free: lower slots or batch",
                     uploader_name(gpu->uploader), arena->slots, (double)arena->slot_bytes / MB,
                     (double)arena->offer.bytes / MB, (double)room / MB, (double)all / MB);
}

static int make_ipc(struct arena_cuda *arena, const struct uploader_gpu *gpu, struct error *err)
{
    const struct dlp_cuda *cuda = gpu->cuda;
    int code =
        check_room(gpu, cuda->memory_alloc(&arena->at, arena->offer.bytes), "cuMemAlloc", err);
    arena->allocated = code == 0;
    return code ? code
                : check(gpu, cuda->ipc_get(&arena->offer.handle, arena->at), "cuIpcGetMemHandle",
                        err);
}

static int make_vmm(struct arena_cuda *arena, const struct uploader_gpu *gpu, struct error *err)
{
    const dlp_cu_allocation kind = kind_of(gpu);
    const dlp_cu_access access = {{DLP_CU_LOCATION_DEVICE, gpu->device}, DLP_CU_ACCESS_READWRITE};
    const struct dlp_cuda *cuda = gpu->cuda;
    uint64_t bytes = arena->offer.bytes;
    int code =
        check_room(gpu, cuda->memory_create(&arena->memory, bytes, &kind, 0), "cuMemCreate", err);
    arena->created = code == 0;
    if (code == 0)
        code = check(gpu, cuda->address_reserve(&arena->at, bytes, 0, 0, 0), "cuMemAddressReserve",
                     err);
    arena->reserved = code == 0;
    if (code == 0)
        code = check(gpu, cuda->memory_map(arena->at, bytes, 0, arena->memory, 0), "cuMemMap", err);
    arena->mapped = code == 0;
    if (code == 0)
        code = check(gpu, cuda->memory_access(arena->at, bytes, &access, 1), "cuMemSetAccess", err);
    return code;
}

/* The driver clears what comes from another process; this may have been ours a moment ago, with
 * pictures of another user in it. */
static int clear(const struct arena_cuda *arena, const struct uploader_gpu *gpu, struct error *err)
{
    return check(gpu, gpu->cuda->memory_set(arena->at, 0, arena->offer.bytes, gpu->stream),
                 "cuMemsetD8Async", err);
}

/* Finished when it returns: the client reads it in no order with us. */
static int write_nonce(struct arena_cuda *arena, const struct uploader_gpu *gpu, struct error *err)
{
    while (getrandom(arena->offer.nonce, DLP_NONCE, 0) != DLP_NONCE)
        continue;
    int code = check(gpu,
                     gpu->cuda->copy_to_device(arena->at + arena->offer.nonce_offset,
                                               arena->offer.nonce, DLP_NONCE, gpu->stream),
                     "cuMemcpyHtoDAsync", err);
    return code ? code : uploader_settle(gpu->uploader, err);
}

/* The mapping keeps the memory, and so does the descriptor. */
static int pass_on(struct arena_cuda *arena, const struct uploader_gpu *gpu, struct error *err)
{
    int code = check(
        gpu, gpu->cuda->memory_export(&arena->offer.fd, arena->memory, DLP_CU_HANDLE_POSIX_FD, 0),
        "cuMemExportToShareableHandle", err);
    if (code < 0)
        return code;
    arena->created = false;
    return check(gpu, gpu->cuda->memory_release(arena->memory), "cuMemRelease", err);
}

static int undo(void *context, const struct uploader_gpu *gpu, struct error *err)
{
    struct arena_cuda *arena = context;
    uint64_t bytes = arena->offer.bytes;
    int code = 0;
    if (arena->allocated)
        code = check(gpu, gpu->cuda->memory_free(arena->at), "cuMemFree", err);
    if (arena->mapped)
        code = check(gpu, gpu->cuda->memory_unmap(arena->at, bytes), "cuMemUnmap", err);
    if (arena->reserved && code == 0)
        code = check(gpu, gpu->cuda->address_free(arena->at, bytes), "cuMemAddressFree", err);
    if (arena->created)
        code |= check(gpu, gpu->cuda->memory_release(arena->memory), "cuMemRelease", err);
    return code ? -ENODEV : 0;
}

static int make(void *context, const struct uploader_gpu *gpu, struct error *err)
{
    struct arena_cuda *arena = context;
    bool vmm = arena->offer.kind == DLP_MEMORY_VMM;
    int code = choose_size(arena, gpu, err);
    if (code == 0)
        code = vmm ? make_vmm(arena, gpu, err) : make_ipc(arena, gpu, err);
    if (code == 0)
        code = clear(arena, gpu, err);
    if (code == 0)
        code = write_nonce(arena, gpu, err);
    if (code == 0 && vmm)
        code = pass_on(arena, gpu, err);
    return code;
}

int arena_cuda_new(struct uploader *uploader, enum dlp_memory kind, uint32_t slots,
                   uint64_t slot_bytes, struct arena_cuda **out, struct error *err)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(slot_bytes, slots, &bytes) || bytes > INT64_MAX)
        return error_set(err, -EINVAL, "%u slots of %" PRIu64 " bytes are too large", slots,
                         slot_bytes);
    struct arena_cuda *arena = mem_new(sizeof *arena);
    *arena = (struct arena_cuda){.uploader = uploader,
                                 .offer = {.kind = kind, .nonce_offset = bytes, .fd = -1},
                                 .slots = slots,
                                 .slot_bytes = slot_bytes};
    int code = uploader_run(uploader, make, arena, err);
    if (code == -ETIMEDOUT)
        return -ENODEV;
    if (code == 0) {
        uploader_lend(uploader, arena->offer.bytes);
        arena->lent = true;
        *out = arena;
    } else {
        arena_cuda_free(arena);
    }
    return code;
}

/* Members of a group come and go for as long as it lives. */
static void forget_over(struct arena_cuda *arena)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < arena->nborrowers; i++) {
        struct borrower *borrower = arena->borrowers[i];
        if (borrower_over(borrower))
            borrower_unref(borrower);
        else
            arena->borrowers[left++] = borrower;
    }
    arena->nborrowers = left;
}

void arena_cuda_lend(struct arena_cuda *arena, struct borrower *borrower)
{
    forget_over(arena);
    arena->borrowers = mem_grow(arena->borrowers, arena->nborrowers + 1, sizeof *arena->borrowers);
    arena->borrowers[arena->nborrowers++] = borrower_ref(borrower);
}

/* failed: why its memory is not free; NULL = it is. */
static void end(struct arena_cuda *arena, const char *failed)
{
    if (failed)
        log_event(LOG_WARNING, log_about(LOG_MEMORY_SHORT), "%s: %.1f MB of its memory stay taken",
                  failed, (double)arena->offer.bytes / MB);
    else if (arena->lent)
        uploader_get_back(arena->uploader, arena->offer.bytes);
    if (arena->offer.fd >= 0)
        close(arena->offer.fd);
    for (uint32_t i = 0; i < arena->nborrowers; i++)
        borrower_unref(arena->borrowers[i]);
    free(arena->borrowers);
    free(arena);
}

static bool unmapped(const struct uploader_later *later)
{
    const struct arena_cuda *arena =
        (const void *)((const char *)later - offsetof(struct arena_cuda, later));
    for (uint32_t i = 0; i < arena->nborrowers; i++)
        if (!borrower_over(arena->borrowers[i]))
            return false;
    return true;
}

static void undo_later(struct uploader_later *later, const struct uploader_gpu *gpu)
{
    struct arena_cuda *arena = (void *)((char *)later - offsetof(struct arena_cuda, later));
    struct error err;
    if (!gpu)
        end(arena, uploader_name(arena->uploader));
    else
        end(arena, undo(arena, gpu, &err) < 0 ? err.text : NULL);
}

void arena_cuda_free(struct arena_cuda *arena)
{
    struct error err;
    if (!arena)
        return;
    arena->later = (struct uploader_later){.due = unmapped, .run = undo_later};
    if (!unmapped(&arena->later)) {
        uploader_run_later(arena->uploader, &arena->later);
        return;
    }
    int code = uploader_run(arena->uploader, undo, arena, &err);
    if (code != -ETIMEDOUT)
        end(arena, code < 0 ? err.text : NULL);
}

const struct arena_cuda_offer *arena_cuda_offer(const struct arena_cuda *arena)
{
    return &arena->offer;
}

dlp_cu_pointer arena_cuda_slot(const struct arena_cuda *arena, uint32_t slot)
{
    return arena->at + slot * arena->slot_bytes;
}
