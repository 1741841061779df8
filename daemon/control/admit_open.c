#include "control/admit_parts.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "control/admit_reply.h"
#include "control/allowance.h"
#include "control/reclaim.h"
#include "control/terms.h"
#include "feed/feed_ports.h"

#define MEMORY_WAIT_NS (10 * CLOCK_SECOND) /* for feeds that are closing, and for orphans */
#define PRESS_WAIT_NS (2 * CLOCK_SECOND)   /* for readers to give back what they hold ahead */
#define GATHER_NS CLOCK_SECOND             /* for members that nobody has been told of yet */
#define GATHER_MAX_S 30U                   /* as long as a trainer tries to reconnect */

/* Helper thread: everything here may block, also the look-up of a name. */
static void reckon(uv_work_t *work)
{
    struct admit *admit = work->data;
    struct group *group = admit->group;
    const struct feed_params *params = &group->params;
    admit_look_up_user(admit);
    feed_memory(params->spec, params->dataset, params->world, params->batch, params->slots,
                &group->memory, &admit->err);
    admit_reply_lane_note(params, group->memory.lane_factor, group->lane_note,
                          sizeof group->lane_note);
    mix_task_look(admit->mix);
}

static void open_feed(uv_work_t *work)
{
    struct admit *admit = work->data;
    const struct handoff *handoff = &admit->group->handoff;
    struct feed_params *params = &admit->group->params;
    bool gpu = handoff->kind != DLP_MEMORY_HOST;
    params->memory = handoff->kind;
    if (gpu && admit_find_gpu(admit, handoff->uuid, &params->uploader, &admit->err) < 0)
        return;
    if (feed_open(params, &admit->feed, &admit->err) == 0 && gpu)
        admit_make_ports(admit);
}

static enum dlp_error code_of(int error)
{
    switch (error) {
    case -ENOMEM:
        return DLP_ERROR_NO_MEMORY;
    case -EAGAIN: /* no thread: passes as clients leave */
        return DLP_ERROR_TOO_MANY;
    case -EINVAL:
        return DLP_ERROR_BAD_REQUEST;
    case -ENODEV:
        return DLP_ERROR_GPU;
    default:
        return DLP_ERROR_INTERNAL;
    }
}

static bool wait_for_memory(struct admit *admit, uint64_t most)
{
    uint64_t now = clock_ns();
    if (!admit->waits_since)
        admit->waits_since = now;
    if (now - admit->waits_since > most)
        return false;
    group_give_memory(admit->group);
    admit->stage = ADMIT_MEMORY;
    return true;
}

/* What members of an ended mirror group still map is as a rule about to be unmapped. */
static bool wait_for_leavers(struct admit *admit)
{
    const struct control *control = admit->session->control;
    bool orphaned = reclaim_look(control->reclaim);
    return (control->nclosing || orphaned) && wait_for_memory(admit, MEMORY_WAIT_NS);
}

/* The promises leave room, so that it is records held ahead of need which take it. */
static bool wait_for_readers(struct admit *admit)
{
    struct control *control = admit->session->control;
    bool readers = false;
    if (!admit->presses)
        budget_press(control->options.budget);
    admit->presses = true;
    for (struct group *group = control->groups; group; group = group->next) {
        if (group->state != GROUP_STREAMING)
            continue;
        feed_shed(group->feed);
        readers = true;
    }
    return readers && wait_for_memory(admit, PRESS_WAIT_NS);
}

/* A session that fails here stays in the list. */
static void wake_others(struct group *group)
{
    for (struct session *s = group->control->sessions, *next; s; s = next) {
        next = s->next;
        if (s->group == group && s->admit && s->admit->stage == ADMIT_GROUP)
            admit_go_on(s->admit);
    }
}

