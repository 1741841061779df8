/* A pool whose decoders are names only, and clients that say what they do: for the tests of the
 * pool. Defines the decoder, so that it is for one source of a program that has no other. */
#ifndef POOL_RIG_H
#define POOL_RIG_H

#include <check.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "feed/workers.h"

struct decoder { /* the pool makes and frees one for each thread */
    struct decoder_limits limits;
};

static _Atomic int decoders;

struct decoder *decoder_new(const struct decoder_limits *limits)
{
    struct decoder *decoder = malloc(sizeof *decoder);
    decoder->limits = *limits;
    decoders++;
    return decoder;
}

void decoder_free(struct decoder *decoder)
{
    decoders--;
    free(decoder);
}

/* A queue of the tests: a name, what it says it has ahead, what it does. */
struct client {
    char name;
    useconds_t cost; /* of a row, us */
    _Atomic uint32_t ahead;
    _Atomic unsigned runs, drops, tasks;
    unsigned long_from; /* number of the first row that takes `cost` */
    struct workers_queue *queue;
};

static struct budget *budget;
static struct workers *workers;
static _Atomic bool gate_entered, gate_open;

static uint32_t tell_ahead(void *context)
{
    return ((struct client *)context)->ahead;
}

static bool run_gate(void *context, void *item, struct decoder *decoder)
{
    (void)context, (void)item, (void)decoder;
    gate_entered = true;
    while (!gate_open)
        usleep(1000);
    return true;
}

static void count_done(void *context, void **items, uint32_t count, uint64_t ns)
{
    (void)items, (void)ns;
    ((struct client *)context)->tasks++;
    ((struct client *)context)->runs += count;
}

static void drop(void *context, void *item)
{
    (void)item;
    ((struct client *)context)->drops++;
}

static const struct workers_work gated = {run_gate, count_done, drop, tell_ahead};

static inline void start(unsigned threads)
{
    budget = budget_new(80 << 20, 0);
    workers = workers_new(threads, NULL, budget);
    ck_assert_ptr_nonnull(workers);
}

static void stop(void)
{
    workers_free(workers);
    ck_assert_int_eq(decoders, 0);
    ck_assert_uint_eq(budget_used(budget, BUDGET_USES), 0);
    budget_free(budget);
}

static void open_queue(struct client *client, const struct workers_work *work, bool low_priority)
{
    client->queue = workers_queue_new(workers, work, client, low_priority);
}

static void push(struct client *client, uint32_t count)
{
    void *items[1000];
    for (uint32_t i = 0; i < count; i++)
        items[i] = client;
    workers_push(client->queue, items, count);
}

/* Puts the only thread behind a gate, so that what is pushed meanwhile waits. */
static inline void close_gate(struct client *gate)
{
    open_queue(gate, &gated, false);
    push(gate, 1);
    while (!gate_entered)
        usleep(1000);
}

static void wait_runs(struct client *client, unsigned runs)
{
    while (client->runs < runs)
        usleep(1000);
}

#endif
