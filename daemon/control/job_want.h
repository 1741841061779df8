/* What an attach asks of jobs.h. */
#ifndef JOB_WANT_H
#define JOB_WANT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/token.h"

struct feed_spec;

struct job_start { /* where every rank of the job begins */
    uint64_t epoch;
    uint64_t position;
};

struct job_optional {
    bool given;
    uint64_t value;
};

/* Numbers are within the limits of proto/limits.h. */
struct job_want {
    uid_t uid;
    pid_t pid;
    const struct feed_spec *spec;
    const char *feed; /* its name */
    const char *name;
    bool probe, shared;
    struct job_optional rank, world, batch, seed, epoch;
    uint32_t feed_batch; /* of the feed, for a new job; 0 = none */
    uint64_t feed_seed;
    const struct job_start *resume; /* a reconnect: of its first attach; else NULL */
    const char *resume_plan;        /* its plan id; NULL or "" = not said */
    const struct token *token;      /* before seed and epoch; NULL = none */
    bool last;                      /* go on after what was released */
    bool running_only;              /* no new job is let in */
};

#endif
