/* A recording of what threads, slots and trainers do, for a while: off, and then each possible
 * event costs one relaxed load, or on, and then events go into memory of a fixed size; those that
 * find no room are counted. One recording at a time; it begins and ends on the loop thread, events
 * are added on any. */
#ifndef TRACE_H
#define TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define TRACE_BYTES (16U * 1024U * 1024U) /* of a recording, in all */

enum trace_group { TRACE_THREADS, TRACE_TRAINERS, TRACE_SLOTS };

struct trace_event {
    const char *name;   /* static */
    const char *feed;   /* its name in the configuration; NULL: of none */
    uint64_t begin, ns; /* since the recording began; length */
    uint64_t step;
    uint32_t lane, detail; /* trace_text */
    enum trace_group group;
};

struct trace;

extern _Atomic bool trace_is_on;

static inline bool trace_on(void)
{
    return atomic_load_explicit(&trace_is_on, memory_order_relaxed);
}

/* For the begin of an event; 0 while there is no recording. */
static inline uint64_t trace_now(void)
{
    return trace_on() ? clock_ns() : 0;
}

/* The calling thread has done this from begin to end (clock_ns); begin 0: since before the
 * recording. Nothing while there is none. detail: copied; may be NULL. */
void trace_span(const char *name, const char *feed, uint64_t begin, uint64_t end,
                const char *detail, uint64_t step);
/* The loop thread has done this since begin: told where it is more than TRACE_LONG_NS. */
#define TRACE_LONG_NS CLOCK_MS
void trace_long(const char *name, uint64_t begin);
/* The same as trace_span of a trainer or a slot, which has a name. */
void trace_lane(enum trace_group group, const char *lane, const char *name, const char *feed,
                uint64_t begin, uint64_t end, uint64_t step);

/* NULL: there is one already, or no memory for it. */
struct trace *trace_begin(void);
/* No event is added after it; what was added is in memory. */
void trace_end(struct trace *trace);
void trace_free(struct trace *trace);         /* ended; NULL is fine */
uint64_t trace_ns(const struct trace *trace); /* how long it was */
uint64_t trace_count(const struct trace *trace);
uint64_t trace_dropped(const struct trace *trace);
const struct trace_event *trace_at(const struct trace *trace, uint64_t number);
const char *trace_text(const struct trace *trace, uint32_t text);

#endif
