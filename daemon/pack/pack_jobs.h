/* A number of jobs (shards, pictures) run by as many threads as there are CPUs, with a line of
 * progress each second. SIGINT and SIGTERM stop them between two images. */
#ifndef PACK_JOBS_H
#define PACK_JOBS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"

struct pack_jobs {
    uint32_t count;
    /* Does one job, on any of the threads; the first that fails ends all. */
    int (*run)(struct pack_jobs *jobs, uint32_t job, struct error *err);
    void *context;
    const char *doing; /* "packing" */
    uint64_t images;   /* in all */
    _Atomic uint64_t images_done;
    _Atomic uint64_t bytes_done;
};

/* From the main thread; returns the first failure, -EINTR when it was stopped. */
int pack_jobs_run(struct pack_jobs *jobs, struct error *err);
/* Counts one image done; -EINTR when the jobs are to end. */
int pack_jobs_tick(struct pack_jobs *jobs, uint64_t bytes, struct error *err);

#endif
