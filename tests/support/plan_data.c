#include "plan_data.h"

#include "base/mem.h"
#include "base/philox.h"

static uint64_t records_of(const void *context, uint32_t shard)
{
    return ((const struct plan_data *)context)->shards[shard].records;
}

static uint64_t span_of(const void *context, uint32_t shard, uint64_t first, uint64_t count)
{
    const uint64_t *before = ((const struct plan_data *)context)->shards[shard].before;
    return before[first + count] - before[first];
}

static uint64_t bytes_of(const void *context, uint32_t shard)
{
    return span_of(context, shard, 0, records_of(context, shard));
}

struct plan_data *plan_data_new(uint32_t shards)
{
    struct plan_data *data = mem_new(sizeof *data);
    data->shards = mem_array(shards, sizeof *data->shards);
    data->source = (struct plan_source){shards, records_of, bytes_of, span_of, data};
    return data;
}

void plan_data_shard(struct plan_data *data, uint32_t shard, uint64_t records,
                     const uint64_t *sizes, uint64_t each)
{
    uint64_t *before = mem_array(records + 1, sizeof *before);
    for (uint64_t i = 0; i < records; i++)
        before[i + 1] = before[i] + (sizes ? sizes[i] : each);
    data->shards[shard] = (struct plan_data_shard){records, before};
}

struct plan_data *plan_data_random(uint64_t seed, uint32_t shards, uint64_t most, uint64_t mean)
{
    struct plan_data *data = plan_data_new(shards);
    struct philox stream;
    philox_start(&stream, seed, PHILOX_DRAW, 0, 0, 0);
    cleanup_free uint64_t *sizes = mem_array(most + 1, sizeof *sizes);
    for (uint32_t shard = 0; shard < shards; shard++) {
        uint64_t records = philox_below(&stream, most + 1);
        for (uint64_t i = 0; i < records; i++)
            sizes[i] = philox_below(&stream, 2 * mean + 1);
        plan_data_shard(data, shard, records, sizes, 0);
    }
    return data;
}

uint64_t plan_data_records(const struct plan_data *data)
{
    uint64_t records = 0;
    for (uint32_t shard = 0; shard < data->source.shards; shard++)
        records += data->shards[shard].records;
    return records;
}

uint64_t plan_data_number(const struct plan_data *data, struct plan_place place)
{
    uint64_t number = place.record;
    for (uint32_t shard = 0; shard < place.shard; shard++)
        number += data->shards[shard].records;
    return number;
}

void plan_data_free(struct plan_data *data)
{
    if (!data)
        return;
    for (uint32_t shard = 0; shard < data->source.shards; shard++)
        free(data->shards[shard].before);
    free(data->shards);
    free(data);
}
