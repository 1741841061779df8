#include "control/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "control/admit.h"
#include "control/check_reply.h"
#include "control/control.h"
#include "control/giving.h"
#include "control/inquiry.h"
#include "control/replay.h"
#include "control/trace_lanes.h"
#include "control/trace_reply.h"
#include "proto/frames.h"

struct session *session_new(struct control *control, struct access_peer *peer,
                            const struct session_sink *sink)
{
    struct session *session = mem_new(sizeof *session);
    session->control = control;
    session->sink = *sink;
    session->port = -1;
    session->peer = *peer;
    session->lease = "eof";
    session->life = -1;
    session->heard = clock_ns();
    session->next = control->sessions;
    session->link = &control->sessions;
    if (session->next)
        session->next->link = &session->next;
    control->sessions = session;
    *peer = (struct access_peer){0};
    return session;
}

void session_reap(struct session *session)
{
    struct control *control = session->control;
    if (session->sink.send || session->admit || session->group || session->inquiry ||
        session->check || giving_is_at_work(session->giving))
        return;
    *session->link = session->next;
    if (session->next)
        session->next->link = session->link;
    access_peer_clear(&session->peer);
    borrower_unref(session->borrower);
    spec_unref(session->spec);
    giving_free(session->giving);
    free(session->gauge);
    free(session);
    control_settled(control);
}

char *session_words(const struct session *session, char *text, size_t size)
{
    const struct job *job = session->group ? session->group->job : NULL;
    bool shared = job && job->shared;
    snprintf(text, size, "pid %d (%s): feed %s%s%s, job %s, rank %u of %u%s",
             (int)session->peer.pid, *session->user ? session->user : "?", session->spec->name,
             shared ? ", group " : "", shared ? job->name : "", session->job_name, session->rank,
             session->world, session->probe ? ", probe" : "");
    return text;
}

/* One line for each trainer that leaves. */
static void log_leave(struct session *session, const char *why)
{
    char who[SESSION_WORDS_MAX];
    struct log_about about = account_who(session, LOG_NO_ID);
    if (session->state == SESSION_STREAMING)
        account_end(session, why);
    else if (session->state == SESSION_ATTACHING)
        log_each(&about, "%s: %s before its attach was done",
                 session_words(session, who, sizeof who), why);
}

void session_unmapped(struct session *session)
{
    if (session->borrower)
        borrower_done(session->borrower);
}

static const char *cast_off_why(const struct session *session)
{
    if (session->evict_by)
        return "detached from outside";
    return session->gpu_lost ? "detached because its GPU is lost"
                             : "detached because it lagged behind its group";
}

void session_end(struct session *session, const char *why)
{
    log_leave(session, session->evict_by ? cast_off_why(session) : why);
    session->sink.send = NULL;
    replay_forget(session);
    if (session->state == SESSION_ATTACHING || session->state == SESSION_STREAMING)
        group_leave(session);
    session->state = SESSION_CLOSING;
    giving_cancel(session->giving);
    inquiry_cancel(session->inquiry);
    page_reply_cancel(session);
    trace_reply_cancel(session);
    check_reply_cancel(session->check);
    if (session->admit)
        admit_cancel(session->admit); /* may free the session */
    else
        session_reap(session);
}

void session_send(struct session *session, const Dlp__Envelope *env)
{
    if (session->sink.send)
        session->sink.send(session->sink.context, env, NULL, 0);
}

void session_refuse(struct session *session, uint64_t id, enum dlp_error code, const char *text)
{
    char escaped[DLP_TEXT_MAX];
    Dlp__Error error = DLP__ERROR__INIT;
    error.code = code;
    error.text = dlp_escape(text, escaped, sizeof escaped);
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_ERROR;
    env.error = &error;
    session_send(session, &env);
}

void session_deny(struct session *session, uint64_t id, const char *what, enum dlp_error code,
                  const char *text)
{
    char escaped[DLP_TEXT_MAX];
    session->control->refused++;
    session->control->refusals[code]++;
    struct log_about about = account_who(session, LOG_REFUSED);
    about.reason = dlp_error_text(code);
    log_event(LOG_NOTICE, &about, "pid %d, uid %u: %s refused: %s", (int)session->peer.pid,
              session->peer.uid, what, dlp_escape(text, escaped, sizeof escaped));
    session_refuse(session, id, code, text);
}

void session_refuse_format(struct session *session, uint64_t id, enum dlp_error code,
                           const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    session_refuse(session, id, code, text);
}

void session_progress(struct session *session, uint64_t id, const char *text, uint64_t done,
                      uint64_t total)
{
    char escaped[DLP_TEXT_MAX];
    Dlp__AttachProgress progress = DLP__ATTACH_PROGRESS__INIT;
    progress.text = dlp_escape(text, escaped, sizeof escaped);
    progress.done = done;
    progress.total = total;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_ATTACH_PROGRESS;
    env.attach_progress = &progress;
    session_send(session, &env);
}

void session_wait(struct session *session)
{
    struct feed_stats stats;
    feed_get_stats(session->group->feed, &stats);
    uint64_t now = clock_ns();
    gauge_wait(session->gauge, now, &stats);
    if (loan_is_told(session)) /* the news of it has crossed this message */
        gauge_come(session->gauge, now);
}

