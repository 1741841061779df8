/* The memory budget of the daemon: what input can size is taken here before it is allocated. Any
 * thread. Limits come from the configuration and the room under every cgroup above us (v1, v2). */
#ifndef BUDGET_H
#define BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/system.h"

enum budget_use {
    BUDGET_SLOTS,
    BUDGET_SHUFFLE,  /* encoded records held or in flight, read chunks */
    BUDGET_DECODE,   /* decode scratch */
    BUDGET_ORPHANED, /* arenas of ended mirror groups that somebody still maps */
    BUDGET_TRACE,    /* a recording */
    BUDGET_USES
};

struct budget;

/* limit: bytes, 0 = half of system_memory(). decode_limit: 0 = 1/8 of the limit; never above it. */
struct budget *budget_new(uint64_t limit, uint64_t decode_limit);
void budget_free(struct budget *budget);
/* Takes bytes or says why not (-ENOMEM, text with asked, used, limit, and the setting to change).
 */
int budget_take(struct budget *budget, enum budget_use use, uint64_t bytes, struct error *err);
bool budget_try(struct budget *budget, enum budget_use use,
                uint64_t bytes); /* the same without text */
void budget_give(struct budget *budget, enum budget_use use, uint64_t bytes);
/* What was taken for one use is used for another from now on. */
void budget_move(struct budget *budget, enum budget_use from, enum budget_use to, uint64_t bytes);
/* Somebody waits for memory (counted; undone by budget_relax): who holds some ahead of need gives
 * it back and takes none until all have what they waited for. */
void budget_press(struct budget *budget);
void budget_relax(struct budget *budget);
bool budget_pressed(const struct budget *budget);
uint64_t budget_limit(const struct budget *budget);
/* Another limit from now on, 0 = half of system_memory(), but no less than what is used. The decode
 * limit stays. */
void budget_set_limit(struct budget *budget, uint64_t limit);
uint64_t budget_decode_limit(const struct budget *budget);
uint64_t budget_used(const struct budget *budget, enum budget_use use); /* BUDGET_USES: all */

#endif
