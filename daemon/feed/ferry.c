#include "feed/ferry.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"
#include "device/staging.h"
#include "feed/belt.h"

struct ferry {
    struct ferry_params params;
    bool holds; /* the GPU */
    struct arena_cuda *arena;
    struct staging *staging;
    struct slots *berths; /* of staging */
    uint32_t nberths;
    pthread_mutex_t mutex;
    pthread_cond_t landed;
    uint32_t under_way; /* under the mutex */
};

static uint32_t berths_of(uint32_t slots)
{
    return slots < STAGING_SLOTS ? slots : STAGING_SLOTS;
}

uint64_t ferry_staging_bytes(uint32_t slots, uint64_t slot_bytes)
{
    return berths_of(slots) * slot_bytes;
}

int ferry_new(const struct ferry_params *params, struct ferry **out, struct error *err)
{
    struct ferry *ferry = mem_new(sizeof *ferry);
    ferry->params = *params;
    ferry->nberths = berths_of(params->slots);
    pthread_mutex_init(&ferry->mutex, NULL);
    pthread_cond_init(&ferry->landed, NULL);
    int code = uploader_hold(params->uploader, err);
    ferry->holds = code == 0;
    if (code == 0)
        code = staging_new(params->budget, params->uploader, ferry->nberths, params->slot_bytes,
                           &ferry->staging, err);
    if (code == 0)
        code = arena_cuda_new(params->uploader, params->kind, params->slots, params->slot_bytes,
                              &ferry->arena, err);
    if (code < 0) {
        ferry_free(ferry);
        return code;
    }
    ferry->berths = staging_slots(ferry->staging);
    *out = ferry;
    return 0;
}

int ferry_reserve(struct ferry *ferry, uint32_t berth, struct error *err)
{
    return staging_reserve(ferry->staging, berth, err);
}

uint32_t ferry_berths(const struct ferry *ferry)
{
    return ferry->nberths;
}

int ferry_board(struct ferry *ferry, struct batch *batch)
{
    uint64_t waited;
    int code = slots_take(ferry->berths, &batch->berth, &waited);
    if (code == 0)
        batch->memory = staging_slot(ferry->staging, batch->berth);
    return code;
}

void ferry_leave(struct ferry *ferry, struct batch *batch)
{
    slots_drop(ferry->berths, batch->berth);
}

void ferry_interrupt(struct ferry *ferry, bool on)
{
    slots_interrupt(ferry->berths, on);
}

void ferry_cancel(struct ferry *ferry)
{
    slots_cancel(ferry->berths);
}

static void arrive(struct ferry *ferry)
{
    pthread_mutex_lock(&ferry->mutex);
    ferry->under_way--;
    pthread_cond_signal(&ferry->landed);
    pthread_mutex_unlock(&ferry->mutex);
}

/* What was under way on a GPU that is lost may be read still: its berth is not used again, and the
 * feed ends. */
static void copied(struct upload *upload, const struct error *err)
{
    struct batch *batch = (struct batch *)(void *)((char *)upload - offsetof(struct batch, upload));
    struct ferry *ferry = batch->ferry;
    if (err) {
        batch->lost = true;
        ferry->params.failed(ferry->params.context, err);
    } else {
        ferry_leave(ferry, batch);
    }
    belt_landed(batch->belt, batch);
    arrive(ferry);
}

void ferry_carry(struct ferry *ferry, struct batch *batch)
{
    if (atomic_load(&batch->is_void)) {
        ferry_leave(ferry, batch);
        belt_landed(batch->belt, batch);
        return;
    }
    batch->upload = (struct upload){.to = arena_cuda_slot(ferry->arena, batch->slot),
                                    .from = batch->memory,
                                    .bytes = ferry->params.slot_bytes,
                                    .done = copied};
    pthread_mutex_lock(&ferry->mutex);
    ferry->under_way++;
    pthread_mutex_unlock(&ferry->mutex);
    uploader_copy(ferry->params.uploader, &batch->upload);
}

const struct arena_cuda_offer *ferry_offer(const struct ferry *ferry)
{
    return arena_cuda_offer(ferry->arena);
}

void ferry_lend(struct ferry *ferry, struct borrower *borrower)
{
    arena_cuda_lend(ferry->arena, borrower);
}

void ferry_free(struct ferry *ferry)
{
    if (!ferry)
        return;
    pthread_mutex_lock(&ferry->mutex);
    while (ferry->under_way)
        pthread_cond_wait(&ferry->landed, &ferry->mutex);
    pthread_mutex_unlock(&ferry->mutex);
    arena_cuda_free(ferry->arena);
    staging_free(ferry->staging);
    if (ferry->holds)
        uploader_drop(ferry->params.uploader);
    pthread_cond_destroy(&ferry->landed);
    pthread_mutex_destroy(&ferry->mutex);
    free(ferry);
}