void session_take(struct session *session, uint64_t id, const Dlp__Take *take)
{
    if (loan_take(session, take->slot, take->generation)) {
        session_refuse_format(session, id, DLP_ERROR_BAD_RELEASE,
                              "slot %u, generation %" PRIu64
                              ", holds no batch that waits for this client",
                              take->slot, take->generation);
        return;
    }
    struct group *group = session->group;
    const struct loan *it = &group->batches[take->slot];
    struct gauge_batch batch = {0};
    if (!it->failure && !it->replay)
        batch = (struct gauge_batch){it->batch.rows, it->batch.bytes};
    uint64_t now = clock_ns();
    trace_take(session, now, session->gauge->last_take, take->wait_ns, it->batch.place.step);
    if (gauge_take(session->gauge, now, take->wait_ns, &batch)) {
        struct feed_stats stats;
        feed_get_stats(group->feed, &stats);
        gauge_note(session->gauge, now, &stats);
    }
    if (it->replay)
        replay_took(group, it->batch.rows, take->wait_ns);
}

static void leave(struct session *session, uint64_t id, const char *why)
{
    log_leave(session, why);
    session->detach_id = id;
    session->evict_by = 0;
    bool others = group_leave(session);
    session->state = SESSION_CLOSING;
    if (others)
        session_left(session);
}

static bool holds_any(const struct session *session)
{
    for (uint32_t slot = 0; slot < session->group->params.slots; slot++)
        if (session->lent[slot])
            return true;
    return false;
}

void session_cast_off(struct session *session)
{
    session->cast_off = true;
    loan_pass_by(session);
    if (!holds_any(session))
        leave(session, 0, cast_off_why(session));
}

void session_release(struct session *session, uint64_t id, const Dlp__Release *release)
{
    if (!loan_release(session, release->slot, release->generation)) {
        gauge_release(session->gauge, clock_ns());
        if (session->cast_off && !holds_any(session))
            leave(session, 0, cast_off_why(session));
        return;
    }
    session_refuse_format(session, id, DLP_ERROR_BAD_RELEASE,
                          "slot %u, generation %" PRIu64
                          ", is not held by this client: given back twice, or never taken",
                          release->slot, release->generation);
}

void session_seek(struct session *session, uint64_t id, uint64_t epoch)
{
    const struct group *group = session->group;
    if (group->nmembers > 1) {
        session_refuse_format(session, id, DLP_ERROR_SHARED,
                              "epoch %" PRIu64 " cannot be chosen: group %s of feed %s has %u "
                              "members and is at epoch %" PRIu64 "; its epochs follow each other",
                              epoch, group->job->name, session->spec->name, group->nmembers,
                              group_current(group).epoch);
        return;
    }
    Dlp__SeekReply reply = DLP__SEEK_REPLY__INIT;
    reply.dropped = loan_seek(session, epoch);
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_SEEK_REPLY;
    env.seek_reply = &reply;
    session_send(session, &env);
}

void session_detach(struct session *session, uint64_t id)
{
    const struct group *group = session->group;
    if (group->nmembers == 1)
        jobs_left(group->job, group->params.rank);
    leave(session, id, "detached");
}

void session_left(struct session *session)
{
    if (session->sink.send)
        session->state = SESSION_GREETED;
    if (session->detach_id) {
        Dlp__DetachReply reply = DLP__DETACH_REPLY__INIT;
        Dlp__Envelope env = DLP__ENVELOPE__INIT;
        env.id = session->detach_id;
        env.body_case = DLP__ENVELOPE__BODY_DETACH_REPLY;
        env.detach_reply = &reply;
        session_send(session, &env);
    }
    session_reap(session);
}

void session_tell_members(struct session *session)
{
    Dlp__Members members = DLP__MEMBERS__INIT;
    members.count = session->group->nmembers;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_MEMBERS;
    env.members = &members;
    session_send(session, &env);
}

static void announce_failed(struct session *session, const struct feed_batch *batch,
                            const char *text)
{
    char escaped[DLP_TEXT_MAX];
    Dlp__BatchFailed failed = DLP__BATCH_FAILED__INIT;
    failed.slot = batch->slot;
    failed.generation = batch->generation;
    failed.epoch = batch->place.epoch;
    failed.step = batch->place.step;
    failed.code = DLP_ERROR_BAD_SAMPLE;
    failed.text = dlp_escape(text, escaped, sizeof escaped);
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_BATCH_FAILED;
    env.batch_failed = &failed;
    session_send(session, &env);
}

void session_announce(struct session *session, const struct loan *loan)
{
    const struct feed_batch *batch = &loan->batch;
    gauge_come(session->gauge, clock_ns());
    if (loan->failure && !loan->replay) {
        announce_failed(session, batch, loan->failure);
        return;
    }
    Dlp__BatchReady ready = DLP__BATCH_READY__INIT;
    ready.slot = batch->slot;
    ready.generation = batch->generation;
    ready.epoch = batch->place.epoch;
    ready.step = batch->place.step;
    ready.rows = batch->rows;
    ready.valid = batch->valid;
    ready.replay = loan->replay;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_BATCH_READY;
    env.batch_ready = &ready;
    session_send(session, &env);
}
