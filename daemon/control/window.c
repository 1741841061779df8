#include "control/window.h"

#include <string.h>

/* Of the longest time between two points: later than that a batch is late; and then it is waited
 * for no longer. */
#define LATE 1.5
#define GONE 3.0

#define DRY 0.02 /* shares of time */
#define FULL 0.1
#define READS 16 /* fewer say little of how busy reading is */
#define BACK (4 * WINDOW_LENGTH)

static void drop_oldest(struct window *window)
{
    window->count--;
    memmove(&window->points[0], &window->points[1], window->count * sizeof window->points[0]);
    window->begun = false;
}

void window_begin(struct window *window, const struct window_point *point)
{
    window->points[0] = *point;
    window->count = 1;
    window->begun = true;
}

/* The most is forgotten by an eighth a batch. Where it is next to nothing, any batch will do. */
bool window_take(struct window *window, uint64_t now, uint64_t own_ns)
{
    uint64_t since = now - window->points[window->count - 1].at;
    window->most_ns -= window->most_ns / 8;
    if (own_ns > window->most_ns)
        window->most_ns = own_ns;
    if (window->begun && window->count == 1)
        return true;
    bool first = own_ns >= window->most_ns / 2 || window->most_ns < since / 20;
    return first && since >= WINDOW_APART;
}

void window_note(struct window *window, const struct window_point *point)
{
    if (window->count == WINDOW_POINTS)
        drop_oldest(window);
    window->points[window->count++] = *point;
    if (window->begun && window->count > 2 && point->at - window->points[1].at >= WINDOW_MIN)
        drop_oldest(window);
}

/* The last point that makes the window long enough, but one before the newest. */
static uint32_t first_of(const struct window *window, uint64_t now)
{
    uint32_t first = 0;
    while (first + 2 < window->count && now - window->points[first + 1].at >= WINDOW_LENGTH)
        first++;
    return first;
}

static double longest_gap(const struct window *window, uint32_t first)
{
    uint64_t longest = 0;
    for (uint32_t i = first; i + 1 < window->count; i++) {
        uint64_t gap = window->points[i + 1].at - window->points[i].at;
        longest = gap > longest ? gap : longest;
    }
    return (double)longest;
}

struct span {
    struct window_point from;
    const struct window_point *to;
    bool idle;
};

/* It took none after those that came just after the last point. */
static struct span idle_since(const struct window_point *last, const struct window_point *now)
{
    struct span span = {*last, now, true};
    span.from.samples = now->samples;
    span.from.batches = now->batches;
    span.from.bytes = now->bytes;
    return span;
}

