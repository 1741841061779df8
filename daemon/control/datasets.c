#include "control/datasets.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/plural.h"

#define PATIENCE_S 120 /* with what a user has given: as long as an indexing has */

struct opening {
    struct opening *next; /* of all */
    uv_work_t work;       /* or: */
    struct errand errand;
    bool queued;    /* as an errand */
    uint64_t moved; /* ns: it began, or reported something new */
    struct datasets *datasets;
    uint32_t feed;
    const struct feed_spec *spec;    /* our own reference */
    bool retired;                    /* the feed is another by now: goes when it has run */
    struct dataset *current;         /* opened last */
    struct datasets_waiter *waiters; /* for the opening that runs */
    struct datasets_waiter *served;  /* being told of the one that has ended */
    bool running;
    struct dataset *result; /* of the helper thread */
    struct error err;
    _Atomic bool cancel;
    pthread_mutex_t mutex; /* for what follows: the last report */
    char text[256];
    uint64_t done, total;
    uint64_t reports, told;
};

struct datasets {
    struct datasets_options options;
    struct opening *all, **feeds; /* one a feed */
    uint32_t nfeeds;
    bool stopping;
};

struct datasets *datasets_new(const struct datasets_options *options)
{
    struct datasets *datasets = mem_new(sizeof *datasets);
    datasets->options = *options;
    return datasets;
}

static struct opening *new_opening(struct datasets *datasets, uint32_t feed,
                                   const struct feed_spec *spec)
{
    struct opening *opening = mem_new(sizeof *opening);
    opening->datasets = datasets;
    opening->feed = feed;
    opening->spec = spec_ref(spec);
    pthread_mutex_init(&opening->mutex, NULL);
    opening->next = datasets->all;
    datasets->all = opening;
    return opening;
}

static void free_opening(struct opening *opening)
{
    struct opening **at = &opening->datasets->all;
    while (*at != opening)
        at = &(*at)->next;
    *at = opening->next;
    dataset_unref(opening->current);
    spec_unref(opening->spec);
    pthread_mutex_destroy(&opening->mutex);
    free(opening);
}

void datasets_set(struct datasets *datasets, uint32_t feed, const struct feed_spec *spec)
{
    struct opening *fresh = new_opening(datasets, feed, spec);
    if (feed == datasets->nfeeds) {
        datasets->feeds = mem_grow(datasets->feeds, ++datasets->nfeeds, sizeof(struct opening *));
    } else {
        struct opening *old = datasets->feeds[feed];
        old->retired = true;
        if (!old->running)
            free_opening(old);
    }
    datasets->feeds[feed] = fresh;
}

static bool on_progress(void *context, const char *text, uint64_t done, uint64_t total)
{
    struct opening *opening = context;
    pthread_mutex_lock(&opening->mutex);
    snprintf(opening->text, sizeof opening->text, "%s", text);
    opening->done = done;
    opening->total = total;
    opening->reports++;
    pthread_mutex_unlock(&opening->mutex);
    return !opening->cancel;
}

/* Another thread. */
static void open_it(struct opening *opening)
{
    const struct datasets_options *options = &opening->datasets->options;
    if (opening->current && dataset_current(opening->current)) {
        opening->result = dataset_ref(opening->current);
        return;
    }
    spec_open_dataset(opening->spec, options->cache_dir, options->cache_bytes, options->cache_marks,
                      options->threads, on_progress, opening, &opening->result, &opening->err);
}

static void work(uv_work_t *work)
{
    open_it(work->data);
}

static struct opening *of_errand(struct errand *errand)
{
    return (struct opening *)(void *)((char *)errand - offsetof(struct opening, errand));
}

/* What nobody waited for any more need not be begun. */
static void run(struct errand *errand)
{
    struct opening *opening = of_errand(errand);
    if (opening->cancel)
        error_set(&opening->err, -ECANCELED, "the opening was cancelled");
    else
        open_it(opening);
}

static void worked(uv_work_t *work, int status);
static void ran(struct errand *errand);

static void start(struct opening *opening)
{
    const struct datasets_options *options = &opening->datasets->options;
    struct errands *lane = options->lane ? options->lane(options->context, opening->spec) : NULL;
    opening->running = true;
    opening->cancel = false;
    opening->result = NULL;
    opening->err = (struct error){0};
    opening->queued = lane;
    opening->moved = clock_ns();
    if (lane) {
        opening->errand.run = run;
        opening->errand.ran = ran;
        errands_add(lane, &opening->errand);
        return;
    }
    opening->work.data = opening;
    uv_queue_work(options->loop, &opening->work, work, worked);
}

static void tell_waiters(struct opening *opening, struct dataset *dataset, struct error err)
{
    opening->served = opening->waiters;
    opening->waiters = NULL;
    while (opening->served) {
        struct datasets_waiter *waiter = opening->served;
        opening->served = waiter->next;
        waiter->done(waiter->context, dataset, &err);
    }
}

