#include "store/plan_cursor.h"

#include <stdlib.h>

#include "base/mem.h"

struct plan_cursor {
    const struct plan *plan;
    uint32_t lane;
    uint64_t block; /* of the lane, UINT64_MAX: none */
    uint32_t *permutation;
};

struct plan_cursor *plan_cursor_new(const struct plan *plan)
{
    uint32_t *permutation = malloc(plan_block(plan) * sizeof *permutation);
    if (!permutation)
        return NULL;
    struct plan_cursor *cursor = mem_new(sizeof *cursor);
    *cursor = (struct plan_cursor){.plan = plan, .block = UINT64_MAX, .permutation = permutation};
    return cursor;
}

void plan_cursor_free(struct plan_cursor *cursor)
{
    if (!cursor)
        return;
    free(cursor->permutation);
    free(cursor);
}

static const uint32_t *permuted(struct plan_cursor *cursor, uint32_t lane, uint64_t block)
{
    if (cursor->lane != lane || cursor->block != block)
        plan_permutation(cursor->plan, lane, block, cursor->permutation);
    cursor->lane = lane;
    cursor->block = block;
    return cursor->permutation;
}

struct plan_place plan_cursor_at(struct plan_cursor *cursor, uint64_t i)
{
    const struct plan *plan = cursor->plan;
    uint32_t lane = (uint32_t)(i % plan_lanes(plan));
    uint64_t x = i / plan_lanes(plan), size = plan_block(plan), block = x / size;
    return plan_lane_at(plan, lane, block * size + permuted(cursor, lane, block)[x % size]);
}

void plan_cursor_window(struct plan_cursor *cursor, uint64_t first, uint64_t count,
                        struct plan_place *out)
{
    uint64_t records = plan_records(cursor->plan);
    uint32_t lanes = plan_lanes(cursor->plan);
    if (first >= records)
        return;
    if (count > records - first)
        count = records - first;
    for (uint32_t lane = 0; lane < lanes; lane++)
        for (uint64_t at = (lane + lanes - first % lanes) % lanes; at < count; at += lanes)
            out[at] = plan_cursor_at(cursor, first + at);
}

uint64_t plan_cursor_find(struct plan_cursor *cursor, struct plan_place place)
{
    const struct plan *plan = cursor->plan;
    uint32_t lane, e = 0;
    uint64_t x = plan_lane_find(plan, place, &lane), size = plan_block(plan), block = x / size;
    const uint32_t *permutation = permuted(cursor, lane, block);
    while (permutation[e] != x % size)
        e++;
    return (block * size + e) * plan_lanes(plan) + lane;
}
