#include <inttypes.h>
#include <stdio.h>

#include "base/plural.h"
#include "feed/feed_parts.h"

/* What the reader sees as a wait for a slot is one for the workers while the trainer has no batch
 * to take and some are being filled; one for memory to copy from is one for them while rows are
 * queued. */
static bool waits_for_decode(const struct tally *tally, const struct slots_count *slots)
{
    if (atomic_load(&tally->wait) == FEED_WAITS_COPY)
        return tally_get(&tally->rows_queued) > 0;
    return atomic_load(&tally->wait) == FEED_WAITS_SLOT && !slots->by_state[SLOT_READY] &&
           slots->by_state[SLOT_FILLING];
}

void feed_get_stats(struct feed *feed, struct feed_stats *out)
{
    const struct tally *tally = &feed->tally;
    struct slots_count slots = slots_count(feed->slots);
    const char *what = atomic_load(&tally->wait_what);
    *out = (struct feed_stats){
        .ready = slots.by_state[SLOT_READY],
        .held = slots.by_state[SLOT_HELD],
        .slots = feed->params.slots,
        .samples = tally_get(&tally->samples),
        .batches = tally_get(&tally->batches),
        .bytes = tally_get(&tally->bytes),
        .bad = tally_get(&tally->bad),
        .damaged = tally_get(&tally->damaged),
        .dropped = tally_get(&tally->dropped),
        .marks_used = tally_get(&tally->marks_used),
        .marks_wrong = tally_get(&tally->marks_wrong),
        .marks_kept = tally_get(&tally->marks_kept),
        .read_busy_ns = tally_get(&tally->read_busy_ns),
        .read_bytes = tally_get(&tally->read_bytes),
        .read_samples = tally_get(&tally->read_samples),
        .decode_busy_ns = tally_get(&tally->decode_busy_ns),
        .decoded = tally_get(&tally->decoded),
        .finish_busy_ns = tally_get(&tally->finish_busy_ns),
        .slot_wait_ns = tally_get(&tally->slot_wait_ns),
        .shuffle_held = tally_get(&tally->shuffle_held),
        .shuffle_target = tally_get(&tally->shuffle_target),
        .shuffle_bytes = ration_used(feed->ration),
        .arena_bytes = feed->params.slots * feed->recipe.layout.wire.slot_bytes,
        .rows_queued = tally_get(&tally->rows_queued),
        .wait = (enum feed_wait)atomic_load(&tally->wait),
        .wait_since_ns = tally_get(&tally->wait_since_ns),
    };
    snprintf(out->wait_what, sizeof out->wait_what, "%s", what ? what : "");
    if (!waits_for_decode(tally, &slots))
        return;
    out->wait = FEED_WAITS_DECODE;
    snprintf(out->wait_what, sizeof out->wait_what, "%" PRIu64 " row%s queued", out->rows_queued,
             plural(out->rows_queued));
}
