#include "base/thread.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define NAME_SIZE 16 /* of the kernel, with its NUL */

int thread_try(const char *name, void *(*run)(void *context), void *context, pthread_t *out,
               struct error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* inherited by the thread from its first moment */
    int error = pthread_create(out, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return error_set(
            err, -error,
            "cannot start thread %s: %s: raise the limit of tasks (ulimit -u, TasksMax)", name,
            strerror(error));
    char kept[NAME_SIZE];
    snprintf(kept, sizeof kept, "%s", name);
    pthread_setname_np(*out, kept);
    return 0;
}

pthread_t thread_start(const char *name, void *(*run)(void *context), void *context)
{
    struct error err;
    pthread_t thread;
    if (thread_try(name, run, context, &thread, &err) < 0) {
        log_error("%s", err.text);
        abort();
    }
    return thread;
}

/* The thread sanitizer knows no join by a clock of choice. */
bool thread_join_until(pthread_t thread, uint64_t until)
{
    struct timespec now, end;
    uint64_t start = clock_ns();
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t left = until > start ? until - start : 0;
    uint64_t ns = left % CLOCK_SECOND + (uint64_t)now.tv_nsec;
    end.tv_sec = now.tv_sec + (time_t)(left / CLOCK_SECOND + ns / CLOCK_SECOND);
    end.tv_nsec = (long)(ns % CLOCK_SECOND);
    return pthread_timedjoin_np(thread, NULL, &end) == 0;
}
