#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "client/client_parts.h"
#include "client/give.h"
#include "proto/errors.h"
#include "proto/frames.h"

#define LOOK_NS (CLIENT_SECOND / 1000) /* at work behind which batches were given back */

uint64_t request_send(struct dataload *handle, Dlp__Envelope *env)
{
    env->id = ++handle->last_id;
    int r = dlp_channel_send(handle->channel, env, NULL, 0);
    /* A peer that has gone may have left its reason in our receive queue: reading finds both. */
    if (r < 0 && r != -EPIPE && handle->phase != PHASE_ENDED)
        handle_end(handle, r, "cannot send to dataloadd at %s: %s", handle->peer, strerror(-r));
    return env->id;
}

void request_watch(struct dataload *handle)
{
    handle->epoll_events = EPOLLIN;
    struct epoll_event event = {.events = EPOLLIN};
    int fd = dlp_channel_fd(handle->channel);
    if (epoll_ctl(handle->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        handle_end(handle, -errno, "cannot watch the connection: %s", strerror(errno));
}

void request_close(struct dataload *handle)
{
    /* A forked child may hold the socket open, and then closing it does not end the watch. */
    epoll_ctl(handle->epoll, EPOLL_CTL_DEL, dlp_channel_fd(handle->channel), NULL);
    dlp_channel_free(handle->channel);
    handle->channel = NULL;
}

static void error_message(struct dataload *handle, uint64_t id, const Dlp__Error *error)
{
    char text[DLP_TEXT_MAX + 1];
    int code = -dlp_error_errno(error->code);
    dlp_printable(*error->text ? error->text : dlp_error_text(error->code), text, sizeof text);
    if (id != 0 && id == handle->awaited && handle->phase != PHASE_STREAM)
        attach_refused(handle, error->code, text);
    else if (id != 0 && id == handle->awaited && handle->seek.awaited)
        seek_refused(handle, code, text);
    else if (id != 0 && id == handle->awaited)
        handle_end(handle, code, "%s", text);
    else if (id == 0 && handle->phase == PHASE_STREAM)
        take_final(handle, code, text);
    else if (id != 0 && handle->attached && handle->phase == PHASE_GIVE)
        reconnect_later(handle, text); /* it has waited for the next shards for too long */
    else if (id != 0 && error->code != DLP_ERROR_UNSUPPORTED)
        handle_end(handle, code, "%s", text);
    else if (id == 0 && handle->phase != PHASE_STREAM)
        attach_refused(handle, error->code, text);
}

static bool attaching(const struct dataload *handle)
{
    return handle->phase >= PHASE_HELLO && handle->phase <= PHASE_ATTACH;
}

/* A message of which the phase tells whether it may come. */
static bool expected(struct dataload *handle, const Dlp__Envelope *env, enum phase phase,
                     const char *name)
{
    if (handle->phase == phase && (!attaching(handle) || env->id == handle->awaited))
        return true;
    handle_protocol(handle, "%s was not asked for", name);
    return false;
}

/* Of an attach that has come true, whose memory the daemon may not have passed yet. */
static bool checked(const struct dataload *handle, const Dlp__Envelope *env)
{
    return handle->phase == PHASE_STREAM && handle->offer && env->id == handle->offer;
}

static void dispatch(struct dataload *handle, const Dlp__Envelope *env, int *fds, size_t nfds)
{
    switch (env->body_case) {
    case DLP__ENVELOPE__BODY_ERROR:
        error_message(handle, env->id, env->error);
        break;
    case DLP__ENVELOPE__BODY_HELLO_REPLY:
        if (expected(handle, env, PHASE_HELLO, "HelloReply"))
            attach_hello(handle, env->hello_reply);
        break;
    case DLP__ENVELOPE__BODY_GIVE_FEED_REPLY:
        if (expected(handle, env, PHASE_GIVE, "GiveFeedReply"))
            give_named(handle, env->give_feed_reply);
        break;
    case DLP__ENVELOPE__BODY_GIVE_FILES_REPLY:
        if (expected(handle, env, PHASE_GIVE, "GiveFilesReply"))
            give_taken(handle, env->give_files_reply);
        break;
    case DLP__ENVELOPE__BODY_ATTACH_PROGRESS:
        if (!checked(handle, env) &&
            expected(handle, env, handle->phase == PHASE_GIVE ? PHASE_GIVE : PHASE_ATTACH,
                     "AttachProgress"))
            attach_report(handle, env->attach_progress->text, env->attach_progress->done,
                          env->attach_progress->total);
        break;
    case DLP__ENVELOPE__BODY_ATTACH_REPLY:
        if (checked(handle, env))
            attach_reply_again(handle, env->attach_reply, fds, nfds);
        else if (expected(handle, env, PHASE_ATTACH, "AttachReply"))
            attach_reply(handle, env->attach_reply, fds, nfds);
        break;
    case DLP__ENVELOPE__BODY_BATCH_READY:
        if (expected(handle, env, PHASE_STREAM, "BatchReady"))
            take_ready(handle, env->batch_ready);
        break;
    case DLP__ENVELOPE__BODY_BATCH_FAILED:
        if (expected(handle, env, PHASE_STREAM, "BatchFailed"))
            take_failed(handle, env->batch_failed);
        break;
    case DLP__ENVELOPE__BODY_MEMBERS:
        handle->members = env->members->count;
        break;
    case DLP__ENVELOPE__BODY_SEEK_REPLY:
        if (handle->seek.awaited && env->id == handle->awaited)
            seek_done(handle);
        break;
    case DLP__ENVELOPE__BODY_DETACH_REPLY:
        if (env->id == handle->awaited)
            handle->awaited = 0;
        break;
    case DLP__ENVELOPE__BODY__NOT_SET:
        break; /* of a newer daemon */
    default:
        handle_protocol(handle, "message %d was not asked for", (int)env->body_case);
    }
}

/* Takes in the frames that have been read. */
static void take_frames(struct dataload *handle)
{
    while (handle->channel && handle->phase != PHASE_ENDED) {
        int fds[DLP_FDS_MAX], err;
        size_t nfds;
        Dlp__Envelope *env = dlp_channel_next(handle->channel, fds, &nfds, &err);
        if (err)
            handle_protocol(handle, "malformed message (%s)", strerror(-err));
        if (!env)
            return;
        if (nfds && env->body_case != DLP__ENVELOPE__BODY_ATTACH_REPLY)
            handle_protocol(handle, "descriptors on message %d", (int)env->body_case);
        else
            dispatch(handle, env, fds, nfds);
        dlp_frame_free(env);
        while (nfds)
            close(fds[--nfds]);
    }
}

static void receive_failed(struct dataload *handle, int err)
{
    struct rlimit limit = {0};
    if (err == -EMFILE) {
        getrlimit(RLIMIT_NOFILE, &limit);
        handle_end(handle, err,
                   "the descriptor of the batch memory was cut off (MSG_CTRUNC): this process may "
                   "open %llu files; raise ulimit -n",
                   (unsigned long long)limit.rlim_cur);
    } else if (err == -EPROTO) {
        handle_protocol(handle, "descriptors that belong to no message");
    } else {
        handle_end(handle, err, "cannot read from dataloadd at %s: %s", handle->peer,
                   strerror(-err));
    }
}

/* Reads once; true when there may be more. */
static bool receive_some(struct dataload *handle)
{
    take_frames(handle);
    if (!handle->channel || handle->phase == PHASE_ENDED)
        return false;
    long size = dlp_channel_receive(handle->channel);
    if (size == 0 || size == -ECONNRESET)
        reconnect_lost(handle);
    else if (size < 0 && size != -EAGAIN)
        receive_failed(handle, (int)size);
    return size > 0;
}

/* When the caller has something to do though no byte comes: at once, at a time, or never (0). */
static int64_t wake_at(const struct dataload *handle)
{
    if (handle->phase == PHASE_ENDED || take_due(handle))
        return 1;
    if (handle->given)
        return handle_now() + LOOK_NS;
    if (handle->phase == PHASE_LOST)
        return handle->retry_at < handle->deadline ? handle->retry_at : handle->deadline;
    return handle->phase == PHASE_STREAM || handle->deadline == CLIENT_NEVER ? 0 : handle->deadline;
}

/* A timer costs more than all else about a batch: only for who polls dataload_fd. */
static void set_timer(struct dataload *handle, int64_t at)
{
    if (!handle->polled || at == handle->timer_at)
        return;
    struct itimerspec spec = {
        .it_value = {.tv_sec = at / CLIENT_SECOND, .tv_nsec = at % CLIENT_SECOND}};
    timerfd_settime(handle->timer, TFD_TIMER_ABSTIME, &spec, NULL);
    handle->timer_at = at;
}

static void set_events(struct dataload *handle)
{
    if (!handle->channel)
        return;
    struct epoll_event event = {.events = EPOLLIN};
    if (handle->phase == PHASE_ENDED)
        event.events = 0;
    else if (dlp_channel_unsent(handle->channel))
        event.events |= EPOLLOUT;
    if (event.events == handle->epoll_events)
        return;
    epoll_ctl(handle->epoll, EPOLL_CTL_MOD, dlp_channel_fd(handle->channel), &event);
    handle->epoll_events = event.events;
}

void request_settle(struct dataload *handle)
{
    take_frames(handle);
    set_timer(handle, wake_at(handle));
    set_events(handle);
}

void request_pump(struct dataload *handle)
{
    if (handle->phase == PHASE_LOST)
        reconnect_step(handle);
    if (handle->channel && dlp_channel_unsent(handle->channel))
        dlp_channel_flush(handle->channel);
    while (receive_some(handle))
        ;
    release_poll(handle);
    if (attaching(handle) && handle_now() >= handle->deadline)
        attach_overdue(handle);
    request_settle(handle);
}

int request_wait(struct dataload *handle, int64_t deadline)
{
    struct pollfd ready = {.fd = handle->epoll, .events = POLLIN};
    struct timespec left, *timeout = NULL;
    int64_t wake = wake_at(handle);
    if (wake && wake < deadline)
        deadline = wake;
    if (deadline != CLIENT_NEVER) {
        int64_t ns = deadline - handle_now();
        ns = ns > 0 ? ns : 0;
        left = (struct timespec){.tv_sec = ns / CLIENT_SECOND, .tv_nsec = ns % CLIENT_SECOND};
        timeout = &left;
    }
    return ppoll(&ready, 1, timeout, NULL) < 0 && errno == EINTR ? -EINTR : 0;
}

int request_reply(struct dataload *handle, int64_t deadline)
{
    for (;;) {
        request_pump(handle);
        if (!handle->awaited || handle->phase != PHASE_STREAM || take_final_queued(handle))
            return 0;
        if (handle_now() >= deadline)
            return -ETIMEDOUT;
        int r = request_wait(handle, deadline);
        if (r < 0)
            return r;
    }
}