void admit_have_feed(struct admit *admit)
{
    struct session *session = admit->session;
    struct group *group = admit->group;
    bool others = group_stream(group, admit->feed);
    if (others && admit->cancelled && group->handoff.kind != DLP_MEMORY_HOST)
        feed_leave_port(group->feed, 0);
    if (admit->cancelled) {
        admit_free(admit);
        session_reap(session);
    } else if (group->handoff.kind == DLP_MEMORY_HOST) {
        admit_stream(admit, admit->first);
    } else {
        admit_begin_stream(admit, admit->first);
    }
    if (!others)
        return;
    group_close_ports(group);
    wake_others(group);
}

/* Also of an opener that has gone: the others have theirs from the first batch on. */
static void offer_port(struct admit *admit)
{
    admit_expect_ports(admit);
    feed_enter_port(admit->feed, 0);
    if (admit->cancelled) {
        admit_have_feed(admit);
        return;
    }
    admit->session->port = 0;
    admit_wait_for_check(admit, admit->feed, admit->first);
}

static void restore_slots(struct group *group)
{
    if (group->handoff.slots)
        group->params.slots = group->handoff.slots;
}

/* The number of slots is the feed's setting: where a GPU has no room for them a few may do. */
static bool try_fewer_slots(struct admit *admit)
{
    struct group *group = admit->group;
    uint32_t slots =
        handoff_lower(&group->handoff, &admit->wish, group->params.slots, admit->err.text);
    if (!slots)
        return false;
    group->params.slots = slots;
    group_give_memory(group);
    admit_take_memory(admit, clock_ns());
    return true;
}

/* The feed, or why there is none. */
static void go_on_with(struct admit *admit, bool gpu)
{
    if (admit->feed && gpu)
        offer_port(admit);
    else if (admit->feed)
        admit_have_feed(admit);
    else if (admit->cancelled)
        admit_drop(admit);
    else if (gpu && admit->err.code == -ENOSPC && try_fewer_slots(admit))
        return;
    else if (gpu && (admit->err.code == -ENODEV || admit->err.code == -ENOSPC))
        admit_fall_back(admit, admit->err.text);
    else if (admit->err.code != -ENOMEM || !(wait_for_readers(admit) || wait_for_leavers(admit)))
        admit_fail(admit, code_of(admit->err.code), admit->err.text);
}

static void opened(uv_work_t *work, int status)
{
    struct admit *admit = work->data;
    struct control *control = admit->session->control;
    bool gpu = admit->group->handoff.kind != DLP_MEMORY_HOST;
    (void)status;
    control->gpu_opens -= gpu;
    go_on_with(admit, gpu);
    if (gpu)
        control_settled(control); /* others wait for that */
}

/* After our restart the members come back, each for a batch of its own: the feed begins with the
 * first of these. */
static void begin_with_the_least(struct group *group)
{
    for (const struct session *s = group->members; s; s = s->fellow)
        if (s->comes_back && group_before(s->place, group->params.first))
            group->params.first = s->place;
}

void admit_take_memory(struct admit *admit, uint64_t now)
{
    struct error err = {0};
    int rc = allowance_check(admit->group, &err);
    if (rc == -ENOMEM && wait_for_leavers(admit))
        return;
    if (rc) {
        admit_fail(admit, DLP_ERROR_NO_MEMORY, err.text);
        return;
    }
    if (admit_wait_for_gpu(admit, now))
        return;
    group_promise(admit->group);
    admit->group->params.terms = terms_of(admit->group);
    begin_with_the_least(admit->group);
    admit_note_ports(admit);
    if (admit->group->handoff.kind != DLP_MEMORY_HOST)
        admit_ask_gpu(admit);
    admit_run(admit, ADMIT_OPEN, open_feed, opened);
}

void admit_wait_on(struct admit *admit, uint64_t now)
{
    admit_progress(admit, "waiting for memory that others give back", 0, 0);
    if (admit->presses || now - admit->waits_since > MEMORY_WAIT_NS)
        admit_take_memory(admit, now);
}

