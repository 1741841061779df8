/* Whom a group waits for. When every slot has a batch that members owe, none can be filled: those
 * that owe the oldest one hold up whoever has taken all there is. Loop thread. */
#ifndef LAG_H
#define LAG_H

#include <stdbool.h>
#include <stdint.h>

struct group;
struct session;

struct lag {             /* of a group */
    uint64_t generation; /* of the batch that all wait for to be given back; 0 = none */
    uint64_t since;      /* ns */
};

/* Who owes it; NULL: nobody is waited for. */
const struct session *lag_holder(const struct group *group);
/* This member has taken all there is. */
bool lag_idle(const struct session *session);
/* Once a second. */
void lag_tick(struct group *group, uint64_t now);

#endif
