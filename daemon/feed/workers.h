/* The pool of decode threads, shared by all feeds. Work is one row of one batch. The time of the
 * threads is shared by weight among users, and of each user's part among his jobs; nobody waits for
 * his share while a thread is idle, but beyond the threads that his user may have. Of those that
 * have had no more than their share the next row comes from the client whose trainer will starve
 * first (fewest batches ahead; of equals the one that has had the least time), probes last. A
 * thread takes rows one at a time, or as many consecutive ones as take 50 us by the time of the
 * last ones; when they take longer it leaves those not begun to others. So no batch waits for
 * another's rows longer than for one row and 50 us.
 *
 * As many threads take work as are active; the others are parked, without a decoder, or were never
 * started. One that becomes surplus ends its task first. */
#ifndef WORKERS_H
#define WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/cpus.h"
#include "feed/shares.h"
#include "image/decoder.h"

#define WORKERS_MAX 1024 /* of one pool */

struct workers;
struct workers_queue; /* the rows of one feed, in order */

/* What is done with the rows of a queue; without a lock. */
struct workers_work {
    /* One row, on a worker. False: its picture needs the common part of the decode memory, which
     * another has now; it is run again when that is free, other rows meanwhile. */
    bool (*run)(void *context, void *item, struct decoder *decoder);
    /* Rows that the same thread has run, consecutive ones, and the time they took. */
    void (*done)(void *context, void **items, uint32_t count, uint64_t ns);
    void (*drop)(void *context, void *item); /* of a queue that ends: a row not begun */
    /* How many batches are ready for the client, fewest are served first. On worker threads under
     * the pool's lock, for each task: a load or two, and nothing of this module. */
    uint32_t (*ahead)(void *context);
};

/* threads: 0 = system_cpus(). cpus: thread i stays on number i of them, modulo their count; NULL =
 * the system moves threads about. Takes the whole decode memory from the budget (BUDGET_DECODE):
 * half is shared out among the threads' decoders, which they make themselves, half is lent to one
 * picture at a time. NULL: the budget has no room for it. */
struct workers *workers_new(unsigned threads, const struct cpus *cpus, struct budget *budget);
/* The same with room for up to `most` threads, of which `threads` are active. Memory is shared out
 * among the most that have been active; what a picture may take is that of a pool of `most`, so it
 * does not depend on how many are. */
struct workers *workers_new_room(unsigned threads, unsigned most, const struct cpus *cpus,
                                 struct budget *budget);
void workers_free(struct workers *workers); /* all queues are gone by then */
/* 1 to workers_most; fewer become active where the system gives no more threads. Returns at once.
 * Like workers_sample, of one thread only. */
void workers_set_active(struct workers *workers, unsigned active);
unsigned workers_threads(const struct workers *workers); /* active */
unsigned workers_most(const struct workers *workers);

/* Times since the start: of all threads how long they were at tasks; of the first few how long
 * they were at tasks, on a CPU, and ready to run without getting one (0 where the system does not
 * tell). */
struct workers_times {
    uint64_t busy_ns;
    uint64_t few_busy_ns, few_cpu_ns, few_queued_ns;
};
void workers_sample(struct workers *workers, struct workers_times *out);
/* Nanoseconds for which the slowest busy thread has been at one row (watchdog). */
uint64_t workers_stuck_ns(const struct workers *workers);

struct workers_queue *workers_queue_new(struct workers *workers, const struct workers_work *work,
                                        void *context, bool low_priority);
/* What share it has; without this all are of one job. Any thread. */
void workers_queue_set_terms(struct workers_queue *queue, const struct share_terms *terms);
/* Returns when no row of this queue is running; then drops those not begun, on the calling thread.
 * Not from run() or done(). */
void workers_queue_free(struct workers_queue *queue);
void workers_push(struct workers_queue *queue, void **items,
                  uint32_t count); /* never blocks: bounded by slots * batch */

#endif
