#include "device/staging.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/mman.h> /* MADV_POPULATE_WRITE: older C libraries do not have it */
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/numa.h"
#include "base/system.h"

#define MB 1e6

struct piece { /* the memory of a slot */
    uint8_t *at;
    struct uploader *uploader; /* pinned through this one, or copied from by it unpinned */
    bool pinned;
    _Atomic bool given_up;
};

struct staging {
    struct budget *budget;
    struct slots *slots;
    uint64_t slot_bytes;
    uint32_t count;
    _Atomic bool unpinned; /* pinning has failed: not tried again */
    struct piece pieces[];
};

static int map_piece(const struct staging *staging, struct piece *piece, struct uploader *uploader,
                     struct error *err)
{
    void *at = mmap(NULL, staging->slot_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return error_set(err, -ENOMEM, "cannot map %" PRIu64 " bytes to copy batches from: %s",
                         staging->slot_bytes, strerror(errno));
    numa_prefer(at, staging->slot_bytes, uploader_numa_node(uploader));
    piece->at = at;
    piece->uploader = uploader;
    return 0;
}

/* Not of a GPU that is lost: it may read what is not pinned, too. */
static int unpin(void *context, const struct uploader_gpu *gpu, struct error *err)
{
    const struct piece *piece = context;
    if (!piece->pinned)
        return 0;
    return uploader_check(gpu->uploader, gpu->cuda->host_unregister(piece->at),
                          "cuMemHostUnregister", err);
}

static void free_piece(struct staging *staging, struct piece *piece)
{
    struct error err;
    if (atomic_load(&piece->given_up))
        return;
    if (uploader_run(piece->uploader, unpin, piece, &err) < 0) {
        log_event(LOG_WARNING, log_about(LOG_MEMORY_SHORT),
                  "%s: %.1f MB that batches were copied from are kept", err.text,
                  (double)staging->slot_bytes / MB);
        return;
    }
    munmap(piece->at, staging->slot_bytes);
    budget_give(staging->budget, BUDGET_SLOTS, staging->slot_bytes);
}

int staging_new(struct budget *budget, struct uploader *uploader, uint32_t slots,
                uint64_t slot_bytes, struct staging **out, struct error *err)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(slot_bytes, slots, &bytes) || bytes > INT64_MAX)
        return error_set(err, -EINVAL, "%u slots of %" PRIu64 " bytes are too large", slots,
                         slot_bytes);
    int code = budget_take(budget, BUDGET_SLOTS, bytes, err);
    if (code < 0)
        return code;
    struct staging *staging = mem_new(sizeof *staging + slots * sizeof staging->pieces[0]);
    staging->budget = budget;
    staging->slots = slots_new(slots);
    staging->slot_bytes = slot_bytes;
    for (; code == 0 && staging->count < slots; staging->count += code == 0)
        code = map_piece(staging, &staging->pieces[staging->count], uploader, err);
    if (code == 0) {
        *out = staging;
        return 0;
    }
    budget_give(budget, BUDGET_SLOTS, (slots - staging->count) * slot_bytes);
    staging_free(staging);
    return code;
}

/* A kernel before 5.14 does it at the first write. */
static int touch(uint8_t *at, uint64_t bytes)
{
    while (madvise(at, bytes, MADV_POPULATE_WRITE) < 0) {
        if (errno == EINVAL)
            return 0;
        if (errno != EINTR && errno != EAGAIN)
            return -errno;
    }
    return 0;
}

struct pin {
    uint8_t *at;
    uint64_t bytes;
};

/* Nothing of it is looked at after the call, in which the driver may hang. */
static int pin(void *context, const struct uploader_gpu *gpu, struct error *err)
{
    const struct pin *it = context;
    return uploader_check(gpu->uploader,
                          gpu->cuda->host_register(it->at, it->bytes, DLP_CU_HOST_PORTABLE),
                          "cuMemHostRegister", err);
}

static void pin_piece(struct staging *staging, struct piece *piece)
{
    struct error err;
    struct pin it = {piece->at, staging->slot_bytes};
    if (staging->unpinned)
        return;
    if (uploader_run(piece->uploader, pin, &it, &err) == 0) {
        piece->pinned = true;
        return;
    }
    staging->unpinned = true;
    log_event(LOG_WARNING, log_about(LOG_GPU_FALLBACK),
              "%s: batches are copied from memory that is not pinned, which is slow: raise "
              "LimitMEMLOCK",
              err.text);
}

static int reserve(struct staging *staging, struct piece *piece, struct error *err)
{
    uint64_t room = system_memory_free();
    if (staging->slot_bytes > room)
        return error_set(err, -ENOMEM,
                         "no memory to copy batches from: %.1f MB asked, %.1f MB free on this "
                         "machine or under its cgroup limits: lower batch, or raise the cgroup's "
                         "memory limit",
                         (double)staging->slot_bytes / MB, (double)room / MB);
    int code = touch(piece->at, staging->slot_bytes);
    if (code < 0)
        return error_set(err, code, "cannot reserve %" PRIu64 " bytes to copy batches from: %s",
                         staging->slot_bytes, strerror(-code));
    pin_piece(staging, piece);
    return 0;
}

int staging_reserve(struct staging *staging, uint32_t slot, struct error *err)
{
    int code = reserve(staging, &staging->pieces[slot], err);
    if (code == 0)
        slots_reserved(staging->slots, slot);
    return code;
}

void staging_give_up(struct staging *staging, uint32_t slot)
{
    if (!atomic_exchange(&staging->pieces[slot].given_up, true))
        log_event(LOG_WARNING, log_about(LOG_MEMORY_SHORT),
                  "%.1f MB that batches were copied from are kept, as a lost GPU may read them",
                  (double)staging->slot_bytes / MB);
}

bool staging_is_given_up(const struct staging *staging, uint32_t slot)
{
    return atomic_load(&staging->pieces[slot].given_up);
}

int staging_renew(struct staging *staging, uint32_t slot, struct uploader *uploader,
                  struct error *err)
{
    struct piece piece = {0};
    int code = budget_take(staging->budget, BUDGET_SLOTS, staging->slot_bytes, err);
    if (code < 0)
        return code;
    code = map_piece(staging, &piece, uploader, err);
    if (code < 0) {
        budget_give(staging->budget, BUDGET_SLOTS, staging->slot_bytes);
        return code;
    }
    code = reserve(staging, &piece, err);
    if (code < 0) {
        free_piece(staging, &piece);
        return code;
    }
    staging->pieces[slot].at = piece.at;
    staging->pieces[slot].uploader = uploader;
    staging->pieces[slot].pinned = piece.pinned;
    atomic_store(&staging->pieces[slot].given_up, false);
    return 0;
}

struct slots *staging_slots(const struct staging *staging)
{
    return staging->slots;
}

uint8_t *staging_slot(const struct staging *staging, uint32_t slot)
{
    return staging->pieces[slot].at;
}

void staging_free(struct staging *staging)
{
    if (!staging)
        return;
    for (uint32_t slot = 0; slot < staging->count; slot++)
        free_piece(staging, &staging->pieces[slot]);
    slots_free(staging->slots);
    free(staging);
}
