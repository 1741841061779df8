#include "control/appraise.h"

#include <string.h>

#include "control/group.h"
#include "control/session.h"

#define WORTH_SAYING 0.05

/* Whose figures are added up: the clients of a feed that are probes or are none, or those of a job.
 */
struct selection {
    uint32_t feed_number;
    bool probe;
    const char *job; /* NULL: all */
};

struct sum {
    struct stages stages;
    double decoding; /* workers' seconds a second */
    double longest_wait;
    double most; /* that one of them could take */
    const struct view *one;
    bool several; /* users */
};

static struct share_terms terms_of(const struct view *view)
{
    const struct group *group = view->session->group;
    return group ? group->params.terms : (struct share_terms){0};
}

static bool same_stream(const struct view *a, const struct view *b)
{
    const struct group *group = a->session->group;
    return group && group->nmembers > 1 && group == b->session->group;
}

/* The pid that members of its group wait for; 0 = none. */
static int awaited_in(const struct census *census, const struct view *view)
{
    for (uint32_t i = 0; i < census->count; i++)
        if (census->views[i].status.waits_for && same_stream(view, &census->views[i]))
            return census->views[i].status.waits_for;
    return 0;
}

/* Who is waited for, else the member that waits least, sets the pace of its group; without a group
 * the client itself. */
static const struct view *pacemaker(const struct census *census, const struct view *view)
{
    const struct view *found = NULL;
    if (!same_stream(view, view))
        return view;
    int awaited = awaited_in(census, view);
    for (uint32_t i = 0; i < census->count; i++) {
        const struct view *other = &census->views[i];
        if (!same_stream(view, other))
            continue;
        if (awaited && other->status.pid == awaited)
            return other;
        if (other->session->state == SESSION_STREAMING && !other->session->lagging &&
            (!found || other->status.wait_share < found->status.wait_share))
            found = other;
    }
    return found ? found : view;
}

static bool waits_on(const struct view *view, const struct view *other)
{
    return view->status.waits_for == other->status.pid ||
           view->status.wait_share > other->status.wait_share + WORTH_SAYING;
}

/* Does anybody wait for it? */
static bool holds_others_up(const struct census *census, const struct view *view)
{
    if (!same_stream(view, view))
        return false;
    for (uint32_t i = 0; i < census->count; i++)
        if (same_stream(view, &census->views[i]) && waits_on(&census->views[i], view))
            return true;
    return false;
}

static double copy_limit(Dlp__StageStatus *const *stages, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(stages[i]->name, "copy") == 0)
            return stages[i]->limit;
    return 0;
}

static bool selected(const struct selection *which, const struct view *view)
{
    const struct session *session = view->session;
    return session->feed_number == which->feed_number && session->probe == which->probe &&
           (!which->job || strcmp(session->job_name, which->job) == 0);
}

static double demand_of(const Dlp__ClientStatus *client)
{
    return client->compute_limit > 0 ? client->compute_limit
                                     : verdict_demand(client->samples_per_s, client->wait_share);
}

/* Workers that a stream would take besides, were there enough for one that could take `demand`:
 * what is added is shared out equally. */
static double would_grow(const struct view *view, double demand)
{
    const Dlp__ClientStatus *client = &view->status;
    double could = demand_of(client), busy = view->rates.decode_busy + view->rates.augment_busy;
    if (could <= 0 || could > demand)
        could = demand;
    if (client->read_limit > 0 && could > client->read_limit)
        could = client->read_limit;
    double more = client->decode_per_worker > 0 ? could / client->decode_per_worker - busy : 0;
    return more > 0 ? more : 0;
}

/* All trainers' streams but this one, or but those of its feed. */
static double others_grow(const struct census *census, const struct view *own, bool feed,
                          double demand)
{
    double sum = 0;
    for (uint32_t i = 0; i < census->count; i++) {
        const struct view *view = &census->views[i];
        bool same = feed ? view->session->feed_number == own->session->feed_number
                         : view == own || same_stream(own, view);
        if (view->counts && !view->session->probe && !same)
            sum += would_grow(view, demand);
    }
    return sum;
}

/* What all clients of a feed have in common. */
static struct verdict_input common(const struct census *census, uint32_t feed_number)
{
    const struct control_options *options = &census->control->options;
    return (struct verdict_input){
        .workers = census->workers,
        .cpus = census->cpus,
        .throttled_share = census->throttled_share,
        .packed = !options->feeds[feed_number]->folder,
    };
}

