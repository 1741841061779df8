#include "client/python/link.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/keep.h"
#include "client/python/gpu.h"

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
    link->owner = getpid();
    link->handle = handle;
    atomic_init(&link->references, 1);
    return link;
}

static void forget(struct link *link, const struct lease *lease)
{
    struct lease **place = &link->lent;
    while (*place != lease)
        place = &(*place)->other;
    *place = lease->other;
}

static int release(struct link *link, struct lease *lease)
{
    int r = -ENOENT;
    for (int i = 1; i < lease->nstreams; i++)
        gpu_finish(lease->streams[i]);
    if (lease->nstreams)
        r = dataload_release_on(link->handle, lease->batch, lease->streams[0]);
    /* On a stream that the driver no longer knows nothing runs. */
    return r == 0 || r == -EBUSY ? r : dataload_release(link->handle, lease->batch);
}

/* False: it stays lent for now, as its stream is being captured into a graph. */
static bool give_back(struct link *link, struct lease *lease)
{
    if (lease->memory)
        munmap(lease->memory, lease->size);
    else if (release(link, lease) == -EBUSY && !link->closed)
        return false;
    else
        forget(link, lease);
    free(lease);
    return true;
}

static void give_back_all(struct link *link, struct lease *list)
{
    while (list) {
        struct lease *lease = list;
        list = lease->next;
        if (give_back(link, lease))
            continue;
        lease->next = link->queued;
        link->queued = lease;
    }
}

/* On a GPU, and without memory, they stay lent. */
static void keep_all(struct link *link)
{
    for (struct lease *lease = link->lent, *other; lease; lease = other) {
        other = lease->other;
        if (keep_batch(lease->batch, &lease->memory, &lease->size) < 0)
            continue;
        forget(link, lease);
        lease->batch = NULL;
    }
}

/* With the lock held. */
static void tidy(struct link *link)
{
    struct lease *queued = link->queued;
    link->queued = NULL;
    give_back_all(link, queued);
    give_back_all(link, atomic_exchange(&link->given_back, NULL));
    if (!link->closed || !link->handle)
        return;
    keep_all(link);
    if (link->lent)
        return;
    dataload_detach(link->handle);
    link->handle = NULL;
}

/* Releases what was given back, or leaves it to the thread that has the lock. */
static void settle(struct link *link)
{
    while (atomic_load(&link->given_back) && pthread_mutex_trylock(&link->lock) == 0) {
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

int link_lent(struct link *link)
{
    int count = 0;
    if (!link_lock(link, false))
        return 0;
    for (const struct lease *lease = link->lent; lease; lease = lease->other)
        count++;
    link_unlock(link);
    return count;
}

void link_drop(struct link *link)
{
    if (atomic_fetch_sub(&link->references, 1) != 1 || !link_is_ours(link))
        return;
    /* Each lease has a reference, so that none is lent, and nobody else has the lock. */
    link->closed = true;
    tidy(link);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

struct lease *lease_new(struct link *link, dataload_batch *batch)
{
    struct lease *lease = calloc(1, sizeof *lease);
    if (!lease) {
        dataload_release(link->handle, batch);
        return NULL;
    }
    lease->link = link;
    lease->batch = batch;
    atomic_init(&lease->users, 1);
    atomic_fetch_add(&link->references, 1);
    lease->other = link->lent;
    link->lent = lease;
    return lease;
}

void lease_take(struct lease *lease)
{
    atomic_fetch_add(&lease->users, 1);
}

void lease_drop(struct lease *lease)
{
    struct link *link = lease->link;
    if (atomic_fetch_sub(&lease->users, 1) != 1 || !link_is_ours(link))
        return;
    struct lease *first = atomic_load(&link->given_back);
    do
        lease->next = first;
    while (!atomic_compare_exchange_weak(&link->given_back, &first, lease));
    settle(link);
    link_drop(link);
}

int lease_add_stream(struct lease *lease, void *stream)
{
    for (int i = 0; i < lease->nstreams; i++)
        if (lease->streams[i] == stream)
            return 0;
    if (lease->nstreams == LEASE_STREAMS_MAX)
        return -ENOSPC;
    lease->streams[lease->nstreams++] = stream;
    return 0;
}