static struct span span_of(const struct window *window, const struct window_point *now)
{
    uint32_t first = first_of(window, now->at);
    const struct window_point *from = &window->points[first];
    const struct window_point *last = &window->points[window->count - 1];
    double gap = longest_gap(window, first);
    uint64_t since = now->at - last->at;
    if (last->at - from->at >= WINDOW_MIN && (double)since <= LATE * gap)
        return (struct span){*from, last, false};
    if (since >= WINDOW_LENGTH && (double)since > GONE * gap)
        return idle_since(last, now);
    return (struct span){*from, now, false};
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

bool window_runs_dry(const struct window *window, uint64_t now, const struct feed_work *work)
{
    const struct window_point *from = &window->points[0];
    double time = grown(from->at, now);
    return grown(from->work.dry_ns, work->dry_ns) > DRY * time &&
           grown(from->work.slot_wait_ns, work->slot_wait_ns) < FULL * time;
}

/* Items a second of busy time; over the whole run where the window has none. */
static double rate(double items, double busy, uint64_t all_items, uint64_t all_busy)
{
    if (items <= 0 || busy <= 0) {
        items = (double)all_items;
        busy = (double)all_busy;
    }
    return busy > 0 ? items * (double)CLOCK_SECOND / busy : 0;
}

#define GROWN(field) grown(from->field, to->field)

static bool has_few_reads(const struct window_point *from, const struct window_point *to)
{
    return to->work.reads.count - from->work.reads.count < READS && to->at - from->at < BACK;
}

/* What is read at once goes through all stages at once: their figures begin as far back as there
 * were some reads. */
static const struct window_point *stages_from(const struct window *window, const struct span *span)
{
    const struct window_point *point = &window->points[window->count - 1];
    while (point > window->points && point->at > span->from.at)
        point--;
    while (point > window->points && !span->idle && has_few_reads(point, span->to))
        point--;
    return point;
}

/* Between the last ends of reading before both ends, if they are not too near to each other. */
static void rate_reads(const struct feed_work *from, const struct feed_work *to, double window,
                       struct window_rates *out)
{
    double between = GROWN(reads.at), busy = GROWN(read_busy_ns), bytes = GROWN(read_bytes);
    bool whole = from->reads.at && between >= window / 2;
    double length = whole ? between : window;
    out->read_busy = share(whole ? GROWN(reads.busy_ns) : busy, length);
    out->read_bytes_per_s = (whole ? GROWN(reads.bytes) : bytes) * (double)CLOCK_SECOND / length;
    out->read_limit =
        rate(GROWN(reads.samples), GROWN(reads.busy_ns), to->reads.samples, to->reads.busy_ns);
}

static void rate_stages(const struct feed_work *from, const struct feed_work *to, double window,
                        struct window_rates *out)
{
    double rows = GROWN(decoded), augment = GROWN(augment_ns), finish = GROWN(finish_ns);
    double decode = GROWN(decode_ns) - augment;
    uint64_t all_decode = to->decode_ns - to->augment_ns;
    out->slot_wait_share = share(GROWN(slot_wait_ns), window);
    out->share_wait_share = share(GROWN(share_wait_ns), window);
    out->dry_share = share(GROWN(dry_ns), window);
    out->decode_busy = decode > 0 ? decode / window : 0;
    out->augment_busy = augment / window;
    out->finish_busy = finish / window;
    out->decode_rate = rate(rows, decode, to->decoded, all_decode);
    out->augment_rate = rate(rows, augment, to->decoded, to->augment_ns);
    out->finish_rate = rate(rows, finish, to->decoded, to->finish_ns);
    out->decode_per_worker =
        rate(rows, GROWN(decode_ns) + finish, to->decoded, to->decode_ns + to->finish_ns);
    out->copy_busy = share(GROWN(copy_ns), window);
    out->copy_limit = rate(GROWN(samples), GROWN(copy_ns), to->samples, to->copy_ns);
}

static void rate_client(const struct window_point *from, const struct window_point *to,
                        double window, struct window_rates *out)
{
    double seconds = window / (double)CLOCK_SECOND;
    double own = window - GROWN(wait_ns);
    out->samples_per_s = GROWN(samples) / seconds;
    out->batches_per_s = GROWN(batches) / seconds;
    out->bytes_per_s = GROWN(bytes) / seconds;
    out->wait_share = share(GROWN(wait_ns), window);
    out->hold_share = share(GROWN(hold_ns), window);
    out->ready_share = share(GROWN(ready_ns), window);
    out->compute_limit = own > 0 ? GROWN(samples) * (double)CLOCK_SECOND / own : 0;
}

void window_rates(const struct window *window, const struct window_point *now,
                  struct window_rates *out)
{
    memset(out, 0, sizeof *out);
    if (!window->count)
        return;
    struct span span = span_of(window, now);
    double length = grown(span.from.at, span.to->at);
    if (length < (double)WINDOW_MIN)
        return;
    out->window_s = length / (double)CLOCK_SECOND;
    rate_client(&span.from, span.to, length, out);
    const struct window_point *from = stages_from(window, &span);
    rate_reads(&from->work, &span.to->work, grown(from->at, span.to->at), out);
    rate_stages(&from->work, &span.to->work, grown(from->at, span.to->at), out);
}
