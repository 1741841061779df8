#include "control/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "control/admit.h"
#include "control/advice.h"
#include "control/appraise.h"
#include "control/autoscale.h"
#include "control/drain.h"
#include "control/group.h"
#include "control/heartbeat.h"
#include "control/http.h"
#include "control/replay.h"
#include "control/settings.h"
#include "control/status_client.h"
#include "proto/frames.h"

/* So many of each keep a part well under DLP_FRAME_TO_CLIENT_MAX. */
#define CLIENTS_A_PART 128
#define FEEDS_A_PART 16
#define NOTES_A_FEED 16

struct feed_view {
    Dlp__FeedStatus status;
    struct stages_status stages;
    struct takings_status takings;
    char *notes[NOTES_A_FEED];
    char verdict[VERDICT_TEXT_MAX];
    struct remedy remedies[ADVICE_MAX];
    char *remedy_list[ADVICE_MAX];
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

static void say_what_reader_does(const struct census *census, const struct view *view, char *text,
                                 size_t size)
{
    struct feed_stats stats = view->stats;
    if (!census->names && (stats.wait == FEED_WAITS_STORAGE || stats.wait == FEED_WAITS_DESCRIPTOR))
        *stats.wait_what = '\0';
    gauge_reason(&stats, census->now, text, size);
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
    } else if (group->replay) {
        replay_words(group, text, sizeof text);
    } else {
        say_what_reader_does(census, view, text, sizeof text);
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
    out->replaying = group->replay != NULL;
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
    out->allow_replay = session->allow_replay;
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

/* Once all clients are filled: one may be limited by another. */
static void judge_client(const struct census *census, struct view *view)
{
    struct verdict_input input;
    appraise_client(census, view, &input);
    enum verdict_stage stage = verdict(&input, view->verdict, sizeof view->verdict);
    view->status.limiting_stage = (char *)verdict_stage_name(stage);
    view->status.verdict = view->verdict;
}

static void fill_clients(struct census *census)
{
    for (uint32_t i = 0; i < census->count; i++)
        fill_client(census, &census->views[i]);
    for (uint32_t i = 0; i < census->count; i++)
        judge_client(census, &census->views[i]);
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
    out->bad_limit_stops = past->bad_limit_stops;
}

/* Windows of streams differ, so their sum may come to more than all workers. */
static double share_of(double busy, const struct census *census)
{
    double share = busy / census->workers;
    return share < 1 ? share : 1;
}

/* Sums over the feed's streams become shares and rates of the feed. */
static void fill_shares(const struct census *census, const struct stages *sum, Dlp__FeedStatus *out)
{
    double decoding = out->decode_busy;
    out->decode_per_worker = decoding > 0 ? out->decode_per_worker / decoding : 0;
    out->read_busy = sum->streams ? sum->read_busy / sum->streams : 0;
    out->read_limit = sum->read_limit;
    out->decode_busy = share_of(out->decode_busy, census);
    out->handoff_busy = share_of(sum->finish.busy, census);
    out->shuffle_fill =
        sum->shuffle_target ? (double)sum->shuffle_held / (double)sum->shuffle_target : 0;
    out->decoded = sum->work.decoded;
    out->read_bytes = sum->work.read_bytes;
    out->read_errors = sum->work.read_errors;
}

/* Some are differences of counters that are not read at one moment: what was told stays. */
static void keep_told(struct control_totals *totals, Dlp__StageStatus *stages)
{
    for (int i = 0; i < STAGES; i++) {
        if (stages[i].busy_ns > totals->told_ns[i])
            totals->told_ns[i] = stages[i].busy_ns;
        stages[i].busy_ns = totals->told_ns[i];
    }
}

static void fill_feed_rates(const struct census *census, uint32_t number, struct feed_view *feed)
{
    struct control_totals *past = &census->control->totals[number];
    Dlp__FeedStatus *out = &feed->status;
    struct stages sum = {.work = past->work, .workers = census_workers_left_to(census, number)};
    fill_past(past, out);
    feed->takings.sum = past->takings;
    for (uint32_t i = 0; i < census->count; i++) {
        const struct view *view = &census->views[i];
        if (view->session->feed_number != number)
            continue;
        out->clients++;
        out->skipped += view->session->skipped;
        if (view->session->state == SESSION_STREAMING)
            takings_add(&feed->takings.sum, view->session->gauge, census->now);
        if (view->counts)
            add_stream(view, &sum, out);
    }
    takings_fill(&feed->takings, out);
    fill_shares(census, &sum, out);
    stages_fill(&sum, &feed->stages);
    keep_told(past, feed->stages.stages);
    out->stages = feed->stages.list;
    out->n_stages = STAGES;
}

static void add_feed_note(struct feed_view *view, const char *text)
{
    char note[DLP_TEXT_MAX];
    if (view->status.n_notes < NOTES_A_FEED)
        view->notes[view->status.n_notes++] = mem_string(dlp_escape(text, note, sizeof note));
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

/* What the advice needs to know besides the figures; the first of the feed's trainers stands for
 * all. */
static void describe_feed(const struct census *census, uint32_t number, struct advice_input *in)
{
    const struct control *control = census->control;
    const struct feed_spec *spec = control->options.feeds[number];
    const struct dataset *dataset = datasets_peek(control->datasets, number);
    in->shuffle = spec->shuffle;
    in->memory = budget_limit(control->options.budget);
    for (uint32_t i = 0; i < spec->nfields; i++)
        if (spec->fields[i].kind == FIELD_IMAGE)
            in->transform = &spec->transform;
    for (uint32_t i = 0; i < census->count && !in->slots; i++) {
        const struct view *view = &census->views[i];
        if (view->session->feed_number != number || !view->stats.slots)
            continue;
        in->slots = view->stats.slots;
        in->slot_bytes = view->stats.arena_bytes / view->stats.slots;
    }
    if (!dataset || !dataset_records(dataset))
        return;
    in->marks = dataset_marks_bytes(dataset) > 0;
    in->data_bytes = dataset_bytes(dataset);
    in->record_bytes = in->data_bytes / dataset_records(dataset);
}

static void judge_feed(const struct census *census, uint32_t number, struct feed_view *view)
{
    struct advice_input in = {0};
    Dlp__FeedStatus *out = &view->status;
    bool used = appraise_feed(census, number, &in.figures);
    in.stage = verdict(used ? &in.figures : NULL, view->verdict, sizeof view->verdict);
    out->limiting_stage = (char *)verdict_stage_name(in.stage);
    out->verdict = view->verdict;
    if (!used)
        return;
    describe_feed(census, number, &in);
    out->n_remedies = advice(&in, view->remedies);
    out->remedies = view->remedy_list;
    for (size_t i = 0; i < out->n_remedies; i++)
        view->remedy_list[i] = view->remedies[i].text;
}

static void fill_feed(const struct census *census, uint32_t number, struct feed_view *view)
{
    const struct control *control = census->control;
    const struct dataset *dataset = datasets_peek(control->datasets, number);
    Dlp__FeedStatus *out = &view->status;
    dlp__feed_status__init(out);
    out->name = control->options.feeds[number]->name;
    fill_feed_rates(census, number, view);
    judge_feed(census, number, view);
    out->notes = view->notes;
    if (control->totals[number].removed)
        add_feed_note(view, "it is no longer configured: its jobs go on until they end");
    if (!dataset)
        return;
    out->records = dataset_records(dataset);
    out->shards = dataset_shards(dataset);
    out->marks_bytes = dataset_marks_bytes(dataset);
    add_mix_notes(control, view);
    add_marks_note(view, dataset);
    for (uint32_t i = 0; census->names && i < dataset_notes(dataset); i++)
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
    reply->workers_max = autoscale_most(control->autoscale);
    reply->workers_why = (char *)autoscale_why(control->autoscale);
    reply->throttled_share = autoscale_throttled(control->autoscale);
    reply->memory_limit = budget_limit(options->budget);
    /* The workers take all of their share at the start, whether there is work or not. */
    reply->memory_used =
        budget_used(options->budget, BUDGET_USES) - budget_used(options->budget, BUDGET_DECODE);
    reply->memory_orphaned = budget_used(options->budget, BUDGET_ORPHANED);
    reply->device = (char *)gpus_words(options->gpus, device);
    reply->worker_cpus = (char *)options->worker_cpus;
    reply->http = (char *)http_words(control->http);
    reply->malformed_peers = control->malformed;
    reply->refused = control->refused;
    reply->draining_ns = drain_ns(control, clock_ns());
}

/* A removed feed is, as long as it has clients. */
static bool is_shown(const struct census *census, uint32_t number)
{
    bool shown = !census->control->totals[number].removed;
    for (uint32_t i = 0; !shown && i < census->count; i++)
        shown = census->views[i].session->feed_number == number;
    return shown;
}

static void fill_all(struct status *status)
{
    struct census *census = &status->census;
    Dlp__StatusReply *reply = &status->reply;
    uint32_t nfeeds = census->control->options.nfeeds;
    reply->clients = mem_array(census->count + 1, sizeof(Dlp__ClientStatus *));
    reply->feeds = mem_array(nfeeds + 1, sizeof(Dlp__FeedStatus *));
    status->feeds = mem_array(nfeeds + 1, sizeof *status->feeds);
    fill_clients(census);
    for (uint32_t i = 0; i < census->count; i++)
        reply->clients[reply->n_clients++] = &census->views[i].status;
    for (uint32_t i = 0; i < nfeeds; i++) {
        if (!is_shown(census, i))
            continue;
        struct feed_view *view = &status->feeds[reply->n_feeds];
        fill_feed(census, i, view);
        reply->feeds[reply->n_feeds++] = &view->status;
    }
}

struct status *status_new(const struct control *control, bool names)
{
    struct status *status = mem_new(sizeof *status);
    census_take(&status->census, control);
    status->census.names = names;
    dlp__status_reply__init(&status->reply);
    fill_daemon(control, status->device, &status->reply);
    fill_all(status);
    vacancy_list(control, status->census.now, &status->vacancy);
    status->reply.vacant = status->vacancy.list;
    status->reply.n_vacant = status->vacancy.count;
    user_list_take(&status->users, &status->census);
    status->reply.users = status->users.list;
    status->reply.n_users = status->users.count;
    status->reply.notes = status->notes;
    status->reply.n_notes = settings_notes(control, status->notes);
    return status;
}

void status_free(struct status *status)
{
    for (size_t i = 0; i < status->reply.n_feeds; i++)
        for (size_t k = 0; k < status->feeds[i].status.n_notes; k++)
            free(status->feeds[i].notes[k]);
    free(status->feeds);
    free(status->reply.feeds);
    free(status->reply.clients);
    user_list_free(&status->users);
    census_free(&status->census);
    free(status);
}

/* The lists of `part` go on behind what it has; single values and the rest are as in the whole. */
static void next_part(const Dlp__StatusReply *whole, Dlp__StatusReply *part)
{
    size_t clients = (size_t)(part->clients - whole->clients) + part->n_clients;
    size_t feeds = (size_t)(part->feeds - whole->feeds) + part->n_feeds;
    part->clients = whole->clients + clients;
    part->feeds = whole->feeds + feeds;
    clients = whole->n_clients - clients;
    feeds = whole->n_feeds - feeds;
    part->n_clients = clients < CLIENTS_A_PART ? clients : CLIENTS_A_PART;
    part->n_feeds = feeds < FEEDS_A_PART ? feeds : FEEDS_A_PART;
    part->more = clients > CLIENTS_A_PART || feeds > FEEDS_A_PART;
}

void status_reply(struct session *session, uint64_t id)
{
    struct status *status = status_new(session->control, true);
    Dlp__StatusReply part = status->reply;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_STATUS_REPLY;
    env.status_reply = &part;
    part.n_clients = part.n_feeds = 0;
    do {
        next_part(&status->reply, &part);
        session_send(session, &env);
        part.n_vacant = part.n_notes = part.n_users = 0; /* they are with the first part */
    } while (part.more);
    status_free(status);
}

/* Message by message, so that as many clients as there is room for are in it; feeds go first.
 * Returns how many clients are not. */
static uint64_t keep(struct heartbeat *heartbeat, const Dlp__StatusReply *whole)
{
    uint64_t left_out = 0;
    Dlp__StatusReply part = *whole;
    part.n_clients = part.n_feeds = part.n_users = 0;
    heartbeat_add(heartbeat, &part);
    dlp__status_reply__init(&part);
    part.users = whole->users;
    part.n_users = whole->n_users;
    heartbeat_add(heartbeat, &part);
    part.n_users = 0;
    part.n_feeds = 1;
    for (size_t i = 0; i < whole->n_feeds; i++) {
        part.feeds = whole->feeds + i;
        heartbeat_add(heartbeat, &part);
    }
    part.n_feeds = 0;
    part.n_clients = 1;
    for (size_t i = 0; i < whole->n_clients; i++) {
        part.clients = whole->clients + i;
        left_out += !heartbeat_add(heartbeat, &part);
    }
    return left_out;
}

void status_keep(const struct control *control)
{
    struct heartbeat *heartbeat = control->options.heartbeat;
    if (!heartbeat || !heartbeat_due(heartbeat, clock_ns()))
        return;
    heartbeat_begin(heartbeat);
    struct status *status = status_new(control, true);
    heartbeat_show(heartbeat, keep(heartbeat, &status->reply));
    status_free(status);
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
