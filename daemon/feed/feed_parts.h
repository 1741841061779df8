/* The inside of a feed, for the files feed*.c alone.
 *
 * feed.c: life; feed_events.c: what reaches the loop thread and what comes from there;
 * feed_size.c: what a feed will take; feed_ports.c: its GPUs. */
#ifndef FEED_PARTS_H
#define FEED_PARTS_H

#include <pthread.h>
#include <semaphore.h>

#include "feed/reader.h"

#define FEED_BAD_NAMED 600 /* bytes of the list of first bad samples in bad_limit's text */

struct feed {
    struct feed_params params;
    struct tally tally;
    struct recipe recipe;
    char plan_id[17];
    struct ration *ration;
    struct slots *slots;
    struct arena *arena; /* or, on a GPU: */
    struct ferry *ferry;
    struct belt *belt;
    struct workers_queue *queue;
    struct reader *reader;
    /* Made in feed_open, so that neither start nor close can lack a thread. */
    pthread_t helper;
    sem_t go, end; /* for it: reserve the slots, close the feed */
    _Atomic bool closing;
    struct error lost[FERRY_PORTS_MAX]; /* under the mutex: why; code 0: it is not */
    struct mail mail;                   /* there are complete batches, or a failure */
    _Atomic bool posted;
    struct mail closed;
    pthread_mutex_t mutex;
    struct error failure; /* under the mutex */
    /* Loop thread only. */
    bool stopped;
    bool *announced; /* by slot: ready, and neither held nor released since */
    struct feed_port {
        uint32_t clients;
        struct feed_place from; /* the first batch there */
        bool told;              /* that it is lost */
    } ports[FERRY_PORTS_MAX];
    uint32_t open; /* ports that get batches, a bit each */
    uint64_t bad_epoch, bad_count;
    char bad_named[FEED_BAD_NAMED];
};

/* Any thread: something waits for the loop thread. */
void feed_news(void *context);
/* Any thread: this port's batches end. */
void feed_lose(void *context, uint32_t port, const struct error *err);
/* Any thread: no batch will follow. */
void feed_fail(void *context, const struct error *err);
void feed_deliver(struct mail *mail);

/* Bytes of encoded records that a feed needs at the least; *limit: of one record, a larger one is
 * BAD-SIZE. */
uint64_t feed_floor(const struct feed_spec *spec, const struct dataset *dataset, uint32_t batch,
                    const struct budget *budget, uint64_t *limit);
uint64_t feed_mean_bytes(const struct dataset *dataset);

#endif
