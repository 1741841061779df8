#include "control/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "control/admit.h"
#include "control/census.h"
#include "control/drain.h"
#include "control/group.h"
#include "control/settings.h"
#include "control/status_client.h"
#include "control/vacancy.h"
#include "proto/frames.h"

/* So many of each keep a part well under DLP_FRAME_TO_CLIENT_MAX. */
#define CLIENTS_A_PART 256
#define FEEDS_A_PART 16
#define NOTES_A_FEED 16

struct feed_view {
    Dlp__FeedStatus status;
    struct stages_status stages;
    char notes[NOTES_A_FEED][DLP_TEXT_MAX];
    char *list[NOTES_A_FEED];
};

static const char *state_name(const struct session *session)
{
    switch (session->state) {
    case SESSION_ATTACHING:
        return "attaching";
    case SESSION_STREAMING:
        return session->group->stop.code || session->gpu_lost ? "stopped"
               : session->lagging                             ? "lagging"
                                                              : "streaming";
    default: /* detached or gone; its threads and memory go */
        return "closing";
    }
}

/* Batches that the client may take, and those that it has taken and not given back. */
static void count_lent(const struct session *session, Dlp__ClientStatus *out)
{
    for (uint32_t slot = 0; slot < session->group->params.slots; slot++) {
        enum loan_state lent = session->lent[slot];
        out->ready += lent == LOAN_DUE || lent == LOAN_TOLD;
        out->held += lent == LOAN_HELD || lent == LOAN_KEPT;
    }
}

/* It has nothing to take because another member holds the slots; NULL: nobody does. */
static const struct session *waited_for(const struct session *session)
{
    const struct session *slow = lag_idle(session) ? lag_holder(session->group) : NULL;
    return slow == session ? NULL : slow;
}

static void fill_reason(const struct census *census, struct view *view)
{
    char text[600];
    const struct group *group = view->session->group;
    const struct session *slow = waited_for(view->session);
    if (slow) {
        uint64_t behind = group_distance(group, slow->place, group->place);
        uint64_t waited = group->lag.generation ? census->now - group->lag.since : 0;
        view->status.waits_for = slow->peer.pid;
        snprintf(text, sizeof text,
                 "waits for pid %d of group %s, %" PRIu64 " batch%s behind, %.1f s",
                 (int)slow->peer.pid, group->job->name, behind, behind == 1 ? "" : "es",
                 (double)waited / (double)CLOCK_SECOND);
    } else if (group_before(group->place, view->session->place)) {
        snprintf(text, sizeof text,
                 "waits for its group, which is at epoch %" PRIu64 ", step %" PRIu64,
                 group->place.epoch, group->place.step);
    } else {
        gauge_reason(&view->stats, census->now, text, sizeof text);
    }
    view->status.reason = dlp_escape(text, view->reason, sizeof view->reason);
}

static void fill_stream_figures(const struct census *census, struct view *view)
{
    const struct session *session = view->session;
    const struct group *group = session->group;
    const struct feed_stats *stats = &view->stats;
    Dlp__ClientStatus *out = &view->status;
    out->epoch = session->place.epoch;
    out->step = session->place.step;
    out->steps = feed_steps(view->feed, session->place.epoch);
    out->plan_id = (char *)feed_plan_id(view->feed);
    out->bad = stats->bad;
    out->dropped = stats->dropped;
    out->arena_bytes = stats->arena_bytes;
    out->shuffle_bytes = stats->shuffle_bytes;
    count_lent(session, out);
    out->skipped = session->skipped;
    if (session->state == SESSION_STREAMING)
        out->behind = group_distance(group, session->place, group->place);
    fill_reason(census, view);
}

static void fill_group(struct view *view)
{
    const struct group *group = view->session->group;
    Dlp__ClientStatus *out = &view->status;
    if (!group)
        return;
    out->slots = group->params.slots;
    out->memory = (char *)handoff_name(group->handoff.kind);
    out->memory_why = dlp_escape(group->handoff.why, view->memory_why, sizeof view->memory_why);
    if (group->handoff.kind != DLP_MEMORY_HOST)
        out->gpu = uploaders_uuid_text(view->session->gpu, view->gpu);
    out->members = group->nmembers;
    if (group->job && group->job->shared)
        out->group = group->job->name;
}

