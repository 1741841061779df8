/* The open data sets, one a feed: shared, opened on a helper thread, checked anew (and opened again
 * where they have changed) for each new job. All who ask for one feed at a time share one opening;
 * who asks for what a feed was before the configuration changed has one of his own. Loop thread. */
#ifndef DATASETS_H
#define DATASETS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "control/errands.h"
#include "feed/spec.h"

struct datasets;

/* Embedded in whoever waits; belongs to datasets from get until done or leave. */
struct datasets_waiter {
    struct datasets_waiter *next;
    struct opening *opening;
    /* dataset is borrowed (take a reference), NULL with an error. */
    void (*done)(void *context, struct dataset *dataset, const struct error *err);
    void (*progress)(void *context, const char *text, uint64_t done, uint64_t total);
    void *context;
};

struct datasets_options {
    uv_loop_t *loop;
    const char *cache_dir;
    uint64_t cache_bytes;
    bool cache_marks; /* of JPEGs are kept */
    unsigned threads;
    /* Where an opening runs that must not take helpers from others; NULL: the helper pool. */
    struct errands *(*lane)(void *context, const struct feed_spec *spec);
    /* A data set was opened, or opened again because it has changed. */
    void (*opened)(void *context, uint32_t feed, struct dataset *dataset);
    void (*ended)(void *context); /* an opening has ended, whatever came of it */
    void *context;
};

struct datasets *datasets_new(const struct datasets_options *options);
/* What the feed is from now on; it may be the first one beyond those there are. What was open of it
 * is no longer. */
void datasets_set(struct datasets *datasets, uint32_t feed, const struct feed_spec *spec);
/* That of the feed, as the spec has it. Calls done later, never from inside. */
void datasets_get(struct datasets *datasets, uint32_t feed, const struct feed_spec *spec,
                  struct datasets_waiter *waiter);
/* done will not be called; an opening that nobody waits for is stopped. */
void datasets_leave(struct datasets_waiter *waiter);
/* Each second: tells those who wait what the openings have reported since the last call, or that
 * what a user has given is not waited for any longer. */
void datasets_tick(struct datasets *datasets, uint64_t now);
/* The one opened last, borrowed; NULL = not opened yet. */
struct dataset *datasets_peek(const struct datasets *datasets, uint32_t feed);
/* An opening of the feed runs, also as it was configured before. */
bool datasets_busy(const struct datasets *datasets, uint32_t feed);
/* Stops all openings; true while one is still running. */
bool datasets_stop(struct datasets *datasets);
void datasets_free(struct datasets *datasets); /* none is running */

#endif
