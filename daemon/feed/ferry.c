#include "feed/ferry.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/trace.h"
#include "device/staging.h"
#include "feed/belt.h"

struct port {
    struct uploader *uploader; /* held */
    struct arena_cuda *arena;
    struct error lost; /* under the mutex; code 0: it is not */
};

struct ferry {
    struct ferry_params params;
    struct staging *staging;
    struct slots *berths; /* of staging */
    uint32_t nberths;
    pthread_mutex_t adding; /* of ports, one at a time */
    struct port ports[FERRY_PORTS_MAX];
    pthread_mutex_t mutex;
    pthread_cond_t rests;
    /* Under the mutex. */
    uint32_t nports, announced;
    uint32_t under_way; /* copies */
    uint64_t since;     /* at which the first of them was begun */
    uint64_t copy_ns;   /* in which there were some, until then */
    uint32_t alive;     /* ports that are not lost, a bit each */
};

static uint32_t berths_of(uint32_t slots)
{
    return slots < STAGING_SLOTS ? slots : STAGING_SLOTS;
}

uint64_t ferry_staging_bytes(uint32_t slots, uint64_t slot_bytes)
{
    return berths_of(slots) * slot_bytes;
}

/* The GPU is the ferry's from then on, if only to be given back. */
static int make_port(struct ferry *ferry, struct uploader *uploader, struct error *err)
{
    const struct ferry_params *params = &ferry->params;
    struct port *port = &ferry->ports[ferry->nports];
    int code = uploader_hold(uploader, err);
    if (code < 0)
        return code;
    code = arena_cuda_new(uploader, params->kind, params->slots, params->slot_bytes, &port->arena,
                          err);
    if (code < 0) {
        uploader_drop(uploader);
        return code;
    }
    port->uploader = uploader;
    pthread_mutex_lock(&ferry->mutex);
    ferry->alive |= 1U << ferry->nports++;
    pthread_mutex_unlock(&ferry->mutex);
    return 0;
}

