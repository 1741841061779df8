#include "control/group.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "control/admit.h"
#include "control/autoscale.h"
#include "control/session.h"
#include "control/terms.h"
#include "feed/feed_ports.h"
#include "proto/frames.h"

static const struct feed_events events;

bool group_before(struct feed_place a, struct feed_place b)
{
    return a.epoch != b.epoch ? a.epoch < b.epoch : a.step < b.step;
}

struct group *group_new(struct control *control, uint32_t feed_number, struct job *job,
                        uint32_t rank, uint32_t slots)
{
    struct group *group = mem_new(sizeof *group);
    const struct control_options *options = &control->options;
    group->control = control;
    group->feed_number = feed_number;
    group->job = job;
    group->owner = job->uid;
    group->told = 1;
    group->params = (struct feed_params){.spec = spec_ref(job->spec),
                                         .rank = rank,
                                         .world = job->world,
                                         .batch = job->batch,
                                         .slots = slots,
                                         .seed = job->seed,
                                         .probe = job->probe,
                                         .shared = job->shared,
                                         .orphans = options->orphans,
                                         .workers = options->workers,
                                         .budget = options->budget,
                                         .mailbox = options->mailbox,
                                         .events = events,
                                         .context = group};
    group->next = control->groups;
    group->link = &control->groups;
    if (group->next)
        group->next->link = &group->next;
    control->groups = group;
    return group;
}

struct group *group_find(const struct control *control, const struct job *job, uint32_t rank)
{
    struct group *group = control->groups;
    while (group && (group->job != job || group->params.rank != rank))
        group = group->next;
    return group;
}

static void free_group(struct group *group)
{
    *group->link = group->next;
    if (group->next)
        group->next->link = group->link;
    for (uint32_t slot = 0; slot < group->params.slots; slot++)
        free(group->batches[slot].failure);
    dataset_unref(group->params.dataset);
    spec_unref(group->params.spec);
    if (group->leaver)
        group->leaver->group = NULL;
    free(group);
}

void group_add(struct group *group, struct session *session)
{
    session->group = group;
    session->comes_back = session->gpu_lost = false;
    session->port = -1;
    memset(session->lent, 0, sizeof session->lent);
    session->fellow = group->members;
    session->fellow_link = &group->members;
    if (session->fellow)
        session->fellow->fellow_link = &session->fellow;
    group->members = session;
    group->nmembers++;
    group->control->nattached++;
}

void group_close_ports(struct group *group)
{
    if (group->state != GROUP_STREAMING || group->handoff.kind == DLP_MEMORY_HOST)
        return;
    for (const struct session *s = group->members; s; s = s->fellow)
        if (s->admit && s->port < 0)
            return;
    feed_close_ports(group->feed);
}

static void remove_member(struct group *group, struct session *session)
{
    struct control_totals *totals = &group->control->totals[group->feed_number];
    if (session->state == SESSION_STREAMING)
        takings_add(&totals->takings, session->gauge, clock_ns());
    totals->skipped += session->skipped;
    session->skipped = 0;
    *session->fellow_link = session->fellow;
    if (session->fellow)
        session->fellow->fellow_link = session->fellow_link;
    group->nmembers--;
    group->control->nattached--;
    if (session->port >= 0 && group->nmembers && group->feed)
        feed_leave_port(group->feed, (uint32_t)session->port);
    session->port = -1;
    group_close_ports(group);
    terms_pass_on(group);
}

void group_tell_members(struct group *group)
{
    if (group->state != GROUP_STREAMING || group->told == group->nmembers)
        return;
    group->told = group->nmembers;
    for (struct session *s = group->members; s; s = s->fellow)
        if (s->state == SESSION_STREAMING)
            session_tell_members(s);
}

void group_expect(struct session *session, struct feed_place place)
{
    session->comes_back = true;
    session->place = place;
}

void group_give_memory(struct group *group)
{
    group->control->promised -= group->promised;
    group->promised = 0;
}

uint64_t group_host_bytes(const struct group *group)
{
    const struct feed_memory *memory = &group->memory;
    return group->handoff.kind == DLP_MEMORY_HOST ? memory->arena : memory->staging;
}

void group_promise(struct group *group)
{
    group->promised = group_host_bytes(group);
    group->control->promised += group->promised;
}

void group_opening_over(struct group *group)
{
    group->opener = NULL;
    group_give_memory(group);
    struct session *leaver = group->leaver;
    if (group->members)
        return;
    free_group(group);
    session_left(leaver);
}

