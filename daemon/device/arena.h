/* The memory of all slots of one feed: a sealed memfd, mapped by the one client of it, who may
 * write, or by the members of a mirror group, who may only read. Made, reserved and freed on a
 * helper thread (150 ms for 154 MiB); rows are written by the workers. */
#ifndef ARENA_H
#define ARENA_H

#include <stdint.h>
#include <sys/types.h>

#include "base/budget.h"
#include "base/error.h"
#include "device/orphans.h"

struct arena;

/* Address space and a memfd of slots * slot_bytes, sealed against shrink, grow and further seals;
 * no memory yet. The whole size is taken from the budget (BUDGET_SLOTS), and compared with what the
 * machine has free. orphans: NULL for the arena of one client; given, it is a shared one, sealed
 * against all writing but by our own mapping. */
int arena_new(struct budget *budget, struct orphans *orphans, uint32_t slots, uint64_t slot_bytes,
              struct arena **out, struct error *err);
/* Before the first reservation: its pages are to lie on this NUMA node, where it has room. What the
 * system refuses is left as it was. */
void arena_prefer(struct arena *arena, int node);
/* Reserves and touches the pages of one slot, so that no later write can fail. */
int arena_reserve(struct arena *arena, uint32_t slot, struct error *err);
/* The bytes stay as they are when the arena is freed: for a daemon that ends while its peer lives
 * on and may still read what it holds. */
void arena_keep(struct arena *arena);
/* Of a shared one, before it is freed: the user for whom it counts while others map it still. */
void arena_set_owner(struct arena *arena, uid_t uid);
/* Punches the whole file out (a peer that still maps it holds no memory), unmaps, gives the budget
 * back. A shared arena has no file that could be punched out: the orphans see to its budget. */
void arena_free(struct arena *arena);

int arena_fd(const struct arena *arena); /* for peers, borrowed; of a shared arena read-only */
uint8_t *arena_slot(const struct arena *arena, uint32_t slot);

#endif
