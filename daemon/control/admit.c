#include "control/admit_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "control/admit_reply.h"
#include "control/claim.h"
#include "proto/frames.h"

#define MB 1e6

void admit_free(struct admit *admit)
{
    admit->session->admit = NULL;
    if (admit->presses)
        budget_relax(admit->session->control->options.budget);
    mix_task_free(admit->mix);
    free(admit);
}

void admit_fail(struct admit *admit, enum dlp_error code, const char *text)
{
    struct session *session = admit->session;
    if (admit->opens)
        group_opening_over(admit->group);
    if (admit->group)
        group_leave(session);
    /* The last to leave an open group waits for its end, as after a detach. */
    session->state = session->group ? SESSION_CLOSING : SESSION_GREETED;
    session->detach_id = 0;
    session_deny(session, admit->id, "attach", code, text);
    admit_free(admit); /* which the text may be part of */
}

void admit_drop(struct admit *admit)
{
    struct session *session = admit->session;
    struct group *opened = admit->opens ? admit->group : NULL;
    bool last = session->group; /* to leave: the group's end is its own */
    admit_free(admit);
    if (opened)
        group_opening_over(opened);
    if (!last)
        session_reap(session);
}

void admit_cancel(struct admit *admit)
{
    enum admit_stage stage = admit->stage;
    admit->cancelled = true;
    mix_task_cancel(admit->mix);
    if (stage == ADMIT_DATASET)
        datasets_leave(&admit->waiter);
    if (stage == ADMIT_DATASET || stage == ADMIT_GROUP || stage == ADMIT_GATHER ||
        stage == ADMIT_MEMORY || stage == ADMIT_GPU || (stage == ADMIT_CHECK && !admit->opens))
        admit_drop(admit);
    else if (stage == ADMIT_CHECK)
        admit_have_feed(admit);
}

void admit_progress(void *context, const char *text, uint64_t done, uint64_t total)
{
    struct admit *admit = context;
    snprintf(admit->waits_for, sizeof admit->waits_for, "%s", text);
    session_progress(admit->session, admit->id, text, done, total);
}

const char *admit_waits_for(const struct admit *admit, bool names)
{
    bool hidden = admit->stage == ADMIT_DATASET && !names && *admit->waits_for;
    return hidden ? "waiting for its data set to be opened" : admit->waits_for;
}

void admit_look_up_user(struct admit *admit)
{
    access_user_name(admit->session->peer.uid, admit->user);
}

static void find_name(uv_work_t *work)
{
    admit_look_up_user(work->data);
}

void admit_run(struct admit *admit, enum admit_stage stage, uv_work_cb run, uv_after_work_cb then)
{
    admit->stage = stage;
    admit->err = (struct error){0};
    admit->work.data = admit;
    uv_queue_work(admit->session->control->options.loop, &admit->work, run, then);
}

void admit_begin_stream(struct admit *admit, struct feed_place first)
{
    struct session *session = admit->session;
    struct group *group = session->group;
    account_begin(session);
    session->state = SESSION_STREAMING;
    char who[SESSION_WORDS_MAX];
    struct log_about about = account_who(session, LOG_ATTACHED);
    log_each(&about, "%s: attached (%s) at epoch %" PRIu64 ", step %" PRIu64 ", %.1f MB",
             session_words(session, who, sizeof who), session->started, first.epoch, first.step,
             (double)group->promised / MB);
    admit_free(admit);
    struct feed_stats stats;
    feed_get_stats(group->feed, &stats);
    gauge_begin(session->gauge, clock_ns(), &stats);
    session->pace = (struct pace_taker){0};
    loan_begin(session, first);
}

void admit_stream(struct admit *admit, struct feed_place first)
{
    admit_offer(admit, admit->session->group->feed, first);
    admit_begin_stream(admit, first);
}

/* Each member could write to memory of a GPU: it is for one user's trainers. */
static int check_user(const struct session *session, const struct group *group,
                      struct refusal *refusal)
{
    const struct session *other = group->members;
    while (other && other->peer.uid == session->peer.uid)
        other = other->fellow;
    if (!other)
        return 0;
    return refuse(
        refusal, DLP_ERROR_GPU,
        "group %s of feed %s has its batches on GPUs, where each member could change them, "
        "and is of uid %u: name another group",
        group->job->name, group->params.spec->name, other->peer.uid);
}

