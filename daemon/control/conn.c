#include "control/conn.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "control/bad_reply.h"
#include "control/dispatch.h"
#include "control/inquiry.h"
#include "control/lease.h"
#include "control/page_reply.h"
#include "control/trace_reply.h"
#include "proto/channel.h"
#include "proto/frames.h"

#define FRAMES_A_WAKE 64 /* then others get their turn */
#define PART_FRAMES 16   /* as many of them as a part of a long answer counts for */
/* Not 0: a timer of 0 that is started in its own callback runs before libuv looks at others. */
#define NEXT_WAKE_MS 1
#define PROCESS_ENDED "process ended"

struct conn {
    struct conn *next, **link; /* in control->conns */
    struct conn *next_talking;
    bool talks;   /* in control->talking */
    bool stuffed; /* it had to send before it goes on with what is in its buffer, or owed */
    struct control *control;
    struct session *session;
    struct dlp_channel *channel;
    struct lease *lease;
    uv_poll_t poll;
    int events;       /* that are polled for */
    uv_timer_t timer; /* until hello; then for what is left to do outside of callbacks */
    pid_t pid;
    int handles;        /* open; the last one closed frees */
    const char *broken; /* why the connection is to be closed; NULL: it works */
    bool deaf;          /* what it says is not read any more: it broke the rules */
    bool closing;       /* conn_close was called */
};

static const struct dlp_channel_limits limits = {.receive_max = DLP_FRAME_TO_DAEMON_MAX,
                                                 .unpack_max = DLP_UNPACK_TO_DAEMON_MAX,
                                                 .take_fds = false};

static void on_timer(uv_timer_t *timer);
static void on_poll(uv_poll_t *poll, int status, int events);

static void stop_talking(struct conn *conn)
{
    struct conn **link = &conn->control->talking;
    while (conn->talks && *link != conn)
        link = &(*link)->next_talking;
    if (conn->talks)
        *link = conn->next_talking;
    conn->talks = false;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct conn *conn = handle->data;
    if (--conn->handles)
        return;
    dlp_channel_free(conn->channel);
    free(conn);
}

void conn_close(struct conn *conn, const char *why)
{
    if (conn->closing)
        return;
    conn->closing = true;
    dlp_channel_flush(conn->channel);
    stop_talking(conn);
    *conn->link = conn->next;
    if (conn->next)
        conn->next->link = conn->link;
    if (--conn->control->nconns == 0)
        conn->control->deserted = clock_ns();
    lease_free(conn->lease);
    uv_close((uv_handle_t *)&conn->poll, on_handle_closed);
    uv_close((uv_handle_t *)&conn->timer, on_handle_closed);
    session_end(conn->session, why);
}

/* The socket has ended, which is often the first that is seen of a process's end. */
static const char *gone(const struct conn *conn)
{
    return lease_over(conn->lease) ? PROCESS_ENDED : "connection closed";
}

/* From anywhere, also from inside a call of the session: on_timer closes. */
static void close_soon(struct conn *conn, const char *why)
{
    if (conn->broken || conn->closing)
        return;
    conn->broken = why;
    uv_timer_start(&conn->timer, on_timer, 0, 0);
}

/* What is unsent decides whether we read; unread frames of ours wait for on_timer. */
static void update_poll(struct conn *conn)
{
    size_t unsent = dlp_channel_unsent(conn->channel);
    int events = UV_DISCONNECT;
    if (unsent <= DLP_UNSENT_MAX)
        events |= UV_READABLE;
    if (unsent)
        events |= UV_WRITABLE;
    if (conn->closing || conn->broken)
        return;
    if (conn->stuffed && unsent <= DLP_UNSENT_MAX) {
        conn->stuffed = false;
        uv_timer_start(&conn->timer, on_timer, NEXT_WAKE_MS, 0);
    }
    if (events == conn->events)
        return;
    conn->events = events;
    uv_poll_start(&conn->poll, events, on_poll);
}

static void send_failed(struct conn *conn, int rc)
{
    if (rc != -EPIPE)
        log_warning("pid %d: a message cannot be sent: %s", (int)conn->pid, strerror(-rc));
    close_soon(conn, gone(conn));
}

static void flush(struct conn *conn)
{
    int rc = dlp_channel_flush(conn->channel);
    if (rc < 0)
        send_failed(conn, rc);
}

static void flush_all(uv_prepare_t *prepare)
{
    struct control *control = prepare->data;
    while (control->talking) {
        struct conn *conn = control->talking;
        stop_talking(conn);
        flush(conn);
        update_poll(conn);
    }
    uv_prepare_stop(prepare);
}

