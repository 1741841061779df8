#include "store/dataset_search.h"

#include "store/dataset_own.h"

/* Faults of structure come from the index, missing parts from the choice; what has neither was left
 * out by its key. */
static const char *why_left_out(const struct dataset_shard *shard, uint32_t number)
{
    uint32_t cls = index_record(shard->index, number)->fault;
    for (uint64_t i = 0; i < shard->nfaults; i++)
        if (shard->faults[i].record == number)
            return shard->reasons.text + shard->reasons.at[shard->faults[i].reason];
    return cls ? bad_text(cls) : "its key is in the list of the setting exclude";
}

static void fill_hit(const struct dataset *dataset, uint32_t shard, uint32_t number,
                     struct dataset_hit *out)
{
    const struct dataset_shard *at = &dataset->shards[shard];
    uint64_t before = 0, high = at->nexcluded;
    while (before < high) {
        uint64_t middle = (before + high) / 2;
        if (at->excluded[middle] < number)
            before = middle + 1;
        else
            high = middle;
    }
    bool planned = before == at->nexcluded || at->excluded[before] != number;
    *out = (struct dataset_hit){.id = at->first_id + number,
                                .shard = shard,
                                .number = number,
                                .key = index_key(at->index, number),
                                .offset = index_parts(at->index, number)[0].offset,
                                .planned = planned,
                                .record = number - before,
                                .reason = planned ? "" : why_left_out(at, number)};
}

bool dataset_search(const struct dataset *dataset, uint32_t shard, uint32_t from,
                    bool (*matches)(const char *key, const void *context), const void *context,
                    struct dataset_hit *out)
{
    const struct index *index = dataset->shards[shard].index;
    for (uint32_t number = from; number < index_records(index); number++) {
        if (!matches(index_key(index, number), context))
            continue;
        fill_hit(dataset, shard, number, out);
        return true;
    }
    return false;
}
