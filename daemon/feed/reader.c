#include "feed/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/plural.h"
#include "base/thread.h"
#include "base/trace.h"
#include "feed/fetch.h"
#include "feed/row.h"
#include "feed/shuffle.h"

/* Batches after a start for which nothing is read ahead, so that the first ones come at once. */
#define AT_ONCE 2
/* Bytes that are taken in for later batches, over those of the batch just emitted. */
#define AHEAD_FACTOR 3
#define MEMORY_WAIT (10 * CLOCK_MS)
/* Bytes of a batch without pictures that the reader fills by itself: copying them costs less than
 * waking a worker for them. */
#define OWN_BATCH_MAX (64U * 1024U)

struct reader {
    struct reader_params params;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex;
    pthread_cond_t news;
    bool started, seeks, stops; /* under the mutex */
    uint64_t seek_epoch;        /* under the mutex */
    struct share_terms terms;   /* under the mutex: */
    bool has_terms;             /* that are new */
    _Atomic bool interrupted;   /* seeks or stops: the belt is void already */
    /* Reader thread only. */
    struct feed_place place; /* of the batch to gather */
    uint64_t round;          /* of the belt */
    uint32_t emitted;        /* batches since the start or seek */
    uint64_t batch_bytes;    /* encoded, of the batch just gathered */
    bool fills;              /* rows itself, see OWN_BATCH_MAX */
    struct shuffle *now, *next;
    struct fetch *fetch;
    uint64_t *positions;
    void **items;
};

static struct sample *load_ahead(void *context, struct plan_place place)
{
    struct reader *reader = context;
    return fetch_add(reader->fetch, place, RATION_AHEAD);
}

static void hint(void *context, struct plan_place first, struct plan_place last)
{
    struct reader *reader = context;
    fetch_advise(reader->fetch, first, last);
}

static struct shuffle *make_shuffle(struct reader *reader, struct feed_place first)
{
    const struct recipe *recipe = reader->params.recipe;
    struct shuffle_params params = {.source = &recipe->source,
                                    .order = &recipe->order,
                                    .epoch = first.epoch,
                                    .steps = recipe_steps(recipe, first.epoch),
                                    .rank = recipe->rank,
                                    .first_step = first.step,
                                    .mean_bytes = reader->params.mean_bytes,
                                    .ration = reader->params.ration};
    return shuffle_new(&params);
}

static uint64_t steps_in(const struct reader *reader, uint64_t epoch)
{
    const struct recipe *recipe = reader->params.recipe;
    struct steps steps = recipe_steps(recipe, epoch);
    return steps_of_rank(&steps, recipe->rank);
}

/* The next one, from its first step on. */
static void begin_epoch(struct reader *reader)
{
    reader->place = (struct feed_place){reader->place.epoch + 1, 0};
    shuffle_free(reader->now);
    reader->now = reader->next;
    reader->next = NULL;
}

/* Past the last step of an epoch lies the first of the next. False: no epoch has a step for this
 * rank (tail partial, fewer records than ranks). */
static bool find_step(struct reader *reader)
{
    const struct feed_place *place = &reader->place;
    if (place->step < steps_in(reader, place->epoch))
        return true;
    begin_epoch(reader);
    if (steps_in(reader, place->epoch) > 0)
        return true;
    begin_epoch(reader);
    return steps_in(reader, place->epoch) > 0;
}

static void forget(struct reader *reader)
{
    shuffle_free(reader->now);
    shuffle_free(reader->next);
    reader->now = reader->next = NULL;
    reader->emitted = 0;
    atomic_store(&reader->params.recipe->tally->shuffle_held, 0);
}

static void interrupt(struct reader *reader, bool on)
{
    slots_interrupt(reader->params.slots, on);
    if (reader->params.ferry)
        ferry_interrupt(reader->params.ferry, on);
}

/* Takes up a seek; false when the reader is to end. */
static bool take_news(struct reader *reader)
{
    pthread_mutex_lock(&reader->mutex);
    bool seeks = reader->seeks;
    bool stops = reader->stops;
    reader->seeks = false;
    if (seeks && !stops) {
        reader->place = (struct feed_place){reader->seek_epoch, 0};
        atomic_store(&reader->interrupted, false);
        interrupt(reader, false);
    }
    reader->round = belt_round(reader->params.belt);
    if (reader->has_terms)
        fetch_set_terms(reader->fetch, &reader->terms);
    reader->has_terms = false;
    pthread_mutex_unlock(&reader->mutex);
    if (seeks)
        forget(reader);
    return !stops;
}

