/* Accounts of something that is shared by weight among users, by weight among the jobs of each
 * user, and alike among the streams of a job: what each has had. Whoever has had least for his
 * weight comes first. Nobody saves up: who asked for little in the past is behind the others by no
 * more than the credit.
 *
 * What it is that is shared, its owner knows (time of workers, bytes of a storage); its lock guards
 * the tree. */
#ifndef SHARE_TREE_H
#define SHARE_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "feed/shares.h"

struct share { /* of a stream, a job, a user; of the whole, which has no parent */
    /* What a look needs is one cache line. */
    struct share *parent;
    double had; /* for its weight */
    uint32_t weight;
    uint32_t running; /* parts begun and not ended */
    uint32_t limit;   /* of a user: parts that may run; 0 = all */
    uint32_t waiting; /* of a user, kept by the owner of the tree: parts that wait */
    /* Of those below it: */
    double least;  /* had, of those that want something, in this look: */
    uint64_t look; /* the number of it */
    double credit; /* as a difference in what they have had */
    double front;  /* what the one served last had had when it was served */
    struct share *first;
    struct share *next; /* beside it */
    uint64_t key;       /* number of the job, or of the user */
    uint64_t used_at;   /* of a user, kept by the owner of the tree */
};

struct share_tree {
    struct share whole;
    double credit;
    uint64_t looks;
};

void share_tree_init(struct share_tree *tree, double credit);
/* Makes the share of a stream; zeros are weights of 1. */
void share_join(struct share_tree *tree, struct share *stream, const struct share_terms *terms);
void share_leave(struct share_tree *tree, struct share *stream); /* nothing of it runs */
/* Other terms, whatever runs. */
void share_set_terms(struct share_tree *tree, struct share *stream,
                     const struct share_terms *terms);

static inline struct share *share_user(const struct share *stream)
{
    return stream->parent->parent;
}

/* So much is given to the stream, by a guess; share_end corrects it by the difference. */
void share_begin(struct share *stream, double amount);
void share_end(struct share *stream, double more);
/* Parts that its user may begin now. */
static inline uint32_t share_room(const struct share *stream)
{
    const struct share *user = share_user(stream);
    if (!user->limit)
        return UINT32_MAX;
    return user->limit > user->running ? user->limit - user->running : 0;
}

/* A look at all that want something: first each is named, then they are compared. */
static inline void share_look(struct share_tree *tree)
{
    tree->looks++;
}
void share_wants(struct share_tree *tree, struct share *stream);
/* Its user and its job have had no more than the credit over the one that had least. */
bool share_is_fair(const struct share *stream);
/* Whether a has had less than b: its user, else its job, else itself. */
bool share_before(const struct share *a, const struct share *b);

#endif
