/* The shuffle buffer of one reader for one epoch: encoded records of this rank, by lane.
 *
 * A lane is emitted block by block, each in the order of its permutation, and read in the order in
 * which its records lie in storage: for each record emitted about one is taken in that lies K
 * records further on, in chunks. A record that is not here when its turn comes is fetched by its
 * place instead, so that neither a start nor too little memory changes the order or fails.
 * Owner: one reader thread. */
#ifndef SHUFFLE_H
#define SHUFFLE_H

#include "feed/sample.h"
#include "store/plan.h"
#include "store/steps.h"

#define SHUFFLE_CHUNK (1ULL << 20)  /* bytes of one lane that are read together */
#define SHUFFLE_DEPTH (16ULL << 20) /* of all lanes, where many reads at a time are faster */

struct shuffle_params {
    const struct plan_source *source;
    const struct plan_settings *order;
    uint64_t epoch;
    struct steps steps;
    uint32_t rank;
    uint64_t first_step;
    uint64_t mean_bytes; /* of a record */
    struct ration *ration;
};

/* Where the records come from. */
struct shuffle_source {
    struct sample *(*load)(void *context, struct plan_place place); /* NULL: no memory now */
    /* Wanted next, neighbours of one shard; may be NULL. */
    void (*hint)(void *context, struct plan_place first, struct plan_place last);
    void *context;
};

struct shuffle;

struct shuffle *shuffle_new(const struct shuffle_params *params); /* NULL: no memory for the plan */
void shuffle_free(struct shuffle *shuffle);
const struct plan *shuffle_plan(const struct shuffle *shuffle);
const struct steps *shuffle_steps(const struct shuffle *shuffle);
/* Figures: K of each of this rank's lanes, which it aims to hold; and how many records from `from`
 * to `upto` of them have still to be taken in. A lane shared with other ranks counts in full. */
uint64_t shuffle_target(const struct shuffle *shuffle);
uint64_t shuffle_lack(const struct shuffle *shuffle, uint64_t from, uint64_t upto);

/* The record at position i < N is emitted; positions of one lane are to come in ascending order.
 * Its sample, now the caller's, or NULL where it is to be fetched. */
struct sample *shuffle_take(struct shuffle *shuffle, uint64_t i, struct plan_place *place);
/* Takes in what lies before record `upto` of each of this rank's lanes, as far as `quota` bytes and
 * memory allow; a last chunk may pass both. Returns the bytes. */
uint64_t shuffle_ahead(struct shuffle *shuffle, uint64_t upto, uint64_t quota,
                       const struct shuffle_source *source);
/* Records of each lane that may be taken in further ahead, SHUFFLE_DEPTH bytes in all. */
uint64_t shuffle_depth(const struct shuffle *shuffle);
/* Gives back all that was taken in; it is taken in again, or fetched when its turn comes. */
void shuffle_shed(struct shuffle *shuffle);

#endif
