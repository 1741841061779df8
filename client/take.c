#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client_parts.h"
#include "proto/errors.h"
#include "proto/frames.h"

typedef unsigned long long ull;

#define LOOK_NS (CLIENT_SECOND / 10000)

static struct turn *turn_at(struct dataload *handle, uint32_t number)
{
    return &handle->queue[(handle->queue_at + number) % CLIENT_QUEUE_MAX];
}

static void push(struct dataload *handle, struct turn turn)
{
    *turn_at(handle, handle->queued++) = turn;
}

static struct turn pop(struct dataload *handle)
{
    struct turn turn = *turn_at(handle, 0);
    handle->queue_at = (handle->queue_at + 1) % CLIENT_QUEUE_MAX;
    handle->queued--;
    return turn;
}

bool take_final_queued(const struct dataload *handle)
{
    uint32_t last = handle->queue_at + handle->queued - 1;
    return handle->queued && handle->queue[last % CLIENT_QUEUE_MAX].final;
}

void take_drop(struct dataload *handle)
{
    while (handle->queued) {
        struct turn turn = pop(handle);
        free(turn.text);
        if (turn.batch)
            turn.batch->state = BATCH_IDLE;
    }
}

void take_end(struct dataload *handle)
{
    struct turn *last = turn_at(handle, handle->queued - 1);
    char *text = last->text;
    last->text = NULL;
    handle->dismissed = true;
    handle_end(handle, last->code, "%s", text ? text : "");
    free(text);
}

uint64_t take_steps(const struct dataload *handle, uint64_t epoch)
{
    return epoch == handle->start_epoch ? handle->first_steps : handle->steps;
}

static bool epoch_over(const struct dataload *handle)
{
    return handle->attached && handle->next.step >= take_steps(handle, handle->next.epoch);
}

/* The rest of this epoch, and maybe more, has passed us by: the batch that comes is of this one. */
static uint64_t passed_to(const struct dataload *handle)
{
    const struct turn *first = &handle->queue[handle->queue_at];
    bool batch = handle->skips && handle->queued && !first->final && !first->batch->replay;
    return batch && first->at.epoch > handle->next.epoch ? first->at.epoch : handle->next.epoch;
}

/* DATALOAD_EPOCH_END comes before the next batch. */
static bool end_due(const struct dataload *handle)
{
    return epoch_over(handle) || passed_to(handle) != handle->next.epoch;
}

bool take_due(const struct dataload *handle)
{
    if (handle->seek.awaited)
        return take_final_queued(handle);
    return handle->seek.refused || handle->queued || end_due(handle);
}

struct position take_next(const struct dataload *handle)
{
    if (epoch_over(handle) && handle->next.step > 0)
        return (struct position){handle->next.epoch + 1, 0};
    return handle->next;
}

struct position take_arriving(const struct dataload *handle, struct position at)
{
    /* Two are enough: all epochs but the first have the same steps. */
    for (int i = 0; i < 2 && at.step >= take_steps(handle, at.epoch); i++)
        at = (struct position){at.epoch + 1, 0};
    return at;
}

/* What the daemon had sent before it read our Detach, or sends after its last word. */
static bool is_void(const struct dataload *handle)
{
    return handle->detaching || take_final_queued(handle);
}

/* Batches from one place to a later one. */
static uint64_t distance(const struct dataload *handle, struct position from, struct position to)
{
    if (from.epoch == to.epoch)
        return to.step - from.step;
    return take_steps(handle, from.epoch) - from.step +
           (to.epoch - from.epoch - 1) * handle->steps + to.step;
}

/* Is it the batch due, or, where some may pass us by, a later one? */
static bool is_due(const struct dataload *handle, struct position due, struct position at)
{
    if (due.step >= take_steps(handle, due.epoch) || at.step >= take_steps(handle, at.epoch))
        return false;
    if (at.epoch == due.epoch)
        return at.step == due.step || (handle->skips && at.step > due.step);
    return handle->skips && at.epoch > due.epoch;
}

/* Batches and failures come in the order of their steps. */
static bool in_turn(struct dataload *handle, const char *message, struct position at)
{
    const struct position *due = &handle->arriving;
    if (is_due(handle, *due, at)) {
        handle->meter.totals.skipped += distance(handle, *due, at);
        handle->arriving = take_arriving(handle, (struct position){at.epoch, at.step + 1});
        return true;
    }
    handle_protocol(handle, "%s for epoch %llu, step %llu instead of epoch %llu, step %llu",
                    message, (ull)at.epoch, (ull)at.step, (ull)due->epoch, (ull)due->step);
    return false;
}

