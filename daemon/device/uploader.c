#include "device/uploader.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

enum { FLIGHTS = 8 }; /* copies on the stream at once */

#define POLL_NS 30000L /* between two looks at an event */
#define LATER_NS (CLOCK_SECOND / 10)
#define SLACK_NS 5000UL /* of the kernel's timers, for that */

const struct uploader_times uploader_times = {10 * CLOCK_SECOND, 60 * CLOCK_SECOND,
                                              30 * CLOCK_SECOND};

struct job {
    struct job *next;
    uploader_task task;
    void *context;
    struct error *err;
    int code;
    bool over;
};

struct flight { /* a copy on the stream, and the event after it */
    struct upload *upload;
    dlp_cu_event event;
};

struct uploader {
    struct uploader_device device;
    struct uploader_times times;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t work, done; /* for the thread; a job is over */
    struct job *jobs, **last_job;
    struct upload *uploads, **last_upload;
    struct uploader_later *laters;
    uint64_t look_at; /* the laters next */
    uint32_t users;
    uint64_t unused_since;
    bool stop, active, let_go;
    bool asleep, hung;        /* the thread: has nothing to do; is not waited for any more */
    uint64_t awake_since;     /* it began what it does now */
    const struct job *at_job; /* or at: */
    struct upload *in_hand;
    struct error lost; /* code 0: it is not */
    uint64_t lent, copied;
    /* The thread's own. */
    struct uploader_gpu gpu;
    dlp_cu_context context;
    struct flight flights[FLIGHTS]; /* a ring */
    uint32_t first, nflights, nevents;
    uint64_t since; /* from when on the first may be waited for */
};

static void be_lost(struct uploader *uploader, const struct error *err)
{
    pthread_mutex_lock(&uploader->mutex);
    bool news = !uploader->lost.code;
    if (news)
        uploader->lost = *err;
    pthread_mutex_unlock(&uploader->mutex);
    if (news)
        log_event(LOG_ERROR, log_about(LOG_GPU_LOST),
                  "%s: lost for this daemon until it is started anew", err->text);
}

int uploader_check(struct uploader *uploader, dlp_cu_result code, const char *symbol,
                   struct error *err)
{
    char why[ERROR_TEXT_MAX / 2];
    struct error local;
    if (!code)
        return 0;
    dlp_cu_result_explain(code, symbol, why, sizeof why);
    error_set(&local, -ENODEV, "%s: %s", uploader->device.name, why);
    if (dlp_cu_result_lost(code))
        be_lost(uploader, &local);
    if (err)
        *err = local;
    return local.code;
}

static void sleep_ns(long ns)
{
    const struct timespec time = {0, ns};
    nanosleep(&time, NULL);
}

static void hang(struct uploader *uploader, struct error *err)
{
    error_set(err, -ENODEV, "%s: a copy has not ended within %.1f s", uploader->device.name,
              (double)uploader->times.copy_ns / (double)CLOCK_SECOND);
    be_lost(uploader, err);
}

int uploader_settle(struct uploader *uploader, struct error *err)
{
    uint64_t end = clock_ns() + uploader->times.copy_ns;
    dlp_cu_result code;
    while ((code = uploader->gpu.cuda->stream_query(uploader->gpu.stream)) == DLP_CU_NOT_READY) {
        if (clock_ns() > end) {
            hang(uploader, err);
            return err->code;
        }
        sleep_ns(POLL_NS);
    }
    return uploader_check(uploader, code, "cuStreamQuery", err);
}

static void end_context(struct uploader *uploader)
{
    const struct dlp_cuda *cuda = uploader->gpu.cuda;
    dlp_cu_context popped;
    while (uploader->nevents)
        cuda->event_destroy(uploader->flights[--uploader->nevents].event);
    if (uploader->gpu.stream)
        cuda->stream_destroy(uploader->gpu.stream);
    uploader->gpu.stream = NULL;
    if (uploader->context) {
        cuda->context_pop(&popped);
        cuda->context_release(uploader->device.device);
    }
    uploader->context = NULL;
}

static int make_events(struct uploader *uploader, struct error *err)
{
    for (; uploader->nevents < FLIGHTS; uploader->nevents++) {
        dlp_cu_result code = uploader->gpu.cuda->event_create(
            &uploader->flights[uploader->nevents].event, DLP_CU_EVENT_DISABLE_TIMING);
        if (code)
            return uploader_check(uploader, code, "cuEventCreate", err);
    }
    return 0;
}

