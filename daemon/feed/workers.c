#include "feed/workers.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "feed/share_tree.h"

/* Rows that a thread takes at once: about so much work by the time of the last ones, so that taking
 * them costs next to nothing, and so little that whoever starves meanwhile does not notice: waking
 * a trainer takes longer. */
#define TASK_NS (50 * CLOCK_US)
#define TASK_ROWS 256

/* Time that one may have had less than the others and still get: what was not asked for in the past
 * gives no right to all of the threads now. And by which one may have had more, and still get while
 * others want some. */
#define CREDIT (50 * CLOCK_MS)

#define FEW 8 /* threads whose files in /proc are read */

/* A ring of rows that grows and never shrinks: it is bounded by slots * batch. */
struct ring {
    void **items;
    size_t room, first, count;
};

struct workers_queue {
    struct workers *workers;
    const struct workers_work *work;
    void *context;
    bool low_priority;
    /* Under the pool's mutex. */
    struct workers_queue *next, *next_due;
    struct ring rows;
    struct ring large;  /* rows that wait for the common part of the decode memory */
    struct share share; /* of the time of workers, tasks now running at a guess */
    uint64_t row_ns;    /* that guess: what the last ones took; 0 = none yet */
};

struct worker {
    _Alignas(CACHE_LINE) struct workers *workers;
    unsigned number;
    pthread_t thread;
    _Atomic pid_t tid; /* 0: not started */
    int cpu;           /* -1: any */
    unsigned sharers;  /* among whom memory was shared out when its decoder was made; 0: none */
    bool borrower;     /* has the common part for its task; under the pool's mutex */
    _Atomic uint64_t since; /* begin of the row now running, 0 = idle */
    _Atomic uint64_t busy_ns;
};

/* What a thread has taken, on its own stack. */
struct task {
    struct workers_queue *queue;
    uint32_t count, done;
    bool stopped; /* the row after the done ones needs the common part, which another has */
    uint64_t guess, took;
    void *items[TASK_ROWS];
};

struct workers {
    pthread_mutex_t mutex;
    pthread_cond_t work; /* rows were pushed, or stop */
    pthread_cond_t done; /* the last running row of a queue has ended */
    pthread_cond_t turn; /* a parked thread may have become active, or stop */
    struct workers_queue *queues;
    struct share_tree shares; /* parts that run are tasks */
    unsigned idle;            /* threads that wait for rows */
    bool stop;
    struct budget *budget;
    uint64_t decode_bytes;
    bool common_lent; /* the common part of the decode memory: to one picture at a time */
    _Atomic unsigned active;
    unsigned started; /* threads; of the owner alone, as are `most` and: */
    bool refused;     /* the system gave no more of them, last time */
    unsigned sharers; /* the most that have been active */
    unsigned most;
    struct worker workers[];
};

static void ring_make_room(struct ring *ring, size_t count)
{
    if (ring->count + count <= ring->room)
        return;
    size_t room = (ring->count + count) * 2;
    void **larger = mem_array(room, sizeof *larger);
    for (size_t i = 0; i < ring->count; i++)
        larger[i] = ring->items[(ring->first + i) % ring->room];
    free(ring->items);
    *ring = (struct ring){.items = larger, .room = room, .count = ring->count};
}

static void ring_push(struct ring *ring, void **items, size_t count)
{
    ring_make_room(ring, count);
    for (size_t i = 0; i < count; i++)
        ring->items[(ring->first + ring->count++) % ring->room] = items[i];
}

/* Rows that were popped come first again. */
static void ring_put_back(struct ring *ring, void **items, uint32_t count)
{
    ring_make_room(ring, count);
    for (uint32_t i = count; i-- > 0;) {
        ring->first = (ring->first + ring->room - 1) % ring->room;
        ring->items[ring->first] = items[i];
    }
    ring->count += count;
}

static void *ring_pop(struct ring *ring)
{
    void *item = ring->items[ring->first];
    ring->first = (ring->first + 1) % ring->room;
    ring->count--;
    return item;
}

