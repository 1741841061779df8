#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "base/trace.h"
#include "feed/feed_parts.h"

void feed_news(void *context)
{
    struct feed *feed = context;
    if (!atomic_exchange(&feed->posted, true))
        mailbox_post(feed->params.mailbox, &feed->mail);
}

void feed_fail(void *context, const struct error *err)
{
    struct feed *feed = context;
    pthread_mutex_lock(&feed->mutex);
    if (!feed->failure.code)
        feed->failure = *err;
    pthread_mutex_unlock(&feed->mutex);
    feed_news(feed);
}

void feed_lose(void *context, uint32_t port, const struct error *err)
{
    struct feed *feed = context;
    pthread_mutex_lock(&feed->mutex);
    feed->lost[port] = *err;
    pthread_mutex_unlock(&feed->mutex);
    feed_news(feed);
}

/* Loop thread. */
static void stop(struct feed *feed, const struct error *err)
{
    if (feed->stopped || atomic_load(&feed->closing))
        return;
    feed->stopped = true;
    reader_stop(feed->reader);
    feed->params.events.stopped(feed->params.context, err);
}

static struct bad_report report_of(const struct feed *feed, const struct row *row)
{
    struct dataset_record record;
    dataset_record(feed->recipe.dataset, row->place.shard, row->place.record, &record);
    return (struct bad_report){.cls = row->bad,
                               .shard = dataset_shard_path(feed->recipe.dataset, row->place.shard),
                               .key = record.key,
                               .offset = row->bad_offset,
                               .reason = row->reason ? row->reason : bad_text(row->bad)};
}

static uint64_t bad_limit(const struct feed *feed)
{
    const struct feed_spec *spec = feed->params.spec;
    if (spec->bad_limit_share > 0)
        return (uint64_t)(spec->bad_limit_share * (double)dataset_records(feed->recipe.dataset));
    return spec->bad_limit;
}

/* Keeps the names of the first ones; true when the limit is passed. */
static bool count_bad(struct feed *feed, const struct bad_report *report, uint64_t epoch)
{
    if (feed->bad_epoch != epoch) {
        feed->bad_epoch = epoch;
        feed->bad_count = 0;
        feed->bad_named[0] = 0;
    }
    feed->bad_count++;
    size_t length = strlen(feed->bad_named);
    char text[FEED_BAD_NAMED];
    int more = snprintf(text, sizeof text, "%s%s: %s (%s)", length ? ", " : "", report->shard,
                        report->key, bad_name(report->cls));
    if (more > 0 && length + (size_t)more < sizeof feed->bad_named)
        memcpy(feed->bad_named + length, text, (size_t)more + 1);
    return feed->bad_count > bad_limit(feed);
}

static void stop_at_limit(struct feed *feed)
{
    struct error err;
    error_set(&err, -ECANCELED,
              "feed %s: %" PRIu64 " bad sample%s in epoch %" PRIu64 ", more than bad_limit %" PRIu64
              ": %s",
              feed->params.spec->name, feed->bad_count, plural(feed->bad_count), feed->bad_epoch,
              bad_limit(feed), feed->bad_named);
    stop(feed, &err);
}

/* Tells of all bad rows, in order; *first: text on the first of them. False: the feed ends. */
static bool report_bad(struct feed *feed, const struct batch *batch, struct error *first)
{
    for (uint32_t r = 0; r < batch->count; r++) {
        const struct row *row = &batch->rows[r];
        if (!row->bad || row->repeated)
            continue;
        struct bad_report report = report_of(feed, row);
        if (!first->code)
            error_set(first, -EBADMSG,
                      "epoch %" PRIu64 " step %" PRIu64 ": %" PRIu32
                      " bad sample%s, the first: %s: %s: %s: %s",
                      batch->place.epoch, batch->place.step, batch->bad, plural(batch->bad),
                      report.shard, report.key, bad_name(report.cls), report.reason);
        bool over = count_bad(feed, &report, batch->place.epoch);
        feed->params.events.bad(feed->params.context, &report, batch->place);
        if (over)
            stop_at_limit(feed);
        if (over || atomic_load(&feed->closing))
            return false;
    }
    return true;
}

