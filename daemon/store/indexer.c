#include "store/indexer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/plural.h"
#include "base/thread.h"
#include "store/stamp.h"
#include "store/turned.h"

#define NO_SHARD SIZE_MAX
#define LOCK_RETRY_US 100000
#define LOCK_RETRIES 10            /* in a second */
#define SLOW_NS (5 * CLOCK_SECOND) /* without progress: the text names the shard */

/* What one thread is at; the job's lock, except progress. */
struct indexer_thread {
    struct indexer_job *job;
    size_t shard; /* NO_SHARD between two */
    struct format_progress progress;
    uint64_t seen;     /* progress at the last look of the caller */
    uint64_t moved_ns; /* when that was another than before */
};

/* What goes wrong with the cache's files does so with many: the first is told, and how many. */
struct indexer_trouble {
    uint64_t count;
    struct error first;
};

/* Shared by the caller and the threads; the last one frees it. */
struct indexer_job {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned references, running;
    const struct format *format;
    char **paths;
    struct files *files; /* NULL: paths are opened */
    char space[FILES_SPACE_MAX];
    size_t count, next, done;
    uint64_t done_bytes;
    struct index_cache *cache; /* NULL = none */
    struct indexer_result *results;
    struct error error;                    /* the first */
    struct indexer_trouble unread, unkept; /* of the cache */
    bool stop;
    bool left; /* the caller did not wait for threads at files of a user */
    unsigned nthreads;
    struct indexer_thread threads[];
};

static void job_free(struct indexer_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        struct index *index = job->results[i].index;
        files_take_memory(job->files, -(int64_t)index_size(index), NULL);
        index_free(index);
        free(job->paths[i]);
    }
    free(job->results);
    free(job->paths);
    index_cache_close(job->cache);
    if (job->left)
        files_leave_behind(job->files, -1);
    files_unref(job->files);
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->lock);
    free(job);
}

static void job_unref(struct indexer_job *job)
{
    pthread_mutex_lock(&job->lock);
    bool last = --job->references == 0;
    pthread_mutex_unlock(&job->lock);
    if (last)
        job_free(job);
}

static void note(struct indexer_job *job, struct indexer_trouble *trouble, const struct error *err)
{
    pthread_mutex_lock(&job->lock);
    if (trouble->count++ == 0)
        trouble->first = *err;
    pthread_mutex_unlock(&job->lock);
}

static void tell(const struct indexer_trouble *trouble)
{
    if (trouble->count == 1)
        log_event(LOG_WARNING, log_about(LOG_CACHE_FAILED), "%s", trouble->first.text);
    else if (trouble->count)
        log_event(LOG_WARNING, log_about(LOG_CACHE_FAILED), "%s (and %" PRIu64 " more like it)",
                  trouble->first.text, trouble->count - 1);
}

static struct index *from_cache(struct indexer_job *job, const struct index_stamp *stamp)
{
    struct index *index = NULL;
    struct error trouble = {0};
    if (!job->cache)
        return NULL;
    int rc = index_cache_get(job->cache, job->space, stamp, &index, &trouble);
    if (rc && rc != -ENOENT)
        note(job, &job->unread, &trouble);
    return rc ? NULL : index;
}

/* Keeps the index, and gives it back as a mapping of what was kept, where that is possible: so it
 * takes no memory of ours. */
static struct index *to_cache(struct indexer_job *job, struct index *index)
{
    struct error trouble = {0};
    if (!job->cache)
        return index;
    if (index_cache_put(job->cache, job->space, index, &trouble)) {
        note(job, &job->unkept, &trouble);
        return index;
    }
    struct index *mapped = from_cache(job, index_stamp(index));
    if (!mapped)
        return index;
    index_free(index);
    return mapped;
}

/* What an index in the making takes of a user's memory. */
struct grant {
    const struct files *files;
    int64_t bytes;
    struct error err; /* there is no more */
};

static int take_more(void *context, uint64_t bytes)
{
    struct grant *grant = context;
    grant->bytes += (int64_t)bytes;
    return files_take_memory(grant->files, (int64_t)bytes, &grant->err);
}