/* May this slot carry news now? */
static bool fits(struct dataload *handle, const char *message, uint32_t slot, uint64_t generation)
{
    if (slot >= handle->mapping->slots) {
        handle_protocol(handle, "%s for slot %u, there are %u", message, slot,
                        handle->mapping->slots);
        return false;
    }
    const struct dataload_batch *batch = &handle->mapping->batches[slot];
    if (batch->state == BATCH_IDLE && generation > batch->generation)
        return true;
    handle_protocol(handle, "%s for slot %u, generation %llu: %s is generation %llu", message, slot,
                    (ull)generation, batch->state == BATCH_IDLE ? "its last" : "not given back",
                    (ull)batch->generation);
    return false;
}

static bool rows_fit(struct dataload *handle, const Dlp__BatchReady *ready)
{
    if (ready->rows > 0 && ready->rows <= handle->batch && ready->valid <= ready->rows)
        return true;
    handle_protocol(handle, "BatchReady with %u rows, %u of them valid, in a batch of %u",
                    ready->rows, ready->valid, handle->batch);
    return false;
}

static struct dataload_batch *announce(struct dataload *handle, uint32_t slot, uint64_t generation,
                                       struct position at)
{
    struct dataload_batch *batch = &handle->mapping->batches[slot];
    batch->state = BATCH_READY;
    batch->generation = generation;
    batch->at = at;
    batch->replay = false;
    return batch;
}

static bool may_replay(struct dataload *handle)
{
    if (handle->options.allow_replay)
        return true;
    handle_protocol(handle, "BatchReady of a batch served again, which was not allowed");
    return false;
}

void take_ready(struct dataload *handle, const Dlp__BatchReady *ready)
{
    handle->offer = 0;
    struct position at = {ready->epoch, ready->step};
    if (is_void(handle) || !fits(handle, "BatchReady", ready->slot, ready->generation) ||
        !rows_fit(handle, ready) ||
        !(ready->replay ? may_replay(handle) : in_turn(handle, "BatchReady", at)))
        return;
    struct dataload_batch *batch = announce(handle, ready->slot, ready->generation, at);
    batch->rows = ready->rows;
    batch->valid = ready->valid;
    batch->replay = ready->replay;
    push(handle, (struct turn){.batch = batch, .at = at});
}

void take_failed(struct dataload *handle, const Dlp__BatchFailed *failed)
{
    handle->offer = 0;
    struct position at = {failed->epoch, failed->step};
    if (is_void(handle) || !fits(handle, "BatchFailed", failed->slot, failed->generation) ||
        !in_turn(handle, "BatchFailed", at))
        return;
    char text[DLP_TEXT_MAX + 1];
    dlp_printable(*failed->text ? failed->text : dlp_error_text(failed->code), text, sizeof text);
    push(handle, (struct turn){.batch = announce(handle, failed->slot, failed->generation, at),
                               .at = at,
                               .code = -EBADMSG,
                               .text = strdup(text)});
}

void take_final(struct dataload *handle, int code, const char *text)
{
    if (!handle->detaching && !take_final_queued(handle))
        push(handle, (struct turn){.final = true, .code = code, .text = strdup(text)});
}

static void send_take(struct dataload *handle, const struct dataload_batch *batch, uint64_t wait_ns)
{
    Dlp__Take take = DLP__TAKE__INIT;
    take.slot = batch->slot;
    take.generation = batch->generation;
    take.wait_ns = wait_ns;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_TAKE;
    env.take = &take;
    request_send(handle, &env);
}

void take_send_release(struct dataload *handle, const dataload_batch *batch, uint64_t hold_ns)
{
    Dlp__Release release = DLP__RELEASE__INIT;
    release.slot = batch->slot;
    release.generation = batch->generation;
    release.hold_ns = hold_ns;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_RELEASE;
    env.release = &release;
    request_send(handle, &env);
}

static void send_wait(struct dataload *handle)
{
    Dlp__Wait wait = DLP__WAIT__INIT;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_WAIT;
    env.wait = &wait;
    request_send(handle, &env);
    handle->wait_sent = true;
}

static int hand_out(struct dataload *handle, struct dataload_batch *batch)
{
    struct device_answer answer;
    char text[DLP_TEXT_MAX];
    if (!mapping_populate(batch, &answer)) {
        int r = device_explain(&answer, text, sizeof text);
        handle_end(handle, r, "the offsets of a batch cannot be read from the GPU: %s", text);
        return handle_ended(handle);
    }
    batch->state = BATCH_HELD;
    batch->taken_at = handle_now();
    batch->mapping->held++;
    handle->meter.totals.replayed += batch->replay;
    uint32_t rows = batch->replay ? 0 : batch->rows;
    send_take(handle, batch, meter_taken(&handle->meter, rows, rows ? view_bytes(batch) : 0));
    handle->wait_sent = false;
    return 0;
}