static bool large_is_due(const struct workers_queue *queue)
{
    return queue->large.count > 0 && !queue->workers->common_lent;
}

static bool is_due(const struct workers_queue *queue, bool low_priority)
{
    return queue->low_priority == low_priority && (queue->rows.count > 0 || large_is_due(queue)) &&
           share_room(&queue->share) > 0;
}

static struct workers_queue *list_due(struct workers *workers, bool low_priority)
{
    struct workers_queue *due = NULL;
    share_look(&workers->shares);
    for (struct workers_queue *queue = workers->queues; queue; queue = queue->next) {
        if (!is_due(queue, low_priority))
            continue;
        share_wants(&workers->shares, &queue->share);
        queue->next_due = due;
        due = queue;
    }
    return due;
}

/* Of those that have had no more than their share the one that will starve first; the numbers ahead
 * are asked once a pick. */
static struct workers_queue *pick_of(struct workers *workers, bool low_priority)
{
    struct workers_queue *best = NULL;
    uint32_t best_ahead = 0;
    for (struct workers_queue *queue = list_due(workers, low_priority); queue;
         queue = queue->next_due) {
        if (!share_is_fair(&queue->share))
            continue;
        uint32_t ahead = queue->work->ahead(queue->context);
        if (best && (ahead > best_ahead ||
                     (ahead == best_ahead && !share_before(&queue->share, &best->share))))
            continue;
        best = queue;
        best_ahead = ahead;
    }
    return best;
}

static struct workers_queue *pick(struct workers *workers)
{
    struct workers_queue *queue = pick_of(workers, false);
    return queue ? queue : pick_of(workers, true);
}

static uint32_t task_rows(const struct workers_queue *queue)
{
    uint64_t rows = queue->row_ns ? TASK_NS / queue->row_ns : 1;
    rows = rows < TASK_ROWS ? rows : TASK_ROWS;
    return rows ? (uint32_t)rows : 1;
}

/* Threads to be woken for the rows of a queue. */
static unsigned wanted(const struct workers *workers, const struct workers_queue *queue)
{
    size_t tasks = (queue->rows.count + task_rows(queue) - 1) / task_rows(queue);
    size_t room = share_room(&queue->share);
    tasks = tasks < room ? tasks : room;
    return tasks < workers->idle ? (unsigned)tasks : workers->idle;
}

static void wake(struct workers *workers, unsigned threads)
{
    for (; threads > 0; threads--)
        pthread_cond_signal(&workers->work);
}

static void take_rows(struct task *task, struct workers_queue *queue)
{
    uint32_t rows = task_rows(queue);
    task->count = queue->rows.count < rows ? (uint32_t)queue->rows.count : rows;
    for (uint32_t i = 0; i < task->count; i++)
        task->items[i] = ring_pop(&queue->rows);
}

/* Under the mutex. */
static void begin_task(struct worker *worker, struct task *task, struct workers_queue *queue)
{
    task->queue = queue;
    task->done = 0;
    task->stopped = false;
    if (large_is_due(queue)) {
        worker->borrower = worker->workers->common_lent = true;
        task->count = 1;
        task->items[0] = ring_pop(&queue->large);
    } else {
        take_rows(task, queue);
    }
    task->guess = queue->row_ns * task->count;
    share_begin(&queue->share, (double)task->guess);
}

/* Rows that take longer than was guessed are left to whoever is free. */
static void do_task(struct worker *worker, struct task *task, struct decoder *decoder)
{
    const struct workers_queue *queue = task->queue;
    uint64_t begin = clock_ns();
    uint64_t now = begin;
    while (task->done < task->count && !task->stopped && now - begin <= TASK_NS) {
        atomic_store_explicit(&worker->since, now, memory_order_relaxed);
        if (queue->work->run(queue->context, task->items[task->done], decoder))
            task->done++;
        else
            task->stopped = true;
        now = clock_ns();
    }
    task->took = now - begin;
    if (task->done)
        queue->work->done(queue->context, task->items, task->done, task->took);
    atomic_fetch_add_explicit(&worker->busy_ns, task->took, memory_order_relaxed);
    atomic_store_explicit(&worker->since, 0, memory_order_relaxed);
}

