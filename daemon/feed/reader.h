/* The reader of one feed: a thread that follows the plan, has the encoded records of each batch
 * ready, takes a FREE slot for it (the one place where it waits for the trainer) and pushes its
 * rows to the workers. After the last step of an epoch comes the first of the next. */
#ifndef READER_H
#define READER_H

#include "device/arena.h"
#include "device/slots.h"
#include "feed/belt.h"
#include "feed/ferry.h"
#include "feed/ration.h"
#include "feed/workers.h"

struct reader_params {
    const struct recipe *recipe;
    struct ration *ration;
    struct belt *belt;
    struct slots *slots;
    struct arena *arena; /* or: */
    struct ferry *ferry;
    struct workers_queue *queue;
    uint32_t nslots;
    uint64_t mean_bytes; /* of a record */
    struct feed_place first;
    /* No batch will follow: memory. Reader thread. */
    void (*failed)(void *context, const struct error *err);
    void *context;
};

struct reader;

/* Blocks: makes the plan of the first epoch, and the thread, which waits for reader_start. -ENOMEM,
 * -EAGAIN. */
int reader_new(const struct reader_params *params, struct reader **out, struct error *err);
void reader_start(struct reader *reader);
/* CPU time that it has taken, its crew's included. fills: it fills rows by itself. Before
 * reader_free; any thread. */
uint64_t reader_cpu_ns(const struct reader *reader, bool *fills);
/* Loop thread, or whoever has made it: from the next batch on. */
void reader_set_terms(struct reader *reader, const struct share_terms *terms);
/* Loop thread: all that is on the belt is void, and the first step of this epoch comes next.
 * Returns the number of batches made void. */
uint32_t reader_seek(struct reader *reader, uint64_t epoch);
/* All on the belt is void, and nothing more comes. Before reader_free; more than once is fine. */
void reader_stop(struct reader *reader);
void reader_free(struct reader *reader); /* after reader_stop; blocks until the thread has ended */

#endif
