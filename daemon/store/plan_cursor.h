/* Looks up many places of one plan, which must outlive it: the permutation of the block that was
 * asked for last is kept, so that it is fast where neighbours in the asking are of one block. One
 * thread. */
#ifndef PLAN_CURSOR_H
#define PLAN_CURSOR_H

#include "store/plan.h"

struct plan_cursor;

struct plan_cursor *plan_cursor_new(const struct plan *plan); /* NULL: no memory for a block */
void plan_cursor_free(struct plan_cursor *cursor);            /* NULL is fine */
/* O[i], as plan_at. */
struct plan_place plan_cursor_at(struct plan_cursor *cursor, uint64_t i);
/* The places of O[first] .. O[first + count - 1] to out; each block is permuted once. Past the end
 * of O nothing. */
void plan_cursor_window(struct plan_cursor *cursor, uint64_t first, uint64_t count,
                        struct plan_place *out);
/* The i with O[i] = place, which is one of the plan. Takes O(K + runs). */
uint64_t plan_cursor_find(struct plan_cursor *cursor, struct plan_place place);

#endif
