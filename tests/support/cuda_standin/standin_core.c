/* Start, end, and what each call goes through. */
#include "standin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "standin_stream.h"

pthread_mutex_t si_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t si_progress = PTHREAD_COND_INITIALIZER;
static pid_t initialised; /* by which process */
static bool reported;
static _Thread_local unsigned later;
static _Thread_local bool in_callback;

double si_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void say(const char *format, va_list list)
{
    char text[1000];
    int n = snprintf(text, sizeof text, "cuda stand-in [%d]: ", getpid());
    n += vsnprintf(text + n, sizeof text - n - 1, format, list);
    n = n < (int)sizeof text - 1 ? n : (int)sizeof text - 2;
    text[n++] = '\n';
    FILE *file = si_knobs.report ? fopen(si_knobs.report, "ae") : NULL;
    fwrite(text, 1, n, file ? file : stderr);
    if (file)
        fclose(file);
}

void si_report(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(format, list);
    va_end(list);
    reported = true;
}

void si_abort(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(format, list);
    va_end(list);
    abort();
}

bool si_in_callback(bool set)
{
    bool was = in_callback;
    in_callback = set;
    return was;
}

unsigned si_later(void)
{
    return later;
}

void si_wait(const char *function, double since, unsigned slice_us)
{
    double now = si_now();
    if (now - since > si_knobs.hang_s) {
        si_streams_dump();
        si_abort("%s has waited for %u s", function, si_knobs.hang_s);
    }
    double until = now + (double)slice_us / 1e6;
    struct timespec at = {.tv_sec = (time_t)until,
                          .tv_nsec = (long)((until - (time_t)until) * 1e9)};
    pthread_cond_timedwait(&si_progress, &si_lock, &at);
}

static void stay(void)
{
    pthread_mutex_unlock(&si_lock);
    for (;;)
        pause();
}

/* Sticky faults make the context unusable with their code; those that come later are the
 * operation's. */
static dlp_cu_result faulty(const char *function)
{
    unsigned fault = si_fault(function);
    later = 0;
    if (fault & SI_FAULT_STAY)
        stay();
    if (fault & (SI_FAULT_HANG | SI_FAULT_LATER)) {
        later = fault;
        return 0;
    }
    if (fault & SI_FAULT_STICKY) {
        fault &= ~SI_FAULT_STICKY;
        if (si_current())
            si_current()->sticky = fault;
    }
    return fault;
}

static dlp_cu_result check_state(const char *function, enum si_needs needs)
{
    struct si_context *context = si_current();
    dlp_cu_result fault = faulty(function);
    if (fault)
        return fault;
    if (needs == SI_NOTHING)
        return 0;
    if (!initialised)
        return DLP_CU_NOT_INITIALIZED;
    if (needs == SI_EVEN_LOST)
        return 0;
    if (context && context->sticky)
        return context->sticky;
    if (needs != SI_IN_CONTEXT)
        return 0;
    if (!context)
        return DLP_CU_INVALID_CONTEXT;
    return context->retained ? 0 : DLP_CU_CONTEXT_IS_DESTROYED;
}

dlp_cu_result si_enter(const char *function, enum si_needs needs, int *locked)
{
    pid_t by = __atomic_load_n(&initialised, __ATOMIC_ACQUIRE);
    if (by && by != getpid())
        return DLP_CU_NOT_INITIALIZED;
    if (in_callback)
        return DLP_CU_NOT_PERMITTED;
    pthread_mutex_lock(&si_lock);
    *locked = 1;
    return check_state(function, needs);
}

void si_leave(const int *locked)
{
    if (*locked)
        pthread_mutex_unlock(&si_lock);
}

static void at_exit(void)
{
    if (initialised != getpid())
        return;
    bool lost = false; /* then nothing can be given back */
    pthread_mutex_lock(&si_lock);
    for (unsigned i = 0; i < si_visible; i++) {
        const struct si_context *context = &si_contexts[i];
        lost |= context->sticky != 0;
        if (!context->retained || context->sticky)
            continue;
        si_report("leak: the context of GPU %u is retained %d times", i, context->retained);
        si_leaks_memory(context);
        si_leaks_streams(context);
        si_leaks_modules(context);
    }
    if (!lost)
        si_leaks_process();
    pthread_mutex_unlock(&si_lock);
    if (reported && si_knobs.strict) {
        fflush(NULL);
        _exit(99);
    }
}

static void read_settings(void)
{
    si_knobs_read();
    si_devices_init();
}

dlp_cu_result cuInit(unsigned flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_settings);
    sleep(si_knobs.init_s);
    SI_ENTER(SI_NOTHING);
    if (flags)
        return DLP_CU_INVALID_VALUE;
    if (si_knobs.init)
        return si_knobs.init;
    if (si_visible == 0)
        return DLP_CU_NO_DEVICE;
    if (!initialised) {
        atexit(at_exit);
        __atomic_store_n(&initialised, getpid(), __ATOMIC_RELEASE);
    }
    return 0;
}

dlp_cu_result cuDriverGetVersion(int *version)
{
    SI_ENTER(SI_NOTHING);
    const char *text = getenv("STANDIN_VERSION"); /* may be asked before cuInit */
    *version = text ? atoi(text) : 13000;
    return 0;
}

dlp_cu_result cuGetErrorName(dlp_cu_result code, const char **name)
{
    *name = dlp_cu_result_name(code);
    return *name ? 0 : DLP_CU_INVALID_VALUE;
}

dlp_cu_result cuGetErrorString(dlp_cu_result code, const char **text)
{
    *text = dlp_cu_result_name(code) ? dlp_cu_result_cause(code) : NULL;
    return *text ? 0 : DLP_CU_INVALID_VALUE;
}
