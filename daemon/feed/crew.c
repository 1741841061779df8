#include "feed/crew.h"

#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"

struct crew {
    _Atomic uint64_t *cpu_ns;
    pthread_t threads[CREW_MOST];
    unsigned nthreads;
    pthread_mutex_t mutex;
    pthread_cond_t begun, ended;
    /* Under the mutex. */
    bool stops;
    size_t next, count;
    bool *done; /* by item */
    size_t room;
    size_t awaited;
    void (*work)(void *context, size_t item);
    void *context;
};

struct crew *crew_new(_Atomic uint64_t *cpu_ns)
{
    struct crew *crew = mem_new(sizeof *crew);
    crew->cpu_ns = cpu_ns;
    pthread_mutex_init(&crew->mutex, NULL);
    pthread_cond_init(&crew->begun, NULL);
    pthread_cond_init(&crew->ended, NULL);
    return crew;
}

void crew_free(struct crew *crew)
{
    if (!crew)
        return;
    pthread_mutex_lock(&crew->mutex);
    crew->stops = true;
    pthread_cond_broadcast(&crew->begun);
    pthread_mutex_unlock(&crew->mutex);
    for (unsigned i = 0; i < crew->nthreads; i++)
        pthread_join(crew->threads[i], NULL);
    pthread_cond_destroy(&crew->begun);
    pthread_cond_destroy(&crew->ended);
    pthread_mutex_destroy(&crew->mutex);
    free(crew->done);
    free(crew);
}

/* With the mutex, which is free while the work is done. */
static void do_next(struct crew *crew)
{
    size_t item = crew->next++;
    pthread_mutex_unlock(&crew->mutex);
    crew->work(crew->context, item);
    pthread_mutex_lock(&crew->mutex);
    crew->done[item] = true;
    if (item == crew->awaited)
        pthread_cond_signal(&crew->ended);
}

static void *crew_main(void *context)
{
    struct crew *crew = context;
    uint64_t told_ns = 0;
    pthread_mutex_lock(&crew->mutex);
    while (!crew->stops) {
        if (crew->next < crew->count) {
            do_next(crew);
            continue;
        }
        uint64_t ns = clock_read(CLOCK_THREAD_CPUTIME_ID);
        atomic_fetch_add(crew->cpu_ns, ns - told_ns);
        told_ns = ns;
        pthread_cond_wait(&crew->begun, &crew->mutex);
    }
    pthread_mutex_unlock(&crew->mutex);
    return NULL;
}

/* One thread too few is no reason to fail. */
static void hire(struct crew *crew, size_t count)
{
    while (crew->nthreads < CREW_MOST && crew->nthreads < count &&
           thread_try("storage", crew_main, crew, &crew->threads[crew->nthreads], NULL) == 0)
        crew->nthreads++;
}

static void begin(struct crew *crew, size_t count, void (*work)(void *context, size_t item),
                  void *context)
{
    if (crew->room < count) {
        crew->room = count;
        crew->done = mem_grow(crew->done, count, sizeof *crew->done);
    }
    memset(crew->done, 0, count * sizeof *crew->done);
    crew->work = work;
    crew->context = context;
    crew->next = 0;
    crew->count = count;
    crew->awaited = SIZE_MAX;
    pthread_cond_broadcast(&crew->begun);
}

void crew_run(struct crew *crew, size_t count, void (*work)(void *context, size_t item),
              void (*waits)(void *context, size_t item), void *context)
{
    if (count == 0)
        return;
    hire(crew, count);
    pthread_mutex_lock(&crew->mutex);
    begin(crew, count, work, context);
    for (size_t item = 0; item < count; item++) {
        if (crew->done[item])
            continue;
        crew->awaited = item;
        pthread_mutex_unlock(&crew->mutex);
        waits(context, item);
        pthread_mutex_lock(&crew->mutex);
        if (crew->nthreads == 0)
            do_next(crew);
        while (!crew->done[item])
            pthread_cond_wait(&crew->ended, &crew->mutex);
    }
    crew->count = 0;
    pthread_mutex_unlock(&crew->mutex);
}