/* Says which records make up the batch, and takes what is here. */
static void gather(struct reader *reader, struct batch *batch)
{
    const struct steps *steps = shuffle_steps(reader->now);
    batch->place = reader->place;
    batch->count =
        steps_positions(steps, reader->place.step, reader->params.recipe->rank, reader->positions);
    atomic_store(&batch->left, batch->count);
    for (uint32_t r = 0; r < batch->count; r++) {
        struct row *row = &batch->rows[r];
        uint64_t i = reader->positions[r];
        *row = (struct row){.batch = batch, .number = r, .repeated = i >= steps->records};
        if (row->repeated)
            row->place = plan_at(shuffle_plan(reader->now), i % steps->records);
        else
            row->sample = shuffle_take(reader->now, i, &row->place);
    }
}

/* Fetches samples that rows lack, as far as memory allows; true when none is missing. */
static bool fetch_missing(struct reader *reader, struct batch *batch)
{
    bool all = true;
    for (uint32_t r = 0; r < batch->count && all; r++) {
        struct row *row = &batch->rows[r];
        if (row->pushed)
            continue;
        if (!row->sample)
            row->sample = fetch_add(reader->fetch, row->place, RATION_NOW);
        all = row->sample;
    }
    fetch_run(reader->fetch);
    return all;
}

/* With the last row done the batch is no longer the reader's. */
static void fill(struct reader *reader, uint32_t count)
{
    const struct row *first = reader->items[0];
    uint64_t begin = trace_now();
    for (uint32_t i = 0; i < count; i++)
        row_run(reader->items[i], NULL);
    if (begin)
        trace_span("decode", reader->params.recipe->spec->name, begin, trace_now(), NULL,
                   first->batch->place.step);
    row_done(reader->items, count);
}

/* Rows with their sample go to the workers; those of a void batch without. */
static void push(struct reader *reader, struct batch *batch, bool all)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < batch->count; r++) {
        struct row *row = &batch->rows[r];
        if (row->pushed || (!row->sample && !all))
            continue;
        row->pushed = true;
        reader->items[count++] = row;
    }
    if (count && reader->fills) {
        fill(reader, count);
    } else if (count) {
        tally_push(reader->params.recipe->tally, count);
        workers_push(reader->params.queue, reader->items, count);
    }
}

static uint64_t bytes_of(const struct batch *batch)
{
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < batch->count; r++)
        if (batch->rows[r].sample)
            bytes += batch->rows[r].sample->charge;
    return bytes;
}

/* The batch is on the belt: pushes its rows, as they can be fetched. */
static void push_all(struct reader *reader, struct batch *batch, bool all)
{
    struct tally *tally = reader->params.recipe->tally;
    while (!all && !atomic_load(&reader->interrupted)) {
        push(reader, batch, false);
        tally_wait(tally, FEED_WAITS_MEMORY, NULL);
        ration_wait(reader->params.ration, MEMORY_WAIT);
        tally_wait(tally, FEED_RUNS, NULL);
        all = fetch_missing(reader, batch);
    }
    push(reader, batch, true);
}

/* Others wait for memory: what was taken in ahead of need goes. */
static void shed(struct reader *reader)
{
    shuffle_shed(reader->now);
    if (reader->next)
        shuffle_shed(reader->next);
    atomic_store(&reader->params.recipe->tally->shuffle_held, 0);
}

static int wait_slot(struct reader *reader, uint32_t *slot)
{
    int code;
    do {
        code = slots_take(reader->params.slots, slot);
        if (code == -EAGAIN && ration_pressed(reader->params.ration))
            shed(reader);
    } while (code == -EAGAIN);
    return code;
}

/* Where rows are written. Waiting for it is waiting for decoding or for copies. */
static int find_memory(struct reader *reader, struct batch *batch)
{
    batch->ferry = reader->params.ferry;
    if (!batch->ferry) {
        batch->memory = arena_slot(reader->params.arena, batch->slot);
        return 0;
    }
    tally_wait(reader->params.recipe->tally, FEED_WAITS_COPY, NULL);
    int code = ferry_board(batch->ferry, batch);
    if (code < 0)
        slots_drop(reader->params.slots, batch->slot);
    return code;
}

static int take_slot(struct reader *reader, struct batch *batch)
{
    struct tally *tally = reader->params.recipe->tally;
    tally_wait(tally, FEED_WAITS_SLOT, NULL);
    int code = wait_slot(reader, &batch->slot);
    if (code == 0)
        code = find_memory(reader, batch);
    tally_wait(tally, FEED_RUNS, NULL);
    if (code == 0)
        batch->generation = slots_generation(reader->params.slots, batch->slot);
    batch->begun = trace_now();
    return code;
}

static void give_slot(struct reader *reader, struct batch *batch)
{
    slots_drop(reader->params.slots, batch->slot);
    if (batch->ferry)
        ferry_leave(batch->ferry, batch);
}