/* What is said while the loop works off its news goes out together. */
static void send_frame(void *context, const Dlp__Envelope *env, const int *fds, size_t nfds)
{
    struct conn *conn = context;
    struct control *control = conn->control;
    if (conn->broken || conn->closing)
        return;
    int rc = dlp_channel_queue(conn->channel, env, fds, nfds);
    if (rc < 0)
        send_failed(conn, rc);
    if (rc < 0 || conn->talks)
        return;
    conn->talks = true;
    conn->next_talking = control->talking;
    control->talking = conn;
    uv_prepare_start(&control->flush, flush_all);
}

static void more_to_send(void *context)
{
    struct conn *conn = context;
    if (!conn->broken && !conn->closing)
        uv_timer_start(&conn->timer, on_timer, NEXT_WAKE_MS, 0);
}

static void close_by_session(void *context, const char *why)
{
    close_soon(context, why);
}

static void fill_error(Dlp__Envelope *env, Dlp__Error *error, enum dlp_error code, const char *text)
{
    dlp__error__init(error);
    error->code = code;
    error->text = (char *)text;
    dlp__envelope__init(env);
    env->body_case = DLP__ENVELOPE__BODY_ERROR;
    env->error = error;
}

static void refuse_malformed(struct conn *conn, int err)
{
    const char *text = err == -EMSGSIZE ? "a frame is longer than the 16 KiB that the daemon takes"
                                        : "a frame could not be understood";
    conn->control->malformed++;
    log_notice("pid %d: %s: its connection is closed", (int)conn->pid, text);
    session_refuse(conn->session, 0, DLP_ERROR_MALFORMED, text);
    conn->deaf = true;
    close_soon(conn, "malformed frame");
}

/* One frame. False when there is none. */
static bool step(struct conn *conn)
{
    int err = 0;
    size_t nfds = 0;
    Dlp__Envelope *env = dlp_channel_next(conn->channel, NULL, &nfds, &err);
    if (!env && err)
        refuse_malformed(conn, err);
    if (!env)
        return false;
    bool known = conn->session->state != SESSION_NEW;
    conn->deaf = !dispatch_message(conn->session, env);
    if (conn->deaf)
        close_soon(conn, "refused");
    else if (!known && !conn->broken)
        uv_timer_stop(&conn->timer);
    dlp_frame_free(env);
    return true;
}

static bool send_part(struct conn *conn)
{
    struct session *session = conn->session;
    return bad_reply_continue(session) || page_reply_continue(session) ||
           inquiry_continue(session) || trace_reply_continue(session);
}

static bool is_stuffed(struct conn *conn)
{
    if (dlp_channel_unsent(conn->channel) > DLP_UNSENT_MAX)
        flush(conn);
    return dlp_channel_unsent(conn->channel) > DLP_UNSENT_MAX;
}

static void take_in(struct conn *conn)
{
    for (int frames = 0; frames < FRAMES_A_WAKE;) {
        conn->stuffed = !conn->broken && is_stuffed(conn);
        if (conn->broken || conn->stuffed)
            return;
        bool part = send_part(conn);
        if (!part && !step(conn))
            return;
        frames += part ? PART_FRAMES : 1;
    }
    /* There may be more in the channel's buffer. */
    uv_timer_start(&conn->timer, on_timer, NEXT_WAKE_MS, 0);
}

static void pump(struct conn *conn)
{
    take_in(conn);
    if (!conn->broken)
        flush(conn);
    update_poll(conn);
}

/* Says where the rank stands; all else is nobody's any more. */
static bool counts(const Dlp__Envelope *env)
{
    return env->body_case == DLP__ENVELOPE__BODY_TAKE ||
           env->body_case == DLP__ENVELOPE__BODY_RELEASE ||
           env->body_case == DLP__ENVELOPE__BODY_SEEK;
}

/* One frame of a peer that has gone. False when there is none. */
static bool last_step(struct conn *conn)
{
    int err = 0;
    size_t nfds = 0;
    Dlp__Envelope *env = dlp_channel_next(conn->channel, NULL, &nfds, &err);
    if (!env && err)
        refuse_malformed(conn, err);
    if (!env)
        return false;
    if (counts(env))
        conn->deaf = !dispatch_message(conn->session, env);
    dlp_frame_free(env);
    return true;
}

/* What was said before the end still counts: releases say where the rank goes on. A child of the
 * peer may keep sending, so there is an end to it. */
static void end(struct conn *conn, const char *why)
{
    bool more = true;
    conn->broken = why;
    for (int i = 0; more && !conn->deaf && i < FRAMES_A_WAKE; i++) {
        long got = dlp_channel_receive(conn->channel);
        while (!conn->deaf && last_step(conn))
            ;
        more = got > 0 || got == -ENOBUFS;
    }
    conn_close(conn, why);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct conn *conn = poll->data;
    if (status < 0 || dlp_channel_flush(conn->channel) < 0) {
        end(conn, gone(conn));
        return;
    }
    bool stuffed = dlp_channel_unsent(conn->channel) > DLP_UNSENT_MAX;
    if (stuffed && events & UV_DISCONNECT) {
        end(conn, gone(conn));
        return;
    }
    if (!stuffed && events & (UV_READABLE | UV_DISCONNECT)) {
        long got = dlp_channel_receive(conn->channel);
        if (got == 0 || (got < 0 && got != -EAGAIN && got != -ENOBUFS)) {
            end(conn, gone(conn));
            return;
        }
    }
    pump(conn);
}

