#include "control/evict.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/control.h"
#include "proto/frames.h"

#define GRACE_NS (5 * CLOCK_SECOND) /* to give back what is held */

struct evict {
    const struct session *asker;
    const char *name, *feed; /* feed: "" = any */
    size_t length;           /* of the name */
    bool begins;             /* names that begin so are meant too */
    bool foreign;            /* another user's are among those meant */
};

static bool is_meant(const struct evict *evict, const char *job, const char *feed)
{
    if (*evict->feed && strcmp(evict->feed, feed) != 0)
        return false;
    if (evict->begins)
        return strncmp(evict->name, job, evict->length) == 0;
    return strlen(job) == evict->length && memcmp(evict->name, job, evict->length) == 0;
}

static bool may_end(struct evict *evict, uid_t owner)
{
    bool may = access_owns(&evict->asker->peer, owner);
    evict->foreign |= !may;
    return may;
}

/* A group of a mirror feed is no job: its members have jobs. */
static bool picks(void *context, const struct job *job)
{
    struct evict *evict = context;
    return !job->shared && is_meant(evict, job->name, job->feed) && may_end(evict, job->uid);
}

void evict_tick(struct session *session, uint64_t now)
{
    const struct session_sink *sink = &session->sink;
    if (session->evict_by && now >= session->evict_by && sink->send && sink->close)
        sink->close(sink->context, "detached from outside");
}

static bool is_attached(const struct session *session)
{
    return session->state == SESSION_ATTACHING || session->state == SESSION_STREAMING;
}

static void tell(const struct evict *evict, struct session *session)
{
    char text[DLP_TEXT_MAX], who[64];
    const struct session *asker = evict->asker;
    if (asker->peer.uid == 0)
        snprintf(who, sizeof who, "root");
    else
        snprintf(who, sizeof who, "uid %u", asker->peer.uid);
    snprintf(text, sizeof text,
             "job %s of feed %s was detached by %s (%s, pid %d): attach anew to begin it again",
             session->job_name, session->spec->name, who, asker->program, (int)asker->peer.pid);
    struct log_about about = account_who(session, LOG_EVICTED);
    log_event(LOG_NOTICE, &about, "pid %d: %s", (int)session->peer.pid, text);
    session_refuse(session, 0, DLP_ERROR_DETACHED, text);
    session->evict_by = clock_ns() + (session->admit ? 0 : GRACE_NS);
    if (session->admit)
        evict_tick(session, session->evict_by);
    else
        session_cast_off(session);
}

static uint32_t end_sessions(struct evict *evict)
{
    uint32_t count = 0;
    for (struct session *s = evict->asker->control->sessions, *next; s; s = next) {
        next = s->next;
        if (!is_attached(s) || s->evict_by || !is_meant(evict, s->job_name, s->spec->name) ||
            !may_end(evict, s->peer.uid))
            continue;
        tell(evict, s);
        count++;
    }
    return count;
}

static bool is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

/* Jobs of several users or feeds may have one name, and so have all trainers of a mirror group. */
static void add_name(char *text, size_t size, const char *name)
{
    size_t used = strlen(text);
    if (!is_listed(text, name) && used + strlen(name) + 3 < size)
        snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
}

static void list_jobs(const struct control *control, char *text, size_t size)
{
    *text = '\0';
    for (const struct job *job = jobs_first(control->jobs); job; job = job->next)
        if (!job->shared && !job->ended)
            add_name(text, size, job->name);
    for (const struct session *s = control->sessions; s; s = s->next)
        if (is_attached(s) && s->group->job && s->group->job->shared)
            add_name(text, size, s->job_name);
}

static void refuse_it(struct session *session, uint64_t id, const struct evict *evict)
{
    char names[600], text[DLP_TEXT_MAX];
    const char *of = *evict->feed ? " of feed " : "";
    if (evict->foreign) {
        session_deny(session, id, "detach of a job", DLP_ERROR_NOT_PERMITTED,
                     "the job is another user's: only its user, root and the daemon's own user "
                     "may detach it");
        return;
    }
    list_jobs(session->control, names, sizeof names);
    snprintf(text, sizeof text, "there is no job %s%s%s; there %s%s", evict->name, of, evict->feed,
             *names ? "are: " : "is none", names);
    session_refuse(session, id, DLP_ERROR_NO_SUCH_JOB, text);
}

static bool read_name(struct evict *evict)
{
    char name[DLP_NAME_MAX + 1];
    evict->length = strlen(evict->name);
    evict->begins = evict->length && evict->name[evict->length - 1] == '*';
    evict->length -= evict->begins;
    snprintf(name, sizeof name, "%.*s", (int)evict->length, evict->name);
    return evict->length <= DLP_NAME_MAX && dlp_name_valid(name);
}

void evict_reply(struct session *session, uint64_t id, const Dlp__EvictRequest *message)
{
    struct evict evict = {.asker = session, .name = message->job, .feed = message->feed};
    if (!read_name(&evict)) {
        session_refuse_format(session, id, DLP_ERROR_BAD_REQUEST,
                              "the name of a job has 1 to %u characters of A-Z a-z 0-9 . _ : / -, "
                              "and may end in a * that stands for whatever follows",
                              DLP_NAME_MAX);
        return;
    }
    Dlp__EvictReply reply = DLP__EVICT_REPLY__INIT;
    reply.jobs = jobs_end(session->control->jobs, picks, &evict);
    reply.clients = end_sessions(&evict);
    if (!reply.jobs && !reply.clients) {
        refuse_it(session, id, &evict);
        return;
    }
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_EVICT_REPLY;
    env.evict_reply = &reply;
    session_send(session, &env);
}