static int make_context(struct uploader *uploader, struct error *err)
{
    const struct dlp_cuda *cuda = uploader->gpu.cuda;
    dlp_cu_context context = NULL;
    dlp_cu_result code = cuda->context_retain(&context, uploader->device.device);
    if (code)
        return uploader_check(uploader, code, "cuDevicePrimaryCtxRetain", err);
    code = cuda->context_push(context);
    if (code) {
        cuda->context_release(uploader->device.device);
        return uploader_check(uploader, code, "cuCtxPushCurrent", err);
    }
    uploader->context = context;
    code = cuda->stream_create(&uploader->gpu.stream, DLP_CU_STREAM_NON_BLOCKING, 0);
    if (code)
        return uploader_check(uploader, code, "cuStreamCreateWithPriority", err);
    return make_events(uploader, err);
}

static int begin_context(void *context, const struct uploader_gpu *gpu, struct error *err)
{
    (void)context;
    struct uploader *uploader = gpu->uploader;
    if (uploader->context)
        return 0;
    int code = make_context(uploader, err);
    pthread_mutex_lock(&uploader->mutex);
    bool lost = uploader->lost.code;
    uploader->active = code == 0 && !uploader->hung;
    pthread_mutex_unlock(&uploader->mutex);
    if (code < 0 && !lost)
        end_context(uploader);
    return code;
}

static struct job *next_job(struct uploader *uploader)
{
    struct job *job = uploader->jobs;
    uploader->jobs = job->next;
    if (!uploader->jobs)
        uploader->last_job = &uploader->jobs;
    return job;
}

/* Calls in and out with the mutex held, as all that uploader_main calls. After a call of the driver
 * in which the thread was given up, nothing is as it was. */
static void run_job(struct uploader *uploader)
{
    struct job *job = next_job(uploader), its = *job;
    struct error err = uploader->lost;
    int code = err.code;
    uploader->at_job = job;
    if (!code) {
        pthread_mutex_unlock(&uploader->mutex);
        code = its.task(its.context, &uploader->gpu, &err);
        pthread_mutex_lock(&uploader->mutex);
    }
    if (uploader->hung)
        return;
    uploader->at_job = NULL;
    *job->err = err;
    job->code = code;
    job->over = true;
    pthread_cond_broadcast(&uploader->done);
}

static void finish(struct uploader *uploader, struct upload *upload, const struct error *err)
{
    pthread_mutex_unlock(&uploader->mutex);
    upload->done(upload, err);
    pthread_mutex_lock(&uploader->mutex);
}

static struct upload *next_upload(struct uploader *uploader)
{
    struct upload *upload = uploader->uploads;
    uploader->uploads = upload->next;
    if (!uploader->uploads)
        uploader->last_upload = &uploader->uploads;
    return upload;
}

/* An event that is not recorded would let staging go while the copy may run: then all is lost. */
static int copy(struct uploader *uploader, const struct upload *upload, struct flight *flight,
                struct error *err)
{
    const struct dlp_cuda *cuda = uploader->gpu.cuda;
    dlp_cu_stream stream = uploader->gpu.stream;
    dlp_cu_result code = cuda->copy_to_device(upload->to, upload->from, upload->bytes, stream);
    if (code)
        return uploader_check(uploader, code, "cuMemcpyHtoDAsync", err);
    code = cuda->event_record(flight->event, stream);
    if (code) {
        uploader_check(uploader, code, "cuEventRecord", err);
        be_lost(uploader, err);
    }
    return code ? err->code : 0;
}

static void start_copy(struct uploader *uploader)
{
    struct error err;
    struct upload *upload = next_upload(uploader);
    struct flight *flight = &uploader->flights[(uploader->first + uploader->nflights) % FLIGHTS];
    uploader->in_hand = upload;
    pthread_mutex_unlock(&uploader->mutex);
    int code = copy(uploader, upload, flight, &err);
    pthread_mutex_lock(&uploader->mutex);
    if (uploader->hung)
        return;
    uploader->in_hand = NULL;
    if (code < 0) {
        finish(uploader, upload, &err);
        return;
    }
    if (uploader->nflights == 0)
        uploader->since = clock_ns();
    flight->upload = upload;
    uploader->nflights++;
}

static struct upload *land(struct uploader *uploader)
{
    struct upload *upload = uploader->flights[uploader->first].upload;
    uploader->first = (uploader->first + 1) % FLIGHTS;
    uploader->nflights--;
    upload->since = uploader->since;
    upload->until = uploader->since = clock_ns();
    return upload;
}

static void look_at_first(struct uploader *uploader)
{
    struct error err;
    pthread_mutex_unlock(&uploader->mutex);
    dlp_cu_result code = uploader->gpu.cuda->event_query(uploader->flights[uploader->first].event);
    if (code == DLP_CU_NOT_READY && clock_ns() - uploader->since > uploader->times.copy_ns) {
        hang(uploader, &err);
    } else if (code && code != DLP_CU_NOT_READY) {
        uploader_check(uploader, code, "cuEventQuery", &err);
        be_lost(uploader, &err);
    } else if (code) {
        sleep_ns(POLL_NS);
    }
    pthread_mutex_lock(&uploader->mutex);
    if (code || uploader->hung)
        return;
    struct upload *upload = land(uploader);
    uploader->copied += upload->bytes;
    finish(uploader, upload, NULL);
}