static int build(struct index_builder *builder, const struct format *format, int fd,
                 const char *path, const struct index_stamp *stamp,
                 struct format_progress *progress, struct index **out, struct error *err)
{
    int rc = format->list(fd, path, builder, progress, err);
    if (rc) {
        index_builder_free(builder);
        return rc;
    }
    rc = index_builder_finish(builder, stamp, out);
    if (rc)
        return error_set(err, rc, "cannot index %s: %s", path, strerror(-rc));
    turned_survey(fd, format, *out, &progress->cancel);
    return 0;
}

static int list(const struct indexer_job *job, int fd, const char *path,
                const struct index_stamp *stamp, struct format_progress *progress,
                struct index **out, struct error *err)
{
    struct grant grant = {.files = job->files};
    struct index_builder *builder = index_builder_new();
    if (job->files)
        index_builder_bound(builder, take_more, &grant);
    int rc = build(builder, job->format, fd, path, stamp, progress, out, err);
    files_take_memory(job->files, -grant.bytes, NULL);
    if (rc && grant.err.code)
        return error_set(err, grant.err.code, "%s: %s", path, grant.err.text);
    return rc;
}

static int check_unchanged(const struct format *format, int fd, const char *path,
                           const struct index_stamp *before, struct format_progress *progress,
                           struct error *err)
{
    struct index_stamp after;
    int rc = format->stamp(fd, path, progress, &after, err);
    if (!rc && !stamp_same(before, &after))
        rc = error_set(err, -ESTALE,
                       "%s changed while it was indexed: wait until it is written, then try again",
                       path);
    return rc;
}

static int make_index(struct indexer_job *job, size_t shard, struct format_progress *progress,
                      struct indexer_result *out, struct error *err)
{
    const struct format *format = job->format;
    const char *path = job->paths[shard];
    cleanup_close int fd = files_open(job->files, (uint32_t)shard, path, format->open_flags);
    if (fd < 0)
        return error_set(err, -errno, "cannot open %s: %s", path, strerror(errno));
    int rc = format->stamp(fd, path, progress, &out->stamp, err);
    if (rc)
        return rc;
    if ((out->index = from_cache(job, &out->stamp)))
        return files_take_memory(job->files, (int64_t)index_size(out->index), err);
    rc = list(job, fd, path, &out->stamp, progress, &out->index, err);
    if (!rc)
        rc = files_take_memory(job->files, (int64_t)index_size(out->index), err);
    if (!rc)
        rc = check_unchanged(format, fd, path, &out->stamp, progress, err);
    if (!rc)
        out->index = to_cache(job, out->index);
    return rc;
}

/* Next shard for the thread; false: no more. Under the lock. */
static bool take_shard(struct indexer_job *job, struct indexer_thread *thread)
{
    thread->shard = NO_SHARD;
    if (job->stop || job->next == job->count)
        return false;
    thread->shard = job->next++;
    thread->progress.bytes = thread->progress.records = 0;
    thread->seen = UINT64_MAX;
    return true;
}

static void *run(void *context)
{
    struct indexer_thread *thread = context;
    struct indexer_job *job = thread->job;
    pthread_mutex_lock(&job->lock);
    while (take_shard(job, thread)) {
        size_t shard = thread->shard;
        struct error err = {0};
        pthread_mutex_unlock(&job->lock);
        int rc = make_index(job, shard, &thread->progress, &job->results[shard], &err);
        pthread_mutex_lock(&job->lock);
        if (rc && !job->error.code)
            job->error = err;
        job->stop |= rc != 0;
        job->done++;
        job->done_bytes += job->results[shard].stamp.size;
        pthread_cond_signal(&job->changed);
    }
    job->running--;
    pthread_cond_signal(&job->changed);
    pthread_mutex_unlock(&job->lock);
    job_unref(job);
    return NULL;
}