static void join(struct admit *admit)
{
    struct group *group = admit->group;
    struct refusal refusal = group->stop;
    struct feed_place first;
    bool host = group->handoff.kind == DLP_MEMORY_HOST;
    if (refusal.code ||
        (host && place_join(&admit->place, group, (struct feed_place){0}, &first, &refusal)) ||
        handoff_join(&group->handoff, &admit->wish, group->job->name, group->params.spec->name,
                     &refusal) ||
        (!host && check_user(admit->session, group, &refusal)))
        admit_fail(admit, refusal.code, refusal.text);
    else if (host)
        admit_stream(admit, first);
    else
        admit_join_port(admit);
}

void admit_retry(struct admit *admit)
{
    if (admit->stage == ADMIT_MEMORY || admit->stage == ADMIT_GPU)
        admit_take_memory(admit, clock_ns());
    else if (admit->stage == ADMIT_GROUP)
        admit_go_on(admit);
}

static void tell_who_opens(struct admit *admit)
{
    char text[DLP_TEXT_MAX];
    const struct group *group = admit->group;
    if (group->opener)
        snprintf(text, sizeof text, "waiting for pid %d, which opens group %s",
                 (int)group->opener->peer.pid, group->job->name);
    else
        snprintf(text, sizeof text, "waiting for members of group %s that come back",
                 group->job->name);
    admit_progress(admit, text, 0, 0);
}

void admit_tick(struct admit *admit, uint64_t now)
{
    switch (admit->stage) {
    case ADMIT_GROUP:
        if (admit->group->state == GROUP_OPENING)
            tell_who_opens(admit);
        admit_go_on(admit);
        break;
    case ADMIT_GATHER:
        admit_gather(admit, now);
        break;
    case ADMIT_MEMORY:
        admit_wait_on(admit, now);
        break;
    case ADMIT_GPU:
        admit_take_memory(admit, now);
        break;
    case ADMIT_CHECK:
        admit_check_tick(admit, now);
        break;
    default:
        break;
    }
}

static void named(uv_work_t *work, int status)
{
    struct admit *admit = work->data;
    (void)status;
    if (admit->cancelled) {
        admit_drop(admit);
        return;
    }
    memcpy(admit->session->user, admit->user, sizeof admit->user);
    admit_go_on(admit);
}

/* After a restart they know where the group was. */
static bool others_come_back(const struct admit *admit)
{
    if (admit->place.reconnects)
        return false;
    for (const struct session *s = admit->group->members; s; s = s->fellow)
        if (s->admit && s->admit->place.reconnects)
            return true;
    return false;
}

static void expect_back(struct admit *admit)
{
    const struct group *group = admit->group;
    struct refusal refusal;
    struct feed_place wanted;
    if (admit->place.reconnects && group->job->shared &&
        !place_wanted(&admit->place, group->job, group->params.spec, &wanted, &refusal))
        group_expect(admit->session, wanted);
}

void admit_go_on(struct admit *admit)
{
    struct group *group = admit->group;
    bool opening = group->state == GROUP_OPENING;
    expect_back(admit);
    if (opening && (group->opener || others_come_back(admit)))
        admit->stage = ADMIT_GROUP;
    else if (opening)
        admit_open(admit);
    else if (*admit->session->user)
        join(admit);
    else
        admit_run(admit, ADMIT_NAME, find_name, named);
}

static void on_dataset(void *context, struct dataset *dataset, const struct error *err)
{
    struct admit *admit = context;
    struct job *job = admit->group->job;
    if (!dataset) {
        admit_fail(admit, DLP_ERROR_DATASET, err->text);
        return;
    }
    if (!job->dataset)
        job->dataset = dataset_ref(dataset);
    *admit->waits_for = '\0'; /* it was about the data set */
    admit_go_on(admit);
}

void admit_begin(struct session *session, uint64_t id, const Dlp__Attach *message)
{
    struct refusal refusal;
    struct admit *admit = session->admit = mem_new(sizeof *admit);
    admit->session = session;
    admit->id = id;
    if (place_read(&admit->place, message, &refusal) ||
        handoff_read(&admit->wish, message, &refusal) ||
        claim_rank(session, message, &admit->place, &refusal)) {
        admit_fail(admit, refusal.code, refusal.text);
        return;
    }
    admit->group = session->group;
    memcpy(session->gpu, admit->wish.uuid, sizeof session->gpu);
    session->state = SESSION_ATTACHING;
    if (!session->gauge)
        session->gauge = mem_new(sizeof *session->gauge);
    session->attached = clock_ns();
    session->number = ++session->control->attachments;
    session->started[0] = '\0';
    session->allow_replay = message->allow_replay;
    if (admit->group->job->dataset) {
        admit_go_on(admit);
        return;
    }
    admit->waiter =
        (struct datasets_waiter){.done = on_dataset, .progress = admit_progress, .context = admit};
    datasets_get(session->control->datasets, session->feed_number, session->spec, &admit->waiter);
}
