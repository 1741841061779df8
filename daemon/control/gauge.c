#include "control/gauge.h"

#include <stdio.h>
#include <string.h>

#define WAIT_WORTH_SAYING 0.1 /* s */

static uint64_t waited(const struct gauge *gauge, uint64_t now)
{
    uint64_t end = gauge->came ? gauge->came : now;
    return gauge->wait_ns + (gauge->waiting_since ? end - gauge->waiting_since : 0);
}

static uint64_t holding(const struct gauge *gauge, uint64_t now)
{
    return gauge->hold_ns + (gauge->held ? now - gauge->held_since : 0);
}

void gauge_begin(struct gauge *gauge, uint64_t now, const struct feed_stats *stats)
{
    memset(gauge, 0, sizeof *gauge);
    gauge->begun = gauge->last_take = now;
    gauge_sample(gauge, now, stats);
}

void gauge_wait(struct gauge *gauge, uint64_t now, const struct feed_stats *stats)
{
    if (!gauge->waiting_since)
        gauge->waiting_since = now;
    gauge->cause_now = gauge_cause(stats);
}

void gauge_come(struct gauge *gauge, uint64_t now)
{
    if (gauge->waiting_since && !gauge->came)
        gauge->came = now;
}

uint64_t gauge_waiting(const struct gauge *gauge, uint64_t now)
{
    return gauge->waiting_since && !gauge->came ? now - gauge->waiting_since : 0;
}

void gauge_take(struct gauge *gauge, uint64_t now, uint64_t wait_ns, uint32_t rows)
{
    uint64_t possible = now - gauge->last_take;
    if (wait_ns > possible)
        wait_ns = possible;
    gauge->wait_ns += wait_ns;
    if (gauge->waiting_since && wait_ns > GAUGE_STALL_NS) {
        gauge->stalls++;
        gauge->last_cause = gauge->cause_now;
        if (wait_ns > gauge->longest_stall_ns)
            gauge->longest_stall_ns = wait_ns;
    }
    gauge->waiting_since = gauge->came = 0;
    gauge->last_take = now;
    gauge->samples += rows;
    gauge->batches += rows > 0;
    if (!gauge->held++)
        gauge->held_since = now;
}

void gauge_release(struct gauge *gauge, uint64_t now)
{
    if (gauge->held && !--gauge->held)
        gauge->hold_ns += now - gauge->held_since;
}

static struct gauge_point point_at(const struct gauge *gauge, uint64_t now,
                                   const struct feed_stats *stats)
{
    struct gauge_point point = {.at = now,
                                .samples = gauge->samples,
                                .batches = gauge->batches,
                                .wait_ns = waited(gauge, now),
                                .hold_ns = holding(gauge, now),
                                .feed = *stats};
    /* The feed counts a wait when it is over. */
    if (stats->wait == FEED_WAITS_SLOT && now > stats->wait_since_ns)
        point.feed.slot_wait_ns += now - stats->wait_since_ns;
    return point;
}

void gauge_sample(struct gauge *gauge, uint64_t now, const struct feed_stats *stats)
{
    gauge->newest = (gauge->newest + 1) % GAUGE_POINTS;
    gauge->points[gauge->newest] = point_at(gauge, now, stats);
    if (gauge->npoints < GAUGE_POINTS)
        gauge->npoints++;
    if (gauge_waiting(gauge, now))
        gauge->cause_now = gauge_cause(stats);
}

/* Counters only grow; where one does not (a wait that was overestimated), the difference is 0. */
static double grown(uint64_t from, uint64_t to)
{
    return to > from ? (double)(to - from) : 0;
}

static double share(double part, double whole)
{
    double value = whole > 0 ? part / whole : 0;
    return value > 1 ? 1 : value;
}

double gauge_wait_share(const struct gauge *gauge, uint64_t now)
{
    return share((double)waited(gauge, now), grown(gauge->begun, now));
}

/* Items a second of busy time; over the whole run where the window has none. */
static double rate(uint64_t items0, uint64_t items1, uint64_t busy0, uint64_t busy1)
{
    double items = grown(items0, items1), busy = grown(busy0, busy1);
    if (items <= 0 || busy <= 0) {
        items = (double)items1;
        busy = (double)busy1;
    }
    return busy > 0 ? items * (double)CLOCK_SECOND / busy : 0;
}