static void on_opened(struct opening *opening)
{
    const struct datasets_options *options = &opening->datasets->options;
    opening->running = false;
    if (opening->result && opening->result != opening->current) {
        dataset_unref(opening->current);
        opening->current = dataset_ref(opening->result);
        options->opened(options->context, opening->feed, opening->current);
    }
    /* Somebody came after the opening had been stopped. */
    if (!opening->result && opening->cancel && opening->waiters && !opening->datasets->stopping) {
        start(opening);
        return;
    }
    struct dataset *result = opening->result;
    opening->result = NULL;
    tell_waiters(opening, result, opening->err);
    dataset_unref(result);
    if (opening->retired && !opening->running)
        free_opening(opening);
    options->ended(options->context);
}

static void worked(uv_work_t *work, int status)
{
    (void)status;
    on_opened(work->data);
}

static void ran(struct errand *errand)
{
    struct opening *opening = of_errand(errand);
    if (errand->err.code)
        opening->err = errand->err;
    errands_end(errand);
    on_opened(opening);
}

static struct opening *find(struct datasets *datasets, uint32_t feed, const struct feed_spec *spec)
{
    if (datasets->feeds[feed]->spec == spec)
        return datasets->feeds[feed];
    for (struct opening *opening = datasets->all; opening; opening = opening->next)
        if (opening->retired && opening->spec == spec)
            return opening;
    struct opening *opening = new_opening(datasets, feed, spec);
    opening->retired = true;
    return opening;
}

void datasets_get(struct datasets *datasets, uint32_t feed, const struct feed_spec *spec,
                  struct datasets_waiter *waiter)
{
    struct opening *opening = find(datasets, feed, spec);
    waiter->opening = opening;
    waiter->next = opening->waiters;
    opening->waiters = waiter;
    if (!opening->running)
        start(opening);
}

static bool unlink_waiter(struct datasets_waiter **list, const struct datasets_waiter *waiter)
{
    while (*list && *list != waiter)
        list = &(*list)->next;
    if (!*list)
        return false;
    *list = waiter->next;
    return true;
}

void datasets_leave(struct datasets_waiter *waiter)
{
    struct opening *opening = waiter->opening;
    if (unlink_waiter(&opening->waiters, waiter))
        opening->cancel = !opening->waiters;
    else
        unlink_waiter(&opening->served, waiter);
}

/* Nobody waits for it any longer; the thread that may hang at it stays the user's. */
static void give_up(struct opening *opening)
{
    struct error err;
    error_set(&err, -ETIMEDOUT,
              "feed '%s': the storage of the files that were given has not "
              "answered for %d s, for this opening or others of the same user",
              opening->spec->name, PATIENCE_S);
    opening->cancel = true;
    tell_waiters(opening, NULL, err);
}

static void tell_queue(const struct opening *opening, uint32_t before)
{
    char text[128];
    snprintf(text, sizeof text, "waiting for %u opening%s of the same user's files and data sets",
             before, plural(before));
    for (struct datasets_waiter *waiter = opening->waiters; waiter; waiter = waiter->next)
        waiter->progress(waiter->context, text, 0, 0);
}

static void tell_progress(struct opening *opening, uint64_t now)
{
    pthread_mutex_lock(&opening->mutex);
    bool news = opening->reports != opening->told;
    char text[sizeof opening->text];
    snprintf(text, sizeof text, "%s", opening->text);
    uint64_t done = opening->done, total = opening->total;
    opening->told = opening->reports;
    opening->moved = news ? now : opening->moved;
    pthread_mutex_unlock(&opening->mutex);
    if (news && opening->queued)
        errands_go_on(&opening->errand, now);
    for (struct datasets_waiter *waiter = opening->waiters; news && waiter; waiter = waiter->next)
        waiter->progress(waiter->context, text, done, total);
}

/* Of one whose user's storage may hang; those before it count too. */
static bool stands_still(struct opening *opening, uint64_t now)
{
    if (!opening->queued)
        return false;
    if (errands_moved(&opening->errand) > opening->moved)
        opening->moved = errands_moved(&opening->errand);
    return now > opening->moved && now - opening->moved > PATIENCE_S * CLOCK_SECOND;
}

static void look_after(struct opening *opening, uint64_t now)
{
    uint32_t before = opening->queued ? errands_before(&opening->errand) : 0;
    tell_progress(opening, now);
    if (stands_still(opening, now))
        give_up(opening);
    else if (before)
        tell_queue(opening, before);
}

/* What is told may begin further openings, and ends none. */
void datasets_tick(struct datasets *datasets, uint64_t now)
{
    for (struct opening *opening = datasets->all; opening; opening = opening->next)
        if (opening->running)
            look_after(opening, now);
}

struct dataset *datasets_peek(const struct datasets *datasets, uint32_t feed)
{
    return datasets->feeds[feed]->current;
}

bool datasets_busy(const struct datasets *datasets, uint32_t feed)
{
    for (const struct opening *opening = datasets->all; opening; opening = opening->next)
        if (opening->feed == feed && opening->running)
            return true;
    return false;
}

bool datasets_stop(struct datasets *datasets)
{
    bool running = false;
    datasets->stopping = true;
    for (struct opening *opening = datasets->all; opening; opening = opening->next) {
        opening->cancel = true;
        running |= opening->running;
    }
    return running;
}

void datasets_free(struct datasets *datasets)
{
    if (!datasets)
        return;
    while (datasets->all)
        free_opening(datasets->all);
    free(datasets->feeds);
    free(datasets);
}
