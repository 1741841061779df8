#include "standin_stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct si_stream *streams;

struct si_stream *si_stream_of(dlp_cu_stream handle)
{
    struct si_stream *stream = streams;
    while (stream && stream != (struct si_stream *)handle)
        stream = stream->next;
    return stream && stream->context == si_current() && !stream->destroyed ? stream : NULL;
}

struct si_op *si_op_new(const char *name, size_t size,
                        dlp_cu_result (*run)(struct si_op *op, bool dead))
{
    struct si_op *op = calloc(1, sizeof *op + size);
    if (!op)
        si_abort("out of memory");
    op->name = name;
    op->run = run;
    op->later = si_later();
    return op;
}

void si_stream_queue(struct si_stream *stream, struct si_op *op)
{
    op->context = stream->context;
    if (stream->capture) {
        op->run(op, true);
        free(op);
        return;
    }
    *stream->last = op;
    stream->last = &op->next;
    pthread_cond_broadcast(&si_progress);
}

bool si_op_sleep(const struct si_op *op, unsigned slice_us)
{
    pthread_mutex_lock(&si_lock);
    si_wait(op->name, si_now(), slice_us);
    bool alive = !op->context->sticky;
    pthread_mutex_unlock(&si_lock);
    return alive;
}

static void take_time(struct si_stream *stream, const struct si_op *op)
{
    unsigned us = si_knobs.op_us;
    if (si_knobs.mb_per_s)
        us += (unsigned)(op->bytes / si_knobs.mb_per_s);
    if (si_knobs.jitter)
        us += (unsigned)rand_r(&stream->random) % 200;
    if (us)
        usleep(us);
    while (op->later & SI_FAULT_HANG)
        usleep(100000);
}

/* Runs one operation, without the lock. */
static void run(struct si_stream *stream, struct si_op *op)
{
    bool dead = op->context->sticky;
    dlp_cu_result code;
    pthread_mutex_unlock(&si_lock);
    if (!dead)
        take_time(stream, op);
    code = op->run(op, dead || op->later);
    pthread_mutex_lock(&si_lock);
    if (op->later & SI_FAULT_LATER)
        code = op->later & ~SI_FAULT_LATER;
    if (code && !op->context->sticky)
        op->context->sticky = code;
}

static void unlink_stream(const struct si_stream *stream)
{
    for (struct si_stream **at = &streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            return;
        }
}

static void *work(void *argument)
{
    struct si_stream *stream = argument;
    pthread_mutex_lock(&si_lock);
    for (;;) {
        struct si_op *op = stream->first;
        if (!op && stream->destroyed)
            break;
        if (!op) {
            pthread_cond_wait(&si_progress, &si_lock);
            continue;
        }
        stream->first = op->next;
        if (!op->next)
            stream->last = &stream->first;
        stream->running = op;
        run(stream, op);
        stream->running = NULL;
        free(op);
        pthread_cond_broadcast(&si_progress);
    }
    unlink_stream(stream);
    pthread_mutex_unlock(&si_lock);
    free(stream);
    return NULL;
}

static bool busy(const struct si_stream *stream)
{
    return stream->first || stream->running;
}

dlp_cu_result si_stream_wait(struct si_stream *stream, const char *function)
{
    double since = si_now();
    while (busy(stream) && !stream->context->sticky)
        si_wait(function, since, 1000000);
    return stream->context->sticky;
}

static bool any_busy(void)
{
    for (const struct si_stream *stream = streams; stream; stream = stream->next)
        if (busy(stream) && !stream->context->sticky)
            return true;
    return false;
}

void si_streams_drain(const char *function)
{
    double since = si_now();
    while (any_busy())
        si_wait(function, since, 1000000);
}

void si_streams_dump(void)
{
    for (const struct si_stream *stream = streams; stream; stream = stream->next) {
        si_report("stream %p of GPU %u%s: runs %s", (const void *)stream, stream->context->device,
                  stream->destroyed ? ", destroyed" : "",
                  stream->running ? stream->running->name : "nothing");
        for (const struct si_op *op = stream->first; op; op = op->next)
            si_report("  then %s, %zu bytes", op->name, op->bytes);
    }
}

void si_leaks_streams(const struct si_context *context)
{
    unsigned n = 0;
    for (const struct si_stream *stream = streams; stream; stream = stream->next)
        n += stream->context == context && !stream->destroyed;
    if (n)
        si_report("leak: %u streams of GPU %u", n, context->device);
    si_leaks_events(context);
}

