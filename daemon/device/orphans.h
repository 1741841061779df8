/* The memory of shared arenas that have ended: as long as a process has such a file open or mapped
 * its pages are there, so its bytes stay in the budget, as BUDGET_ORPHANED. One list for the
 * daemon. Any thread. */
#ifndef ORPHANS_H
#define ORPHANS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/budget.h"

struct orphans;

struct orphans *orphans_new(struct budget *budget);
/* At the end of the daemon: gives all back, mapped or not. */
void orphans_free(struct orphans *orphans);
/* Takes over bytes of BUDGET_SLOTS and probe, a read-only opening of the file: the only one that is
 * left on our side; it counts for this user. Given back at once where nobody else has the file. */
void orphans_adopt(struct orphans *orphans, int probe, uint64_t bytes, uid_t uid);
uint64_t orphans_bytes(struct orphans *orphans, uid_t uid); /* of this user */
/* Gives back what nobody has any more; true if there was any. Frees memory, which takes its time:
 * not for the loop thread. */
bool orphans_poll(struct orphans *orphans);

#endif