static void leave_rows(struct workers_queue *queue, struct task *task)
{
    uint32_t left = task->done;
    if (task->stopped)
        ring_push(&queue->large, &task->items[left++], 1);
    ring_put_back(&queue->rows, task->items + left, task->count - left);
}

/* Under the mutex. Returns how many threads are to be woken after it. */
static unsigned end_task(struct worker *worker, struct task *task)
{
    struct workers *workers = worker->workers;
    struct workers_queue *queue = task->queue;
    share_end(&queue->share, (double)task->took - (double)task->guess);
    if (task->done)
        queue->row_ns = (queue->row_ns + task->took / task->done) / 2 + 1;
    unsigned large = worker->borrower; /* of those that wait for the common part one is due now */
    if (worker->borrower)
        worker->borrower = workers->common_lent = false;
    if (task->done < task->count)
        leave_rows(queue, task);
    if (queue->share.running == 0)
        pthread_cond_broadcast(&workers->done);
    return large + (task->done < task->count ? wanted(workers, queue) : 0);
}

/* Under the mutex. */
static bool is_active(const struct worker *worker)
{
    return !worker->workers->stop && worker->number < worker->workers->active;
}

/* Until the thread is surplus, or its decoder may keep more than its share has become. */
static void work_on(struct worker *worker, struct decoder *decoder)
{
    struct workers *workers = worker->workers;
    struct task task;
    unsigned needed = 0;
    pthread_mutex_lock(&workers->mutex);
    while (is_active(worker) && worker->sharers == workers->sharers) {
        struct workers_queue *queue = pick(workers);
        if (!queue) {
            workers->idle++;
            pthread_cond_wait(&workers->work, &workers->mutex);
            workers->idle--;
            continue;
        }
        begin_task(worker, &task, queue);
        pthread_mutex_unlock(&workers->mutex);
        wake(workers, needed);
        do_task(worker, &task, decoder);
        pthread_mutex_lock(&workers->mutex);
        needed = end_task(worker, &task);
    }
    pthread_mutex_unlock(&workers->mutex);
    wake(workers, needed + 1); /* for rows that this one, of all its user may have, kept back */
}

/* Under the mutex: no decoder has a larger share than it may have now. */
static bool shares_are_settled(const struct workers *workers)
{
    for (unsigned i = 0; i < workers->most; i++) {
        const struct worker *worker = &workers->workers[i];
        if (worker->sharers && worker->sharers != workers->sharers)
            return false;
    }
    return true;
}

/* Parks the thread until it may have a decoder. False: the pool ends. */
static bool wait_for_turn(struct worker *worker)
{
    struct workers *workers = worker->workers;
    pthread_mutex_lock(&workers->mutex);
    while (!workers->stop && (!is_active(worker) || !shares_are_settled(workers)))
        pthread_cond_wait(&workers->turn, &workers->mutex);
    worker->sharers = workers->sharers;
    bool has_turn = !workers->stop;
    pthread_mutex_unlock(&workers->mutex);
    return has_turn;
}

static void end_turn(struct worker *worker)
{
    struct workers *workers = worker->workers;
    pthread_mutex_lock(&workers->mutex);
    worker->sharers = 0;
    pthread_cond_broadcast(&workers->turn);
    pthread_mutex_unlock(&workers->mutex);
}

/* A decoder asks for no more than its limits' max, which is its share and the common part. Lent
 * until the task ends, so that a row of several large pictures is not broken off between them, to
 * begin anew. */
static bool borrow_common(void *context, uint64_t bytes)
{
    (void)bytes;
    struct worker *worker = context;
    struct workers *workers = worker->workers;
    pthread_mutex_lock(&workers->mutex);
    if (!workers->common_lent)
        worker->borrower = workers->common_lent = true;
    bool has = worker->borrower;
    pthread_mutex_unlock(&workers->mutex);
    return has;
}

