/* The question how well an epoch is mixed, answered from the plan alone: what the first batches
 * hold against the whole set, by class and by region of storage, and what would help. Blocks (it
 * may read labels); any thread. */
#ifndef MIX_CHECK_H
#define MIX_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "feed/spec.h"
#include "store/plan.h"
#include "store/steps.h"

#define MIX_BATCHES 20U         /* looked at */
#define MIX_ROWS_MAX (1U << 18) /* of these, and records that stand for the whole set */
#define MIX_REGIONS_MAX 64U     /* equal parts of the storage, in listed order */
#define MIX_CLASSES_SHOWN 20U
#define MIX_SLACK 0.05 /* further than a true shuffle may come: what nobody needs to know */
#define MIX_NOTES_MAX 6
#define MIX_NOTE_MAX 500

struct mix_question {
    const struct feed_spec *spec;
    const struct dataset *dataset;
    struct plan_settings order;
    struct steps steps;
    uint64_t epoch;
    const _Atomic bool *cancel;
    _Atomic uint64_t *done; /* labels read so far */
};

/* Total variation distances, and their means over true shuffles of the whole set. */
struct mix_measure {
    double batch, batch_shuffled; /* of one batch: means over the batches */
    double all, all_shuffled;     /* of all these batches together */
    bool poor;                    /* MIX_SLACK further than 99 of 100 true shuffles */
};

struct mix_class {
    int64_t label;
    double share, share_batches;
};

struct mix_answer {
    uint64_t records, batches, rows;
    uint64_t labels;     /* of the records that stand for the whole set; 0 = there are none */
    uint64_t classes;    /* met in them */
    uint64_t unlabelled; /* records and rows looked at without a good label */
    struct mix_measure by_class, by_region;
    uint32_t regions;
    double narrow; /* share of the regions that holds nine tenths of a batch, mean */
    double neighbours, neighbours_shuffled;
    struct mix_class mix[MIX_CLASSES_SHOWN]; /* that differ most, by label */
    uint32_t nmix;
    char notes[MIX_NOTES_MAX][MIX_NOTE_MAX]; /* what is wrong, and what helps */
    uint32_t nnotes;
};

/* -ECANCELED, -ENOMEM. */
int mix_check(const struct mix_question *question, struct mix_answer *out, struct error *err);

#endif
