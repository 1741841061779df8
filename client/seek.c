#include <errno.h>
#include <string.h>

#include "client/client_parts.h"

typedef unsigned long long ull;

void seek_send(struct dataload *handle, struct position from, bool begun)
{
    Dlp__Seek seek = DLP__SEEK__INIT;
    seek.epoch = handle->seek.epoch = take_next(handle).epoch;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_SEEK;
    env.seek = &seek;
    handle->seek.from = from;
    handle->seek.begun = begun;
    handle->seek.awaited = true;
    handle->awaited = request_send(handle, &env);
}

static void end(struct dataload *handle)
{
    handle->seek.awaited = false;
    handle->awaited = 0;
}

void seek_done(struct dataload *handle)
{
    struct position there = {handle->seek.epoch, 0};
    end(handle);
    if (take_final_queued(handle))
        return;
    take_drop(handle);
    handle->arriving = take_arriving(handle, there);
    /* The caller may have chosen yet another epoch in the meantime. */
    if (take_next(handle).epoch != there.epoch)
        seek_send(handle, there, true);
}

void seek_refused(struct dataload *handle, int code, const char *text)
{
    end(handle);
    handle->next = handle->seek.from;
    handle->begun = handle->seek.begun;
    handle->seek.refused = code;
    strcpy(handle->report, text);
}

int seek_tell_refusal(struct dataload *handle)
{
    int code = handle->seek.refused;
    handle->seek.refused = 0;
    return handle_fail(handle, code, "%s", handle->report);
}

/* 0, or the error that has ended the attachment: now, or after the batches still queued. */
static int alive(struct dataload *handle)
{
    if (take_final_queued(handle))
        take_end(handle);
    return handle->phase == PHASE_ENDED ? handle_ended(handle) : 0;
}

static int choose(struct dataload *handle, uint64_t epoch)
{
    int r = alive(handle);
    if (r < 0)
        return r;
    struct position from = handle->next;
    bool begun = handle->begun, never = handle->steps == 0 && handle->first_steps == 0;
    handle->next = (struct position){epoch, 0};
    handle->begun = true;
    if (handle->phase != PHASE_STREAM || never)
        return 0; /* the attach that is under way, or its reply, tells the daemon */
    if (!handle->seek.awaited)
        seek_send(handle, from, begun);
    int64_t wait = handle->options.timeout_ms * (CLIENT_SECOND / 1000);
    r = request_reply(handle, wait < 0 ? CLIENT_NEVER : handle_now() + wait);
    if (r < 0)
        return handle_fail(handle, r, "epoch %llu is asked for, but dataloadd has not answered yet",
                           (ull)epoch);
    r = alive(handle);
    return r == 0 && handle->seek.refused ? seek_tell_refusal(handle) : r;
}

int dataload_set_epoch(dataload *handle, uint64_t epoch)
{
    int r = handle_enter(handle);
    if (r < 0)
        return r;
    if (epoch > DLP_EPOCH_MAX)
        return handle_fail(handle, -EINVAL, "epoch %llu is not within 0 .. %u", (ull)epoch,
                           DLP_EPOCH_MAX);
    request_pump(handle);
    struct position at = take_next(handle);
    bool there = handle->next.epoch == epoch && (handle->next.step == 0 || !handle->begun);
    if (!there && at.epoch == epoch && at.step == 0) {
        handle->next = at; /* the end of the epoch before is passed over */
        there = true;
    }
    if (!there || handle->phase == PHASE_ENDED)
        r = choose(handle, epoch);
    request_settle(handle);
    return r;
}