static void on_timer(uv_timer_t *timer)
{
    struct conn *conn = timer->data;
    if (conn->broken) {
        end(conn, conn->broken);
    } else if (conn->session->state == SESSION_NEW) {
        log_notice("pid %d has said nothing for %d s: its connection is closed", (int)conn->pid,
                   CONN_HELLO_MS / 1000);
        session_refuse(conn->session, 0, DLP_ERROR_BAD_REQUEST, "no Hello came within 10 s");
        conn_close(conn, "silent");
    } else {
        pump(conn);
    }
}

static void on_process_ended(void *context)
{
    struct conn *conn = context;
    end(conn, PROCESS_ENDED);
}

static int start_handles(struct conn *conn, int fd)
{
    uv_loop_t *loop = conn->control->options.loop;
    int rc = uv_poll_init(loop, &conn->poll, fd);
    if (rc)
        return rc;
    uv_timer_init(loop, &conn->timer);
    conn->poll.data = conn->timer.data = conn;
    conn->handles = 2;
    uv_timer_start(&conn->timer, on_timer, CONN_HELLO_MS, 0);
    return 0;
}

static bool does_nothing(const struct session *session)
{
    return (session->state == SESSION_NEW || session->state == SESSION_GREETED) &&
           !session->listing.active && !session->reading.page && !session->inquiry &&
           !session->replays && !session->check && !session->reload_id &&
           !trace_reply_is_for(session);
}

uid_t conn_user(int fd)
{
    struct ucred cred = {.uid = (uid_t)-1};
    socklen_t size = sizeof cred;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size);
    return cred.uid;
}

uint32_t conn_count(const struct control *control, uid_t uid)
{
    uint32_t count = 0;
    for (const struct conn *conn = control->conns; conn; conn = conn->next)
        count += conn->session->peer.uid == uid;
    return count;
}

bool conn_make_room(struct control *control, uid_t uid, bool only_own)
{
    struct conn *oldest = NULL, *own = NULL;
    for (struct conn *conn = control->conns; conn; conn = conn->next) {
        if (!does_nothing(conn->session))
            continue;
        oldest = conn;
        own = conn->session->peer.uid == uid ? conn : own;
    }
    struct conn *victim = own || only_own ? own : oldest;
    if (!victim)
        return false;
    log_notice("pid %d, uid %u: idle, its connection is closed to make room for another",
               (int)victim->pid, victim->session->peer.uid);
    session_refuse(victim->session, 0, DLP_ERROR_TOO_MANY,
                   "no connection is free, and this one did nothing: it was closed");
    conn_close(victim, "idle");
    return true;
}

void conn_turn_away(struct control *control, int fd, enum dlp_error code, const char *text)
{
    struct dlp_channel *channel = dlp_channel_new(fd, &limits);
    Dlp__Error error;
    Dlp__Envelope env;
    control->refused++;
    control->refusals[code]++;
    log_notice("a client was turned away: %s", text);
    if (!channel) {
        close(fd);
        return;
    }
    fill_error(&env, &error, code, text);
    dlp_channel_send(channel, &env, NULL, 0);
    dlp_channel_free(channel);
}

void conn_new(struct control *control, int fd)
{
    struct access_peer peer;
    struct error err;
    if (access_peer_read(fd, &peer, &err)) {
        conn_turn_away(control, fd, DLP_ERROR_NOT_PERMITTED, err.text);
        return;
    }
    struct conn *conn = mem_new(sizeof *conn);
    conn->control = control;
    conn->pid = peer.pid;
    conn->channel = dlp_channel_new(fd, &limits);
    if (!conn->channel || start_handles(conn, fd)) {
        access_peer_clear(&peer);
        conn->channel ? dlp_channel_free(conn->channel) : (void)close(fd);
        free(conn);
        return;
    }
    conn->session = session_new(
        control, &peer, &(struct session_sink){send_frame, conn, more_to_send, close_by_session});
    conn->lease = lease_new(control->options.loop, fd, conn->pid, on_process_ended, conn);
    conn->session->lease = lease_kind(conn->lease);
    conn->session->life = lease_fd(conn->lease);
    conn->next = control->conns;
    conn->link = &control->conns;
    if (conn->next)
        conn->next->link = &conn->next;
    control->conns = conn;
    control->nconns++;
    update_poll(conn);
}
