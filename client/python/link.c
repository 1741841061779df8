#include "client/python/link.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/keep.h"
#include "client/python/gpu_context.h"

/* This process's id: a call of the system costs more than all else here. */
static _Atomic pid_t self;

static void note_process(void)
{
    atomic_store(&self, getpid());
}

static void watch_forks(void)
{
    note_process();
    pthread_atfork(NULL, NULL, note_process);
}

struct link *link_new(dataload *handle)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    pthread_mutex_init(&link->lock, NULL);
    pthread_mutex_init(&link->list_lock, NULL);
    link->owner = getpid();
    link->handle = handle;
    atomic_init(&link->references, 1);
    return link;
}

static void forget(struct link *link, const struct hold *hold)
{
    struct hold **place = &link->lent;
    while (*place != hold)
        place = &(*place)->other;
    *place = hold->other;
}

static int release(struct link *link, struct hold *hold)
{
    int r = -ENOENT;
    for (int i = 1; i < hold->nstreams; i++)
        gpu_finish(hold->streams[i]);
    if (hold->nstreams)
        r = dataload_release_on(link->handle, hold->batch, hold->streams[0]);
    /* On a stream that the driver no longer knows nothing runs. */
    return r == 0 || r == -EBUSY ? r : dataload_release(link->handle, hold->batch);
}

/* False: it stays lent for now, as its stream is being captured into a graph. */
static bool give_back(struct link *link, struct hold *hold)
{
    if (hold->memory)
        munmap(hold->memory, hold->size);
    else if (release(link, hold) == -EBUSY && !link->closed)
        return false;
    else
        forget(link, hold);
    free(hold);
    return true;
}

static void give_back_all(struct link *link, struct hold *list)
{
    while (list) {
        struct hold *hold = list;
        list = hold->next;
        if (give_back(link, hold))
            continue;
        hold->next = link->queued;
        link->queued = hold;
    }
}

/* On a GPU, and without memory, they stay lent. */
static void keep_all(struct link *link)
{
    for (struct hold *hold = link->lent, *other; hold; hold = other) {
        other = hold->other;
        if (keep_batch(hold->batch, &hold->memory, &hold->size) < 0)
            continue;
        forget(link, hold);
        hold->batch = NULL;
    }
}

static struct hold *take_list(struct link *link)
{
    pthread_mutex_lock(&link->list_lock);
    struct hold *list = link->given_back;
    link->given_back = NULL;
    pthread_mutex_unlock(&link->list_lock);
    return list;
}

/* With the lock held. */
static void tidy(struct link *link)
{
    struct hold *queued = link->queued;
    link->queued = NULL;
    give_back_all(link, queued);
    give_back_all(link, take_list(link));
    if (!link->closed || !link->handle)
        return;
    keep_all(link);
    if (link->lent)
        return;
    dataload_detach(link->handle);
    link->handle = NULL;
}

static bool any_given_back(struct link *link)
{
    pthread_mutex_lock(&link->list_lock);
    bool any = link->given_back != NULL;
    pthread_mutex_unlock(&link->list_lock);
    return any;
}

/* Releases what was given back, or leaves it to the thread that has the lock: that one, which looks
 * at the list after it, or this one, which looks at the lock after the list, sees the other. */
static void settle(struct link *link)
{
    while (any_given_back(link) && pthread_mutex_trylock(&link->lock) == 0) {
        tidy(link);
        pthread_mutex_unlock(&link->lock);
    }
}

bool link_is_ours(const struct link *link)
{
    return link->owner == atomic_load_explicit(&self, memory_order_relaxed);
}

bool link_lock(struct link *link, bool try)
{
    if (!link_is_ours(link))
        return false;
    if (try)
        return pthread_mutex_trylock(&link->lock) == 0;
    pthread_mutex_lock(&link->lock);
    return true;
}

void link_unlock(struct link *link)
{
    tidy(link);
    pthread_mutex_unlock(&link->lock);
    settle(link);
}

void link_close(struct link *link)
{
    if (!link_lock(link, false))
        return;
    link->closed = true;
    link_unlock(link);
}

void link_drop(struct link *link)
{
    if (atomic_fetch_sub(&link->references, 1) != 1 || !link_is_ours(link))
        return;
    /* Each hold has a reference, so that none is lent, and nobody else has the lock. */
    link->closed = true;
    tidy(link);
    pthread_mutex_destroy(&link->list_lock);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

struct hold *hold_new(struct link *link, dataload_batch *batch)
{
    struct hold *hold = calloc(1, sizeof *hold);
    if (!hold) {
        dataload_release(link->handle, batch);
        return NULL;
    }
    hold->link = link;
    hold->batch = batch;
    atomic_init(&hold->users, 1);
    atomic_fetch_add(&link->references, 1);
    hold->other = link->lent;
    link->lent = hold;
    return hold;
}

void hold_take(struct hold *hold)
{
    atomic_fetch_add(&hold->users, 1);
}

void hold_drop(struct hold *hold)
{
    struct link *link = hold->link;
    if (atomic_fetch_sub(&hold->users, 1) != 1 || !link_is_ours(link))
        return;
    pthread_mutex_lock(&link->list_lock);
    hold->next = link->given_back;
    link->given_back = hold;
    pthread_mutex_unlock(&link->list_lock);
    settle(link);
    link_drop(link);
}

int hold_add_stream(struct hold *hold, void *stream)
{
    for (int i = 0; i < hold->nstreams; i++)
        if (hold->streams[i] == stream)
            return 0;
    if (hold->nstreams == HOLD_STREAMS_MAX)
        return -ENOSPC;
    hold->streams[hold->nstreams++] = stream;
    return 0;
}
