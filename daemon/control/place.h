/* Where an attach begins: at its job's start, where a token or a reconnect says, after what its
 * rank has released, or where its group is. Loop thread. */
#ifndef PLACE_H
#define PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "control/jobs.h"
#include "control/token.h"
#include "dataload.pb-c.h"
#include "feed/feed.h"

struct group;

#define PLACE_WORDS_MAX 96

struct place {
    /* What the attach asks for. */
    bool reconnects; /* at `at` of plan_id */
    struct feed_place at;
    struct job_start start; /* of its first attach */
    char plan_id[17];
    uint32_t members; /* of its group before; 0 = not known */
    bool last;
    bool has_token;
    struct token token;
    /* What came of it. */
    char words[PLACE_WORDS_MAX]; /* where it begins and why */
    char note[DLP_TEXT_MAX];     /* worth a user's eye; "" = nothing */
};

/* Reads the wishes of a message. 0, or the refusal's code. */
int place_read(struct place *place, const Dlp__Attach *message, struct refusal *refusal);
/* The data set is open: settles the job's start and plan id, and of params start and first. 0, or
 * the refusal's code. */
int place_find(struct place *place, struct job *job, struct feed_params *params,
               struct refusal *refusal);
/* 0, or RESUME: there is no such epoch. */
int place_check_epoch(uint64_t epoch, struct refusal *refusal);
/* A position after which its epoch has no step is the next epoch's beginning. */
struct job_start place_settled(struct job_start start, struct steps steps);
/* Of a reconnect to a shared job: the batch it wants, settled. 0, or the refusal's code. */
int place_wanted(const struct place *place, const struct job *job, const struct feed_spec *spec,
                 struct feed_place *out, struct refusal *refusal);
/* The group streams already: the member begins where the group is, but not before `from`, or at the
 * batch that it wants after a reconnect. 0, or the refusal's code. */
int place_join(struct place *place, const struct group *group, struct feed_place from,
               struct feed_place *first, struct refusal *refusal);
/* Rows and steps of an epoch of a job. */
struct steps place_steps(const struct job *job, const struct feed_spec *spec, uint64_t epoch);

#endif