dlp_cu_result cuStreamCreateWithPriority(dlp_cu_stream *handle, unsigned flags, int priority)
{
    (void)priority;
    SI_ENTER(SI_IN_CONTEXT);
    if (flags & ~(unsigned)DLP_CU_STREAM_NON_BLOCKING)
        return DLP_CU_INVALID_VALUE;
    struct si_stream *stream = calloc(1, sizeof *stream);
    pthread_t thread;
    if (!stream)
        si_abort("out of memory");
    stream->context = si_current();
    stream->last = &stream->first;
    stream->random = si_knobs.jitter;
    stream->next = streams;
    streams = stream;
    if (pthread_create(&thread, NULL, work, stream) != 0)
        si_abort("no thread for a stream");
    pthread_detach(thread);
    *handle = (dlp_cu_stream)stream;
    return 0;
}

/* Returns at once; the stream goes when its work is done. */
dlp_cu_result cuStreamDestroy_v2(dlp_cu_stream handle)
{
    SI_ENTER(SI_IN_CONTEXT);
    struct si_stream *stream = si_stream_of(handle);
    if (!stream)
        return DLP_CU_INVALID_HANDLE;
    stream->destroyed = true;
    pthread_cond_broadcast(&si_progress);
    return 0;
}

dlp_cu_result cuStreamQuery(dlp_cu_stream handle)
{
    SI_ENTER(SI_IN_CONTEXT);
    const struct si_stream *stream = si_stream_of(handle);
    if (!stream)
        return DLP_CU_INVALID_HANDLE;
    if (stream->capture)
        return DLP_CU_STREAM_CAPTURE_UNSUPPORTED;
    return busy(stream) ? DLP_CU_NOT_READY : 0;
}

dlp_cu_result cuStreamSynchronize(dlp_cu_stream handle)
{
    SI_ENTER(SI_IN_CONTEXT);
    struct si_stream *stream = si_stream_of(handle);
    if (!stream)
        return DLP_CU_INVALID_HANDLE;
    if (stream->capture) {
        stream->capture = DLP_CU_CAPTURE_INVALIDATED;
        return DLP_CU_STREAM_CAPTURE_UNSUPPORTED;
    }
    return si_stream_wait(stream, __func__);
}

dlp_cu_result cuStreamIsCapturing(dlp_cu_stream handle, dlp_cu_capture *status)
{
    SI_ENTER(SI_IN_CONTEXT);
    const struct si_stream *stream = si_stream_of(handle);
    if (!stream)
        return DLP_CU_INVALID_HANDLE;
    *status = stream->capture;
    return 0;
}

dlp_cu_result cuStreamGetCtx(dlp_cu_stream handle, dlp_cu_context *context)
{
    SI_ENTER(SI_IN_CONTEXT);
    const struct si_stream *stream = si_stream_of(handle);
    if (!stream)
        return DLP_CU_INVALID_HANDLE;
    *context = (dlp_cu_context)stream->context;
    return 0;
}

/* A capture that notes nothing: what is queued meanwhile never runs, as nobody launches graphs
 * here. */
dlp_cu_result cuStreamBeginCapture_v2(dlp_cu_stream handle, dlp_cu_capture_mode mode)
{
    (void)mode;
    SI_ENTER(SI_IN_CONTEXT);
    struct si_stream *stream = si_stream_of(handle);
    if (!stream)
        return DLP_CU_INVALID_HANDLE;
    if (stream->capture)
        return DLP_CU_INVALID_VALUE;
    stream->capture = DLP_CU_CAPTURE_ACTIVE;
    return 0;
}

static int a_graph;

dlp_cu_result cuStreamEndCapture(dlp_cu_stream handle, dlp_cu_graph *graph)
{
    SI_ENTER(SI_IN_CONTEXT);
    struct si_stream *stream = si_stream_of(handle);
    if (!stream)
        return DLP_CU_INVALID_HANDLE;
    if (!stream->capture)
        return DLP_CU_INVALID_VALUE;
    bool broken = stream->capture == DLP_CU_CAPTURE_INVALIDATED;
    stream->capture = DLP_CU_CAPTURE_NONE;
    *graph = broken ? NULL : (dlp_cu_graph)(void *)&a_graph;
    return broken ? DLP_CU_STREAM_CAPTURE_INVALIDATED : 0;
}

dlp_cu_result cuGraphDestroy(dlp_cu_graph graph)
{
    SI_ENTER(SI_INITIALISED);
    return graph == (dlp_cu_graph)(void *)&a_graph ? 0 : DLP_CU_INVALID_VALUE;
}