static void fill_client(const struct census *census, struct view *view)
{
    const struct session *session = view->session;
    Dlp__ClientStatus *out = &view->status;
    dlp__client_status__init(out);
    out->pid = session->peer.pid;
    out->uid = session->peer.uid;
    out->user = (char *)session->user;
    out->program = (char *)session->program;
    out->job = (char *)session->job_name;
    out->rank = session->rank;
    out->world = session->world;
    out->feed = session->spec->name;
    fill_group(view);
    out->probe = session->probe;
    out->lease = (char *)session->lease;
    out->state = (char *)state_name(session);
    out->started = (char *)session->started;
    out->idle_ns = census->now - session->heard;
    out->attached_ns = census->now - session->attached;
    out->number = session->number;
    if (session->admit)
        out->reason =
            dlp_escape(admit_waits_for(session->admit), view->reason, sizeof view->reason);
    if (!view->feed)
        return;
    status_client_figures(census, view);
    fill_stream_figures(census, view);
}

static void add_stream(const struct view *view, struct stages *sum, Dlp__FeedStatus *out)
{
    const struct window_rates *rates = &view->rates;
    if (view->session->state == SESSION_STREAMING) { /* else among the past ones */
        out->bad += view->stats.bad;
        out->damaged += view->stats.damaged;
        out->marks_used += view->stats.marks_used;
        out->marks_wrong += view->stats.marks_wrong;
        out->marks_kept += view->stats.marks_kept;
        feed_work_add(&sum->work, &view->stats.work);
    }
    stages_add(sum, rates, &view->stats);
    double decoding = rates->decode_busy + rates->augment_busy;
    out->decode_busy += decoding;
    out->decode_per_worker += rates->decode_per_worker * decoding;
    out->read_bytes_per_s += rates->read_bytes_per_s;
    out->samples_per_s += rates->samples_per_s;
    if (rates->window_s > out->window_s)
        out->window_s = rates->window_s;
}

static void fill_past(const struct control_totals *past, Dlp__FeedStatus *out)
{
    out->bad = past->bad;
    out->damaged = past->damaged;
    out->marks_used = past->marks_used;
    out->marks_wrong = past->marks_wrong;
    out->marks_kept = past->marks_kept;
    out->skipped = past->skipped;
    out->lag_detached = past->lag_detached;
}

/* Sums over the feed's streams become shares and rates of the feed. */
static void fill_shares(const struct census *census, const struct stages *sum, Dlp__FeedStatus *out)
{
    double decoding = out->decode_busy;
    out->decode_per_worker = decoding > 0 ? out->decode_per_worker / decoding : 0;
    out->read_busy = sum->streams ? sum->read_busy / sum->streams : 0;
    out->read_limit = sum->read_limit;
    out->decode_busy /= census->workers;
    out->handoff_busy = sum->finish.busy / census->workers;
    out->shuffle_fill =
        sum->shuffle_target ? (double)sum->shuffle_held / (double)sum->shuffle_target : 0;
    out->decoded = sum->work.decoded;
    out->read_bytes = sum->work.read_bytes;
    out->read_errors = sum->work.read_errors;
}

static void fill_feed_rates(const struct census *census, uint32_t number, struct feed_view *feed)
{
    const struct control_totals *past = &census->control->totals[number];
    Dlp__FeedStatus *out = &feed->status;
    struct stages sum = {.work = past->work, .workers = census_workers_left_to(census, number)};
    fill_past(past, out);
    for (uint32_t i = 0; i < census->count; i++) {
        const struct view *view = &census->views[i];
        if (view->session->feed_number != number)
            continue;
        out->clients++;
        out->skipped += view->session->skipped;
        if (view->counts)
            add_stream(view, &sum, out);
    }
    fill_shares(census, &sum, out);
    stages_fill(&sum, &feed->stages);
    out->stages = feed->stages.list;
    out->n_stages = STAGES;
}

static void add_feed_note(struct feed_view *view, const char *text)
{
    Dlp__FeedStatus *out = &view->status;
    char *note = view->notes[out->n_notes];
    if (out->n_notes < NOTES_A_FEED)
        view->list[out->n_notes++] = dlp_escape(text, note, DLP_TEXT_MAX);
}

static void add_mix_notes(const struct control *control, struct feed_view *view)
{
    for (const struct job *job = jobs_first(control->jobs); job; job = job->next) {
        char text[DLP_TEXT_MAX];
        if (!job->mix_note || !job->nclaims || strcmp(job->feed, view->status.name) != 0)
            continue;
        snprintf(text, sizeof text, "%s %s, %s", jobs_word(job->shared), job->name, job->mix_note);
        add_feed_note(view, text);
    }
}

static void add_marks_note(struct feed_view *view, const struct dataset *dataset)
{
    char text[DLP_TEXT_MAX];
    int code = dataset_marks_failed(dataset);
    if (!code)
        return;
    snprintf(text, sizeof text,
             "marks cannot be kept any more: %s; pictures that lack them are decoded without",
             strerror(-code));
    add_feed_note(view, text);
}

