#include "control/autoscale.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/headroom.h"
#include "base/log.h"
#include "base/mem.h"
#include "control/governor.h"
#include "control/group.h"
#include "control/session.h"

#define CPU_LEAST 0.01 /* that a busy worker takes */

struct autoscale {
    struct control *control;
    struct headroom *headroom;
    struct governor governor;
    uint64_t at; /* of the last look */
    struct workers_times times;
    struct governor_input input; /* of then, without its streams */
};

static unsigned ceiling(const struct autoscale *autoscale)
{
    const struct control_options *options = &autoscale->control->options;
    unsigned cpus = headroom_cpus(autoscale->headroom);
    unsigned most = workers_most(options->workers);
    return options->workers_max || cpus > most ? most : cpus;
}

static double seconds(uint64_t from, uint64_t to)
{
    return to > from ? (double)(to - from) / (double)CLOCK_SECOND : 0;
}

static void look_at_workers(struct autoscale *autoscale, uint64_t now)
{
    struct governor_input *in = &autoscale->input;
    struct workers *workers = autoscale->control->options.workers;
    const struct workers_times was = autoscale->times;
    workers_sample(workers, &autoscale->times);
    const struct workers_times *is = &autoscale->times;
    double passed = seconds(autoscale->at, now);
    double busy = seconds(was.few_busy_ns, is->few_busy_ns);
    double cpu = seconds(was.few_cpu_ns, is->few_cpu_ns);
    double queued = seconds(was.few_queued_ns, is->few_queued_ns);
    in->busy = passed > 0 ? seconds(was.busy_ns, is->busy_ns) / passed : 0;
    in->queued = cpu + queued > 0 ? queued / (cpu + queued) : 0;
    if (busy > queued && cpu > 0)
        in->cpu_each = cpu / (busy - queued);
    in->cpu_each = in->cpu_each < CPU_LEAST ? CPU_LEAST : in->cpu_each > 1 ? 1 : in->cpu_each;
    in->active = workers_threads(workers);
    in->ceiling = ceiling(autoscale);
    in->free_cpus = headroom_free_cpus(autoscale->headroom);
}

static void look_at_group(struct group *group, uint64_t now, struct governor_stream *out)
{
    struct feed_stats stats;
    feed_get_stats(group->feed, &stats);
    pace_look_stream(&group->pace, &stats, out);
    for (struct session *s = group->members; s; s = s->fellow)
        if (s->state == SESSION_STREAMING && !s->lagging)
            pace_look_taker(&s->pace, &group->pace, s->gauge, now, out);
}

/* Returns the streams, to be freed. */
static struct governor_stream *look_at_streams(struct autoscale *autoscale, uint64_t now)
{
    struct governor_input *in = &autoscale->input;
    double passed = seconds(autoscale->at, now);
    uint32_t room = 1;
    for (const struct group *group = autoscale->control->groups; group; group = group->next)
        room++;
    struct governor_stream *streams = mem_array(room, sizeof *streams);
    in->streams = streams;
    in->nstreams = 0;
    in->rows = 0;
    for (struct group *group = autoscale->control->groups; group; group = group->next) {
        if (group->state != GROUP_STREAMING)
            continue;
        look_at_group(group, now, &streams[in->nstreams++]);
        in->rows += passed > 0 ? group->pace.rows / passed : 0;
    }
    return streams;
}

static void set(struct autoscale *autoscale, unsigned to)
{
    struct workers *workers = autoscale->control->options.workers;
    unsigned from = workers_threads(workers);
    if (to == from)
        return;
    workers_set_active(workers, to);
    autoscale->input.active = workers_threads(workers);
    if (autoscale->input.active != from)
        log_event(LOG_NOTICE, log_about(LOG_WORKERS), "workers %u -> %u: %s", from,
                  autoscale->input.active, autoscale->governor.why);
}

struct autoscale *autoscale_new(struct control *control)
{
    struct autoscale *autoscale = mem_new(sizeof *autoscale);
    autoscale->control = control;
    autoscale->headroom = headroom_new("");
    autoscale->input.cpu_each = 1;
    autoscale->input.as_said = control->options.workers_max > 0;
    autoscale->at = clock_ns();
    headroom_look(autoscale->headroom, autoscale->at);
    look_at_workers(autoscale, autoscale->at);
    return autoscale;
}

void autoscale_free(struct autoscale *autoscale)
{
    if (!autoscale)
        return;
    headroom_free(autoscale->headroom);
    free(autoscale);
}

void autoscale_tick(struct autoscale *autoscale, uint64_t now)
{
    headroom_look(autoscale->headroom, now);
    if (!autoscale->control->options.workers_auto)
        return;
    look_at_workers(autoscale, now);
    struct governor_stream *streams = look_at_streams(autoscale, now);
    autoscale->at = now;
    set(autoscale, governor_decide(&autoscale->governor, &autoscale->input));
    autoscale->input.streams = NULL;
    autoscale->input.nstreams = 0;
    free(streams);
}

void autoscale_welcome(struct autoscale *autoscale)
{
    if (autoscale->control->options.workers_auto)
        set(autoscale, governor_welcome(&autoscale->governor, &autoscale->input));
}

unsigned autoscale_cpus(const struct autoscale *autoscale)
{
    return headroom_cpus(autoscale->headroom);
}

unsigned autoscale_most(const struct autoscale *autoscale)
{
    const struct control_options *options = &autoscale->control->options;
    return options->workers_auto ? ceiling(autoscale) : workers_threads(options->workers);
}

const char *autoscale_why(const struct autoscale *autoscale)
{
    return autoscale->control->options.workers_auto ? autoscale->governor.why : "";
}

double autoscale_throttled(const struct autoscale *autoscale)
{
    return headroom_throttled(autoscale->headroom);
}
