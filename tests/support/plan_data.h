/* Data sets of given record sizes, in memory, as the plan sees them. */
#ifndef PLAN_DATA_H
#define PLAN_DATA_H

#include "store/plan.h"

struct plan_data_shard {
    uint64_t records;
    uint64_t *before; /* bytes of the records before each of them; records + 1 of them */
};

struct plan_data {
    struct plan_data_shard *shards;
    struct plan_source source;
};

struct plan_data *plan_data_new(uint32_t shards);
/* Fills in one shard; sizes may be NULL, for all records of `each` bytes. */
void plan_data_shard(struct plan_data *data, uint32_t shard, uint64_t records,
                     const uint64_t *sizes, uint64_t each);
/* Shards of pseudo-random record numbers in [0, most] and sizes around `mean`. */
struct plan_data *plan_data_random(uint64_t seed, uint32_t shards, uint64_t most, uint64_t mean);
uint64_t plan_data_records(const struct plan_data *data);
/* Number of a place in listed order. */
uint64_t plan_data_number(const struct plan_data *data, struct plan_place place);
void plan_data_free(struct plan_data *data);

#endif
