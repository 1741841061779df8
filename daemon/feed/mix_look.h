/* The first batches of one plan, measured; private to mix_check.c. One thread. */
#ifndef MIX_LOOK_H
#define MIX_LOOK_H

#include "feed/labels.h"
#include "feed/mix_check.h"

struct mix_look {
    const struct mix_question *question;
    uint64_t *before;      /* plan's records of the shards before each; one more: of all */
    struct labels *labels; /* NULL = classes do not count */
    int64_t *set;          /* sorted: classes of the records that stand for all */
    uint64_t nset;
    double *counts; /* of each class, in all of the set */
    uint64_t nclasses;
    uint64_t batch_rows, rows, batches;
    uint32_t regions;
};

/* Fills in all but the notes; labels are read as far as they are not known. 0, -ENOMEM. */
int mix_look_at(const struct mix_look *look, const struct plan_settings *order,
                struct mix_answer *out);

#endif