void gauge_rates(const struct gauge *gauge, uint64_t now, const struct feed_stats *stats,
                 struct gauge_rates *out)
{
    memset(out, 0, sizeof *out);
    if (!gauge->npoints)
        return;
    const struct gauge_point *old =
        &gauge->points[(gauge->newest + GAUGE_POINTS - gauge->npoints + 1) % GAUGE_POINTS];
    const struct gauge_point new = point_at(gauge, now, stats);
    double window = grown(old->at, new.at);
    if (window < (double)GAUGE_WINDOW_MIN)
        return;
    const struct feed_stats *a = &old->feed, *b = &new.feed;
    double seconds = window / (double)CLOCK_SECOND;
    out->window_s = seconds;
    out->samples_per_s = grown(old->samples, new.samples) / seconds;
    out->batches_per_s = grown(old->batches, new.batches) / seconds;
    out->wait_share = share(grown(old->wait_ns, new.wait_ns), window);
    out->hold_share = share(grown(old->hold_ns, new.hold_ns), window);
    out->slot_wait_share = share(grown(a->slot_wait_ns, b->slot_wait_ns), window);
    out->read_limit = rate(a->read_samples, b->read_samples, a->read_busy_ns, b->read_busy_ns);
    out->read_busy = share(grown(a->read_busy_ns, b->read_busy_ns), window);
    out->read_bytes_per_s = grown(a->read_bytes, b->read_bytes) / seconds;
    out->decode_per_worker = rate(a->decoded, b->decoded, a->decode_busy_ns, b->decode_busy_ns);
    out->decode_busy = grown(a->decode_busy_ns, b->decode_busy_ns) / window;
    out->finish_busy = grown(a->finish_busy_ns, b->finish_busy_ns) / window;
}

double gauge_held_up(double slot_wait_share, double wait_share)
{
    return slot_wait_share < 1 - wait_share ? slot_wait_share : 1 - wait_share;
}

enum gauge_cause gauge_cause(const struct feed_stats *stats)
{
    if (stats->rows_queued && stats->wait != FEED_WAITS_MEMORY)
        return GAUGE_DECODE;
    switch (stats->wait) {
    case FEED_WAITS_STORAGE:
    case FEED_WAITS_DESCRIPTOR:
        return GAUGE_STORAGE;
    case FEED_WAITS_MEMORY:
        return GAUGE_MEMORY_LIMIT;
    case FEED_WAITS_DECODE:
        return GAUGE_DECODE;
    case FEED_WAITS_COPY:
        return GAUGE_COPY;
    case FEED_WAITS_SLOT:
        return stats->held + 1 >= stats->slots ? GAUGE_SLOTS_HELD : GAUGE_DECODE;
    default:
        return stats->batches ? GAUGE_DECODE : GAUGE_SHUFFLE_FILL;
    }
}

enum gauge_cause gauge_last_cause(const struct gauge *gauge, uint64_t now,
                                  const struct feed_stats *stats)
{
    bool stalls = gauge_waiting(gauge, now) > GAUGE_STALL_NS;
    return stalls ? gauge_cause(stats) : gauge->last_cause;
}

const char *gauge_cause_name(enum gauge_cause cause)
{
    static const char *const names[] = {
        [GAUGE_NONE] = "",
        [GAUGE_STORAGE] = "storage",
        [GAUGE_DECODE] = "decode",
        [GAUGE_SHUFFLE_FILL] = "shuffle_fill",
        [GAUGE_SLOTS_HELD] = "slots_held",
        [GAUGE_MEMORY_LIMIT] = "memory_limit",
        [GAUGE_COPY] = "copy",
    };
    return names[cause];
}

char *gauge_reason(const struct feed_stats *stats, uint64_t now, char *text, size_t size)
{
    static const char *const words[] = {[FEED_RUNS] = "reads",
                                        [FEED_WAITS_SLOT] = "waits for a free slot",
                                        [FEED_WAITS_STORAGE] = "waits for storage",
                                        [FEED_WAITS_DESCRIPTOR] = "waits for a free descriptor",
                                        [FEED_WAITS_MEMORY] = "waits for memory",
                                        [FEED_WAITS_DECODE] = "waits for decoding",
                                        [FEED_WAITS_COPY] = "waits for copies to the GPU",
                                        [FEED_ENDED] = "has ended"};
    double seconds = grown(stats->wait_since_ns, now) / (double)CLOCK_SECOND;
    const char *what = stats->wait_what;
    char since[32] = "";
    if (seconds >= WAIT_WORTH_SAYING && stats->wait_since_ns)
        snprintf(since, sizeof since, " for %.1f s", seconds);
    if (stats->wait == FEED_RUNS || stats->wait == FEED_ENDED)
        snprintf(text, size, "%s%s%s", words[stats->wait], *what ? ": " : "", what);
    else if (stats->wait == FEED_WAITS_SLOT)
        snprintf(text, size, "%s%s: %u held, %u ready, %u being filled", words[stats->wait], since,
                 stats->held, stats->ready, stats->slots - stats->held - stats->ready);
    else
        snprintf(text, size, "%s%s%s%s", words[stats->wait], since, *what ? ": " : "", what);
    return text;
}
