/* A handle shared by threads, and batches that go back once nobody uses them: no Python in here.
 *
 * link: one attachment. Its lock makes one thread at a time of those that call the library; whoever
 * holds it does not wait for the GIL, and nobody waits for it with the GIL. hold: one lent batch,
 * with a count of its users: the loop, each tensor exported from it. hold_drop may be called by
 * any thread, with or without the GIL, after the Loader has been closed, while the interpreter
 * ends, and in a forked child, where it does nothing. It never waits for the lock: a thread that
 * finds it taken leaves the batch on a list, and whoever has the lock looks at the list after it
 * has unlocked.
 *
 * When the link is closed, what is still lent becomes private memory at the same addresses, so that
 * tensors outlive the attachment, which ends at once. On a GPU it ends with the last tensor. */
#ifndef DLPY_LINK_H
#define DLPY_LINK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "client/dataload.h"

#define HOLD_STREAMS_MAX 8

struct hold {
    struct link *link;
    atomic_int users;
    struct hold *next; /* of those to be released */
    /* Under the link's lock: */
    struct hold *other;    /* of those lent */
    dataload_batch *batch; /* NULL: closed, the memory is ours */
    void *memory;
    size_t size;
    void *streams[HOLD_STREAMS_MAX]; /* of the GPU, to which tensors were handed */
    int nstreams;
};

struct link {
    pthread_mutex_t lock;
    pid_t owner;
    atomic_int references;     /* its Python object, each hold */
    pthread_mutex_t list_lock; /* for a moment only */
    struct hold *given_back;   /* batches that nobody uses, to be released */
    /* Under the lock: */
    dataload *handle;    /* NULL once detached */
    struct hold *queued; /* could not be released yet */
    struct hold *lent;   /* with those on either list */
    bool closed;
};

/* Takes over the handle; NULL without memory, and then the handle stays the caller's. */
struct link *link_new(dataload *handle);
void link_drop(struct link *link);
/* False in a process forked from the one that attached. */
bool link_is_ours(const struct link *link);
/* The lock, for calls of the library; false in a forked child, or, with try, when it is taken. */
bool link_lock(struct link *link, bool try);
void link_unlock(struct link *link);
void link_close(struct link *link);

/* Of a batch just lent, used once; with the lock held. NULL without memory: the batch is released.
 */
struct hold *hold_new(struct link *link, dataload_batch *batch);
void hold_take(struct hold *hold);
void hold_drop(struct hold *hold);
/* The batch goes back behind what this stream does; with the lock held. -ENOSPC: there are too
 * many. */
int hold_add_stream(struct hold *hold, void *stream);

#endif