static void reckoned(uv_work_t *work, int status)
{
    struct admit *admit = work->data;
    (void)status;
    if (admit->cancelled) {
        admit_drop(admit);
        return;
    }
    memcpy(admit->session->user, admit->user, sizeof admit->user);
    mix_task_keep(admit->mix, admit->group->job);
    if (admit->err.code)
        admit_fail(admit, code_of(admit->err.code), admit->err.text);
    else
        admit_take_memory(admit, clock_ns());
}

static void begin_to_reckon(struct admit *admit)
{
    const struct feed_params *params = &admit->group->params;
    admit->waits_since = 0;
    if (!admit->place.reconnects) /* a trainer waits: mix_watch looks later */
        admit->mix = mix_task_new(admit->group->job, params->spec, params->first.epoch);
    admit_run(admit, ADMIT_RECKON, reckon, reckoned);
}

void admit_fall_back(struct admit *admit, const char *reason)
{
    struct group *group = admit->group;
    struct refusal refusal;
    char who[SESSION_WORDS_MAX];
    log_notice("%s: batches not by %s: %s", session_words(admit->session, who, sizeof who),
               handoff_name(group->handoff.kind), reason);
    group_give_memory(group);
    if (handoff_fall_back(&group->handoff, &admit->wish, group->params.spec, reason,
                          admit->session->life >= 0, &refusal)) {
        admit_fail(admit, refusal.code, refusal.text);
        return;
    }
    if (group->handoff.kind == DLP_MEMORY_HOST)
        restore_slots(group);
    admit_take_memory(admit, clock_ns());
}

/* Members that have come back, and as many as those who know say there were. */
static uint32_t come_back(const struct group *group, uint32_t *all)
{
    uint32_t count = 0;
    *all = 0;
    for (const struct session *s = group->members; s; s = s->fellow) {
        if (!s->admit || !s->admit->place.reconnects)
            continue;
        count++;
        if (s->admit->place.members > *all)
            *all = s->admit->place.members;
    }
    return count;
}

/* A trainer comes back when its step is over, so it is waited for until it would have given up, or
 * as long as in a running group. */
static uint64_t gather_ns(const struct feed_spec *spec, uint32_t back, uint32_t all)
{
    if (back >= all)
        return GATHER_NS;
    bool bound = spec->lag != LAG_WAIT && spec->lag_bound < GATHER_MAX_S;
    return (bound ? spec->lag_bound : GATHER_MAX_S) * CLOCK_SECOND;
}

void admit_gather(struct admit *admit, uint64_t now)
{
    char text[DLP_TEXT_MAX];
    uint32_t all, back = come_back(admit->group, &all);
    uint64_t most = gather_ns(admit->group->params.spec, back, all);
    if (now - admit->waits_since >= most) {
        begin_to_reckon(admit);
        return;
    }
    if (back < all)
        snprintf(text, sizeof text,
                 "waiting for the members of group %s to come back after a restart: %u of %u have, "
                 "for %.0f s at most",
                 admit->group->job->name, back, all, (double)most / CLOCK_SECOND);
    else
        snprintf(text, sizeof text, "waiting for the other members of group %s to come back",
                 admit->group->job->name);
    admit_progress(admit, text, back, all);
}

void admit_open(struct admit *admit)
{
    struct group *group = admit->group;
    struct feed_params *params = &group->params;
    struct refusal refusal;
    if (!params->dataset)
        params->dataset = dataset_ref(group->job->dataset);
    restore_slots(group); /* of another that was to open it */
    if (place_find(&admit->place, group->job, params, &refusal) ||
        handoff_choose(&group->handoff, &admit->wish, params->spec, params->slots,
                       admit->session->life >= 0, &refusal)) {
        admit_fail(admit, refusal.code, refusal.text);
        return;
    }
    admit->first = params->first;
    admit->opens = true;
    group->opener = admit->session;
    group->owner = admit->session->peer.uid;
    group->params.reader = admit->session->peer.pid;
    if (!admit->place.reconnects || !group->job->shared) {
        begin_to_reckon(admit);
        return;
    }
    admit->stage = ADMIT_GATHER;
    admit->waits_since = clock_ns();
}