/* One batch; false when there was news instead. */
static bool emit(struct reader *reader)
{
    struct belt *belt = reader->params.belt;
    struct batch *batch = belt_get(belt);
    gather(reader, batch);
    bool all = fetch_missing(reader, batch);
    reader->batch_bytes = bytes_of(batch);
    bool slot = take_slot(reader, batch) == 0;
    if (!slot || !belt_append(belt, batch, reader->round)) {
        if (slot)
            give_slot(reader, batch);
        belt_put(belt, batch);
        return false;
    }
    push_all(reader, batch, all);
    return true;
}

/* Makes the plan of the next epoch in good time: while the trainer is behind, at the latest when
 * its records are to be taken in. */
static void plan_next(struct reader *reader, bool needed)
{
    uint64_t steps = steps_in(reader, reader->place.epoch);
    bool late = reader->place.step + reader->params.nslots >= steps;
    bool half = reader->place.step >= steps / 2;
    if (reader->next || !(needed || late || half))
        return;
    if (needed || late || slots_count(reader->params.slots).by_state[SLOT_FREE] == 0)
        reader->next = make_shuffle(reader, (struct feed_place){reader->place.epoch + 1, 0});
}

/* How much of the K records of each lane from `from` on is here. */
static void tell_fill(const struct reader *reader, uint64_t from, uint64_t lane)
{
    struct tally *tally = reader->params.recipe->tally;
    uint64_t upto = from + plan_block(shuffle_plan(reader->now));
    uint64_t target = shuffle_target(reader->now);
    uint64_t lack = shuffle_lack(reader->now, from, upto);
    if (upto > lane && reader->next)
        lack += shuffle_lack(reader->next, 0, upto - lane);
    atomic_store(&tally->shuffle_target, target);
    atomic_store(&tally->shuffle_held, lack < target ? target - lack : 0);
}

/* Takes in what lies before record `upto` of each lane, across the end of the epoch. Returns the
 * bytes. */
static uint64_t take_in(struct reader *reader, uint64_t upto, uint64_t quota)
{
    const struct steps *steps = shuffle_steps(reader->now);
    uint64_t lane = steps->records / steps->lanes;
    struct shuffle_source source = {load_ahead, fetch_waits(reader->fetch) ? hint : NULL, reader};
    uint64_t bytes = shuffle_ahead(reader->now, upto, quota, &source);
    plan_next(reader, upto > lane);
    if (upto > lane && bytes < quota && reader->next)
        bytes += shuffle_ahead(reader->next, upto - lane, quota - bytes, &source);
    return bytes;
}

/* Records for later batches. Where reads wait for storage, what has to be read now comes with what
 * would have to be soon: few rounds of many reads at a time. */
static void read_ahead(struct reader *reader)
{
    const struct steps *steps = shuffle_steps(reader->now);
    uint64_t rows = (uint64_t)steps->world * steps->batch;
    uint64_t from = (steps->start + (reader->place.step + 1) * rows) / steps->lanes;
    uint64_t upto = from + plan_block(shuffle_plan(reader->now)) + rows / steps->lanes + 1;
    uint64_t quota = AHEAD_FACTOR * reader->batch_bytes;
    if (quota < SHUFFLE_CHUNK)
        quota = SHUFFLE_CHUNK;
    if (ration_pressed(reader->params.ration))
        shed(reader);
    uint64_t bytes = take_in(reader, upto, quota);
    if (bytes && bytes < SHUFFLE_DEPTH && fetch_waits(reader->fetch))
        take_in(reader, upto + shuffle_depth(reader->now), SHUFFLE_DEPTH - bytes);
    fetch_run(reader->fetch);
    tell_fill(reader, from, steps->records / steps->lanes);
}

static void report_no_memory(struct reader *reader)
{
    struct error err;
    error_set(&err, -ENOMEM,
              "feed %s: no memory for the plan of epoch %" PRIu64 " (%" PRIu64
              " records): lower memory or the number of feeds",
              reader->params.recipe->spec->name, reader->place.epoch,
              dataset_records(reader->params.recipe->dataset));
    reader->params.failed(reader->params.context, &err);
}

static void wait_news(struct reader *reader)
{
    tally_wait(reader->params.recipe->tally, FEED_ENDED, NULL);
    pthread_mutex_lock(&reader->mutex);
    while (!reader->seeks && !reader->stops)
        pthread_cond_wait(&reader->news, &reader->mutex);
    pthread_mutex_unlock(&reader->mutex);
    tally_wait(reader->params.recipe->tally, FEED_RUNS, NULL);
}

static void wait_start(struct reader *reader)
{
    pthread_mutex_lock(&reader->mutex);
    while (!reader->started && !reader->stops)
        pthread_cond_wait(&reader->news, &reader->mutex);
    pthread_mutex_unlock(&reader->mutex);
}