static void fail_copies(struct uploader *uploader)
{
    struct upload *upload = uploader->in_hand;
    uploader->in_hand = NULL;
    if (upload)
        finish(uploader, upload, &uploader->lost);
    while (uploader->nflights)
        finish(uploader, land(uploader), &uploader->lost);
    while (uploader->uploads)
        finish(uploader, next_upload(uploader), &uploader->lost);
}

static void drop(struct uploader *uploader)
{
    if (--uploader->users == 0)
        uploader->unused_since = clock_ns();
    pthread_cond_signal(&uploader->work);
}

static void look_at_laters(struct uploader *uploader)
{
    struct uploader_later *due = NULL, *later;
    for (struct uploader_later **at = &uploader->laters; (later = *at);) {
        if (!later->due(later)) {
            at = &later->next;
            continue;
        }
        *at = later->next;
        later->next = due;
        due = later;
    }
    uploader->look_at = clock_ns() + LATER_NS;
    while ((later = due) && !uploader->hung) {
        due = later->next;
        bool lost = uploader->lost.code;
        pthread_mutex_unlock(&uploader->mutex);
        later->run(later, lost ? NULL : &uploader->gpu);
        pthread_mutex_lock(&uploader->mutex);
        drop(uploader);
    }
}

/* UINT64_MAX: for ever. */
static void sleep_until(struct uploader *uploader, uint64_t end)
{
    const struct timespec until = {(time_t)(end / CLOCK_SECOND), (long)(end % CLOCK_SECOND)};
    uploader->asleep = true;
    if (end == UINT64_MAX)
        pthread_cond_wait(&uploader->work, &uploader->mutex);
    else
        pthread_cond_timedwait(&uploader->work, &uploader->mutex, &until);
    uploader->asleep = false;
}

/* The context goes when it was not used for long enough. */
static void idle(struct uploader *uploader)
{
    uint64_t now = clock_ns(), end = uploader->unused_since + uploader->times.idle_ns;
    if (now < end && !uploader->stop && !uploader->let_go) {
        sleep_until(uploader, end);
        return;
    }
    uploader->active = uploader->let_go = false;
    pthread_mutex_unlock(&uploader->mutex);
    end_context(uploader);
    pthread_mutex_lock(&uploader->mutex);
}

static void *uploader_main(void *context)
{
    struct uploader *uploader = context;
    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    pthread_mutex_lock(&uploader->mutex);
    while (!uploader->hung) {
        uploader->awake_since = clock_ns();
        if (uploader->lost.code && (uploader->nflights || uploader->uploads))
            fail_copies(uploader);
        else if (uploader->jobs)
            run_job(uploader);
        else if (uploader->uploads && uploader->nflights < FLIGHTS)
            start_copy(uploader);
        else if (uploader->nflights)
            look_at_first(uploader);
        else if (uploader->laters && clock_ns() >= uploader->look_at)
            look_at_laters(uploader);
        else if (uploader->active && !uploader->users && !uploader->lost.code)
            idle(uploader);
        else if (uploader->stop)
            break;
        else
            sleep_until(uploader, uploader->laters ? uploader->look_at : UINT64_MAX);
    }
    pthread_mutex_unlock(&uploader->mutex);
    return NULL;
}

int uploader_new(const struct uploader_device *device, const struct uploader_times *times,
                 struct uploader **out, struct error *err)
{
    struct uploader *uploader = mem_new(sizeof *uploader);
    pthread_condattr_t clock;
    uploader->device = *device;
    uploader->times = *times;
    uploader->gpu = (struct uploader_gpu){uploader, device->cuda, device->device, NULL};
    uploader->last_job = &uploader->jobs;
    uploader->last_upload = &uploader->uploads;
    pthread_mutex_init(&uploader->mutex, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&uploader->work, &clock);
    pthread_cond_init(&uploader->done, NULL);
    pthread_condattr_destroy(&clock);
    int code = thread_try("uploader", uploader_main, uploader, &uploader->thread, err);
    if (code == 0)
        *out = uploader;
    else
        free(uploader);
    return code;
}

bool uploader_free(struct uploader *uploader, uint64_t until)
{
    pthread_mutex_lock(&uploader->mutex);
    bool hung = uploader->hung;
    uploader->stop = true;
    uploader->look_at = 0;
    pthread_cond_signal(&uploader->work);
    pthread_mutex_unlock(&uploader->mutex);
    if (hung || !thread_join_until(uploader->thread, until) || uploader->laters)
        return false;
    pthread_cond_destroy(&uploader->work);
    pthread_cond_destroy(&uploader->done);
    pthread_mutex_destroy(&uploader->mutex);
    free(uploader);
    return true;
}

