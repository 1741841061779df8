#include "control/replay_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/plural.h"
#include "control/control.h"

#define NAMES_MAX 400 /* bytes of a list in a refusal */

/* Adds a word to a list as far as there is room. */
static void list_add(char list[NAMES_MAX], const char *word)
{
    size_t length = strlen(list);
    if (length + strlen(word) + 3 < NAMES_MAX)
        snprintf(list + length, NAMES_MAX - length, "%s%s", length ? ", " : "", word);
}

static bool runs(const struct job *job)
{
    return !job->probe && job->nclaims;
}

static bool is_meant(const struct job *job, const Dlp__ReplayRequest *message)
{
    return runs(job) && !strcmp(job->name, message->job) &&
           (!*message->feed || !strcmp(job->feed, message->feed));
}

static int refuse_shared(const char *group, struct refusal *refusal)
{
    return refuse(refusal, DLP_ERROR_SHARED,
                  "%s is a group of a mirror feed: its members read the same memory, each at its "
                  "pace, so none can be served a batch of its own again; 'dataloadctl measure' "
                  "tells its rate from its clocks",
                  group);
}

/* The group in which trainers of the job that was named read; NULL: in none. */
static const char *group_of(const struct control *control, const Dlp__ReplayRequest *message)
{
    for (const struct session *s = control->sessions; s; s = s->next)
        if (s->group && s->group->job && s->group->job->shared &&
            !strcmp(s->job_name, message->job))
            return s->group->job->name;
    return NULL;
}

static void refuse_none(const struct session *session, const Dlp__ReplayRequest *message,
                        struct refusal *refusal)
{
    char names[NAMES_MAX] = "";
    const char *group = group_of(session->control, message);
    if (group) {
        refuse_shared(group, refusal);
        return;
    }
    for (const struct job *job = jobs_first(session->control->jobs); job; job = job->next)
        if (runs(job))
            list_add(names, job->name);
    refuse(refusal, DLP_ERROR_NOT_ATTACHED, "no trainer of a job %s%s%s runs here; %s%s",
           message->job, *message->feed ? " of feed " : "", message->feed,
           *names ? "there are: " : "there is no job at all", names);
}

/* The one job that is meant and is the peer's to act on; NULL with the reason. */
static const struct job *find_job(const struct session *session, const Dlp__ReplayRequest *message,
                                  struct refusal *refusal)
{
    const struct job *found = NULL;
    char feeds[NAMES_MAX] = "";
    uint32_t met = 0, own = 0;
    for (const struct job *job = jobs_first(session->control->jobs); job; job = job->next) {
        if (!is_meant(job, message))
            continue;
        met++;
        if (!access_owns(&session->peer, job->uid))
            continue;
        own++;
        found = job;
        list_add(feeds, job->feed);
    }
    if (!met)
        refuse_none(session, message, refusal);
    else if (!own)
        refuse(refusal, DLP_ERROR_NOT_PERMITTED,
               "job %s is another user's: it is for that user, root and the daemon's own "
               "user to have it measured",
               message->job);
    else if (own > 1)
        refuse(refusal, DLP_ERROR_BAD_REQUEST,
               "%u jobs have the name %s, of the feeds %s: name one of the feeds, or ask as "
               "the user whose job it is",
               own, message->job, feeds);
    return own == 1 ? found : NULL;
}

/* The groups of its ranks here. */
static uint32_t find_groups(const struct control *control, const struct job *job,
                            struct group **groups)
{
    uint32_t count = 0;
    for (struct group *group = control->groups; group; group = group->next)
        if (group->job == job)
            groups[count++] = group;
    return count;
}

static int check_job(const struct job *job, const Dlp__ReplayRequest *message,
                     struct refusal *refusal)
{
    bool fixed = message->epoch && message->step && message->batches;
    if (job->shared)
        return refuse_shared(job->name, refusal);
    if (job->nclaims < job->world && !fixed)
        return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                      "%u of the %u ranks of job %s are here, and all have to have as many "
                      "batches at the same step: give the same epoch, step and number of batches "
                      "on every node of the job",
                      job->nclaims, job->world, job->name);
    return 0;
}

