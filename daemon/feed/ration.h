/* The memory that the encoded records of one feed may take, out of the daemon's budget
 * (BUDGET_SHUFFLE). A floor is taken at the start: records of the batch in the making fall back on
 * it, so a feed goes on, if slowly, while others have all of the rest. Any thread. */
#ifndef RATION_H
#define RATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"

enum ration_use {
    RATION_NOW,   /* for the batch in the making */
    RATION_AHEAD, /* for later ones: within cap, never from the floor, not under budget_press */
};

enum ration_from { RATION_BUDGET, RATION_FLOOR };

struct ration;

/* -ENOMEM where the budget lacks the floor. */
int ration_new(struct budget *budget, uint64_t floor, uint64_t cap, struct ration **out,
               struct error *err);
void ration_free(struct ration *ration); /* all is given back by then */
/* False: no room now. *from is to be handed to ration_give. */
bool ration_take(struct ration *ration, uint64_t bytes, enum ration_use use,
                 enum ration_from *from);
void ration_give(struct ration *ration, uint64_t bytes, enum ration_from from);
/* The same for memory that was taken and could not be used: no news, so that who then waits for
 * memory does wait. */
void ration_give_unused(struct ration *ration, uint64_t bytes, enum ration_from from);
/* Returns when something was given back since the last call, or ration_wake was called, at the
 * latest after ns. */
void ration_wait(struct ration *ration, uint64_t ns);
void ration_wake(struct ration *ration);
uint64_t ration_used(struct ration *ration);
bool ration_pressed(const struct ration *ration); /* what is held ahead is to be given back */

#endif
