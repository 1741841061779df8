#include "feed/belt.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "feed/ferry.h"

struct belt {
    pthread_mutex_t mutex;
    struct batch *first, **last;
    struct batch *empty;
    uint64_t round;
    uint32_t ports;         /* of the next batch, */
    struct feed_place next; /* which is the one after the last appended */
    void (*news)(void *context);
    void *context;
};

struct belt *belt_new(const struct recipe *recipe, uint32_t slots, struct feed_place first,
                      void (*news)(void *context), void *context)
{
    struct belt *belt = mem_new(sizeof *belt);
    pthread_mutex_init(&belt->mutex, NULL);
    belt->last = &belt->first;
    belt->ports = 1;
    belt->next = first;
    belt->news = news;
    belt->context = context;
    for (uint32_t i = 0; i <= slots; i++) {
        struct batch *batch = batch_new(recipe, belt);
        batch->next = belt->empty;
        belt->empty = batch;
    }
    return belt;
}

static void free_list(struct batch *list)
{
    while (list) {
        struct batch *batch = list;
        list = batch->next;
        batch_free(batch);
    }
}

void belt_free(struct belt *belt)
{
    if (!belt)
        return;
    free_list(belt->first);
    free_list(belt->empty);
    pthread_mutex_destroy(&belt->mutex);
    free(belt);
}

uint64_t belt_round(struct belt *belt)
{
    pthread_mutex_lock(&belt->mutex);
    uint64_t round = belt->round;
    pthread_mutex_unlock(&belt->mutex);
    return round;
}

uint32_t belt_void(struct belt *belt, struct feed_place next)
{
    uint32_t count = 0;
    pthread_mutex_lock(&belt->mutex);
    belt->round++;
    belt->next = next;
    for (struct batch *batch = belt->first; batch; batch = batch->next)
        count += !atomic_exchange(&batch->is_void, true);
    pthread_mutex_unlock(&belt->mutex);
    return count;
}

struct feed_place belt_set_ports(struct belt *belt, uint32_t ports)
{
    pthread_mutex_lock(&belt->mutex);
    belt->ports = ports;
    struct feed_place next = belt->next;
    pthread_mutex_unlock(&belt->mutex);
    return next;
}

struct batch *belt_get(struct belt *belt)
{
    pthread_mutex_lock(&belt->mutex);
    struct batch *batch = belt->empty;
    assert(batch);
    belt->empty = batch->next;
    pthread_mutex_unlock(&belt->mutex);
    batch->next = NULL;
    return batch;
}

bool belt_append(struct belt *belt, struct batch *batch, uint64_t round)
{
    pthread_mutex_lock(&belt->mutex);
    bool current = belt->round == round;
    if (current) {
        *belt->last = batch;
        belt->last = &batch->next;
        batch->ports = belt->ports;
        belt->next = (struct feed_place){batch->place.epoch, batch->place.step + 1};
    }
    pthread_mutex_unlock(&belt->mutex);
    return current;
}

void belt_landed(struct belt *belt, struct batch *batch)
{
    pthread_mutex_lock(&belt->mutex);
    batch->landed = true;
    pthread_mutex_unlock(&belt->mutex);
    belt->news(belt->context);
}

void belt_complete(struct belt *belt, struct batch *batch)
{
    if (batch->ferry)
        ferry_carry(batch->ferry, batch);
    else
        belt_landed(belt, batch);
}

struct batch *belt_take(struct belt *belt)
{
    pthread_mutex_lock(&belt->mutex);
    struct batch *batch = belt->first;
    if (batch && batch->landed) {
        belt->first = batch->next;
        if (!belt->first)
            belt->last = &belt->first;
        batch->next = NULL;
    } else {
        batch = NULL;
    }
    pthread_mutex_unlock(&belt->mutex);
    return batch;
}

void belt_put(struct belt *belt, struct batch *batch)
{
    batch_reset(batch);
    pthread_mutex_lock(&belt->mutex);
    batch->next = belt->empty;
    belt->empty = batch;
    pthread_mutex_unlock(&belt->mutex);
}