/* In place of the batch, whose slot goes straight back. */
static int hand_error(struct dataload *handle, const struct turn *turn)
{
    turn->batch->state = BATCH_IDLE;
    send_take(handle, turn->batch, meter_taken(&handle->meter, 0, 0));
    take_send_release(handle, turn->batch, 0);
    handle->wait_sent = false;
    handle_fail(handle, turn->code, "%s", turn->text ? turn->text : "");
    free(turn->text);
    return turn->code;
}

static void end_wait(struct dataload *handle)
{
    if (handle->waiting_since)
        meter_waited(&handle->meter, handle_now() - handle->waiting_since);
    handle->waiting_since = 0;
}

/* The first in the queue; the queue is not empty. */
static int take_turn(struct dataload *handle, dataload_batch **out)
{
    end_wait(handle);
    if (turn_at(handle, 0)->final) {
        take_end(handle);
        return handle_ended(handle);
    }
    struct turn turn = pop(handle);
    if (!turn.batch->replay) {
        handle->next = (struct position){turn.at.epoch, turn.at.step + 1};
        handle->begun = true;
    }
    if (turn.code)
        return hand_error(handle, &turn);
    int r = hand_out(handle, turn.batch);
    *out = r == 0 ? turn.batch : NULL;
    return r;
}

static int end_epoch(struct dataload *handle)
{
    uint64_t epoch = passed_to(handle);
    handle->next = (struct position){epoch == handle->next.epoch ? epoch + 1 : epoch, 0};
    handle->begun = true;
    return DATALOAD_EPOCH_END;
}

static int all_held(struct dataload *handle)
{
    const struct mapping *mapping = handle->mapping;
    const struct dataload_batch *oldest = &mapping->batches[0];
    for (uint32_t i = 1; i < mapping->slots; i++) {
        if (mapping->batches[i].taken_at < oldest->taken_at)
            oldest = &mapping->batches[i];
    }
    return handle_fail(handle, -EDEADLK,
                       "this trainer holds all %u slots, the oldest (epoch %llu, step %llu) for "
                       "%.3f s: release a batch before asking for the next, or attach with more "
                       "slots",
                       mapping->slots, (ull)oldest->at.epoch, (ull)oldest->at.step,
                       (double)(handle_now() - oldest->taken_at) / (double)CLIENT_SECOND);
}

/* What can be answered without waiting, or -EAGAIN. */
static int next_now(struct dataload *handle, dataload_batch **out)
{
    request_pump(handle);
    if (handle->phase == PHASE_ENDED)
        return handle_ended(handle);
    if (handle->seek.awaited && !take_final_queued(handle))
        return -EAGAIN;
    if (handle->seek.refused)
        return seek_tell_refusal(handle);
    if (end_due(handle))
        return end_epoch(handle);
    if (handle->queued)
        return take_turn(handle, out);
    if (handle->phase == PHASE_STREAM && handle->mapping->held == handle->mapping->slots)
        return all_held(handle);
    return -EAGAIN;
}

/* No descriptor tells when the work behind which batches were given back has ended. */
static int64_t wait_until(const struct dataload *handle, int64_t deadline)
{
    int64_t look = handle->given ? handle_now() + LOOK_NS : CLIENT_NEVER;
    return look < deadline ? look : deadline;
}

static int next_within(struct dataload *handle, int64_t deadline, dataload_batch **out)
{
    for (;;) {
        int64_t start = handle_now();
        int r = next_now(handle, out);
        if (r != -EAGAIN)
            return r;
        /* From here on the trainer waits, also one that polls between calls without a time-out. */
        if (!handle->waiting_since)
            handle->waiting_since = start;
        if (handle->phase == PHASE_STREAM && !handle->wait_sent)
            send_wait(handle);
        if (start >= deadline)
            return handle_fail(handle, -ETIMEDOUT, "no batch is ready yet%s%s",
                               handle->phase == PHASE_STREAM ? "" : "; dataloadd has gone: ",
                               handle->phase == PHASE_STREAM ? "" : "looking for it");
        r = request_wait(handle, wait_until(handle, deadline));
        if (r < 0)
            return handle_fail(handle, r, "interrupted by a signal");
    }
}

int dataload_next(dataload *handle, int timeout_ms, dataload_batch **batch)
{
    *batch = NULL;
    int r = handle_enter(handle);
    if (r < 0)
        return r;
    int64_t deadline = CLIENT_NEVER;
    if (timeout_ms >= 0)
        deadline = handle_now() + timeout_ms * (CLIENT_SECOND / 1000);
    r = next_within(handle, deadline, batch);
    request_settle(handle);
    return r;
}