/* Rates add up; shares of time are averaged at the end. */
static void add_stream(const struct view *view, struct sum *sum, struct verdict_input *input)
{
    const Dlp__ClientStatus *client = &view->status;
    double decoding = view->rates.decode_busy + view->rates.augment_busy;
    bool first = sum->stages.streams == 0;
    input->wait_share += client->wait_share;
    input->slots_held_share += client->slots_held_share;
    input->samples_per_s += client->samples_per_s;
    input->demand += demand_of(client);
    sum->several |= !first && terms_of(view).uid != terms_of(sum->one).uid;
    sum->one = view;
    if (demand_of(client) > sum->most)
        sum->most = demand_of(client);
    input->read_limit += client->read_limit;
    input->decode_limit += client->decode_limit;
    input->share += view->share;
    input->decode_per_worker += client->decode_per_worker * decoding;
    input->read_bytes_per_s += client->read_bytes_per_s;
    input->share_wait_share += view->rates.share_wait_share;
    sum->decoding += decoding;
    if (first || client->window_s < input->window_s)
        input->window_s = client->window_s;
    if (first || client->wait_share > sum->longest_wait) {
        sum->longest_wait = client->wait_share;
        input->cause = client->last_cause;
    }
    stages_add(&sum->stages, &view->rates, &view->stats);
}

static void finish_sum(const struct sum *sum, double workers, struct verdict_input *input)
{
    struct stages_status stages;
    stages_fill(&sum->stages, &stages);
    input->copy_limit = copy_limit(stages.list, STAGES);
    input->wait_share /= sum->stages.streams;
    input->slots_held_share /= sum->stages.streams;
    input->share_wait_share /= sum->stages.streams;
    input->decode_per_worker = sum->decoding > 0 ? input->decode_per_worker / sum->decoding : 0;
    /* Each client's limit counts the idle workers, which several clients share. */
    double all = input->decode_per_worker * workers;
    if (all > 0 && input->decode_limit > all)
        input->decode_limit = all;
}

/* Of a group its pacemaker counts. False: there are none. */
static bool add_up(const struct census *census, const struct selection *which,
                   struct verdict_input *input)
{
    struct sum sum = {.stages.workers = census->workers};
    *input = common(census, which->feed_number);
    for (uint32_t i = 0; i < census->count; i++) {
        const struct view *view = &census->views[i];
        if (!selected(which, view) || pacemaker(census, view) != view)
            continue;
        if (holds_others_up(census, view))
            input->slow_pid = view->status.pid;
        add_stream(view, &sum, input);
    }
    if (!sum.stages.streams)
        return false;
    input->user_threads = sum.several ? 0 : terms_of(sum.one).threads;
    input->others_grow = others_grow(census, sum.one, true, sum.most);
    finish_sum(&sum,
               which->probe ? input->workers : census_workers_left_to(census, which->feed_number),
               input);
    if (which->probe) {
        input->wait_share = 1;
        input->slots_held_share = input->demand = 0;
    }
    return true;
}

static void appraise_trainer(const struct census *census, const struct view *view,
                             struct verdict_input *input)
{
    const Dlp__ClientStatus *client = &view->status;
    const struct view *pace = pacemaker(census, view);
    *input = common(census, view->session->feed_number);
    input->wait_share = client->wait_share;
    input->samples_per_s = client->samples_per_s;
    input->slow_pid = pace != view && waits_on(view, pace) ? pace->status.pid : 0;
    input->demand = demand_of(input->slow_pid ? &pace->status : client);
    input->read_limit = client->read_limit;
    input->decode_limit = client->decode_limit;
    input->share = view->share;
    input->user_threads = terms_of(view).threads;
    if (input->demand > input->decode_limit)
        input->others_grow = others_grow(census, view, false, input->demand);
    input->decode_per_worker = client->decode_per_worker;
    input->read_bytes_per_s = client->read_bytes_per_s;
    input->share_wait_share = view->rates.share_wait_share;
    input->copy_limit = copy_limit(client->stages, client->n_stages);
    input->slots_held_share = client->slots_held_share;
    input->window_s = client->window_s;
    input->cause = client->last_cause;
}

void appraise_client(const struct census *census, const struct view *view,
                     struct verdict_input *input)
{
    const struct session *session = view->session;
    const struct selection job = {session->feed_number, true, session->job_name};
    if (session->probe)
        add_up(census, &job, input);
    else
        appraise_trainer(census, view, input);
}

bool appraise_feed(const struct census *census, uint32_t number, struct verdict_input *input)
{
    const struct selection trainers = {number, false, NULL}, probes = {number, true, NULL};
    return add_up(census, &trainers, input) || add_up(census, &probes, input);
}
