#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/plural.h"
#include "feed/feed_parts.h"

_Static_assert(FEED_ENDED < PHASES_MAX, "the reader's phases have room");

void tally_begin(struct tally *tally)
{
    phases_begin(&tally->reader, FEED_RUNS);
    tally_set(&tally->dry_since, tally_get(&tally->reader.since));
}

void tally_read(struct tally *tally, uint64_t samples)
{
    const struct phases *reader = &tally->reader;
    if (!samples)
        return;
    tally_add(&tally->reads.count, 1);
    tally_add(&tally->reads.samples, samples);
    tally_set(&tally->reads.bytes, tally_get(&tally->read_bytes));
    tally_set(&tally->reads.busy_ns, phases_past(reader, FEED_RUNS) +
                                         phases_past(reader, FEED_WAITS_STORAGE) +
                                         phases_past(reader, FEED_WAITS_DESCRIPTOR));
    tally_set(&tally->reads.at, tally_get(&reader->since));
}

void tally_push(struct tally *tally, uint32_t rows)
{
    uint64_t before = atomic_fetch_add_explicit(&tally->rows_queued, rows, memory_order_acquire);
    if (!before)
        tally_add(&tally->dry_ns, clock_ns() - tally_get(&tally->dry_since));
}

void tally_pop(struct tally *tally, uint32_t rows, uint64_t now)
{
    tally_set(&tally->dry_since, now);
    atomic_fetch_sub_explicit(&tally->rows_queued, rows, memory_order_release);
}

void feed_work_add(struct feed_work *sum, const struct feed_work *more)
{
    sum->samples += more->samples;
    sum->read_bytes += more->read_bytes;
    sum->read_errors += more->read_errors;
    sum->read_busy_ns += more->read_busy_ns;
    sum->decoded += more->decoded;
    sum->decode_ns += more->decode_ns;
    sum->augment_ns += more->augment_ns;
    sum->finish_ns += more->finish_ns;
    sum->dry_ns += more->dry_ns;
    sum->copy_ns += more->copy_ns;
    sum->slot_wait_ns += more->slot_wait_ns;
    sum->share_wait_ns += more->share_wait_ns;
}

static uint64_t dry(const struct tally *tally, uint64_t now)
{
    uint64_t ns = tally_get(&tally->dry_ns), since = tally_get(&tally->dry_since);
    bool lasts = tally_get(&tally->rows_queued) == 0 && since && since < now;
    return lasts ? ns + (now - since) : ns;
}

/* A row's part is added when it is done, that of its whole task when all are. */
static uint64_t augmented(const struct tally *tally, uint64_t decode_ns)
{
    uint64_t ns = tally_get(&tally->augment_ns);
    return ns < decode_ns ? ns : decode_ns;
}

static struct feed_work work_of(const struct tally *tally, uint64_t now,
                                const uint64_t phases[PHASES_MAX])
{
    uint64_t decode_ns = tally_get(&tally->decode_ns);
    return (struct feed_work){
        .samples = tally_get(&tally->samples),
        .read_bytes = tally_get(&tally->read_bytes),
        .read_errors = tally_get(&tally->read_errors),
        .read_busy_ns =
            phases[FEED_RUNS] + phases[FEED_WAITS_STORAGE] + phases[FEED_WAITS_DESCRIPTOR],
        .reads = {.at = tally_get(&tally->reads.at),
                  .count = tally_get(&tally->reads.count),
                  .samples = tally_get(&tally->reads.samples),
                  .bytes = tally_get(&tally->reads.bytes),
                  .busy_ns = tally_get(&tally->reads.busy_ns)},
        .decoded = tally_get(&tally->decoded),
        .decode_ns = decode_ns,
        .augment_ns = augmented(tally, decode_ns),
        .finish_ns = tally_get(&tally->finish_ns),
        .dry_ns = dry(tally, now),
        .slot_wait_ns = phases[FEED_WAITS_SLOT],
        .share_wait_ns = storage_waited(&tally->share, now),
    };
}

/* What the reader sees as a wait for a slot is one for the workers while the trainer has no batch
 * to take and some are being filled; one for memory to copy from is one for them while rows are
 * queued. */
static bool waits_for_decode(const struct feed_stats *stats, uint32_t filling)
{
    if (stats->wait == FEED_WAITS_COPY)
        return stats->rows_queued > 0;
    return stats->wait == FEED_WAITS_SLOT && !stats->ready && filling;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void set_counts(const struct feed *feed, struct feed_stats *out)
{
    const struct tally *tally = &feed->tally;
    out->slots = feed->params.slots;
    out->batch = feed->params.batch;
    out->batches = tally_get(&tally->batches);
    out->bytes = tally_get(&tally->bytes);
    out->bad = tally_get(&tally->bad);
    out->damaged = tally_get(&tally->damaged);
    out->dropped = tally_get(&tally->dropped);
    out->marks_used = least(tally_get(&tally->marks_used), out->work.decoded); /* is ahead of it */
    out->marks_wrong = tally_get(&tally->marks_wrong);
    out->marks_kept = tally_get(&tally->marks_kept);
    out->shuffle_held = tally_get(&tally->shuffle_held);
    out->shuffle_target = tally_get(&tally->shuffle_target);
    out->shuffle_bytes = ration_used(feed->ration);
    out->arena_bytes = feed->params.slots * feed->recipe.layout.wire.slot_bytes;
    out->bytes_queued = tally_get(&tally->bytes_queued);
    out->share_waiting = atomic_load(&tally->share.waiting);
    out->share_others = atomic_load(&tally->share.others);
    out->rows_queued = tally_get(&tally->rows_queued);
}

void feed_get_stats(struct feed *feed, struct feed_stats *out)
{
    uint64_t now = clock_ns();
    struct phases_now reader;
    struct slots_count slots = slots_count(feed->slots);
    phases_read(&feed->tally.reader, now, &reader);
    *out = (struct feed_stats){.work = work_of(&feed->tally, now, reader.ns),
                               .wait = (enum feed_wait)reader.at,
                               .wait_since_ns = reader.since,
                               .ready = slots.by_state[SLOT_READY],
                               .held = slots.by_state[SLOT_HELD]};
    set_counts(feed, out);
    if (feed->ferry)
        ferry_figures(feed->ferry, now, out);
    snprintf(out->wait_what, sizeof out->wait_what, "%s", reader.what ? reader.what : "");
    if (!waits_for_decode(out, slots.by_state[SLOT_FILLING]))
        return;
    out->wait = FEED_WAITS_DECODE;
    snprintf(out->wait_what, sizeof out->wait_what, "%" PRIu64 " row%s queued", out->rows_queued,
             plural(out->rows_queued));
}

uint64_t feed_cpu_ns(const struct feed *feed)
{
    bool fills;
    const struct tally *tally = &feed->tally;
    uint64_t ns = reader_cpu_ns(feed->reader, &fills);
    return fills ? ns : ns + tally_get(&tally->decode_ns) + tally_get(&tally->finish_ns);
}
