#include "feed/recipe.h"

static uint64_t shard_records(const void *context, uint32_t shard)
{
    return dataset_shard_records(context, shard);
}

static uint64_t shard_bytes(const void *context, uint32_t shard)
{
    return dataset_shard_bytes(context, shard);
}

static uint64_t span_bytes(const void *context, uint32_t shard, uint64_t first, uint64_t count)
{
    return dataset_span_bytes(context, shard, first, count);
}

struct plan_source recipe_source(const struct dataset *dataset)
{
    return (struct plan_source){.shards = dataset_shards(dataset),
                                .records = shard_records,
                                .bytes = shard_bytes,
                                .span_bytes = span_bytes,
                                .context = dataset};
}

uint32_t recipe_lanes(const struct feed_spec *spec)
{
    return spec->shuffle ? spec->lanes : 1;
}

struct steps recipe_steps(const struct recipe *recipe, uint64_t epoch)
{
    return (struct steps){.records = dataset_records(recipe->dataset),
                          .start = epoch == recipe->start_epoch ? recipe->start_position : 0,
                          .lanes = recipe_lanes(recipe->spec),
                          .world = recipe->world,
                          .batch = recipe->batch,
                          .tail = recipe->spec->tail};
}
