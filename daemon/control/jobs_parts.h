/* What the files of control/jobs.h share. */
#ifndef JOBS_PARTS_H
#define JOBS_PARTS_H

#include "control/jobs.h"

struct jobs {
    struct job *first;
    uint64_t made; /* ever */
    uint64_t linger_ns;
    struct ledger *ledger; /* NULL = jobs end with the daemon */
};

/* jobs_kept.c: a rank of the job is being served; both are to outlive the daemon. */
void jobs_keep(struct jobs *jobs, struct job *job, struct job_rank *rank);
void jobs_forget(struct jobs *jobs, struct job *job);

#endif
