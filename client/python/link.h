/* A handle shared by threads, and batches that go back once nobody uses them: no Python in here.
 *
 * link: one attachment. Its lock makes one thread at a time of those that call the library; it is
 * never held while the GIL is waited for. lease: one lent batch, with a count of its users: the
 * loop, each tensor exported from it. lease_drop may be called by any thread, with or without the
 * GIL, after the Loader has been closed, while the interpreter ends, and in a forked child, where
 * it does nothing. It never waits for the lock: a thread that finds it taken leaves the batch on a
 * list, and whoever has the lock looks at the list after it has unlocked. The attachment ends when
 * it is closed and no batch is lent any more, so memory of the slots outlives the Loader as long as
 * tensors lie in it. */
#ifndef DLPY_LINK_H
#define DLPY_LINK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "client/dataload.h"

#define LEASE_STREAMS_MAX 8

struct lease {
    struct link *link;
    dataload_batch *batch;
    struct lease *next; /* on a list of the link */
    atomic_int users;
    /* Streams of the GPU to which tensors were handed; the link's lock. */
    void *streams[LEASE_STREAMS_MAX];
    int nstreams;
};

struct link {
    pthread_mutex_t lock;
    pid_t owner;
    atomic_int references;            /* its Python object, each lease */
    struct lease *_Atomic given_back; /* batches that nobody uses, to be released */
    /* Under the lock: */
    dataload *handle;     /* NULL once detached */
    struct lease *queued; /* could not be released yet */
    int lent;
    bool closed;
};

/* Takes over the handle; NULL without memory, and then the handle stays the caller's. */
struct link *link_new(dataload *handle);
void link_drop(struct link *link);
/* The lock, for calls of the library; false in a forked child, or, with try, when it is taken. */
bool link_lock(struct link *link, bool try);
void link_unlock(struct link *link);
/* Ends the attachment, now or when the last batch has come back. */
void link_close(struct link *link);

/* Of a batch just lent, used once; with the lock held. NULL without memory: the batch is released.
 */
struct lease *lease_new(struct link *link, dataload_batch *batch);
void lease_take(struct lease *lease);
void lease_drop(struct lease *lease);
/* The batch goes back behind what this stream does; with the lock held. -ENOSPC: there are too
 * many. */
int lease_add_stream(struct lease *lease, void *stream);

#endif
