/* The states of a client's slots.
 *
 *   RESERVING -> FREE -> FILLING -> READY -> HELD -> FREE
 *                          |           \-> FREE (dropped: another epoch was chosen)
 *                          \-> FREE (failed or dropped)
 *
 * A slot is never written between READY and its release. States and generations live here, in the
 * daemon's heap; nothing that a client can write is read back. One small mutex; reader, workers and
 * loop thread. */
#ifndef SLOTS_H
#define SLOTS_H

#include <stdbool.h>
#include <stdint.h>

enum slot_state { SLOT_RESERVING, SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_HELD };

struct slots;

struct slots_count {
    uint32_t by_state[SLOT_HELD + 1];
};

struct slots *slots_new(uint32_t count);
void slots_free(struct slots *slots);

void slots_reserved(struct slots *slots, uint32_t slot); /* RESERVING -> FREE */
/* Blocks until a slot is FREE and makes it FILLING with a new generation; -ECANCELED after
 * slots_cancel; -EAGAIN once after slots_nudge where there is none. */
int slots_take(struct slots *slots, uint32_t *slot);
void slots_cancel(struct slots *slots); /* wakes the reader for good */
void slots_interrupt(struct slots *slots,
                     bool on);         /* slots_take returns -EINTR while on: the reader has news */
void slots_nudge(struct slots *slots); /* whoever waits in slots_take has something else to do */

uint64_t slots_generation(struct slots *slots, uint32_t slot);
void slots_ready(struct slots *slots, uint32_t slot); /* FILLING -> READY */
void slots_drop(struct slots *slots, uint32_t slot);  /* FILLING or READY -> FREE */
/* READY -> HELD, HELD or READY -> FREE, by a client: -EINVAL when state or generation do not fit.
 */
int slots_hold(struct slots *slots, uint32_t slot, uint64_t generation);
int slots_release(struct slots *slots, uint32_t slot, uint64_t generation);
/* A batch READY or HELD is HELD under a new generation, which is returned. */
uint64_t slots_renew(struct slots *slots, uint32_t slot);
struct slots_count slots_count(struct slots *slots);
/* Of them READY; without a lock. */
uint32_t slots_count_ready(const struct slots *slots);

#endif