/* The decoder is made here, so that its memory lies near the CPU that uses it. */
static struct decoder *make_decoder(struct worker *worker)
{
    const struct workers *workers = worker->workers;
    struct decoder_limits limits = {
        .share = workers->decode_bytes / 2 / worker->sharers,
        .max =
            workers->decode_bytes - workers->decode_bytes / 2 / workers->most * (workers->most - 1),
        .borrow = borrow_common,
        .context = worker,
    };
    return decoder_new(&limits);
}

static void *worker_main(void *context)
{
    struct worker *worker = context;
    int code = worker->cpu < 0 ? 0 : cpus_pin((uint32_t)worker->cpu);
    if (code < 0)
        log_warning("a worker is not pinned to CPU %d: %s", worker->cpu, strerror(-code));
    atomic_store(&worker->tid, gettid());
    while (wait_for_turn(worker)) {
        struct decoder *decoder = make_decoder(worker);
        work_on(worker, decoder);
        decoder_free(decoder);
        end_turn(worker);
    }
    return NULL;
}

/* Without the first there is no pool. */
static void start_threads(struct workers *workers, unsigned count)
{
    struct error err;
    for (; workers->started < count; workers->started++) {
        char name[32];
        snprintf(name, sizeof name, "decode-%u", workers->started);
        struct worker *worker = &workers->workers[workers->started];
        if (workers->started == 0) {
            worker->thread = thread_start(name, worker_main, worker);
        } else if (thread_try(name, worker_main, worker, &worker->thread, &err)) {
            if (!workers->refused) /* it may be tried each second */
                log_event(LOG_WARNING, log_about(LOG_WORKERS), "%u workers instead of %u: %s",
                          workers->started, count, err.text);
            workers->refused = true;
            return;
        }
        workers->refused = false;
    }
}

struct workers *workers_new_room(unsigned threads, unsigned most, const struct cpus *cpus,
                                 struct budget *budget)
{
    uint64_t bytes = budget_decode_limit(budget);
    if (!budget_try(budget, BUDGET_DECODE, bytes))
        return NULL;
    struct workers *workers = mem_lines(sizeof *workers + most * sizeof(struct worker));
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_cond_init(&workers->work, NULL);
    pthread_cond_init(&workers->done, NULL);
    pthread_cond_init(&workers->turn, NULL);
    workers->budget = budget;
    workers->decode_bytes = bytes;
    workers->most = most;
    share_tree_init(&workers->shares, (double)CREDIT);
    for (unsigned i = 0; i < most; i++) {
        struct worker *worker = &workers->workers[i];
        worker->workers = workers;
        worker->number = i;
        worker->cpu = cpus && cpus->count ? (int)cpus->list[i % cpus->count].number : -1;
    }
    workers_set_active(workers, threads);
    return workers;
}

struct workers *workers_new(unsigned threads, const struct cpus *cpus, struct budget *budget)
{
    unsigned count = threads ? threads : system_cpus();
    return workers_new_room(count, count, cpus, budget);
}

/* All who wait look again: a surplus thread must not be the one that a row wakes. */
void workers_set_active(struct workers *workers, unsigned active)
{
    start_threads(workers, active);
    if (active > workers->started)
        active = workers->started;
    pthread_mutex_lock(&workers->mutex);
    workers->active = active;
    if (active > workers->sharers)
        workers->sharers = active;
    pthread_cond_broadcast(&workers->work);
    pthread_cond_broadcast(&workers->turn);
    pthread_mutex_unlock(&workers->mutex);
}

