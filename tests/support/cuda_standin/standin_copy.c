/* Copies, fills and callbacks: operations of streams. */
#include <string.h>

#include "standin_memory.h"
#include "standin_stream.h"

struct copy {
    dlp_cu_pointer to, from; /* on the GPU, where the host's is NULL */
    void *host_to;
    const void *host_from;
};

/* Both ends, or NULL where the GPU may not go. Unmapping waits for the streams, so what is found
 * stays as long as the copy runs. */
static dlp_cu_result copy(struct si_op *op, bool dead)
{
    const struct copy *copy = (const struct copy *)op->data;
    if (dead)
        return 0;
    pthread_mutex_lock(&si_lock);
    void *to = copy->host_to ? copy->host_to : si_bytes(copy->to, op->bytes, true, op->context);
    const void *from =
        copy->host_from ? copy->host_from : si_bytes(copy->from, op->bytes, false, op->context);
    pthread_mutex_unlock(&si_lock);
    if (!to || !from)
        return DLP_CU_ILLEGAL_ADDRESS;
    memcpy(to, from, op->bytes);
    return 0;
}

static dlp_cu_result queue(const char *function, const char *name, const struct copy *what,
                           size_t size, dlp_cu_stream handle)
{
    struct si_stream *stream = si_stream_of(handle);
    const void *host = what->host_to ? what->host_to : what->host_from;
    if (!stream)
        return DLP_CU_INVALID_HANDLE;
    if ((what->to && !si_in_bounds(what->to, size, stream->context)) ||
        (what->from && !si_in_bounds(what->from, size, stream->context)) ||
        (!what->to && !what->host_to) || (!what->from && !what->host_from))
        return DLP_CU_INVALID_VALUE;
    bool pageable = host && !si_is_pinned(host, size);
    if (pageable && stream->capture) {
        stream->capture = DLP_CU_CAPTURE_INVALIDATED;
        return DLP_CU_STREAM_CAPTURE_UNSUPPORTED;
    }
    struct si_op *op = si_op_new(name, sizeof *what, copy);
    memcpy(op->data, what, sizeof *what);
    op->bytes = size;
    si_stream_queue(stream, op);
    return pageable ? si_stream_wait(stream, function) : 0;
}

dlp_cu_result cuMemcpyHtoDAsync_v2(dlp_cu_pointer to, const void *from, size_t size,
                                   dlp_cu_stream stream)
{
    SI_ENTER(SI_IN_CONTEXT);
    const struct copy what = {.to = to, .host_from = from};
    return queue(__func__, "copy to the GPU", &what, size, stream);
}

dlp_cu_result cuMemcpyDtoHAsync_v2(void *to, dlp_cu_pointer from, size_t size, dlp_cu_stream stream)
{
    SI_ENTER(SI_IN_CONTEXT);
    const struct copy what = {.host_to = to, .from = from};
    return queue(__func__, "copy to the host", &what, size, stream);
}

dlp_cu_result cuMemcpyDtoDAsync_v2(dlp_cu_pointer to, dlp_cu_pointer from, size_t size,
                                   dlp_cu_stream stream)
{
    SI_ENTER(SI_IN_CONTEXT);
    const struct copy what = {.to = to, .from = from};
    return queue(__func__, "copy on the GPU", &what, size, stream);
}

struct fill {
    dlp_cu_pointer at;
    size_t size;
    unsigned char value;
};

static dlp_cu_result fill(struct si_op *op, bool dead)
{
    const struct fill *fill = (const struct fill *)op->data;
    if (dead)
        return 0;
    pthread_mutex_lock(&si_lock);
    void *to = si_bytes(fill->at, fill->size, true, op->context);
    pthread_mutex_unlock(&si_lock);
    if (!to)
        return DLP_CU_ILLEGAL_ADDRESS;
    memset(to, fill->value, fill->size);
    return 0;
}

dlp_cu_result cuMemsetD8Async(dlp_cu_pointer at, unsigned char value, size_t size,
                              dlp_cu_stream handle)
{
    SI_ENTER(SI_IN_CONTEXT);
    struct si_stream *stream = si_stream_of(handle);
    const struct fill what = {at, size, value};
    if (!stream)
        return DLP_CU_INVALID_HANDLE;
    if (!si_in_bounds(at, size, stream->context))
        return DLP_CU_INVALID_VALUE;
    struct si_op *op = si_op_new("fill on the GPU", sizeof what, fill);
    memcpy(op->data, &what, sizeof what);
    si_stream_queue(stream, op);
    return 0;
}

struct callback {
    dlp_cu_host_function function;
    void *data;
};

static dlp_cu_result call_back(struct si_op *op, bool dead)
{
    const struct callback *callback = (const struct callback *)op->data;
    if (dead)
        return 0;
    si_in_callback(true);
    callback->function(callback->data);
    si_in_callback(false);
    return 0;
}

dlp_cu_result cuLaunchHostFunc(dlp_cu_stream handle, dlp_cu_host_function function, void *data)
{
    SI_ENTER(SI_IN_CONTEXT);
    struct si_stream *stream = si_stream_of(handle);
    const struct callback callback = {function, data};
    if (!stream)
        return DLP_CU_INVALID_HANDLE;
    if (!function)
        return DLP_CU_INVALID_VALUE;
    struct si_op *op = si_op_new("callback", sizeof callback, call_back);
    memcpy(op->data, &callback, sizeof callback);
    si_stream_queue(stream, op);
    return 0;
}