static int check_members(const struct job *job, struct group *const *groups, uint32_t count,
                         struct refusal *refusal)
{
    char unwilling[NAMES_MAX] = "", pid[16];
    for (uint32_t i = 0; i < count; i++) {
        const struct group *group = groups[i];
        const struct session *session = group->members;
        if (!session || session->state != SESSION_STREAMING || group->stop.code)
            return refuse(refusal, DLP_ERROR_REPLAY, "rank %u of job %s %s", group->params.rank,
                          job->name,
                          group->stop.code ? "gets no batches any more"
                                           : "is attaching: ask again when it streams");
        if (group->replay)
            return refuse(refusal, DLP_ERROR_REPLAY, "job %s has a replay already: one at a time",
                          job->name);
        if (!feed_steps(group->feed, session->expected.epoch + 1))
            return refuse(refusal, DLP_ERROR_REPLAY,
                          "rank %u of job %s has no batch in an epoch, so there is nothing to "
                          "serve it again",
                          group->params.rank, job->name);
        snprintf(pid, sizeof pid, "%d", (int)session->peer.pid);
        if (!session->allow_replay)
            list_add(unwilling, pid);
    }
    if (*unwilling)
        return refuse(refusal, DLP_ERROR_REPLAY,
                      "trainers of job %s have not allowed it, since it trains them on repeated "
                      "data: pid %s; attach with allow_replay (Python: allow_replay=True)",
                      job->name, unwilling);
    return 0;
}

/* The earliest of all: no rank has to be past it, and each has to have a batch there, or its
 * trainer would be at the end of its epoch while others are served. */
static struct feed_place earliest(struct group *const *groups, uint32_t count)
{
    struct feed_place place = {0};
    for (uint32_t i = 0; i < count; i++) {
        struct feed_place at = replay_earliest(groups[i]);
        if (group_before(place, at))
            place = at;
    }
    for (uint32_t i = 0; i < count; i++)
        if (place.step >= feed_steps(groups[i]->feed, place.epoch))
            return (struct feed_place){place.epoch + 1, 0};
    return place;
}

static int check_place(struct group *const *groups, uint32_t count, struct feed_place place,
                       struct feed_place first, struct refusal *refusal)
{
    if (group_before(place, first))
        return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                      "epoch %" PRIu64 ", step %" PRIu64 " is too early: batches are filled up to "
                      "epoch %" PRIu64 ", step %" PRIu64,
                      place.epoch, place.step, first.epoch, first.step);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t steps = feed_steps(groups[i]->feed, place.epoch);
        if (place.step >= steps)
            return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                          "step %" PRIu64 ": rank %u has %" PRIu64 " step%s in epoch %" PRIu64,
                          place.step, groups[i]->params.rank, steps, plural(steps), place.epoch);
    }
    return 0;
}

static int plan(const Dlp__ReplayRequest *message, struct group *const *groups, uint32_t count,
                struct replay_plan *out, struct refusal *refusal)
{
    struct feed_place first = earliest(groups, count);
    out->place = first;
    out->batches = message->batches ? message->batches->value : 0;
    out->ns = message->batches ? 0 : (uint64_t)(message->seconds * (double)CLOCK_SECOND);
    if (message->epoch)
        out->place = (struct feed_place){message->epoch->value, 0};
    if (message->step)
        out->place.step = message->step->value;
    if (message->epoch && !message->step && group_before(out->place, first))
        out->place = first;
    return check_place(groups, count, out->place, first, refusal);
}

void replay_begin(struct session *session, uint64_t id, const Dlp__ReplayRequest *message)
{
    struct refusal refusal;
    struct replay_plan wanted = {.job = message->job};
    const struct job *job = find_job(session, message, &refusal);
    if (!job || check_job(job, message, &refusal)) {
        session_deny(session, id, "replay", refusal.code, refusal.text);
        return;
    }
    cleanup_free struct group **groups = mem_array(job->nclaims, sizeof(struct group *));
    uint32_t count = find_groups(session->control, job, groups);
    int code = check_members(job, groups, count, &refusal);
    if (!code)
        code = plan(message, groups, count, &wanted, &refusal);
    if (code)
        session_deny(session, id, "replay", refusal.code, refusal.text);
    else
        replay_start(session, id, &wanted, groups, count);
}