static struct indexer_job *job_new(const struct indexer_options *options, struct index_cache *cache)
{
    unsigned threads = options->threads ? options->threads : 1;
    if (threads > options->count)
        threads = (unsigned)options->count;
    struct indexer_job *job = mem_new(sizeof *job + threads * sizeof *job->threads);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    job->format = options->format;
    job->count = options->count;
    job->cache = cache;
    job->files = files_ref(options->files);
    snprintf(job->space, sizeof job->space, "%s", options->space);
    job->nthreads = job->running = threads;
    job->references = threads + 1;
    job->paths = mem_array(job->count, sizeof *job->paths);
    job->results = mem_array(job->count, sizeof *job->results);
    for (size_t i = 0; i < job->count; i++)
        job->paths[i] = mem_string(options->paths[i]);
    for (unsigned i = 0; i < threads; i++)
        job->threads[i] = (struct indexer_thread){.job = job, .shard = NO_SHARD};
    return job;
}

/* Takes note of which threads move; the one that has not for the longest time, and since when.
 * Under the lock. */
static const struct indexer_thread *slowest(struct indexer_job *job, uint64_t now, uint64_t *since)
{
    const struct indexer_thread *worst = NULL;
    for (unsigned i = 0; i < job->nthreads; i++) {
        struct indexer_thread *thread = &job->threads[i];
        uint64_t progress = thread->progress.bytes + thread->progress.records;
        if (thread->seen != progress || thread->shard == NO_SHARD) {
            thread->seen = progress;
            thread->moved_ns = now;
        }
        if (thread->shard != NO_SHARD && (!worst || thread->moved_ns < worst->moved_ns))
            worst = thread;
    }
    *since = worst ? now - worst->moved_ns : 0;
    return worst;
}

static uint64_t bytes_looked_at(const struct indexer_job *job)
{
    uint64_t sum = job->done_bytes;
    for (unsigned i = 0; i < job->nthreads; i++)
        if (job->threads[i].shard != NO_SHARD)
            sum += job->threads[i].progress.bytes;
    return sum;
}

static uint64_t records_found(const struct indexer_job *job)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < job->nthreads; i++)
        if (job->threads[i].shard != NO_SHARD)
            sum += job->threads[i].progress.records;
    return sum;
}

struct report {
    char text[600];
    uint64_t done, total;
    int code; /* -ETIMEDOUT when a shard hangs */
    char hung[400];
};

/* Under the lock. */
static void describe(struct indexer_job *job, const struct indexer_options *options,
                     struct report *out)
{
    uint64_t since;
    const struct indexer_thread *slow = slowest(job, clock_ns(), &since);
    out->done = job->done;
    out->total = job->count;
    size_t used = (size_t)snprintf(
        out->text, sizeof out->text, "indexing: %zu of %zu shard%s, %.1f MB, %llu records in work",
        job->done, job->count, plural(job->count), (double)bytes_looked_at(job) / 1e6,
        (unsigned long long)records_found(job));
    if (slow && since > SLOW_NS)
        snprintf(out->text + used, sizeof out->text - used, "; %.300s gives no data for %llu s",
                 job->paths[slow->shard], (unsigned long long)(since / CLOCK_SECOND));
    if (slow && since > options->patience * CLOCK_SECOND) {
        out->code = -ETIMEDOUT;
        snprintf(out->hung, sizeof out->hung, "%.399s", job->paths[slow->shard]);
    }
}

/* Not 0: stop. */
static int report(const struct indexer_options *options, const struct report *now,
                  struct error *err)
{
    if (now->code)
        return error_set(err, now->code,
                         "shard %s gives no data for %u s: its storage hangs; try again when it "
                         "answers",
                         now->hung, options->patience);
    if (options->progress && !options->progress(options->context, now->text, now->done, now->total))
        return error_set(err, -ECANCELED, "indexing was cancelled");
    return 0;
}

static void stop_all(struct indexer_job *job)
{
    job->stop = true;
    for (unsigned i = 0; i < job->nthreads; i++)
        job->threads[i].progress.cancel = true;
}

/* Waits for at most a second; false: a second is over. Under the lock. */
static bool wait_a_second(struct indexer_job *job, struct timespec *until)
{
    if (pthread_cond_timedwait(&job->changed, &job->lock, until) != ETIMEDOUT)
        return true;
    clock_gettime(CLOCK_MONOTONIC, until);
    until->tv_sec++;
    return false;
}