static void fill_feed(const struct census *census, uint32_t number, struct feed_view *view)
{
    const struct control *control = census->control;
    const struct dataset *dataset = datasets_peek(control->datasets, number);
    Dlp__FeedStatus *out = &view->status;
    dlp__feed_status__init(out);
    out->name = control->options.feeds[number]->name;
    fill_feed_rates(census, number, view);
    out->notes = view->list;
    if (control->totals[number].removed)
        add_feed_note(view, "it is no longer configured: its jobs go on until they end");
    if (!dataset)
        return;
    out->records = dataset_records(dataset);
    out->shards = dataset_shards(dataset);
    out->marks_bytes = dataset_marks_bytes(dataset);
    add_mix_notes(control, view);
    add_marks_note(view, dataset);
    for (uint32_t i = 0; i < dataset_notes(dataset); i++)
        add_feed_note(view, dataset_note(dataset, i));
}

/* device: room for words that the reply points to */
static void fill_daemon(const struct control *control, char *device, Dlp__StatusReply *reply)
{
    const struct control_options *options = &control->options;
    reply->pid = getpid();
    reply->uptime_ns = clock_ns() - control->started;
    reply->version = DATALOADD_VERSION;
    reply->socket = (char *)options->socket_path;
    reply->workers = workers_threads(options->workers);
    reply->memory_limit = budget_limit(options->budget);
    /* The workers take all of their share at the start, whether there is work or not. */
    reply->memory_used =
        budget_used(options->budget, BUDGET_USES) - budget_used(options->budget, BUDGET_DECODE);
    reply->memory_orphaned = budget_used(options->budget, BUDGET_ORPHANED);
    reply->device = (char *)gpus_words(options->gpus, device);
    reply->worker_cpus = (char *)options->worker_cpus;
    reply->malformed_peers = control->malformed;
    reply->refused = control->refused;
    reply->draining_ns = drain_ns(control, clock_ns());
}

struct parts { /* of one status answer: how far it has come */
    uint32_t client, feed;
    Dlp__ClientStatus *clients[CLIENTS_A_PART];
    Dlp__FeedStatus *feeds[FEEDS_A_PART];
    struct feed_view views[FEEDS_A_PART];
    struct vacancy vacancy;
    char device[GPUS_TEXT_MAX];
    char *notes[SETTINGS_NOTES_MAX];
};

/* A removed feed is, as long as it has clients. */
static bool is_shown(const struct census *census, uint32_t number)
{
    bool shown = !census->control->totals[number].removed;
    for (uint32_t i = 0; !shown && i < census->count; i++)
        shown = census->views[i].session->feed_number == number;
    return shown;
}

static void fill_part(struct census *census, struct parts *parts, Dlp__StatusReply *reply)
{
    uint32_t nfeeds = census->control->options.nfeeds;
    for (; parts->client < census->count && reply->n_clients < CLIENTS_A_PART; parts->client++) {
        struct view *view = &census->views[parts->client];
        fill_client(census, view);
        parts->clients[reply->n_clients++] = &view->status;
    }
    for (; parts->feed < nfeeds && reply->n_feeds < FEEDS_A_PART; parts->feed++) {
        if (!is_shown(census, parts->feed))
            continue;
        struct feed_view *view = &parts->views[reply->n_feeds];
        fill_feed(census, parts->feed, view);
        parts->feeds[reply->n_feeds++] = &view->status;
    }
    reply->clients = parts->clients;
    reply->feeds = parts->feeds;
    reply->more = parts->client < census->count || parts->feed < nfeeds;
}

void status_reply(struct session *session, uint64_t id)
{
    struct census census;
    census_take(&census, session->control);
    cleanup_free struct parts *parts = mem_new(sizeof *parts);
    vacancy_list(session->control, census.now, &parts->vacancy);
    bool more = true;
    while (more) {
        Dlp__StatusReply reply = DLP__STATUS_REPLY__INIT;
        fill_daemon(session->control, parts->device, &reply);
        reply.notes = parts->notes;
        reply.n_notes = settings_notes(session->control, parts->notes);
        fill_part(&census, parts, &reply);
        reply.vacant = parts->vacancy.list;
        reply.n_vacant = parts->vacancy.count;
        parts->vacancy.count = 0;
        Dlp__Envelope env = DLP__ENVELOPE__INIT;
        env.id = id;
        env.body_case = DLP__ENVELOPE__BODY_STATUS_REPLY;
        env.status_reply = &reply;
        session_send(session, &env);
        more = reply.more;
    }
    census_free(&census);
}

void status_pong(struct session *session, uint64_t id)
{
    Dlp__Pong pong = DLP__PONG__INIT;
    pong.pid = getpid();
    pong.uptime_ns = clock_ns() - session->control->started;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_PONG;
    env.pong = &pong;
    session_send(session, &env);
}
