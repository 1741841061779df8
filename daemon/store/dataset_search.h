/* Records of a data set by key, also those that are not in the plan. All threads. */
#ifndef DATASET_SEARCH_H
#define DATASET_SEARCH_H

#include "store/dataset.h"

struct dataset_hit {
    uint64_t id; /* sample id */
    uint32_t shard;
    uint32_t number; /* in the index of the shard */
    const char *key;
    uint64_t offset; /* of its first part */
    bool planned;
    uint64_t record;    /* of the plan's records of the shard, where it is planned */
    const char *reason; /* else: why it is not */
};
/* The first record of a shard from number `from` on whose key matches; false: there is none. */
bool dataset_search(const struct dataset *dataset, uint32_t shard, uint32_t from,
                    bool (*matches)(const char *key, const void *context), const void *context,
                    struct dataset_hit *out);

#endif
