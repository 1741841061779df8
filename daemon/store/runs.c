#include "store/runs.h"

#include <errno.h>
#include <stdlib.h>

#define RUN_BYTES (4ULL << 20)
#define RUNS_AIM (1ULL << 20)

typedef unsigned __int128 wide;

static wide div_up(wide a, wide b)
{
    return a / b + (a % b != 0);
}

static wide smaller(wide a, wide b)
{
    return a < b ? a : b;
}

static wide larger(wide a, wide b)
{
    return a > b ? a : b;
}

static wide unit_bytes(wide sum, uint32_t lanes)
{
    wide unit = smaller(RUN_BYTES, div_up(sum, (wide)64 * lanes));
    return larger(1, larger(unit, div_up(sum, RUNS_AIM)));
}

static uint64_t runs_of_shard(uint64_t records, uint64_t bytes, wide unit)
{
    if (records == 0)
        return 0;
    return (uint64_t)larger(1, smaller(records, div_up(bytes, unit)));
}

/* Record of a shard at which its run j begins. */
static uint64_t run_start(uint64_t records, uint32_t j, uint32_t runs)
{
    return (uint64_t)((wide)records * j / runs);
}

int runs_cut(struct runs *runs, const struct plan_source *source, uint32_t lanes)
{
    *runs = (struct runs){.source = *source};
    runs->first = malloc(((size_t)source->shards + 1) * sizeof *runs->first);
    if (!runs->first)
        return -ENOMEM;

    wide sum = 0;
    for (uint32_t shard = 0; shard < source->shards; shard++)
        sum += source->bytes(source->context, shard);
    wide unit = unit_bytes(sum, lanes);

    uint64_t count = 0;
    for (uint32_t shard = 0; shard < source->shards; shard++) {
        uint64_t records = source->records(source->context, shard);
        runs->first[shard] = (uint32_t)count;
        runs->records += records;
        count += runs_of_shard(records, source->bytes(source->context, shard), unit);
        if (count > UINT32_MAX) {
            runs_drop(runs);
            return -ENOMEM;
        }
    }
    runs->first[source->shards] = runs->count = (uint32_t)count;
    return 0;
}

void runs_drop(struct runs *runs)
{
    free(runs->first);
    runs->first = NULL;
}

/* The last shard whose first run is not after this one: shards without runs lie before it. */
static uint32_t shard_of(const struct runs *runs, uint32_t run)
{
    uint32_t low = 0;
    uint32_t high = runs->source.shards;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (runs->first[middle] <= run)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct runs_span runs_span(const struct runs *runs, uint32_t run)
{
    uint32_t shard = shard_of(runs, run);
    uint32_t j = run - runs->first[shard];
    uint32_t of = runs->first[shard + 1] - runs->first[shard];
    uint64_t records = runs->source.records(runs->source.context, shard);
    uint64_t first = run_start(records, j, of);
    return (struct runs_span){shard, first, run_start(records, j + 1, of) - first};
}

uint32_t runs_of(const struct runs *runs, uint32_t shard, uint64_t record)
{
    uint32_t low = runs->first[shard];
    uint32_t high = runs->first[shard + 1];
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (runs_span(runs, middle).first <= record)
            low = middle;
        else
            high = middle;
    }
    return low;
}
