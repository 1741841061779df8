#include "store/plan.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/philox.h"
#include "store/deal.h"
#include "store/runs.h"

struct plan {
    struct runs runs;
    uint64_t seed;
    uint64_t epoch;
    uint64_t block;
    uint32_t lanes;
    uint32_t *order;      /* run numbers in the order of S */
    uint64_t *start;      /* place in S at which each of them begins */
    uint64_t *lane_start; /* place in S at which each lane begins */
};

uint64_t plan_records(const struct plan *plan)
{
    return plan->runs.records;
}

uint32_t plan_lanes(const struct plan *plan)
{
    return plan->lanes;
}

uint64_t plan_block(const struct plan *plan)
{
    return plan->block;
}

uint32_t plan_runs(const struct plan *plan)
{
    return plan->runs.count;
}

uint64_t plan_lane_records(const struct plan *plan, uint32_t lane)
{
    uint64_t records = plan->runs.records;
    return records / plan->lanes + (lane < records % plan->lanes);
}

static uint32_t *listed_order(uint32_t count)
{
    uint32_t *order = malloc(((size_t)count + 1) * sizeof *order);
    for (uint32_t i = 0; order && i < count; i++)
        order[i] = i;
    return order;
}

static int lay_runs(struct plan *plan, bool shuffled)
{
    uint32_t count = plan->runs.count;
    plan->order = shuffled ? deal_runs(&plan->runs, plan->seed, plan->epoch, plan->lanes)
                           : listed_order(count);
    plan->start = malloc(((size_t)count + 1) * sizeof *plan->start);
    if (!plan->order || !plan->start)
        return -1;
    uint64_t place = 0;
    for (uint32_t i = 0; i < count; i++) {
        plan->start[i] = place;
        place += runs_span(&plan->runs, plan->order[i]).records;
    }
    return 0;
}

static int lay_lanes(struct plan *plan)
{
    cleanup_free uint32_t *order = listed_order(plan->lanes);
    plan->lane_start = malloc((size_t)plan->lanes * sizeof *plan->lane_start);
    if (!order || !plan->lane_start)
        return -1;
    struct philox stream;
    philox_start(&stream, plan->seed, PHILOX_LANES, plan->epoch, 0, 0);
    philox_permute(&stream, order, plan->lanes);
    uint64_t place = 0;
    for (uint32_t i = 0; i < plan->lanes; i++) {
        plan->lane_start[order[i]] = place;
        place += plan_lane_records(plan, order[i]);
    }
    return 0;
}

/* K, cut down to the longest lane (lane 0): a longer block permutes no more records. */
static uint64_t block_records(const struct plan *plan, uint64_t shuffle)
{
    uint64_t block = shuffle / plan->lanes + (shuffle % plan->lanes != 0);
    uint64_t longest = plan_lane_records(plan, 0);
    if (block > longest)
        block = longest;
    return block ? block : 1;
}

struct plan *plan_new(const struct plan_source *source, const struct plan_settings *settings,
                      uint64_t epoch)
{
    struct plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    bool shuffled = settings->shuffle > 0;
    plan->seed = settings->seed;
    plan->epoch = epoch;
    plan->lanes = shuffled ? settings->lanes : 1;
    int rc = runs_cut(&plan->runs, source, plan->lanes);
    if (rc == 0) {
        plan->block = block_records(plan, settings->shuffle);
        rc = plan->block > UINT32_MAX || lay_runs(plan, shuffled) < 0 || lay_lanes(plan) < 0;
    }
    if (rc == 0)
        return plan;
    plan_free(plan);
    return NULL;
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    runs_drop(&plan->runs);
    free(plan->order);
    free(plan->start);
    free(plan->lane_start);
    free(plan);
}

/* The last run that does not begin after this place of S. */
static uint32_t run_at(const struct plan *plan, uint64_t place)
{
    uint32_t low = 0;
    uint32_t high = plan->runs.count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (plan->start[middle] <= place)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct plan_place plan_lane_run(const struct plan *plan, uint32_t lane, uint64_t x,
                                uint64_t *follow)
{
    uint64_t place = plan->lane_start[lane] + x;
    uint32_t at = run_at(plan, place);
    struct runs_span span = runs_span(&plan->runs, plan->order[at]);
    uint64_t in_run = place - plan->start[at];
    uint64_t in_lane = plan_lane_records(plan, lane) - x;
    *follow = span.records - in_run < in_lane ? span.records - in_run : in_lane;
    return (struct plan_place){span.shard, span.first + in_run};
}

struct plan_place plan_lane_at(const struct plan *plan, uint32_t lane, uint64_t x)
{
    uint64_t follow;
    return plan_lane_run(plan, lane, x, &follow);
}

uint32_t plan_permutation(const struct plan *plan, uint32_t lane, uint64_t block, uint32_t *out)
{
    uint64_t records = plan_lane_records(plan, lane);
    if (block > records / plan->block || block * plan->block == records)
        return 0;
    uint64_t left = records - block * plan->block;
    uint32_t count = (uint32_t)(left < plan->block ? left : plan->block);
    for (uint32_t i = 0; i < count; i++)
        out[i] = i;
    struct philox stream;
    philox_start(&stream, plan->seed, PHILOX_BLOCK, plan->epoch, lane, block);
    philox_permute(&stream, out, count);
    return count;
}

struct plan_place plan_at(const struct plan *plan, uint64_t i)
{
    uint32_t lane = (uint32_t)(i % plan->lanes);
    uint64_t x = i / plan->lanes;
    if (plan->block == 1)
        return plan_lane_at(plan, lane, x);
    cleanup_free uint32_t *permutation = mem_array(plan->block, sizeof *permutation);
    uint64_t block = x / plan->block;
    plan_permutation(plan, lane, block, permutation);
    return plan_lane_at(plan, lane, block * plan->block + permutation[x % plan->block]);
}

uint64_t plan_lane_find(const struct plan *plan, struct plan_place place, uint32_t *lane)
{
    uint32_t run = runs_of(&plan->runs, place.shard, place.record);
    uint32_t at = 0, in = 0;
    while (plan->order[at] != run)
        at++;
    uint64_t in_s = plan->start[at] + place.record - runs_span(&plan->runs, run).first;
    while (in_s < plan->lane_start[in] ||
           in_s - plan->lane_start[in] >= plan_lane_records(plan, in))
        in++;
    *lane = in;
    return in_s - plan->lane_start[in];
}

void plan_id(const char *fingerprint, const struct plan_settings *settings, const char *tail,
             char out[17])
{
    cleanup_free char *text = mem_format(
        "order %d fingerprint %s seed %" PRIu64 " shuffle %" PRIu64 " lanes %" PRIu32 " tail %s",
        PLAN_ORDER_VERSION, fingerprint, settings->seed, settings->shuffle, settings->lanes, tail);
    snprintf(out, 17, "%016" PRIx64, (uint64_t)XXH3_64bits(text, strlen(text)));
}