void workers_free(struct workers *workers)
{
    if (!workers)
        return;
    pthread_mutex_lock(&workers->mutex);
    workers->stop = true;
    pthread_cond_broadcast(&workers->work);
    pthread_cond_broadcast(&workers->turn);
    pthread_mutex_unlock(&workers->mutex);
    for (unsigned i = 0; i < workers->started; i++)
        pthread_join(workers->workers[i].thread, NULL);
    budget_give(workers->budget, BUDGET_DECODE, workers->decode_bytes);
    pthread_cond_destroy(&workers->turn);
    pthread_cond_destroy(&workers->done);
    pthread_cond_destroy(&workers->work);
    pthread_mutex_destroy(&workers->mutex);
    free(workers);
}

unsigned workers_threads(const struct workers *workers)
{
    return workers->active;
}

unsigned workers_most(const struct workers *workers)
{
    return workers->most;
}

static void add_schedule(const struct worker *worker, struct workers_times *out)
{
    char path[64];
    uint64_t cpu, queued;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", (int)atomic_load(&worker->tid));
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fscanf(file, "%" SCNu64 " %" SCNu64, &cpu, &queued) == 2) {
        out->few_cpu_ns += cpu;
        out->few_queued_ns += queued;
    }
    fclose(file);
}

void workers_sample(struct workers *workers, struct workers_times *out)
{
    *out = (struct workers_times){0};
    for (unsigned i = 0; i < workers->started; i++) {
        const struct worker *worker = &workers->workers[i];
        out->busy_ns += atomic_load_explicit(&worker->busy_ns, memory_order_relaxed);
        if (i >= FEW)
            continue;
        out->few_busy_ns = out->busy_ns;
        add_schedule(worker, out);
    }
}

uint64_t workers_stuck_ns(const struct workers *workers)
{
    uint64_t longest = 0;
    uint64_t now = clock_ns();
    for (unsigned i = 0; i < workers->started; i++) {
        uint64_t since = atomic_load_explicit(&workers->workers[i].since, memory_order_relaxed);
        if (since && since < now && now - since > longest)
            longest = now - since;
    }
    return longest;
}

struct workers_queue *workers_queue_new(struct workers *workers, const struct workers_work *work,
                                        void *context, bool low_priority)
{
    struct workers_queue *queue = mem_new(sizeof *queue);
    *queue = (struct workers_queue){
        .workers = workers, .work = work, .context = context, .low_priority = low_priority};
    pthread_mutex_lock(&workers->mutex);
    share_join(&workers->shares, &queue->share, &(struct share_terms){0});
    queue->next = workers->queues;
    workers->queues = queue;
    pthread_mutex_unlock(&workers->mutex);
    return queue;
}

/* More threads may be for it now. */
void workers_queue_set_terms(struct workers_queue *queue, const struct share_terms *terms)
{
    struct workers *workers = queue->workers;
    pthread_mutex_lock(&workers->mutex);
    share_set_terms(&workers->shares, &queue->share, terms);
    pthread_cond_broadcast(&workers->work);
    pthread_mutex_unlock(&workers->mutex);
}

void workers_queue_free(struct workers_queue *queue)
{
    if (!queue)
        return;
    struct workers *workers = queue->workers;
    pthread_mutex_lock(&workers->mutex);
    struct workers_queue **at = &workers->queues;
    while (*at != queue)
        at = &(*at)->next;
    *at = queue->next;
    while (queue->share.running > 0)
        pthread_cond_wait(&workers->done, &workers->mutex);
    share_leave(&workers->shares, &queue->share);
    pthread_mutex_unlock(&workers->mutex);
    /* Off the list and idle: nobody else knows it any more. */
    while (queue->rows.count > 0)
        queue->work->drop(queue->context, ring_pop(&queue->rows));
    while (queue->large.count > 0)
        queue->work->drop(queue->context, ring_pop(&queue->large));
    free(queue->rows.items);
    free(queue->large.items);
    free(queue);
}

void workers_push(struct workers_queue *queue, void **items, uint32_t count)
{
    struct workers *workers = queue->workers;
    pthread_mutex_lock(&workers->mutex);
    ring_push(&queue->rows, items, count);
    unsigned threads = wanted(workers, queue);
    pthread_mutex_unlock(&workers->mutex);
    wake(workers, threads);
}
