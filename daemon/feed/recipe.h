/* What all parts of one feed share and none changes: how its batches are made. */
#ifndef RECIPE_H
#define RECIPE_H

#include "feed/delay.h"
#include "feed/feed.h"
#include "feed/layout.h"
#include "feed/tally.h"
#include "store/plan.h"

struct recipe {
    const struct feed_spec *spec;
    struct dataset *dataset;
    struct layout layout;
    struct plan_source source;
    struct plan_settings order;
    struct delay delay;
    uint32_t rank, world, batch;
    uint64_t start_epoch, start_position;
    uint64_t record_limit; /* bytes of one record beyond which it is BAD-SIZE */
    struct tally *tally;
};

/* The data set as the planner sees it. */
struct plan_source recipe_source(const struct dataset *dataset);
/* Lanes of the order: the plan has one with shuffle 0. */
uint32_t recipe_lanes(const struct feed_spec *spec);
struct steps recipe_steps(const struct recipe *recipe, uint64_t epoch);

#endif
