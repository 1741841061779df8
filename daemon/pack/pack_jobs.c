#include "pack/pack_jobs.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/plural.h"

struct crew {
    struct pack_jobs *jobs;
    _Atomic uint32_t next;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t ended;
    unsigned working;
    int rc;
    struct error err;
};

static _Atomic bool stop;

static void on_signal(int number)
{
    (void)number;
    stop = true;
}

int pack_jobs_tick(struct pack_jobs *jobs, uint64_t bytes, struct error *err)
{
    jobs->images_done++;
    jobs->bytes_done += bytes;
    return stop ? error_set(err, -EINTR, "stopped; nothing was kept") : 0;
}

static void *work(void *context)
{
    struct crew *crew = context;
    struct error err = {0};
    int rc = 0;
    uint32_t job;
    while (rc == 0 && (job = crew->next++) < crew->jobs->count)
        rc = crew->jobs->run(crew->jobs, job, &err);
    pthread_mutex_lock(&crew->lock);
    if (rc && crew->rc == 0) {
        crew->rc = rc;
        crew->err = err;
        stop = true;
    }
    crew->working--;
    pthread_cond_signal(&crew->ended);
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

static void report(const struct pack_jobs *jobs, double seconds)
{
    fprintf(stderr, "%s%s %" PRIu64 " of %" PRIu64 " image%s, %.1f MB, %.1f MB/s%s",
            isatty(STDERR_FILENO) ? "\r" : "", jobs->doing, jobs->images_done, jobs->images,
            plural(jobs->images), (double)jobs->bytes_done / 1e6,
            (double)jobs->bytes_done / 1e6 / seconds, isatty(STDERR_FILENO) ? "\033[K" : "\n");
}

static void wait_and_report(struct crew *crew)
{
    uint64_t began = clock_ns();
    struct timespec second;
    clock_gettime(CLOCK_MONOTONIC, &second);
    bool reported = false;
    pthread_mutex_lock(&crew->lock);
    while (crew->working > 0) {
        second.tv_sec++;
        int rc = 0;
        while (crew->working > 0 && rc != ETIMEDOUT)
            rc = pthread_cond_timedwait(&crew->ended, &crew->lock, &second);
        if (crew->working > 0) {
            report(crew->jobs, (double)(clock_ns() - began) / 1e9);
            reported = true;
        }
    }
    pthread_mutex_unlock(&crew->lock);
    if (reported && isatty(STDERR_FILENO))
        fputc('\n', stderr);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static void start_crew(struct crew *crew)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&crew->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&crew->lock, NULL);
}

int pack_jobs_run(struct pack_jobs *jobs, struct error *err)
{
    struct crew crew = {.jobs = jobs};
    unsigned threads = system_cpus();
    if (threads > jobs->count)
        threads = jobs->count;
    cleanup_free pthread_t *thread = mem_array(threads, sizeof *thread);
    start_crew(&crew);
    catch_signals();
    crew.working = threads;
    for (unsigned i = 0; i < threads; i++) {
        int rc = pthread_create(&thread[i], NULL, work, &crew);
        if (rc) { /* this thread does its share, without reports */
            thread[i] = pthread_self();
            work(&crew);
        }
    }
    wait_and_report(&crew);
    for (unsigned i = 0; i < threads; i++)
        if (!pthread_equal(thread[i], pthread_self()))
            pthread_join(thread[i], NULL);
    pthread_cond_destroy(&crew.ended);
    pthread_mutex_destroy(&crew.lock);
    if (crew.rc)
        *err = crew.err;
    return crew.rc;
}
