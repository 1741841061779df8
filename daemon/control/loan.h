/* The batches of a group, lent to its members. Each is told to every member that streams, and its
 * slot is free again when no member owes it any more. What a member was told of is never rewritten
 * or taken away. Loop thread. */
#ifndef LOAN_H
#define LOAN_H

#include <stdbool.h>
#include <stdint.h>

#include "feed/feed.h"

struct group;
struct session;

enum loan_state { /* of a batch, to one member */
                  LOAN_NONE,
                  LOAN_DUE,  /* not told of yet */
                  LOAN_TOLD, /* announced */
                  LOAN_HELD, /* taken in this pass */
                  LOAN_KEPT, /* taken, and no step of this pass: it is of before another epoch was
                                chosen, or served again */
};

struct loan { /* of one slot */
    struct feed_batch batch;
    char *failure;  /* bad_samples: fail; NULL = the batch is there */
    bool out, held; /* ready and not free again; taken by a member */
    uint64_t since; /* ns: it is ready, or held; 0: since before the recording (base/trace) */
    bool replay;    /* it is served again (control/replay.h) */
    uint32_t owing; /* members that have it to come or to give back */
};

/* A batch is ready, or has failed. */
void loan_ready(struct group *group, const struct feed_batch *batch, const char *failure);
/* The member, STREAMING from now on, is told of all batches from this place on. */
void loan_begin(struct session *session, struct feed_place place);
/* There is a batch for it to take. */
bool loan_is_told(const struct session *session);
/* Slots that nobody owes may be free again, or be served again. */
void loan_look(struct group *group);
/* It leaves, others are left: it owes nothing any more. */
void loan_end(struct session *session);

/* What a member says; -EINVAL: the slot is not its to name. */
int loan_take(struct session *session, uint32_t slot, uint64_t generation);
int loan_release(struct session *session, uint32_t slot, uint64_t generation);
/* The sole member chooses an epoch; returns the number of batches dropped. */
uint32_t loan_seek(struct session *session, uint64_t epoch);

/* Batches pass the member by from now on, those too that it was not told of yet, until it takes or
 * gives back one. */
void loan_pass_by(struct session *session);

#endif
