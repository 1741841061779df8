/* Preloaded into a program: which mutexes it takes, how often, and for how long it holds them.
 *
 *   LD_PRELOAD=build/release/tests/bench/liblock_meter.so bench_pool ...     a table on stderr
 *
 * One line for each place that locks: times it did, how many of these had to wait, nanoseconds a
 * lock was held (two readings of the clock included: too long rather than too short), and the share
 * of the program's wall time in which it was held. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SITES = 1024, NESTED = 8 };

struct site {
    _Atomic(void *) place;
    _Atomic uint64_t count, waits, held_ns;
};

/* Locks that a thread holds. */
struct held {
    pthread_mutex_t *mutex;
    struct site *site;
    uint64_t since;
};

static struct site sites[SITES];
static uint64_t start;
static _Thread_local struct held stack[NESTED];
static _Thread_local int depth;

static int (*real_lock)(pthread_mutex_t *);
static int (*real_trylock)(pthread_mutex_t *);
static int (*real_unlock)(pthread_mutex_t *);
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*real_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

__attribute__((constructor)) static void find_real(void)
{
    *(void **)&real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    *(void **)&real_trylock = dlsym(RTLD_NEXT, "pthread_mutex_trylock");
    *(void **)&real_unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    *(void **)&real_wait = dlsym(RTLD_NEXT, "pthread_cond_wait");
    *(void **)&real_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    start = now_ns();
}

static struct site *site_of(void *place)
{
    for (size_t i = (uintptr_t)place / 4 % SITES;; i = (i + 1) % SITES) {
        void *none = NULL;
        if (sites[i].place == place ||
            atomic_compare_exchange_strong(&sites[i].place, &none, place) || none == place)
            return &sites[i];
    }
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    struct site *site = site_of(__builtin_return_address(0));
    int code = real_trylock(mutex);
    atomic_fetch_add_explicit(&site->count, 1, memory_order_relaxed);
    if (code) {
        atomic_fetch_add_explicit(&site->waits, 1, memory_order_relaxed);
        code = real_lock(mutex);
    }
    if (depth < NESTED)
        stack[depth++] = (struct held){mutex, site, now_ns()};
    return code;
}

static struct held *find_held(const pthread_mutex_t *mutex)
{
    for (int i = depth; i-- > 0;)
        if (stack[i].mutex == mutex)
            return &stack[i];
    return NULL;
}

static void end_hold(const struct held *held)
{
    if (held)
        atomic_fetch_add_explicit(&held->site->held_ns, now_ns() - held->since,
                                  memory_order_relaxed);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct held *held = find_held(mutex);
    end_hold(held);
    if (held)
        *held = stack[--depth];
    return real_unlock(mutex);
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    struct held *held = find_held(mutex);
    end_hold(held);
    int code = real_wait(cond, mutex);
    if (held)
        held->since = now_ns();
    return code;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until)
{
    struct held *held = find_held(mutex);
    end_hold(held);
    int code = real_timedwait(cond, mutex, until);
    if (held)
        held->since = now_ns();
    return code;
}

/* "function file:line" by addr2line, where it is installed and the program has symbols. */
static void name_of(const void *place, char *text, size_t size)
{
    Dl_info info;
    char command[600];
    snprintf(text, size, "%p", place);
    if (!dladdr(place, &info) || !info.dli_fname)
        return;
    snprintf(command, sizeof command, "LD_PRELOAD= addr2line -sfpe '%s' 0x%lx 2>/dev/null",
             info.dli_fname, (unsigned long)((const char *)place - 1 - (char *)info.dli_fbase));
    FILE *pipe = popen(command, "r");
    if (pipe && !fgets(text, (int)size, pipe))
        snprintf(text, size, "%s\n", info.dli_fname);
    if (pipe)
        pclose(pipe);
}

__attribute__((destructor)) static void report(void)
{
    double wall = (double)(now_ns() - start);
    unsetenv("LD_PRELOAD");
    fprintf(stderr, "%10s %9s %8s %8s  %s\n", "locks", "waits", "ns held", "% wall", "by");
    for (size_t i = 0; i < SITES; i++) {
        char name[300];
        uint64_t count = sites[i].count;
        if (count < 1000)
            continue;
        name_of(sites[i].place, name, sizeof name);
        fprintf(stderr, "%10lu %9lu %8.0f %8.3f  %s", (unsigned long)count,
                (unsigned long)sites[i].waits, (double)sites[i].held_ns / (double)count,
                (double)sites[i].held_ns * 100 / wall, name);
    }
}
