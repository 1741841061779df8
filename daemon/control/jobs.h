/* Jobs and the ranks claimed in them. A job is known by (user, feed, name, probe); a shared one, a
 * group of a mirror feed, by (feed, name), and each rank of it may be had by many. Its first attach
 * fixes world, batch, seed and start; later ones are compared with it. After its last client it is
 * kept for a while, for reconnects and `resume: last` only, until another attach has begun it anew;
 * with a ledger over the daemon's end, too. Loop thread; no clock and no I/O of its own. */
#ifndef JOBS_H
#define JOBS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/job_want.h"
#include "control/refusal.h"
#include "proto/limits.h"

struct jobs;
struct dataset;
struct ledger;

struct job_place { /* of a batch; steps of the start's epoch count from its position */
    uint64_t epoch, step;
};

/* A rank that is claimed, or was served and is vacant now. */
struct job_rank {
    uint32_t rank;
    bool claimed, served;
    bool rowless; /* has no row in any whole epoch: holds nobody back */
    bool left;    /* it has detached: is not missed before the others go on */
    bool awaited; /* it was claimed when the daemon before ended: may come back by itself */
    pid_t pid;
    uint32_t kept;          /* its entry of the ledger */
    uint64_t since;         /* ns: claimed or vacant */
    struct job_place place; /* served: after all that it has released */
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
    bool aside;           /* another that has its name begins, and ends it when it serves */
    bool follows;         /* it starts after what the ranks of its run before had released */
    uint32_t kept;        /* its entry of the ledger, */
    bool moved;           /* which has its start of before */
    uint64_t mix_checked; /* control/mix_watch.h: the last epoch looked at, + 1 */
    char *mix_note;       /* of it; NULL = well mixed */
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
/* The claimed rank is being served, from this place on. */
void jobs_served(struct jobs *jobs, struct job *job, uint32_t rank, struct job_place place,
                 bool rowless);
/* Where it stands, for whoever takes it next: place of the first batch that it has not released. */
void jobs_stands(struct jobs *jobs, struct job *job, uint32_t rank, struct job_place place);
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

/* Keeps jobs in the ledger from now on, and takes back those in it: how many. Those whose feed is
 * gone go too. */
uint32_t jobs_restore(struct jobs *jobs, struct ledger *ledger,
                      const struct feed_spec *(*spec_of)(void *context, const char *feed),
                      void *context, uint64_t now, uint32_t *gone);
/* The daemon ends: what becomes of jobs now is not their end, and the ledger stays as it is. */
void jobs_let_be(struct jobs *jobs);

#endif