static void close_feed(struct group *group)
{
    struct control *control = group->control;
    struct control_totals *totals = &control->totals[group->feed_number];
    struct feed_stats stats;
    feed_get_stats(group->feed, &stats);
    totals->bad += stats.bad;
    totals->damaged += stats.damaged;
    totals->marks_used += stats.marks_used;
    totals->marks_wrong += stats.marks_wrong;
    totals->marks_kept += stats.marks_kept;
    feed_work_add(&totals->work, &stats.work);
    if (control->stopping)
        feed_keep(group->feed);
    control->nclosing++;
    feed_close(group->feed);
}

void group_undo(struct group *group, struct feed *feed)
{
    group->control->nclosing++;
    feed_close(feed);
}

static bool is_past_epoch(struct group *group, struct feed_place at)
{
    if (group->end.step == 0 || group->end.epoch != at.epoch)
        group->end = (struct feed_place){at.epoch, feed_steps(group->feed, at.epoch)};
    return at.step >= group->end.step;
}

/* Of the first batch that the member has not released in this pass; where others have passed a
 * laggard by, it is their place that counts. */
static struct feed_place stands_at(const struct session *session)
{
    struct group *group = session->group;
    bool own = session->state == SESSION_STREAMING && !session->lagging;
    struct feed_place least = own ? session->place : group->place;
    for (uint32_t slot = 0; own && slot < group->params.slots; slot++) {
        struct feed_place at = group->batches[slot].batch.place;
        if (session->lent[slot] == LOAN_HELD && group_before(at, least))
            least = at;
    }
    if (is_past_epoch(group, least))
        least = (struct feed_place){least.epoch + 1, 0};
    return least;
}

static void note(struct group *group, struct feed_place at)
{
    if (at.epoch == group->noted.epoch && at.step == group->noted.step)
        return;
    group->noted = at;
    jobs_stands(group->control->jobs, group->job, group->params.rank,
                (struct job_place){at.epoch, at.step});
}

void group_note(struct group *group)
{
    const struct session *s = group->members;
    if (group->state != GROUP_STREAMING || !s)
        return;
    struct feed_place least = stands_at(s);
    while ((s = s->fellow)) {
        struct feed_place at = stands_at(s);
        if (group_before(at, least))
            least = at;
    }
    note(group, least);
}

bool group_stream(struct group *group, struct feed *feed)
{
    group->opener = NULL;
    group->feed = feed;
    group->place = group->params.first;
    if (group->state == GROUP_CLOSING) {
        close_feed(group);
        return false;
    }
    group->state = GROUP_STREAMING;
    terms_renew(group);
    group->noted = group_current(group);
    jobs_served(group->control->jobs, group->job, group->params.rank,
                (struct job_place){group->noted.epoch, group->noted.step},
                feed_steps(feed, group->job->start.epoch + 1) == 0);
    autoscale_welcome(group->control->autoscale);
    feed_start(feed);
    return true;
}

static void end(struct group *group, struct session *session)
{
    if (group->feed)
        note(group, stands_at(session));
    jobs_release(group->control->jobs, group->job, group->params.rank, clock_ns());
    group->job = NULL;
    group->state = GROUP_CLOSING;
    if (group->feed)
        close_feed(group);
    if (group->feed || group->opener) {
        group->leaver = session;
        return;
    }
    session->group = NULL;
    free_group(group);
}

bool group_leave(struct session *session)
{
    struct group *group = session->group;
    if (group->replay)
        replay_leave(group, "has left");
    remove_member(group, session);
    session->comes_back = false;
    if (!group->members) {
        end(group, session);
        return false;
    }
    loan_end(session);
    session->group = NULL;
    return true;
}

struct feed_place group_settled(const struct group *group, struct feed_place at)
{
    if (at.step > 0 && at.step >= feed_steps(group->feed, at.epoch))
        return (struct feed_place){at.epoch + 1, 0};
    return at;
}

struct feed_place group_current(const struct group *group)
{
    return group_settled(group, group->place);
}

bool group_keeps_from(const struct group *group, struct feed_place place)
{
    uint64_t kept = 0;
    for (uint32_t slot = 0; slot < group->params.slots; slot++) {
        struct feed_place at = group->batches[slot].batch.place;
        bool within = !group_before(at, place) && group_before(at, group->place);
        kept += group->batches[slot].out && within;
    }
    return kept == group_distance(group, place, group->place);
}

uint64_t group_distance(const struct group *group, struct feed_place from, struct feed_place to)
{
    if (!group_before(from, to))
        return 0;
    if (from.epoch == to.epoch)
        return to.step - from.step;
    uint64_t first = feed_steps(group->feed, from.epoch);
    uint64_t rest = first > from.step ? first - from.step : 0;
    uint64_t whole = feed_steps(group->feed, from.epoch + 1); /* of any epoch but the start's */
    return rest + (to.epoch - from.epoch - 1) * whole + to.step;
}

