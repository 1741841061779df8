#include "store/parallel.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "base/thread.h"

struct job {
    _Atomic size_t next;
    size_t count;
    void (*work)(void *context, size_t item);
    void *context;
};

static void *run(void *context)
{
    struct job *job = context;
    for (size_t item = job->next++; item < job->count; item = job->next++)
        job->work(job->context, item);
    return NULL;
}

void parallel_run(unsigned threads, size_t count, void (*work)(void *context, size_t item),
                  void *context)
{
    struct job job = {.count = count, .work = work, .context = context};
    size_t others = threads < count ? threads : count;
    others -= others > 0; /* the caller is one of them */
    cleanup_free pthread_t *started = mem_array(others, sizeof *started);
    for (size_t i = 0; i < others; i++)
        if (thread_try("index", run, &job, &started[i], NULL) < 0)
            others = i;
    run(&job);
    for (size_t i = 0; i < others; i++)
        pthread_join(started[i], NULL);
}
