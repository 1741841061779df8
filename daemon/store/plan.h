/* The order O of one epoch: a pure function of (runs of the data set, seed, epoch, shuffle, lanes).
 * Knows no files and no threads. docs/order.md is the definition. Memory grows with shards and
 * runs, not records. */
#ifndef PLAN_H
#define PLAN_H

#include <stdint.h>

#define PLAN_ORDER_VERSION 1
#define PLAN_LANES_DEFAULT 64
#define PLAN_LANES_MAX 65536

/* The data set as the plan sees it; must outlive the plan. */
struct plan_source {
    uint32_t shards;
    uint64_t (*records)(const void *context, uint32_t shard);
    uint64_t (*bytes)(const void *context, uint32_t shard);
    uint64_t (*span_bytes)(const void *context, uint32_t shard, uint64_t first, uint64_t count);
    const void *context;
};

struct plan_settings {
    uint64_t seed;
    uint64_t shuffle; /* records held for the whole job; 0 = listed order */
    uint32_t lanes;
};

struct plan_place {
    uint32_t shard;
    uint64_t record; /* j of the plan's records of the shard */
};

struct plan;

/* The order of one epoch; NULL where memory is short. */
struct plan *plan_new(const struct plan_source *source, const struct plan_settings *settings,
                      uint64_t epoch);
void plan_free(struct plan *plan);

uint64_t plan_records(const struct plan *plan); /* N */
uint32_t plan_lanes(const struct plan *plan);   /* L: 1 with shuffle 0 */
uint64_t plan_block(const struct plan *plan);   /* K: records of a block of a lane */
uint32_t plan_runs(const struct plan *plan);
uint64_t plan_lane_records(const struct plan *plan, uint32_t lane);

/* O[i], 0 <= i < N: one permutation of a block (O(K)) and one search among the runs. */
struct plan_place plan_at(const struct plan *plan, uint64_t i);
/* The same in two steps, for readers that keep a block's permutation: record x of a lane as it lies
 * in S, before the blocks are shuffled ... */
struct plan_place plan_lane_at(const struct plan *plan, uint32_t lane, uint64_t x);
/* The same for x and those after it: in `follow` how many, with x, follow one another in the shard
 * and in the lane. */
struct plan_place plan_lane_run(const struct plan *plan, uint32_t lane, uint64_t x,
                                uint64_t *follow);
/* ... and the permutation of a block: emitted record b*K + e of the lane is record b*K + out[e] of
 * it as it lies in S. out has room for K; returns the number of records in the block (0 past the
 * end). */
uint32_t plan_permutation(const struct plan *plan, uint32_t lane, uint64_t block, uint32_t *out);
/* The inverse of plan_lane_at: the lane of a place of the plan, and x. Takes O(runs). */
uint64_t plan_lane_find(const struct plan *plan, struct plan_place place, uint32_t *lane);

/* 16 hex digits over fingerprint, settings, tail and the version of this text. */
void plan_id(const char *fingerprint, const struct plan_settings *settings, const char *tail,
             char out[17]);

#endif