static void on_ready_or_failed(void *context, const struct feed_batch *batch, const char *failure)
{
    struct group *group = context;
    if (group->state == GROUP_STREAMING)
        loan_ready(group, batch, failure);
}

static void on_ready(void *context, const struct feed_batch *batch)
{
    on_ready_or_failed(context, batch, NULL);
}

/* The members of a mirror feed's group have jobs of their own. */
static struct log_about about_stream(const struct group *group, enum log_id id)
{
    return (struct log_about){.id = id,
                              .feed = group->params.spec->name,
                              .job = group->job->shared ? NULL : group->job->name,
                              .rank = group->params.rank};
}

static enum log_id kind_of(enum bad_class class)
{
    if (class == BAD_READ)
        return LOG_STORAGE_ERROR;
    return class >= BAD_SHARD_TRUNC ? LOG_SHARD_DAMAGED : LOG_BAD_SAMPLE;
}

static void log_bad(const struct group *group, const struct bad_report *report,
                    struct feed_place place)
{
    struct log_about about = about_stream(group, kind_of(report->cls));
    about.shard = report->shard;
    about.key = report->key;
    about.reason = bad_name(report->cls);
    log_event(LOG_WARNING, &about,
              "feed %s, %s %s, rank %u, epoch %" PRIu64 ", step %" PRIu64
              ": %s: record %s of %s: %s",
              about.feed, jobs_word(group->job->shared), group->job->name, about.rank, place.epoch,
              place.step, about.reason, report->key, report->shard, report->reason);
}

static void on_bad(void *context, const struct bad_report *report, struct feed_place place)
{
    struct group *group = context;
    badlist_add(group->control->badlist, group->params.spec->name, report);
    if (group->state == GROUP_STREAMING)
        log_bad(group, report, place);
}

/* Whoever reads there holds nobody up any more. */
static void on_port_lost(void *context, uint32_t port, const struct error *err)
{
    struct group *group = context;
    if (group->state != GROUP_STREAMING)
        return;
    for (struct session *s = group->members; s; s = s->fellow) {
        if (s->state != SESSION_STREAMING || s->port != (int)port)
            continue;
        char who[SESSION_WORDS_MAX];
        struct log_about about = account_who(s, LOG_FEED_STOPPED);
        about.reason = dlp_error_text(DLP_ERROR_GPU);
        log_event(LOG_WARNING, &about, "%s: %s", session_words(s, who, sizeof who), err->text);
        s->cast_off = s->gpu_lost = true;
        loan_pass_by(s);
        session_refuse(s, 0, DLP_ERROR_GPU, err->text);
    }
}

static void on_stopped(void *context, const struct error *err)
{
    struct group *group = context;
    if (group->state != GROUP_STREAMING)
        return;
    enum dlp_error code = err->code == -ENOMEM      ? DLP_ERROR_NO_MEMORY
                          : err->code == -ENODEV    ? DLP_ERROR_GPU
                          : err->code == -ECANCELED ? DLP_ERROR_BAD_LIMIT
                                                    : DLP_ERROR_INTERNAL;
    char text[DLP_TEXT_MAX];
    if (group->replay)
        replay_leave(group, "gets no batches any more");
    refuse(&group->stop, code, "%s", err->text);
    group->control->totals[group->feed_number].bad_limit_stops += code == DLP_ERROR_BAD_LIMIT;
    struct log_about about = about_stream(group, LOG_FEED_STOPPED);
    about.reason = dlp_error_text(code);
    log_event(LOG_WARNING, &about, "feed %s, %s %s, rank %u: %s", about.feed,
              jobs_word(group->job->shared), group->job->name, about.rank,
              dlp_escape(err->text, text, sizeof text));
    for (struct session *s = group->members; s; s = s->fellow)
        if (s->state == SESSION_STREAMING && !s->gpu_lost)
            session_refuse(s, 0, code, err->text);
}

static void on_closed(void *context)
{
    struct group *group = context;
    struct control *control = group->control;
    struct session *leaver = group->leaver;
    group_give_memory(group);
    control->nclosing--;
    if (group->opener) {
        admit_undone(group->opener->admit);
        control_settled(control);
        return;
    }
    free_group(group);
    session_left(leaver);
    control_settled(control);
}

static const struct feed_events events = {.ready = on_ready,
                                          .failed = on_ready_or_failed,
                                          .bad = on_bad,
                                          .port_lost = on_port_lost,
                                          .stopped = on_stopped,
                                          .closed = on_closed};
