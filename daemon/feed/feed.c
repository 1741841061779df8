#include "feed/feed.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "base/thread.h"
#include "feed/feed_parts.h"
#include "feed/ferry.h"
#include "feed/row.h"

/* Share of memory that the shuffle buffers of one job may take. */
#define SHUFFLE_SHARE 2

static bool run_row(void *context, void *item, struct decoder *decoder)
{
    (void)context;
    return row_run(item, decoder);
}

static void rows_done(void *context, void **items, uint32_t count, uint64_t ns)
{
    struct feed *feed = context;
    uint64_t begin = clock_ns();
    const struct row *first = items[0];
    trace_span("decode", feed->tally.feed, begin - ns, begin, NULL, first->batch->place.step);
    tally_add(&feed->tally.decode_ns, ns);
    tally_pop(&feed->tally, count, begin);
    row_done(items, count);
    tally_add(&feed->tally.finish_ns, clock_ns() - begin);
}

static void drop_row(void *context, void *item)
{
    (void)context;
    row_drop(item);
}

static uint32_t batches_ahead(void *context)
{
    struct feed *feed = context;
    return slots_count_ready(feed->slots);
}

static const struct workers_work row_work = {run_row, rows_done, drop_row, batches_ahead};

static int check(const struct feed_params *params, struct error *err)
{
    struct steps steps = {.records = dataset_records(params->dataset),
                          .start = params->start_position,
                          .lanes = recipe_lanes(params->spec),
                          .world = params->world,
                          .batch = params->batch,
                          .tail = params->spec->tail};
    if (params->rank >= params->world || params->slots == 0)
        return error_set(err, -EINVAL,
                         "rank %" PRIu32 " of world %" PRIu32 " with %" PRIu32 " slots",
                         params->rank, params->world, params->slots);
    int code = steps_check(&steps, err);
    steps.start = 0;
    return code < 0 ? code : steps_check(&steps, err);
}

static void set_recipe(struct feed *feed)
{
    const struct feed_params *params = &feed->params;
    struct recipe *recipe = &feed->recipe;
    recipe->spec = params->spec;
    feed->tally.feed = params->spec->name;
    recipe->dataset = dataset_ref(params->dataset);
    recipe->source = recipe_source(recipe->dataset);
    recipe->order = (struct plan_settings){
        .seed = params->seed, .shuffle = params->spec->shuffle, .lanes = params->spec->lanes};
    recipe->delay = delay_from_environment();
    recipe->rank = params->rank;
    recipe->world = params->world;
    recipe->batch = params->batch;
    recipe->start_epoch = params->start_epoch;
    recipe->start_position = params->start_position;
    recipe->tally = &feed->tally;
    plan_id(dataset_fingerprint(recipe->dataset), &recipe->order, tail_name(params->spec->tail),
            feed->plan_id);
}

static int take_arena(struct feed *feed, struct error *err)
{
    const struct feed_params *params = &feed->params;
    uint64_t slot_bytes = feed->recipe.layout.wire.slot_bytes;
    if (params->memory == DLP_MEMORY_HOST)
        return arena_new(params->budget, params->shared ? params->orphans : NULL, params->slots,
                         slot_bytes, &feed->arena, err);
    const struct ferry_params ferry = {.uploader = params->uploader,
                                       .kind = params->memory,
                                       .budget = params->budget,
                                       .slots = params->slots,
                                       .slot_bytes = slot_bytes,
                                       .lost = feed_lose,
                                       .failed = feed_fail,
                                       .context = feed};
    feed->open = 1;
    feed->ports[0].from = params->first;
    return ferry_new(&ferry, &feed->ferry, err);
}

/* Memory that is asked of the budget. */
static int take_memory(struct feed *feed, struct error *err)
{
    const struct feed_params *params = &feed->params;
    int code = layout_make(params->spec, params->dataset, params->batch, &feed->recipe.layout, err);
    if (code < 0)
        return code;
    uint64_t floor = feed_floor(params->spec, params->dataset, params->batch, params->budget,
                                &feed->recipe.record_limit);
    uint64_t cap = budget_limit(params->budget) / SHUFFLE_SHARE / params->world;
    code = ration_new(params->budget, floor, cap, &feed->ration, err);
    if (code == 0)
        code = take_arena(feed, err);
    return code < 0 ? error_prefix(err, "feed %s", params->spec->name) : 0;
}

/* Steps in which the slots come to be: of an arena on a GPU all are there with its first berth. */
static uint32_t steps_of_reserving(const struct feed *feed)
{
    return feed->ferry ? ferry_berths(feed->ferry) : feed->params.slots;
}

static int reserve(struct feed *feed, uint32_t step, struct error *err)
{
    int code =
        feed->ferry ? ferry_reserve(feed->ferry, step, err) : arena_reserve(feed->arena, step, err);
    if (code < 0)
        return code;
    if (!feed->ferry)
        slots_reserved(feed->slots, step);
    for (uint32_t slot = 0; feed->ferry && step == 0 && slot < feed->params.slots; slot++)
        slots_reserved(feed->slots, slot);
    return 0;
}

