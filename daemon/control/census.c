#include "control/census.h"

#include "base/mem.h"
#include "control/session.h"

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

static void add_up(struct census *census)
{
    for (uint32_t i = 0; i < census->count; i++) {
        struct view *view = &census->views[i];
        view->counts = is_fastest(census, i);
        if (!view->counts)
            continue;
        census->streams++;
        census->decode_busy += view->rates.decode_busy;
        census->decode_busy_first += view->session->probe ? 0 : view->rates.decode_busy;
    }
}

void census_take(struct census *census, const struct control *control)
{
    uint32_t sessions = 0;
    for (const struct session *s = control->sessions; s; s = s->next)
        sessions += worth_showing(s);
    *census = (struct census){.control = control, .now = clock_ns()};
    census->workers = workers_threads(control->options.workers);
    census->cpus = control->cpus;
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
        gauge_rates(&s->gauge, census->now, &view->stats, &view->rates);
    }
    add_up(census);
}

void census_free(struct census *census)
{
    free(census->views);
}

double census_decode_limit(const struct census *census, const struct view *view)
{
    double own = view->rates.decode_busy;
    double others = (view->session->probe ? census->decode_busy : census->decode_busy_first) - own;
    double left = census->workers - others;
    double fair = census->streams ? (double)census->workers / census->streams : 0;
    return view->rates.decode_per_worker * (left > fair ? left : fair);
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
    return gauge_held_up(view->rates.slot_wait_share, least);
}