int uploader_run(struct uploader *uploader, uploader_task task, void *context, struct error *err)
{
    struct error local;
    struct job job = {.task = task, .context = context, .err = err ? err : &local};
    pthread_mutex_lock(&uploader->mutex);
    if (!uploader->hung) {
        *uploader->last_job = &job;
        uploader->last_job = &job.next;
        pthread_cond_signal(&uploader->work);
    }
    while (!job.over && !uploader->hung)
        pthread_cond_wait(&uploader->done, &uploader->mutex);
    if (!job.over) {
        job.code = uploader->at_job == &job ? -ETIMEDOUT : -ENODEV;
        *job.err = uploader->lost;
    }
    pthread_mutex_unlock(&uploader->mutex);
    return job.code;
}

int uploader_hold(struct uploader *uploader, struct error *err)
{
    pthread_mutex_lock(&uploader->mutex);
    uploader->users++;
    uploader->let_go = false;
    pthread_mutex_unlock(&uploader->mutex);
    int code = uploader_run(uploader, begin_context, NULL, err);
    if (code < 0)
        uploader_drop(uploader);
    return code < 0 ? -ENODEV : 0;
}

void uploader_drop(struct uploader *uploader)
{
    pthread_mutex_lock(&uploader->mutex);
    drop(uploader);
    pthread_mutex_unlock(&uploader->mutex);
}

void uploader_run_later(struct uploader *uploader, struct uploader_later *later)
{
    pthread_mutex_lock(&uploader->mutex);
    later->next = uploader->laters;
    uploader->laters = later;
    uploader->users++;
    pthread_cond_signal(&uploader->work);
    pthread_mutex_unlock(&uploader->mutex);
}

void uploader_copy(struct uploader *uploader, struct upload *upload)
{
    upload->next = NULL;
    pthread_mutex_lock(&uploader->mutex);
    *uploader->last_upload = upload;
    uploader->last_upload = &upload->next;
    if (uploader->hung)
        fail_copies(uploader);
    pthread_cond_signal(&uploader->work);
    pthread_mutex_unlock(&uploader->mutex);
}

uint32_t uploader_let_go(struct uploader *uploader)
{
    pthread_mutex_lock(&uploader->mutex);
    uint32_t users = uploader->users;
    uploader->let_go = uploader->active && !users;
    pthread_cond_signal(&uploader->work);
    pthread_mutex_unlock(&uploader->mutex);
    return users;
}

void uploader_lend(struct uploader *uploader, uint64_t bytes)
{
    pthread_mutex_lock(&uploader->mutex);
    uploader->lent += bytes;
    pthread_mutex_unlock(&uploader->mutex);
}

void uploader_get_back(struct uploader *uploader, uint64_t bytes)
{
    pthread_mutex_lock(&uploader->mutex);
    uploader->lent -= bytes;
    pthread_mutex_unlock(&uploader->mutex);
}

void uploader_state(struct uploader *uploader, struct uploader_state *out)
{
    pthread_mutex_lock(&uploader->mutex);
    *out = (struct uploader_state){.active = uploader->active && !uploader->let_go,
                                   .lost = uploader->lost.code,
                                   .lent = uploader->lent,
                                   .copied = uploader->copied};
    snprintf(out->why, sizeof out->why, "%s", uploader->lost.text);
    pthread_mutex_unlock(&uploader->mutex);
}

static void give_up(struct uploader *uploader)
{
    if (!uploader->lost.code)
        error_set(&uploader->lost, -ENODEV,
                  "%s: its driver has not returned from a call within %.1f s",
                  uploader->device.name, (double)uploader->times.call_ns / (double)CLOCK_SECOND);
    log_event(LOG_ERROR, log_about(LOG_GPU_LOST),
              "%s: lost for this daemon until it is started anew", uploader->lost.text);
    uploader->hung = true;
    uploader->active = false;
    uploader->jobs = NULL; /* they end with their callers' wait */
    pthread_cond_broadcast(&uploader->done);
    fail_copies(uploader);
}

void uploader_watch(struct uploader *uploader)
{
    pthread_mutex_lock(&uploader->mutex);
    bool runs = !uploader->asleep && !uploader->hung;
    if (runs && clock_ns() - uploader->awake_since > uploader->times.call_ns)
        give_up(uploader);
    pthread_mutex_unlock(&uploader->mutex);
}

const char *uploader_name(const struct uploader *uploader)
{
    return uploader->device.name;
}

int uploader_numa_node(const struct uploader *uploader)
{
    return uploader->device.numa_node;
}