/* Until all threads have ended, or one hangs, or the caller stops it. */
static int wait_for(struct indexer_job *job, const struct indexer_options *options,
                    struct error *err)
{
    struct timespec until;
    int rc = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    pthread_mutex_lock(&job->lock);
    while (job->running && !rc) {
        if (job->stop)
            stop_all(job);
        if (wait_a_second(job, &until))
            continue;
        struct report now = {0};
        describe(job, options, &now);
        pthread_mutex_unlock(&job->lock);
        rc = report(options, &now, err);
        pthread_mutex_lock(&job->lock);
    }
    if (rc)
        stop_all(job);
    else if (job->error.code)
        rc = error_set(err, job->error.code, "%s", job->error.text);
    pthread_mutex_unlock(&job->lock);
    return rc;
}

static uint64_t set_of(const struct indexer_options *options)
{
    uint64_t set = XXH3_64bits(options->space, strlen(options->space));
    for (size_t i = 0; i < options->count; i++)
        set = XXH3_64bits_withSeed(options->paths[i], strlen(options->paths[i]) + 1, set);
    return set;
}

/* The lock of the set. Goes on without where it cannot be had. */
static int lock_set(struct index_cache *cache, const struct indexer_options *options, int *lock,
                    struct error *err)
{
    struct error trouble = {0};
    uint64_t set = set_of(options);
    for (unsigned round = 1;; round++) {
        *lock = index_cache_try_lock(cache, set, &trouble);
        if (*lock != -EAGAIN)
            break;
        usleep(LOCK_RETRY_US);
        if (round % LOCK_RETRIES == 0 && options->progress &&
            !options->progress(options->context,
                               "waiting for another process that indexes the same shards", 0,
                               options->count))
            return error_set(err, -ECANCELED, "indexing was cancelled");
    }
    if (*lock < 0)
        log_event(LOG_WARNING, log_about(LOG_CACHE_FAILED),
                  "%s; other processes may index the same shards meanwhile", trouble.text);
    return 0;
}

/* Those that the system does not give are not waited for; without any it is refused. */
static int start_threads(struct indexer_job *job, struct error *err)
{
    unsigned started = 0;
    struct error trouble;
    pthread_t thread;
    while (started < job->nthreads &&
           thread_try("index", run, &job->threads[started], &thread, &trouble) == 0) {
        pthread_detach(thread);
        started++;
    }
    pthread_mutex_lock(&job->lock);
    job->references -= job->nthreads - started;
    job->running -= job->nthreads - started;
    pthread_mutex_unlock(&job->lock);
    return started ? 0 : error_set(err, -EAGAIN, "cannot index: %s", trouble.text);
}

static int run_job(struct index_cache *cache, const struct indexer_options *options,
                   struct indexer_result *out, struct error *err)
{
    struct indexer_job *job = job_new(options, cache);
    int rc = start_threads(job, err);
    if (!rc)
        rc = wait_for(job, options, err);
    if (!rc) {
        memcpy(out, job->results, options->count * sizeof *out);
        memset(job->results, 0, options->count * sizeof *out);
        if (job->cache)
            index_cache_trim(job->cache);
    }
    pthread_mutex_lock(&job->lock);
    tell(&job->unread);
    tell(&job->unkept);
    job->left = job->files && job->running;
    if (job->left)
        files_leave_behind(job->files, 1);
    pthread_mutex_unlock(&job->lock);
    job_unref(job);
    return rc;
}

int indexer_run(const struct indexer_options *options, struct indexer_result *out,
                struct error *err)
{
    struct error trouble = {0};
    struct index_cache *cache = NULL;
    cleanup_close int lock = -1;
    if (options->files && files_may_hang(options->files, err))
        return err->code;
    if (options->cache_dir &&
        index_cache_open(options->cache_dir, options->cache_bytes, &cache, &trouble))
        log_event(LOG_WARNING, log_about(LOG_CACHE_FAILED), "%s", trouble.text);
    int rc = cache ? lock_set(cache, options, &lock, err) : 0;
    if (!rc)
        return run_job(cache, options, out, err);
    index_cache_close(cache);
    return rc;
}
