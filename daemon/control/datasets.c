#include "control/datasets.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "base/mem.h"

struct opening {
    uv_work_t work;
    struct datasets *datasets;
    uint32_t feed;
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
    struct opening *openings; /* one a feed */
    bool stopping;
};

struct datasets *datasets_new(const struct datasets_options *options)
{
    struct datasets *datasets = mem_new(sizeof *datasets);
    datasets->options = *options;
    datasets->openings = mem_array(options->nfeeds, sizeof *datasets->openings);
    for (uint32_t i = 0; i < options->nfeeds; i++) {
        datasets->openings[i].datasets = datasets;
        datasets->openings[i].feed = i;
        pthread_mutex_init(&datasets->openings[i].mutex, NULL);
    }
    return datasets;
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

/* Helper thread. */
static void open_it(uv_work_t *work)
{
    struct opening *opening = work->data;
    const struct datasets_options *options = &opening->datasets->options;
    if (opening->current && dataset_current(opening->current)) {
        opening->result = dataset_ref(opening->current);
        return;
    }
    spec_open_dataset(options->feeds[opening->feed], options->cache_dir, options->cache_bytes,
                      options->cache_marks, options->threads, on_progress, opening,
                      &opening->result, &opening->err);
}

static void on_opened(uv_work_t *work, int status);

static void start(struct opening *opening)
{
    opening->running = true;
    opening->cancel = false;
    opening->result = NULL;
    opening->err = (struct error){0};
    opening->work.data = opening;
    uv_queue_work(opening->datasets->options.loop, &opening->work, open_it, on_opened);
}

static void tell_waiters(struct opening *opening)
{
    struct dataset *dataset = opening->result;
    struct error err = opening->err;
    opening->served = opening->waiters;
    opening->waiters = NULL;
    opening->result = NULL;
    while (opening->served) {
        struct datasets_waiter *waiter = opening->served;
        opening->served = waiter->next;
        waiter->done(waiter->context, dataset, &err);
    }
    dataset_unref(dataset);
}

static void on_opened(uv_work_t *work, int status)
{
    struct opening *opening = work->data;
    const struct datasets_options *options = &opening->datasets->options;
    (void)status;
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
    tell_waiters(opening);
    options->ended(options->context);
}

void datasets_get(struct datasets *datasets, uint32_t feed, struct datasets_waiter *waiter)
{
    struct opening *opening = &datasets->openings[feed];
    waiter->feed = feed;
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

void datasets_leave(struct datasets *datasets, struct datasets_waiter *waiter)
{
    struct opening *opening = &datasets->openings[waiter->feed];
    if (unlink_waiter(&opening->waiters, waiter))
        opening->cancel = !opening->waiters;
    else
        unlink_waiter(&opening->served, waiter);
}

static void tell_progress(struct opening *opening)
{
    pthread_mutex_lock(&opening->mutex);
    bool news = opening->reports != opening->told;
    char text[sizeof opening->text];
    snprintf(text, sizeof text, "%s", opening->text);
    uint64_t done = opening->done, total = opening->total;
    opening->told = opening->reports;
    pthread_mutex_unlock(&opening->mutex);
    for (struct datasets_waiter *waiter = opening->waiters; news && waiter; waiter = waiter->next)
        waiter->progress(waiter->context, text, done, total);
}

void datasets_tick(struct datasets *datasets)
{
    for (uint32_t i = 0; i < datasets->options.nfeeds; i++)
        if (datasets->openings[i].running)
            tell_progress(&datasets->openings[i]);
}

struct dataset *datasets_peek(const struct datasets *datasets, uint32_t feed)
{
    return datasets->openings[feed].current;
}

bool datasets_stop(struct datasets *datasets)
{
    bool running = false;
    datasets->stopping = true;
    for (uint32_t i = 0; i < datasets->options.nfeeds; i++) {
        datasets->openings[i].cancel = true;
        running |= datasets->openings[i].running;
    }
    return running;
}

void datasets_free(struct datasets *datasets)
{
    if (!datasets)
        return;
    for (uint32_t i = 0; i < datasets->options.nfeeds; i++) {
        dataset_unref(datasets->openings[i].current);
        pthread_mutex_destroy(&datasets->openings[i].mutex);
    }
    free(datasets->openings);
    free(datasets);
}