static int make_parts(struct feed *feed, struct error *err)
{
    const struct feed_params *params = &feed->params;
    feed->slots = slots_new(params->slots);
    feed->belt = belt_new(&feed->recipe, params->slots, params->first, feed_news, feed);
    feed->queue = workers_queue_new(params->workers, &row_work, feed, params->probe);
    struct reader_params reader = {.recipe = &feed->recipe,
                                   .ration = feed->ration,
                                   .belt = feed->belt,
                                   .slots = feed->slots,
                                   .arena = feed->arena,
                                   .ferry = feed->ferry,
                                   .queue = feed->queue,
                                   .nslots = params->slots,
                                   .mean_bytes = feed_mean_bytes(params->dataset),
                                   .first = params->first,
                                   .failed = feed_fail,
                                   .context = feed};
    int code = reader_new(&reader, &feed->reader, err);
    if (code == 0)
        feed_set_terms(feed, &params->terms);
    if (code == 0 && feed->arena && params->reader)
        arena_prefer(feed->arena, cpus_node(params->reader));
    if (code == 0)
        code = reserve(feed, 0, err);
    return code < 0 ? error_prefix(err, "feed %s", params->spec->name) : 0;
}

/* What has threads or much memory. Blocks. */
static void end_work(struct feed *feed)
{
    if (feed->reader)
        reader_stop(feed->reader);
    reader_free(feed->reader);
    workers_queue_free(feed->queue);
    if (feed->arena)
        arena_set_owner(feed->arena, feed->params.terms.uid);
    arena_free(feed->arena);
    ferry_end(feed->ferry);
    dataset_unref(feed->recipe.dataset);
    delay_free(&feed->recipe.delay);
}

static void free_rest(struct feed *feed)
{
    ferry_free(feed->ferry);
    belt_free(feed->belt);
    slots_free(feed->slots);
    ration_free(feed->ration);
    sem_destroy(&feed->go);
    sem_destroy(&feed->end);
    pthread_mutex_destroy(&feed->mutex);
    free(feed->announced);
    free(feed);
}

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) < 0)
        continue;
}

static void reserve_slots(struct feed *feed)
{
    uint32_t steps = steps_of_reserving(feed);
    for (uint32_t step = 1; step < steps && !atomic_load(&feed->closing); step++) {
        struct error err;
        if (reserve(feed, step, &err) < 0) {
            feed_fail(feed, &err);
            break;
        }
    }
}

/* For all that blocks. */
static void *help(void *context)
{
    struct feed *feed = context;
    wait_for(&feed->go);
    reserve_slots(feed);
    wait_for(&feed->end);
    end_work(feed);
    mem_trim();
    mailbox_post(feed->params.mailbox, &feed->closed);
    return NULL;
}

int feed_open(const struct feed_params *params, struct feed **out, struct error *err)
{
    int code = check(params, err);
    if (code < 0)
        return code;
    struct feed *feed = mem_new(sizeof *feed);
    feed->params = *params;
    feed->mail.deliver = feed_deliver;
    feed->bad_epoch = UINT64_MAX;
    feed->announced = mem_array(params->slots, sizeof *feed->announced);
    pthread_mutex_init(&feed->mutex, NULL);
    sem_init(&feed->go, 0, 0);
    sem_init(&feed->end, 0, 0);
    phases_begin(&feed->tally.reader, FEED_RUNS);
    set_recipe(feed);
    code = take_memory(feed, err);
    if (code == 0)
        code = make_parts(feed, err);
    if (code == 0)
        code = thread_try("feed", help, feed, &feed->helper, err);
    if (code == 0) {
        *out = feed;
        return 0;
    }
    end_work(feed);
    free_rest(feed);
    return code;
}

void feed_start(struct feed *feed)
{
    sem_post(&feed->go);
    reader_start(feed->reader);
}

static void deliver_closed(struct mail *mail)
{
    struct feed *feed = (struct feed *)(void *)((char *)mail - offsetof(struct feed, closed));
    struct feed_events events = feed->params.events;
    void *context = feed->params.context;
    pthread_join(feed->helper, NULL);
    free_rest(feed);
    events.closed(context);
}

void feed_close(struct feed *feed)
{
    if (atomic_exchange(&feed->closing, true))
        return;
    reader_stop(feed->reader);
    feed->closed.deliver = deliver_closed;
    sem_post(&feed->end);
    sem_post(&feed->go); /* in case that it was not started */
}

void feed_keep(struct feed *feed)
{
    if (feed->arena)
        arena_keep(feed->arena);
}

void feed_lend(struct feed *feed, uint32_t port, struct borrower *borrower)
{
    ferry_lend(feed->ferry, port, borrower);
}

void feed_shed(struct feed *feed)
{
    slots_nudge(feed->slots);
}

void feed_set_terms(struct feed *feed, const struct share_terms *terms)
{
    feed->params.terms = *terms;
    workers_queue_set_terms(feed->queue, terms);
    reader_set_terms(feed->reader, terms);
}

void feed_get_arena(const struct feed *feed, uint32_t port, struct feed_arena *out)
{
    if (feed->ferry) {
        const struct arena_cuda_offer *offer = ferry_offer(feed->ferry, port);
        *out = (struct feed_arena){offer->kind, offer->fd, offer->bytes, offer};
        return;
    }
    *out = (struct feed_arena){.kind = DLP_MEMORY_HOST,
                               .fd = arena_fd(feed->arena),
                               .bytes = feed->params.slots * feed->recipe.layout.wire.slot_bytes};
}

const struct dlp_layout *feed_get_layout(const struct feed *feed)
{
    return &feed->recipe.layout.wire;
}

uint64_t feed_steps(const struct feed *feed, uint64_t epoch)
{
    struct steps steps = recipe_steps(&feed->recipe, epoch);
    return steps_of_rank(&steps, feed->recipe.rank);
}

const char *feed_plan_id(const struct feed *feed)
{
    return feed->plan_id;
}
