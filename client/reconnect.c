#include <errno.h>
#include <string.h>

#include "client/client_parts.h"
#include "proto/errors.h"

#define RETRY_NS (CLIENT_SECOND / 10)

/* An arena of which batches are still held stays until the last of them is released. */
static void retire_mapping(struct dataload *handle)
{
    struct mapping *mapping = handle->mapping;
    handle->mapping = NULL;
    if (!mapping)
        return;
    mapping->lost = true;
    if (!mapping->held && !mapping->given) {
        mapping_free(mapping);
        return;
    }
    mapping->next = handle->old;
    handle->old = mapping;
}

static void lose(struct dataload *handle)
{
    bool streaming = handle->phase == PHASE_STREAM;
    int64_t now = handle_now();
    take_drop(handle);
    retire_mapping(handle);
    handle->phase = PHASE_LOST;
    handle->awaited = handle->offer = 0;
    handle->renewed = false;
    handle->seek.awaited = false;
    handle->retry_at = now;
    if (!streaming) {
        handle->retry_at += RETRY_NS;
        return;
    }
    handle->report[0] = '\0';
    handle->deadline = now + handle->options.reconnect_ms * (CLIENT_SECOND / 1000);
}

/* Nothing is ours yet: the attach is begun anew, but not for ever, as the daemon may end by it. */
static void attach_anew(struct dataload *handle)
{
    int64_t now = handle_now();
    if (!handle->anew_until)
        handle->anew_until = now + handle->options.reconnect_ms * (CLIENT_SECOND / 1000);
    if (now >= handle->anew_until) {
        handle_end(handle, -ECONNRESET, "dataloadd at %s closed the connection during the attach",
                   handle->peer);
        return;
    }
    lose(handle);
    handle->deadline = handle->anew_until;
}

void reconnect_lost(struct dataload *handle)
{
    request_close(handle);
    if (!handle->attached)
        attach_anew(handle);
    else if (handle->detaching)
        handle_end(handle, -ECONNRESET, "detached");
    else if (take_final_queued(handle))
        take_end(handle);
    else if (handle->options.reconnect_ms == 0)
        handle_end(handle, -ECONNRESET,
                   "dataloadd has gone (%s was closed): start it and attach again; with "
                   "reconnect_ms > 0 the library does so by itself",
                   handle->peer);
    else
        lose(handle);
}

void reconnect_give_up(struct dataload *handle)
{
    char why[DLP_TEXT_MAX + 1];
    strcpy(why, *handle->error ? handle->error : handle->report);
    handle_end(handle, -ECONNRESET,
               "dataloadd has gone and did not come back within %d ms: start it and attach again "
               "(%.700s)",
               handle->options.reconnect_ms, *why ? why : "no answer to the attach");
}

void reconnect_step(struct dataload *handle)
{
    int64_t now = handle_now();
    if (now < handle->retry_at && now < handle->deadline)
        return;
    handle->retry_at = now + RETRY_NS;
    if (attach_start(handle) == 0)
        return;
    if (now >= handle->deadline)
        reconnect_give_up(handle);
}

/* Refusals that a restart brings about and that go away by themselves. */
static bool passes(unsigned code)
{
    return code == DLP_ERROR_RANK_TAKEN || code == DLP_ERROR_NO_MEMORY ||
           code == DLP_ERROR_TOO_MANY || code == DLP_ERROR_GPU;
}

void reconnect_later(struct dataload *handle, const char *text)
{
    strcpy(handle->report, text);
    request_close(handle);
    lose(handle);
}

void reconnect_refused(struct dataload *handle, unsigned code, const char *text)
{
    if (!passes(code)) {
        handle_end(handle, -dlp_error_errno(code), "dataloadd has come back, but: %s", text);
        return;
    }
    reconnect_later(handle, text);
}

void reconnect_check(struct dataload *handle, const Dlp__AttachReply *reply)
{
    bool same = reply->rank == handle->rank && reply->world == handle->world &&
                reply->batch == handle->batch && reply->steps == handle->steps &&
                reply->first_steps == handle->first_steps &&
                strcmp(reply->plan_id, handle->plan_id) == 0;
    bool placed = reply->epoch == handle->asked.epoch && reply->step == handle->asked.step;
    if (!same || !placed) {
        handle_end(handle, -ESTALE,
                   "dataloadd has come back with another %s (epoch %llu, step %llu, plan %s): "
                   "attach again",
                   same ? "position" : "plan", (unsigned long long)reply->epoch,
                   (unsigned long long)reply->step, reply->plan_id);
        return;
    }
    handle->slots = reply->slots;
    handle->skips = reply->skips;
    handle->members = reply->members;
    strcpy(handle->token, reply->token);
    handle->arriving = take_arriving(handle, handle->asked);
    handle->meter.totals.reconnects++;
    /* The caller may have chosen another epoch in the meantime. */
    struct position at = take_next(handle);
    if (at.epoch != handle->asked.epoch || at.step != handle->asked.step)
        seek_send(handle, handle->asked, true);
}