static void stop_if_failed(struct feed *feed)
{
    pthread_mutex_lock(&feed->mutex);
    struct error failure = feed->failure;
    pthread_mutex_unlock(&feed->mutex);
    if (failure.code)
        stop(feed, &failure);
}

/* With the last open port the feed stops. */
static void tell_of_losses(struct feed *feed)
{
    for (uint32_t port = 0; feed->ferry && port < FERRY_PORTS_MAX; port++) {
        pthread_mutex_lock(&feed->mutex);
        struct error lost = feed->lost[port];
        pthread_mutex_unlock(&feed->mutex);
        if (!lost.code || feed->ports[port].told)
            continue;
        feed->ports[port].told = true;
        feed->open &= ~(1U << port);
        belt_set_ports(feed->belt, feed->open);
        if (feed->open)
            feed->params.events.port_lost(feed->params.context, port, &lost);
        else
            stop(feed, &lost);
    }
}

/* Loop thread; the batch goes back to the belt. */
static void hand_out(struct feed *feed, struct batch *batch)
{
    struct error first = {0};
    struct feed_batch out = {.slot = batch->slot,
                             .generation = batch->generation,
                             .place = batch->place,
                             .rows = batch->count,
                             .bytes = batch->bytes,
                             .begun = batch->begun};
    uint64_t round = belt_round(feed->belt);
    if (atomic_load(&batch->lost)) /* those after it may be there already */
        tell_of_losses(feed);
    bool is_void = feed->stopped || atomic_load(&batch->is_void);
    bool goes_on = !is_void && report_bad(feed, batch, &first);
    /* A listener may have chosen another epoch. */
    is_void = is_void || belt_round(feed->belt) != round;
    out.valid = batch->valid;
    belt_put(feed->belt, batch);
    bool fails = first.code && feed->params.spec->bad_samples == BAD_FAIL;
    if (is_void || !goes_on) {
        slots_drop(feed->slots, out.slot);
        return;
    }
    slots_ready(feed->slots, out.slot);
    feed->announced[out.slot] = true;
    if (fails)
        feed->params.events.failed(feed->params.context, &out, first.text);
    else
        feed->params.events.ready(feed->params.context, &out);
}

void feed_deliver(struct mail *mail)
{
    struct feed *feed = (struct feed *)(void *)((char *)mail - offsetof(struct feed, mail));
    uint64_t begin = trace_now();
    atomic_store(&feed->posted, false);
    struct batch *batch;
    while (!atomic_load(&feed->closing) && (batch = belt_take(feed->belt)))
        hand_out(feed, batch);
    tell_of_losses(feed);
    stop_if_failed(feed);
    trace_long("deliver", begin);
}

int feed_hold(struct feed *feed, uint32_t slot, uint64_t generation)
{
    int code = slots_hold(feed->slots, slot, generation);
    if (code == 0)
        feed->announced[slot] = false;
    return code;
}

int feed_release(struct feed *feed, uint32_t slot, uint64_t generation)
{
    int code = slots_release(feed->slots, slot, generation);
    if (code == 0)
        feed->announced[slot] = false;
    return code;
}

uint64_t feed_renew(struct feed *feed, uint32_t slot)
{
    feed->announced[slot] = false;
    return slots_renew(feed->slots, slot);
}

uint32_t feed_seek(struct feed *feed, uint64_t epoch)
{
    if (atomic_load(&feed->closing))
        return 0;
    uint32_t dropped = reader_seek(feed->reader, epoch);
    for (uint32_t slot = 0; slot < feed->params.slots; slot++) {
        if (!feed->announced[slot])
            continue;
        feed->announced[slot] = false;
        slots_drop(feed->slots, slot);
        dropped++;
    }
    for (uint32_t port = 0; port < FERRY_PORTS_MAX; port++)
        feed->ports[port].from = (struct feed_place){epoch, 0};
    feed->bad_epoch = UINT64_MAX;
    tally_add(&feed->tally.dropped, dropped);
    return dropped;
}
