/* The stand-in's streams: a thread and a queue each. Operations run in order, some time after they
 * were queued, without si_lock; what they read, they read then. */
#ifndef STANDIN_STREAM_H
#define STANDIN_STREAM_H

#include "standin.h"

struct si_op {
    struct si_op *next;
    const char *name;
    size_t bytes;   /* that decide how long it takes */
    unsigned later; /* fault */
    struct si_context *context;
    /* Runs without the lock; owns `data` and is called once, also with dead = true when the context
     * was lost before its turn. */
    dlp_cu_result (*run)(struct si_op *op, bool dead);
    max_align_t data[];
};

struct si_stream {
    struct si_stream *next;
    struct si_context *context;
    struct si_op *first, **last;
    const struct si_op *running;
    bool destroyed;
    dlp_cu_capture capture;
    unsigned random;
};

/* The live stream of the current context, or NULL. */
struct si_stream *si_stream_of(dlp_cu_stream stream);
/* Room for `size` bytes of data, zeroed. */
struct si_op *si_op_new(const char *name, size_t size,
                        dlp_cu_result (*run)(struct si_op *op, bool dead));
/* Queues it; in a capture it is only noted, which ends it. */
void si_stream_queue(struct si_stream *stream, struct si_op *op);
/* Waits until the stream has done all. */
dlp_cu_result si_stream_wait(struct si_stream *stream, const char *function);
/* Waits until every stream of the process has. */
void si_streams_drain(const char *function);
void si_streams_dump(void); /* what each has to do, into the report */
/* For an operation that runs: sleeps until woken or for at most slice_us; false when the context
 * was lost meanwhile. Takes the lock itself. */
bool si_op_sleep(const struct si_op *op, unsigned slice_us);

void si_leaks_events(const struct si_context *context);

#endif
