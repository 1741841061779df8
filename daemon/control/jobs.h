/* Jobs and the ranks claimed in them. A job is known by (user, feed, name, probe); a shared one, a
 * group of a mirror feed, by (feed, name), and each rank of it may be had by many. Its first attach
 * fixes world, batch, seed and start; later ones are compared with it. After its last client it is
 * kept for a while, for reconnects and `resume: last` only. Loop thread; no clock and no I/O of its
 * own. */
#ifndef JOBS_H
#define JOBS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/refusal.h"
#include "control/token.h"
#include "proto/limits.h"

struct jobs;
struct dataset;
struct feed_spec;

struct job_start { /* where every rank of the job begins */
    uint64_t epoch;
    uint64_t position;
};

struct job_place { /* of a batch; steps of the start's epoch count from its position */
    uint64_t epoch, step;
};

/* A rank that is claimed, or was served and is vacant now. */
struct job_rank {
    uint32_t rank;
    bool claimed, served;
    bool rowless; /* has no row in any whole epoch: holds nobody back */
    bool left;    /* it has detached: is not missed before the others go on */
    pid_t pid;
    uint64_t since;         /* ns: claimed or vacant */
    struct job_place place; /* served: after all that it had released when it was given back */
};

struct job {
    struct job *next;
    uint64_t number; /* of all since the daemon's start */
    uid_t uid;
    const struct feed_spec *spec; /* our own reference: that with which it began */
    const char *feed;             /* its name */
    char name[DLP_NAME_MAX + 1];
    bool probe, shared;
    uint32_t world, batch;
    uint64_t seed;
    struct job_start start;
    char plan_id[17];        /* "" until its data set is open */
    struct dataset *dataset; /* NULL likewise; the job's own reference: it never changes */
    struct job_rank *ranks;  /* in no order */
    uint32_t nranks, nclaims;
    uint64_t empty_since; /* ns; 0 = it has clients */
    bool begun;           /* a client has been served */
    bool rebuilt;         /* from a reconnect: which ranks it has served is not known */
    bool ended;           /* nobody finds it any more; it goes with its last claim */
    bool follows;         /* it starts after what the ranks of its run before had released */
    uint64_t mix_checked; /* control/mix_watch.h: the last epoch looked at, + 1 */
    char *mix_note;       /* of it; NULL = well mixed */
};

struct job_optional {
    bool given;
    uint64_t value;
};

/* What an attach asks for. Numbers are within the limits of proto/limits.h. */
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

struct jobs *jobs_new(uint64_t linger_ns);
void jobs_free(struct jobs *jobs);

/* Finds or makes the job and claims a rank; one of a shared job that is claimed already stays as it
 * is. 0, or the code of the refusal. */
int jobs_claim(struct jobs *jobs, const struct job_want *want, uint64_t now, struct job **job,
               uint32_t *rank, struct refusal *refusal);
/* That of the job that jobs_claim would find; NULL: it would make one. */
const struct feed_spec *jobs_spec(const struct jobs *jobs, const struct job_want *want);
/* The claimed rank has detached. */
void jobs_left(struct job *job, uint32_t rank);
/* Gives a rank back. A job that never served anybody, or a
 * probe's, ends with its last claim. */
void jobs_release(struct jobs *jobs, struct job *job, uint32_t rank, uint64_t now);
/* The claimed rank is being served. */
void jobs_served(struct job *job, uint32_t rank);
/* Where a rank that was served stands, for whoever takes it next: place of the first batch that it
 * has not released. */
void jobs_stands(struct job *job, uint32_t rank, struct job_place place, bool rowless);
/* That place; false when the rank has not been served since the job's start. */
bool jobs_stood(const struct job *job, uint32_t rank, struct job_place *place);
/* Ends all jobs that `which` picks: those without clients at once, the others, which nobody can
 * join any more, with their last claim. How many. */
uint32_t jobs_end(struct jobs *jobs, bool (*which)(void *context, const struct job *job),
                  void *context);
/* Ends jobs whose time after the last client is over. */
void jobs_expire(struct jobs *jobs, uint64_t now);
void jobs_set_linger(struct jobs *jobs, uint64_t linger_ns);
const char *jobs_word(bool shared); /* what users call it: "job", "group" */
const struct job *jobs_first(const struct jobs *jobs);

#endif