int ferry_new(const struct ferry_params *params, struct ferry **out, struct error *err)
{
    struct ferry *ferry = mem_new(sizeof *ferry);
    ferry->params = *params;
    ferry->nberths = berths_of(params->slots);
    pthread_mutex_init(&ferry->adding, NULL);
    pthread_mutex_init(&ferry->mutex, NULL);
    pthread_cond_init(&ferry->rests, NULL);
    int code = make_port(ferry, params->uploader, err);
    if (code == 0)
        code = staging_new(params->budget, params->uploader, ferry->nberths, params->slot_bytes,
                           &ferry->staging, err);
    if (code < 0) {
        ferry_end(ferry);
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

void ferry_announce(struct ferry *ferry)
{
    pthread_mutex_lock(&ferry->mutex);
    ferry->announced++;
    pthread_mutex_unlock(&ferry->mutex);
}

void ferry_withdraw(struct ferry *ferry)
{
    pthread_mutex_lock(&ferry->mutex);
    ferry->announced--;
    pthread_cond_signal(&ferry->rests);
    pthread_mutex_unlock(&ferry->mutex);
}

static int find_port(struct ferry *ferry, struct uploader *uploader, uint32_t *port,
                     struct error *err)
{
    for (*port = 0; *port < ferry->nports; ++*port)
        if (ferry->ports[*port].uploader == uploader)
            return ferry_has_lost(ferry, *port, err) ? err->code : 0;
    if (ferry->nports == FERRY_PORTS_MAX)
        return error_set(err, -ENODEV, "the group is on %u GPUs already", FERRY_PORTS_MAX);
    return make_port(ferry, uploader, err);
}

int ferry_add(struct ferry *ferry, struct uploader *uploader, uint32_t *port, struct error *err)
{
    pthread_mutex_lock(&ferry->adding);
    int code = find_port(ferry, uploader, port, err);
    pthread_mutex_unlock(&ferry->adding);
    return code;
}

bool ferry_has_lost(struct ferry *ferry, uint32_t port, struct error *err)
{
    pthread_mutex_lock(&ferry->mutex);
    struct error lost = ferry->ports[port].lost;
    pthread_mutex_unlock(&ferry->mutex);
    if (lost.code)
        *err = lost;
    return lost.code;
}

const struct arena_cuda_offer *ferry_offer(const struct ferry *ferry, uint32_t port)
{
    return arena_cuda_offer(ferry->ports[port].arena);
}

static uint32_t ports_alive(struct ferry *ferry)
{
    pthread_mutex_lock(&ferry->mutex);
    uint32_t alive = ferry->alive;
    pthread_mutex_unlock(&ferry->mutex);
    return alive;
}

/* Through a GPU that is left. */
static int renew(struct ferry *ferry, uint32_t berth)
{
    struct error err;
    uint32_t alive = ports_alive(ferry);
    if (!alive || !staging_is_given_up(ferry->staging, berth))
        return 0;
    struct uploader *uploader = ferry->ports[__builtin_ctz(alive)].uploader;
    int code = staging_renew(ferry->staging, berth, uploader, &err);
    if (code < 0)
        ferry->params.failed(ferry->params.context, &err);
    return code;
}

int ferry_board(struct ferry *ferry, struct batch *batch)
{
    int code;
    do {
        code = slots_take(ferry->berths, &batch->berth);
    } while (code == 0 && renew(ferry, batch->berth) < 0);
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

/* Told with the mutex held: whoever sees that the port is lost, so that a batch may land without
 * it, comes after that. */
static void lose(struct ferry *ferry, struct crossing *crossing, const struct error *err)
{
    struct batch *batch = crossing->batch;
    uint32_t number = (uint32_t)(crossing - batch->crossings);
    struct port *port = &ferry->ports[number];
    struct uploader_state gpu;
    uploader_state(port->uploader, &gpu);
    if (gpu.lost)
        staging_give_up(ferry->staging, batch->berth);
    pthread_mutex_lock(&ferry->mutex);
    if (!port->lost.code) {
        port->lost = *err;
        ferry->params.lost(ferry->params.context, number, err);
    }
    ferry->alive &= ~(1U << number);
    pthread_mutex_unlock(&ferry->mutex);
    atomic_fetch_or(&batch->lost, 1U << number);
}

/* Where no GPU is left a berth that is given up is not used again, and the feed ends. */
static void land(struct ferry *ferry, struct batch *batch)
{
    if (ports_alive(ferry) || !staging_is_given_up(ferry->staging, batch->berth))
        ferry_leave(ferry, batch);
    belt_landed(batch->belt, batch);
}

static void copied(struct upload *upload, const struct error *err)
{
    struct crossing *crossing =
        (struct crossing *)(void *)((char *)upload - offsetof(struct crossing, upload));
    struct batch *batch = crossing->batch;
    struct ferry *ferry = batch->ferry;
    if (err)
        lose(ferry, crossing, err);
    else
        trace_span("copy", batch->recipe->spec->name, upload->since, upload->until, NULL,
                   batch->place.step);
    if (atomic_fetch_sub(&batch->crosses, 1) == 1)
        land(ferry, batch);
    pthread_mutex_lock(&ferry->mutex);
    if (--ferry->under_way == 0)
        ferry->copy_ns += clock_ns() - ferry->since;
    pthread_cond_signal(&ferry->rests);
    pthread_mutex_unlock(&ferry->mutex);
}

/* The ports that it goes to; they are counted before the first copy can end. */
static uint32_t set_out(struct ferry *ferry, struct batch *batch)
{
    pthread_mutex_lock(&ferry->mutex);
    uint32_t ports = atomic_load(&batch->is_void) ? 0 : batch->ports & ferry->alive;
    uint32_t count = (uint32_t)__builtin_popcount(ports);
    if (count && !ferry->under_way)
        ferry->since = clock_ns();
    ferry->under_way += count;
    atomic_store(&batch->lost, batch->ports & ~ferry->alive);
    pthread_mutex_unlock(&ferry->mutex);
    atomic_store(&batch->crosses, count);
    return ports;
}

void ferry_carry(struct ferry *ferry, struct batch *batch)
{
    uint32_t left = set_out(ferry, batch);
    if (!left)
        land(ferry, batch);
    while (left) {
        uint32_t port = (uint32_t)__builtin_ctz(left);
        struct crossing *it = &batch->crossings[port];
        left &= left - 1; /* the batch may be gone once its last copy is begun */
        it->batch = batch;
        it->upload = (struct upload){.to = arena_cuda_slot(ferry->ports[port].arena, batch->slot),
                                     .from = batch->memory,
                                     .bytes = ferry->params.slot_bytes,
                                     .done = copied};
        uploader_copy(ferry->ports[port].uploader, &it->upload);
    }
}

void ferry_figures(struct ferry *ferry, uint64_t now, struct feed_stats *out)
{
    pthread_mutex_lock(&ferry->mutex);
    out->work.copy_ns = ferry->copy_ns;
    if (ferry->under_way && now > ferry->since)
        out->work.copy_ns += now - ferry->since;
    out->copies = ferry->under_way;
    out->copies_room = ferry->nberths;
    pthread_mutex_unlock(&ferry->mutex);
}

void ferry_lend(struct ferry *ferry, uint32_t port, struct borrower *borrower)
{
    arena_cuda_lend(ferry->ports[port].arena, borrower);
}

void ferry_end(struct ferry *ferry)
{
    if (!ferry)
        return;
    pthread_mutex_lock(&ferry->mutex);
    while (ferry->under_way || ferry->announced)
        pthread_cond_wait(&ferry->rests, &ferry->mutex);
    pthread_mutex_unlock(&ferry->mutex);
    for (uint32_t port = 0; port < ferry->nports; port++)
        arena_cuda_free(ferry->ports[port].arena);
    staging_free(ferry->staging);
    for (uint32_t port = 0; port < ferry->nports; port++)
        uploader_drop(ferry->ports[port].uploader);
}

void ferry_free(struct ferry *ferry)
{
    if (!ferry)
        return;
    pthread_cond_destroy(&ferry->rests);
    pthread_mutex_destroy(&ferry->mutex);
    pthread_mutex_destroy(&ferry->adding);
    free(ferry);
}
