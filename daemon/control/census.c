#include "control/census.h"

#include "base/mem.h"
#include "control/autoscale.h"
#include "control/group.h"
#include "control/session.h"
#include "control/stream_shares.h"

static bool worth_showing(const struct session *session)
{
    return session->group || session->admit;
}

static bool same_stream(const struct view *a, const struct view *b)
{
    return a->feed && a->feed == b->feed;
}

/* Of equally fast members the first. */
static bool is_fastest(const struct census *census, uint32_t number)
{
    const struct view *view = &census->views[number];
    if (!view->feed || view->session->group->nmembers <= 1)
        return view->feed;
    for (uint32_t i = 0; i < census->count; i++) {
        const struct view *other = &census->views[i];
        double ahead = other->rates.samples_per_s - view->rates.samples_per_s;
        if (i != number && same_stream(view, other) && (ahead > 0 || (ahead == 0 && i < number)))
            return false;
    }
    return true;
}

double census_busy(const struct view *view)
{
    const struct window_rates *rates = &view->rates;
    return rates->decode_busy + rates->augment_busy + rates->finish_busy;
}

static void add_up(struct census *census)
{
    for (uint32_t i = 0; i < census->count; i++) {
        struct view *view = &census->views[i];
        view->counts = is_fastest(census, i);
        if (!view->counts)
            continue;
        census->busy += census_busy(view);
        census->busy_first += view->session->probe ? 0 : census_busy(view);
    }
}

void census_take(struct census *census, const struct control *control)
{
    uint32_t sessions = 0;
    for (const struct session *s = control->sessions; s; s = s->next)
        sessions += worth_showing(s);
    *census = (struct census){.control = control, .now = clock_ns()};
    census->workers = workers_threads(control->options.workers);
    census->cpus = autoscale_cpus(control->autoscale);
    census->throttled_share = autoscale_throttled(control->autoscale);
    census->views = mem_array(sessions + 1, sizeof *census->views);
    for (const struct session *s = control->sessions; s; s = s->next) {
        if (!worth_showing(s))
            continue;
        struct view *view = &census->views[census->count++];
        view->session = s;
        if (s->group && s->state != SESSION_ATTACHING)
            view->feed = s->group->feed;
        if (!view->feed)
            continue;
        feed_get_stats(s->group->feed, &view->stats);
        gauge_rates(s->gauge, census->now, &view->stats, &view->rates);
    }
    add_up(census);
    stream_shares(census);
}

void census_free(struct census *census)
{
    free(census->views);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double threads_of_user(const struct census *census, const struct view *view)
{
    const struct group *group = view->session->group;
    uint32_t threads = group ? group->params.terms.threads : 0;
    return threads ? threads : census->workers;
}

/* Rows that can be on threads at once. */
static double rows_open(const struct view *view)
{
    return (view->stats.slots - view->rates.hold_share) * view->stats.batch;
}

double census_workers_left(const struct census *census, const struct view *view)
{
    double others = (view->session->probe ? census->busy : census->busy_first) - census_busy(view);
    double left = larger(census->workers - others, census->workers * view->share);
    return smaller(smaller(left, rows_open(view)), threads_of_user(census, view));
}

double census_workers_left_to(const struct census *census, uint32_t feed)
{
    double busy = 0, rows = 0, fair = 0;
    for (uint32_t i = 0; i < census->count; i++) {
        const struct view *view = &census->views[i];
        if (!view->counts || view->session->feed_number != feed)
            continue;
        fair += census->workers * view->share;
        busy += census_busy(view);
        rows += rows_open(view);
    }
    return smaller(larger(census->workers - (census->busy - busy), fair), rows);
}

double census_decode_limit(const struct census *census, const struct view *view)
{
    return view->rates.decode_per_worker * census_workers_left(census, view);
}

double census_slots_held(const struct census *census, const struct view *view)
{
    double least = view->rates.wait_share;
    for (uint32_t i = 0; view->feed && i < census->count; i++) {
        const struct view *other = &census->views[i];
        bool known =
            same_stream(view, other) && other->rates.window_s > 0 && !other->session->lagging;
        if (known && other->rates.wait_share < least)
            least = other->rates.wait_share;
    }
    return gauge_held_up(&view->rates, least);
}