static void *reader_main(void *context)
{
    struct reader *reader = context;
    wait_start(reader);
    tally_begin(reader->params.recipe->tally);
    while (take_news(reader)) {
        if (!find_step(reader)) {
            wait_news(reader);
            continue;
        }
        if (!reader->now)
            reader->now = make_shuffle(reader, reader->place);
        if (!reader->now) {
            report_no_memory(reader);
            break;
        }
        if (!emit(reader))
            continue;
        if (++reader->emitted > AT_ONCE)
            read_ahead(reader);
        reader->place.step++;
    }
    forget(reader);
    tally_wait(reader->params.recipe->tally, FEED_ENDED, NULL);
    tally_set(&reader->params.recipe->tally->reader_ns, clock_read(CLOCK_THREAD_CPUTIME_ID));
    return NULL;
}

static bool fills_itself(const struct recipe *recipe)
{
    for (uint32_t f = 0; f < recipe->spec->nfields; f++)
        if (recipe->spec->fields[f].kind == FIELD_IMAGE)
            return false;
    return recipe->layout.wire.slot_bytes <= OWN_BATCH_MAX;
}

static int start_thread(struct reader *reader, struct error *err)
{
    int code = thread_try("reader", reader_main, reader, &reader->thread, err);
    reader->has_thread = code == 0;
    return code;
}

int reader_new(const struct reader_params *params, struct reader **out, struct error *err)
{
    struct reader *reader = mem_new(sizeof *reader);
    reader->params = *params;
    reader->place = params->first;
    reader->fills = fills_itself(params->recipe);
    pthread_mutex_init(&reader->mutex, NULL);
    pthread_cond_init(&reader->news, NULL);
    reader->fetch = fetch_new(params->recipe, params->ration, &reader->interrupted);
    reader->positions = mem_array(params->recipe->batch, sizeof *reader->positions);
    reader->items = mem_array(params->recipe->batch, sizeof *reader->items);
    bool has_step = find_step(reader);
    if (has_step)
        reader->now = make_shuffle(reader, reader->place);
    int code = 0;
    if (has_step && !reader->now)
        code = error_set(err, -ENOMEM, "no memory for the plan of %" PRIu64 " record%s",
                         dataset_records(params->recipe->dataset),
                         plural(dataset_records(params->recipe->dataset)));
    if (code == 0)
        code = start_thread(reader, err);
    if (code == 0)
        *out = reader;
    else
        reader_free(reader);
    return code;
}

void reader_start(struct reader *reader)
{
    pthread_mutex_lock(&reader->mutex);
    reader->started = true;
    pthread_cond_signal(&reader->news);
    pthread_mutex_unlock(&reader->mutex);
}

/* Its clock goes with the thread. */
uint64_t reader_cpu_ns(const struct reader *reader, bool *fills)
{
    const struct tally *tally = reader->params.recipe->tally;
    clockid_t clock;
    uint64_t ns = pthread_getcpuclockid(reader->thread, &clock) ? 0 : clock_read(clock);
    uint64_t ended_ns = tally_get(&tally->reader_ns);
    *fills = reader->fills;
    return (ended_ns ? ended_ns : ns) + tally_get(&tally->crew_ns);
}

void reader_set_terms(struct reader *reader, const struct share_terms *terms)
{
    pthread_mutex_lock(&reader->mutex);
    reader->terms = *terms;
    reader->has_terms = true;
    pthread_mutex_unlock(&reader->mutex);
}

uint32_t reader_seek(struct reader *reader, uint64_t epoch)
{
    pthread_mutex_lock(&reader->mutex);
    uint32_t count = belt_void(reader->params.belt, (struct feed_place){epoch, 0});
    reader->seeks = true;
    reader->seek_epoch = epoch;
    atomic_store(&reader->interrupted, true);
    interrupt(reader, true);
    pthread_cond_signal(&reader->news);
    pthread_mutex_unlock(&reader->mutex);
    ration_wake(reader->params.ration);
    return count;
}

void reader_stop(struct reader *reader)
{
    pthread_mutex_lock(&reader->mutex);
    belt_void(reader->params.belt, (struct feed_place){0});
    reader->stops = true;
    atomic_store(&reader->interrupted, true);
    slots_cancel(reader->params.slots);
    if (reader->params.ferry)
        ferry_cancel(reader->params.ferry);
    pthread_cond_signal(&reader->news);
    pthread_mutex_unlock(&reader->mutex);
    ration_wake(reader->params.ration);
}

void reader_free(struct reader *reader)
{
    if (!reader)
        return;
    if (reader->has_thread)
        pthread_join(reader->thread, NULL);
    forget(reader);
    fetch_free(reader->fetch);
    pthread_cond_destroy(&reader->news);
    pthread_mutex_destroy(&reader->mutex);
    free(reader->positions);
    free(reader->items);
    free(reader);
}
