#include <inttypes.h>

#include "feed/feed_parts.h"
#include "feed/ferry.h"
#include "feed/shuffle.h"

/* A batch of small records need not be fetched bit by bit. */
#define FLOOR_BATCH_MAX (8ULL << 20)
/* Share of memory that one encoded record may take. */
#define RECORD_SHARE 8

int feed_layout(const struct feed_spec *spec, const struct dataset *dataset, uint32_t batch,
                struct dlp_layout *out, struct error *err)
{
    struct layout layout;
    int code = layout_make(spec, dataset, batch, &layout, err);
    if (code == 0)
        *out = layout.wire;
    return code;
}

uint64_t feed_mean_bytes(const struct dataset *dataset)
{
    uint64_t records = dataset_records(dataset);
    return records ? dataset_bytes(dataset) / records + 1 : 1;
}

static uint64_t largest_record(const struct feed_spec *spec, const struct dataset *dataset)
{
    uint64_t largest = 0;
    for (uint32_t f = 0; f < spec->nfields; f++)
        if (__builtin_add_overflow(largest, dataset_part_max(dataset, f), &largest))
            return UINT64_MAX;
    return largest;
}

uint64_t feed_floor(const struct feed_spec *spec, const struct dataset *dataset, uint32_t batch,
                    const struct budget *budget, uint64_t *limit)
{
    uint64_t rows = batch * sample_charge(feed_mean_bytes(dataset), spec->nfields);
    uint64_t largest = largest_record(spec, dataset);
    *limit = budget_limit(budget) / RECORD_SHARE;
    if (largest > *limit)
        largest = *limit;
    if (rows > FLOOR_BATCH_MAX)
        rows = FLOOR_BATCH_MAX;
    largest = sample_charge(largest, spec->nfields);
    return rows > largest ? rows : largest;
}

/* Of a rank: of each lane it touches a block and what is read beyond it, at most all of the lane in
 * this epoch and the next; and the batches that wait for decoding. */
static uint64_t shuffle_bytes(const struct feed_spec *spec, const struct dataset *dataset,
                              const struct steps *steps, uint32_t slots, double factor)
{
    uint64_t lanes = (uint64_t)(factor * steps->lanes / steps->world + 0.999);
    uint64_t lane = steps->records / steps->lanes + 1;
    uint64_t block = spec->shuffle / steps->lanes + 1;
    if (block > lane)
        block = lane;
    uint64_t mean = sample_charge(feed_mean_bytes(dataset), spec->nfields);
    uint64_t held = block * mean + SHUFFLE_CHUNK + SHUFFLE_DEPTH / (lanes ? lanes : 1);
    if (held > 2 * lane * mean)
        held = 2 * lane * mean;
    return (lanes ? lanes : 1) * held + (uint64_t)slots * steps->batch * mean;
}

int feed_memory(const struct feed_spec *spec, const struct dataset *dataset, uint32_t world,
                uint32_t batch, uint32_t slots, struct feed_memory *out, struct error *err)
{
    struct steps steps = {.records = dataset_records(dataset),
                          .lanes = recipe_lanes(spec),
                          .world = world,
                          .batch = batch,
                          .tail = spec->tail};
    struct dlp_layout layout;
    int code = steps_check(&steps, err);
    if (code)
        return code;
    code = feed_layout(spec, dataset, batch, &layout, err);
    if (code)
        return code;
    uint32_t lanes;
    uint32_t rows;
    *out = (struct feed_memory){.slot_bytes = layout.slot_bytes,
                                .lane_factor = steps_lane_factor(&steps, &lanes, &rows)};
    out->staging = ferry_staging_bytes(slots, layout.slot_bytes);
    out->shuffle = shuffle_bytes(spec, dataset, &steps, slots, out->lane_factor);
    if (__builtin_mul_overflow(layout.slot_bytes, slots, &out->arena))
        return error_set(err, -EINVAL,
                         "feed %s: %" PRIu32 " slots of %" PRIu64
                         " bytes are too large: lower batch",
                         spec->name, slots, layout.slot_bytes);
    return 0;
}
