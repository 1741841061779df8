#include "control/slice_sum.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/plural.h"
#include "feed/recipe.h"

#define BITMAP_MAX (16U << 20) /* bytes for the shards of all ranks */
#define MB 1e6

struct largest {
    uint64_t bytes;
    uint32_t rank;
    struct plan_place place;
};

struct walk {
    const struct dataset *dataset;
    const struct plan *plan;
    const struct steps *steps;
    struct slice_sum *sum;
    uint8_t *seen;      /* bit rank * shards + shard; NULL = not counted */
    uint32_t *permuted; /* room for a block */
    struct largest largest;
};

static void count_shard(struct walk *walk, struct slice_rank *rank, uint32_t number, uint32_t shard)
{
    if (!walk->seen)
        return;
    uint64_t bit = (uint64_t)number * dataset_shards(walk->dataset) + shard;
    uint8_t mask = (uint8_t)(1U << bit % 8);
    if (walk->seen[bit / 8] & mask)
        return;
    walk->seen[bit / 8] |= mask;
    rank->shards++;
}

static void count_record(struct walk *walk, uint64_t position, struct plan_place place)
{
    struct slice_sum *sum = walk->sum;
    if (position < walk->steps->start)
        return;
    if (position - walk->steps->start >=
        sum->steps * ((uint64_t)walk->steps->world * walk->steps->batch)) {
        sum->lost++;
        return;
    }
    uint32_t number = steps_row_of(walk->steps, position).rank;
    struct slice_rank *rank = &sum->ranks[number];
    uint64_t bytes = dataset_span_bytes(walk->dataset, place.shard, place.record, 1);
    rank->records++;
    rank->bytes += bytes;
    sum->records++;
    sum->bytes += bytes;
    count_shard(walk, rank, number, place.shard);
    if (bytes > walk->largest.bytes)
        walk->largest = (struct largest){bytes, number, place};
}

static int walk_lane(struct walk *walk, uint32_t lane, const _Atomic bool *cancel)
{
    uint64_t block = plan_block(walk->plan);
    uint32_t lanes = plan_lanes(walk->plan), count;
    for (uint64_t b = 0; (count = plan_permutation(walk->plan, lane, b, walk->permuted)); b++) {
        if (*cancel)
            return -ECANCELED;
        for (uint32_t e = 0; e < count; e++)
            count_record(walk, (b * block + e) * lanes + lane,
                         plan_lane_at(walk->plan, lane, b * block + walk->permuted[e]));
    }
    return 0;
}

static void describe_spread(const struct walk *walk, uint64_t least, uint64_t most)
{
    struct slice_sum *sum = walk->sum;
    const struct largest *largest = &walk->largest;
    int used = snprintf(sum->note, sizeof sum->note,
                        "the ranks wait for the one with the most bytes (%.3f MB, the least has "
                        "%.3f MB): ",
                        (double)most / MB, (double)least / MB);
    char *rest = sum->note + used;
    size_t size = sizeof sum->note - (size_t)used;
    if (sum->ranks[largest->rank].bytes == most && largest->bytes >= (most - least) / 2) {
        struct dataset_record *record = mem_new(sizeof *record);
        dataset_record(walk->dataset, largest->place.shard, largest->place.record, record);
        snprintf(rest, size, "record %s of %s alone has %.3f MB (rank %u), which cannot be shared",
                 record->key, dataset_shard_path(walk->dataset, largest->place.shard),
                 (double)largest->bytes / MB, largest->rank);
        free(record);
    } else {
        snprintf(rest, size,
                 "sizes vary by more than an epoch of %" PRIu64
                 " step%s evens out; fewer trainers, "
                 "or shards of mixed sizes (dataload-pack), help",
                 sum->steps, plural(sum->steps));
    }
}

static void conclude(const struct walk *walk)
{
    struct slice_sum *sum = walk->sum;
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t r = 0; r < sum->world; r++) {
        struct slice_rank *rank = &sum->ranks[r];
        rank->steps = steps_of_rank(walk->steps, r);
        if (walk->steps->tail == TAIL_WRAP)
            rank->repeated = rank->steps * walk->steps->batch - rank->records;
        least = rank->bytes < least ? rank->bytes : least;
        most = rank->bytes > most ? rank->bytes : most;
    }
    if (sum->bytes)
        sum->spread = (double)(most - least) * sum->world / (double)sum->bytes;
    if (sum->spread > SLICE_SPREAD_WARNING)
        describe_spread(walk, least, most);
}

static int allocate(struct walk *walk)
{
    uint64_t bits = (uint64_t)walk->sum->world * dataset_shards(walk->dataset);
    walk->sum->ranks = calloc(walk->sum->world, sizeof *walk->sum->ranks);
    walk->permuted = calloc(plan_block(walk->plan), sizeof *walk->permuted);
    if (bits / 8 < BITMAP_MAX)
        walk->seen = calloc(bits / 8 + 1, 1);
    return walk->sum->ranks && walk->permuted ? 0 : -ENOMEM;
}

int slice_sum_new(const struct dataset *dataset, const struct plan_settings *settings,
                  const struct steps *steps, uint64_t epoch, const _Atomic bool *cancel,
                  struct slice_sum **out, struct error *err)
{
    struct plan_source source = recipe_source(dataset);
    struct plan *plan = plan_new(&source, settings, epoch);
    struct slice_sum *sum = mem_new(sizeof *sum);
    struct walk walk = {.dataset = dataset, .plan = plan, .steps = steps, .sum = sum};
    uint32_t better_lanes, better_batch;
    sum->world = steps->world;
    sum->steps = steps_total(steps);
    sum->lane_factor = steps_lane_factor(steps, &better_lanes, &better_batch);
    int rc = plan ? allocate(&walk) : -ENOMEM;
    for (uint32_t lane = 0; !rc && lane < plan_lanes(plan); lane++)
        rc = walk_lane(&walk, lane, cancel);
    if (!rc)
        conclude(&walk);
    free(walk.seen);
    free(walk.permuted);
    plan_free(plan);
    if (!rc) {
        *out = sum;
        return 0;
    }
    slice_sum_free(sum);
    return error_set(err, rc, "the slices cannot be reckoned: %s",
                     rc == -ENOMEM ? "memory is short" : "stopped");
}

void slice_sum_free(struct slice_sum *sum)
{
    if (!sum)
        return;
    free(sum->ranks);
    free(sum);
}
