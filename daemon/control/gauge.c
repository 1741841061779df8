#include "control/gauge.h"

#include <stdio.h>
#include <string.h>

#define WAIT_WORTH_SAYING 0.1 /* s */
#define LATE CLOCK_SECOND

uint64_t gauge_waited(const struct gauge *gauge, uint64_t now)
{
    uint64_t end = gauge->came ? gauge->came : now;
    return gauge->wait_ns + (gauge->waiting_since ? end - gauge->waiting_since : 0);
}

uint64_t gauge_wait_told(const struct gauge *gauge)
{
    return gauge->wait_told > gauge->wait_ns ? gauge->wait_told : gauge->wait_ns;
}

uint64_t gauge_holding(const struct gauge *gauge, uint64_t now)
{
    return gauge->hold_ns + (gauge->held ? now - gauge->held_since : 0);
}

static uint64_t ready(const struct gauge *gauge, uint64_t now)
{
    return gauge->ready_ns + (gauge->ready ? now - gauge->ready_since : 0);
}

static struct window_point point_at(const struct gauge *gauge, uint64_t now,
                                    const struct feed_stats *stats)
{
    return (struct window_point){.at = now,
                                 .samples = gauge->samples,
                                 .batches = gauge->batches,
                                 .bytes = gauge->bytes,
                                 .wait_ns = gauge_waited(gauge, now),
                                 .hold_ns = gauge_holding(gauge, now),
                                 .ready_ns = ready(gauge, now),
                                 .work = stats->work};
}

void gauge_begin(struct gauge *gauge, uint64_t now, const struct feed_stats *stats)
{
    memset(gauge, 0, sizeof *gauge);
    gauge->begun = gauge->last_take = now;
    const struct window_point point = point_at(gauge, now, stats);
    window_begin(&gauge->window, &point);
    strip_begin(&gauge->strip, now);
}

/* Rows queue up behind storage too, while what was read at once is being decoded: where workers
 * have run out of them again and again for some time, they are not what limits. */
static enum gauge_cause cause_of(const struct gauge *gauge, uint64_t now,
                                 const struct feed_stats *stats)
{
    enum gauge_cause cause = gauge_cause(stats);
    if (cause != GAUGE_DECODE)
        return cause;
    if (window_runs_dry(&gauge->window, now, &stats->work))
        return GAUGE_STORAGE;
    return gauge->throttled ? GAUGE_THROTTLED : GAUGE_DECODE;
}

void gauge_wait(struct gauge *gauge, uint64_t now, const struct feed_stats *stats)
{
    if (!gauge->waiting_since)
        gauge->waiting_since = now;
    gauge->cause_now = cause_of(gauge, now, stats);
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

void gauge_ready(struct gauge *gauge, uint64_t now, int more)
{
    uint64_t before = ready(gauge, now);
    gauge->ready += (uint32_t)more;
    gauge->ready_ns = before;
    gauge->ready_since = now;
}

static void count_stall(struct gauge *gauge, uint64_t wait_ns)
{
    struct gauge_stalls *stalls = &gauge->by_cause[gauge->cause_now];
    stalls->count++;
    stalls->wait_ns += wait_ns;
    gauge->stalls++;
    gauge->last_cause = gauge->cause_now;
    if (wait_ns > gauge->longest_stall_ns)
        gauge->longest_stall_ns = wait_ns;
}

/* Its messages may have been read late, several at once; but all waits fit into all time. */
static uint64_t cut(const struct gauge *gauge, uint64_t now, uint64_t wait_ns)
{
    uint64_t since = now - gauge->last_take + LATE;
    uint64_t left = now - gauge->begun - gauge->wait_ns;
    uint64_t possible = since < left ? since : left;
    return wait_ns < possible ? wait_ns : possible;
}

bool gauge_take(struct gauge *gauge, uint64_t now, uint64_t wait_ns,
                const struct gauge_batch *batch)
{
    uint64_t since = now - gauge->last_take;
    wait_ns = cut(gauge, now, wait_ns);
    gauge->wait_ns += wait_ns;
    if (gauge->waiting_since && wait_ns > GAUGE_STALL_NS)
        count_stall(gauge, wait_ns);
    if (batch->rows)
        waits_add(&gauge->waits, wait_ns);
    gauge->waiting_since = gauge->came = 0;
    gauge->last_take = now;
    gauge->samples += batch->rows;
    gauge->batches += batch->rows > 0;
    gauge->bytes += batch->bytes;
    if (!gauge->held++)
        gauge->held_since = now;
    return window_take(&gauge->window, now, since > wait_ns ? since - wait_ns : 0);
}

void gauge_note(struct gauge *gauge, uint64_t now, const struct feed_stats *stats)
{
    const struct window_point point = point_at(gauge, now, stats);
    window_note(&gauge->window, &point);
}

void gauge_release(struct gauge *gauge, uint64_t now)
{
    if (gauge->held && !--gauge->held)
        gauge->hold_ns += now - gauge->held_since;
}

void gauge_look(struct gauge *gauge, uint64_t now, const struct feed_stats *stats)
{
    uint64_t waited = gauge_waited(gauge, now);
    if (waited > gauge->wait_told)
        gauge->wait_told = waited;
    if (gauge_waiting(gauge, now))
        gauge->cause_now = cause_of(gauge, now, stats);
    strip_add(&gauge->strip, now, waited, gauge->samples);
}

void gauge_restart(struct gauge *gauge, uint64_t now, const struct feed_stats *stats)
{
    const struct window_point point = point_at(gauge, now, stats);
    window_begin(&gauge->window, &point);
}

double gauge_wait_share(const struct gauge *gauge, uint64_t now)
{
    uint64_t all = now - gauge->begun, part = gauge_waited(gauge, now);
    return part < all ? (double)part / (double)all : all > 0;
}

void gauge_rates(const struct gauge *gauge, uint64_t now, const struct feed_stats *stats,
                 struct window_rates *out)
{
    const struct window_point point = point_at(gauge, now, stats);
    window_rates(&gauge->window, &point, out);
}

double gauge_held_up(const struct window_rates *rates, double wait_share)
{
    double least =
        rates->slot_wait_share < rates->dry_share ? rates->slot_wait_share : rates->dry_share;
    return least < 1 - wait_share ? least : 1 - wait_share;
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
    return stalls ? cause_of(gauge, now, stats) : gauge->last_cause;
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
        [GAUGE_THROTTLED] = "throttled",
    };
    return names[cause];
}

/* What it waits for is its turn at the storage, besides. */
static void add_share(const struct feed_stats *stats, char *text, size_t size)
{
    size_t length = strlen(text);
    if (stats->wait == FEED_WAITS_STORAGE && stats->share_waiting)
        snprintf(text + length, size - length,
                 "; its share of this storage is used up: %u read%s for a turn, %u other user%s "
                 "there",
                 stats->share_waiting, stats->share_waiting == 1 ? " waits" : "s wait",
                 stats->share_others, stats->share_others == 1 ? " reads" : "s read");
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
    uint64_t lasts = stats->wait_since_ns < now ? now - stats->wait_since_ns : 0;
    double seconds = (double)lasts / (double)CLOCK_SECOND;
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
    add_share(stats, text, size);
    return text;
}
