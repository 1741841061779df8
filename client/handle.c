#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "client/client_parts.h"
#include "client/give.h"

int64_t handle_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * CLIENT_SECOND + now.tv_nsec;
}

struct dataload *handle_new(void)
{
    struct dataload *handle = calloc(1, sizeof *handle);
    if (!handle)
        return NULL;
    handle->owner = getpid();
    handle->phase = PHASE_ENDED;
    handle->end_code = -ENOTCONN;
    handle->epoll = epoll_create1(EPOLL_CLOEXEC);
    handle->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    if (handle->epoll < 0 || handle->timer < 0 ||
        epoll_ctl(handle->epoll, EPOLL_CTL_ADD, handle->timer, &event) < 0)
        handle_end(handle, -errno, "cannot open the descriptors of a handle: %s (see ulimit -n)",
                   strerror(errno));
    return handle;
}

bool handle_unmap(struct dataload *handle)
{
    bool unmapped = !handle->mapping || mapping_free(handle->mapping);
    handle->mapping = NULL;
    handle->given = 0;
    while (handle->old) {
        struct mapping *mapping = handle->old;
        handle->old = mapping->next;
        mapping_free(mapping);
    }
    return unmapped;
}

void handle_free(struct dataload *handle)
{
    take_drop(handle);
    handle_unmap(handle);
    device_close(handle->device);
    dlp_channel_free(handle->channel);
    if (handle->epoll >= 0)
        close(handle->epoll);
    if (handle->timer >= 0)
        close(handle->timer);
    for (uint32_t i = 0; i < handle->nnotes; i++)
        free(handle->notes[i]);
    free(handle->transform);
    free(handle->feed);
    give_free(handle->giving);
    free((char *)handle->options.socket);
    free((char *)handle->options.job);
    free((char *)handle->options.group);
    free((char *)handle->options.program);
    free(handle);
}

int handle_fail(struct dataload *handle, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(handle->error, sizeof handle->error, format, args);
    va_end(args);
    return code;
}

static void end(struct dataload *handle, int code, const char *format, va_list args)
{
    vsnprintf(handle->end_text, sizeof handle->end_text, format, args);
    handle->end_code = code;
    handle->phase = PHASE_ENDED;
    handle->awaited = 0;
    take_drop(handle);
}

void handle_end(struct dataload *handle, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    end(handle, code, format, args);
    va_end(args);
}

void handle_protocol(struct dataload *handle, const char *format, ...)
{
    char text[DLP_TEXT_MAX + 1];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    handle_end(handle, -EPROTO, "dataloadd at %s broke the protocol: %s", handle->peer, text);
}

int handle_ended(struct dataload *handle)
{
    return handle_fail(handle, handle->end_code, "%s", handle->end_text);
}

int handle_enter(struct dataload *handle)
{
    if (!handle)
        return -EINVAL;
    pid_t self = getpid();
    if (self != handle->owner)
        return handle_fail(handle, -ENOLCK,
                           "opened by process %d: process %d was forked from it and must attach by "
                           "itself",
                           (int)handle->owner, (int)self);
    handle->error[0] = '\0';
    return 0;
}

const char *dataload_error(const dataload *handle)
{
    return handle ? handle->error : "no handle: out of memory, or none was given";
}

const char *dataload_version(void)
{
    return DATALOADD_VERSION;
}

int dataload_fd(dataload *handle)
{
    int r = handle_enter(handle);
    if (r < 0)
        return r;
    handle->polled = true;
    request_settle(handle);
    return handle->epoll;
}

int64_t dataload_steps(dataload *handle, uint64_t epoch)
{
    int r = handle_enter(handle);
    return r < 0 ? r : (int64_t)take_steps(handle, epoch);
}

const char *dataload_note(dataload *handle, uint32_t number)
{
    if (handle_enter(handle) < 0 || number >= handle->nnotes)
        return NULL;
    return handle->notes[number];
}

/* Copies the part of a struct that the caller knows of; its size member stays the caller's. */
static void give(void *out, size_t size, const void *all, size_t all_size)
{
    memcpy((char *)out + sizeof size, (const char *)all + sizeof size,
           (size < all_size ? size : all_size) - sizeof size);
}

int dataload_get_info(dataload *handle, dataload_info *info)
{
    int r = handle_enter(handle);
    if (r < 0)
        return r;
    if (info->size < sizeof info->size)
        return handle_fail(handle, -EINVAL, "dataload_info: set its size member first");
    struct position at = take_next(handle);
    bool on_gpu = handle->memory != DLP_MEMORY_HOST;
    dataload_info all = {
        .job = handle->job,
        .plan_id = handle->plan_id,
        .fingerprint = handle->fingerprint,
        .transform = handle->transform ? handle->transform : "",
        .rank = handle->rank,
        .world = handle->world,
        .batch = handle->batch,
        .slots = handle->slots,
        .seed = handle->seed,
        .records = handle->records,
        .slot_bytes = handle->mapping ? handle->mapping->layout.slot_bytes : 0,
        .epoch = at.epoch,
        .step = at.step,
        .started = handle->started,
        .shared = handle->mapping && handle->mapping->shared,
        .memory = (dataload_memory)handle->memory,
        .device = on_gpu ? handle->device->number : -1,
        .memory_why = handle->memory_why,
        .feed = handle->feed,
    };
    if (on_gpu)
        memcpy(all.gpu, handle->device->uuid, sizeof all.gpu);
    give(info, info->size, &all, sizeof all);
    return 0;
}

int dataload_get_stats(dataload *handle, dataload_stats *stats)
{
    int r = handle_enter(handle);
    if (r < 0)
        return r;
    if (stats->size < sizeof stats->size)
        return handle_fail(handle, -EINVAL, "dataload_stats: set its size member first");
    dataload_stats all = handle->meter.totals;
    if (handle->waiting_since)
        all.wait_ns += (uint64_t)(handle_now() - handle->waiting_since);
    if (handle->attached)
        all.elapsed_ns = (uint64_t)(handle_now() - handle->meter.attached_at);
    for (uint32_t i = 0; i < handle->queued; i++)
        all.ready += handle->queue[(handle->queue_at + i) % CLIENT_QUEUE_MAX].code == 0;
    for (const struct mapping *m = handle->old; m; m = m->next)
        all.held += m->held;
    if (handle->mapping)
        all.held += handle->mapping->held;
    give(stats, stats->size, &all, sizeof all);
    return 0;
}
