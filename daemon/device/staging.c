#include "device/staging.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/numa.h"
#include "base/system.h"

#define MB 1e6

struct staging {
    struct budget *budget;
    struct uploader *uploader;
    struct slots *slots;
    uint8_t *base;
    uint64_t slot_bytes, bytes;
    uint32_t count, pinned; /* the first `pinned` slots of it */
    bool unpinned;          /* pinning has failed: not tried again */
};

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
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        budget_give(budget, BUDGET_SLOTS, bytes);
        return error_set(err, -ENOMEM, "cannot map %" PRIu64 " bytes to copy batches from: %s",
                         bytes, strerror(errno));
    }
    numa_prefer(base, bytes, uploader_numa_node(uploader));
    struct staging *staging = *out = mem_new(sizeof *staging);
    *staging = (struct staging){.budget = budget,
                                .uploader = uploader,
                                .slots = slots_new(slots),
                                .base = base,
                                .slot_bytes = slot_bytes,
                                .bytes = bytes,
                                .count = slots};
    return 0;
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

/* The next slot. Nothing of staging is looked at after the call, in which the driver may hang. */
static int pin(void *context, const struct uploader_gpu *gpu, struct error *err)
{
    const struct staging *staging = context;
    void *slot = staging_slot(staging, staging->pinned);
    return uploader_check(gpu->uploader,
                          gpu->cuda->host_register(slot, staging->slot_bytes, DLP_CU_HOST_PORTABLE),
                          "cuMemHostRegister", err);
}

static int unpin(void *context, const struct uploader_gpu *gpu, struct error *err)
{
    const struct staging *staging = context;
    int code = 0;
    for (uint32_t slot = 0; slot < staging->pinned; slot++)
        code |=
            uploader_check(gpu->uploader, gpu->cuda->host_unregister(staging_slot(staging, slot)),
                           "cuMemHostUnregister", err);
    return code ? -ENODEV : 0;
}

static void pin_slot(struct staging *staging)
{
    struct error err;
    if (staging->unpinned)
        return;
    if (uploader_run(staging->uploader, pin, staging, &err) == 0) {
        staging->pinned++;
        return;
    }
    staging->unpinned = true;
    log_warning("%s: batches are copied from memory that is not pinned, which is slow: raise "
                "LimitMEMLOCK",
                err.text);
}

int staging_reserve(struct staging *staging, uint32_t slot, struct error *err)
{
    uint64_t room = system_memory_free();
    if (staging->slot_bytes > room)
        return error_set(err, -ENOMEM,
                         "no memory to copy batches from: %.1f MB asked, %.1f MB free on this "
                         "machine or under its cgroup limits: lower batch, or raise the cgroup's "
                         "memory limit",
                         (double)staging->slot_bytes / MB, (double)room / MB);
    int code = touch(staging_slot(staging, slot), staging->slot_bytes);
    if (code < 0)
        return error_set(err, code, "cannot reserve %" PRIu64 " bytes to copy batches from: %s",
                         staging->slot_bytes, strerror(-code));
    pin_slot(staging);
    slots_reserved(staging->slots, slot);
    return 0;
}

struct slots *staging_slots(const struct staging *staging)
{
    return staging->slots;
}

uint8_t *staging_slot(const struct staging *staging, uint32_t slot)
{
    return staging->base + slot * staging->slot_bytes;
}

void staging_free(struct staging *staging)
{
    struct error err;
    if (!staging)
        return;
    int code = uploader_run(staging->uploader, unpin, staging, &err);
    if (code == 0) {
        munmap(staging->base, staging->bytes);
        budget_give(staging->budget, BUDGET_SLOTS, staging->bytes);
    } else {
        log_warning("%s: %.1f MB that batches were copied from are kept", err.text,
                    (double)staging->bytes / MB);
    }
    slots_free(staging->slots);
    if (code != -ETIMEDOUT)
        free(staging);
}
