/* Where the batches of a feed are written before they are copied to GPUs: a ring of slots of host
 * memory that no client ever sees, pinned for all GPUs and on the NUMA node of the first one. Its
 * slots have the states of slots.h: FREE -> FILLING, and FREE again when all copies of them have
 * ended. */
#ifndef STAGING_H
#define STAGING_H

#include <stdbool.h>

#include "base/budget.h"
#include "device/slots.h"
#include "device/uploader.h"

/* One is filled, one is copied, one is at hand. */
#define STAGING_SLOTS 3U

struct staging;

/* Address space for the slots, and their bytes taken from the budget (BUDGET_SLOTS). The uploader
 * is held by the caller. -ENOMEM. */
int staging_new(struct budget *budget, struct uploader *uploader, uint32_t slots,
                uint64_t slot_bytes, struct staging **out, struct error *err);
/* Touches the pages of a slot and pins them; it is FREE then. Where pinning fails it stays as it
 * is, with a warning: copies from it are slow and hold up others. Helper thread. -ENOMEM. */
int staging_reserve(struct staging *staging, uint32_t slot, struct error *err);
/* A GPU that is lost may read this slot's memory still: it stays, in the budget too. Any thread. */
void staging_give_up(struct staging *staging, uint32_t slot);
bool staging_is_given_up(const struct staging *staging, uint32_t slot);
/* Other memory for such a slot, which is FILLING, pinned through this uploader. Blocks. -ENOMEM:
 * the slot is as it was. */
int staging_renew(struct staging *staging, uint32_t slot, struct uploader *uploader,
                  struct error *err);
struct slots *staging_slots(const struct staging *staging);
uint8_t *staging_slot(const struct staging *staging, uint32_t slot);
/* No copy is under way. On a lost GPU one may be all the same: then the pages stay, and their bytes
 * in the budget. Helper thread. */
void staging_free(struct staging *staging);

#endif
