#include "feed/shuffle.h"

#include <stdlib.h>

#include "base/mem.h"

#define CHUNK_RECORDS_MAX 4096
#define DEPTH_RECORDS_MAX (16 * CHUNK_RECORDS_MAX)

/* What is known of one record of a lane, by its place in storage order. */
struct entry {
    struct sample *sample;
    bool wanted;    /* this rank's, not yet emitted */
    uint32_t order; /* of the record that is emitted in this place: which one of its block */
};

/* A window of whole blocks, from that being emitted to those being read. */
struct lane {
    struct entry *ring; /* entry of record x at x % window; NULL = none yet: nothing is held */
    uint64_t next;      /* all before were emitted, or are not this rank's */
    uint64_t base;      /* first record of the block being emitted */
    uint64_t known;     /* end of the blocks whose order is known */
    uint64_t read;      /* all wanted ones before are held */
    uint64_t run, left; /* records from `run` on that follow one another in a shard, and where */
    struct plan_place run_place;
    enum ration_from from;
};

struct shuffle {
    struct shuffle_params params;
    struct plan *plan;
    uint32_t lanes;
    uint64_t block, window;
    uint64_t total_steps, origin; /* base of all lanes at the start */
    uint32_t *permutation;        /* of one block */
    struct lane *lane;
    uint32_t *touched; /* lanes with records of this rank */
    uint32_t ntouched, turn;
};

/* A batch touches the same lanes as the one `period` batches before. */
static uint64_t period(const struct steps *steps)
{
    uint64_t a = (uint64_t)steps->world * steps->batch;
    uint64_t b = steps->lanes;
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return steps->lanes / a;
}

static void find_touched(struct shuffle *shuffle)
{
    const struct steps *steps = &shuffle->params.steps;
    cleanup_free bool *seen = mem_array(shuffle->lanes, sizeof *seen);
    cleanup_free uint64_t *positions = mem_array(steps->batch, sizeof *positions);
    uint64_t first = shuffle->params.first_step;
    uint64_t last = steps_of_rank(steps, shuffle->params.rank);
    if (last > first + period(steps))
        last = first + period(steps);
    for (uint64_t t = first; t < last && shuffle->ntouched < shuffle->lanes; t++) {
        uint32_t rows = steps_positions(steps, t, shuffle->params.rank, positions);
        for (uint32_t r = 0; r < rows; r++) {
            uint32_t lane = (uint32_t)(positions[r] % shuffle->lanes);
            if (!seen[lane])
                shuffle->touched[shuffle->ntouched++] = lane;
            seen[lane] = true;
        }
    }
}

static uint64_t mean_bytes(const struct shuffle *shuffle)
{
    return shuffle->params.mean_bytes ? shuffle->params.mean_bytes : 1;
}

uint64_t shuffle_depth(const struct shuffle *shuffle)
{
    uint64_t records = SHUFFLE_DEPTH / mean_bytes(shuffle);
    if (records > DEPTH_RECORDS_MAX)
        records = DEPTH_RECORDS_MAX;
    return records / (shuffle->ntouched ? shuffle->ntouched : 1) + 1;
}

/* Room for the block being emitted, K records ahead of each of its places, and beyond that a chunk,
 * the rows of one batch, and what is read to have many reads at a time. */
static uint64_t window_records(const struct shuffle *shuffle)
{
    const struct steps *steps = &shuffle->params.steps;
    uint64_t beyond = SHUFFLE_CHUNK / mean_bytes(shuffle);
    if (beyond > CHUNK_RECORDS_MAX)
        beyond = CHUNK_RECORDS_MAX;
    beyond += (uint64_t)steps->world * steps->batch / shuffle->lanes + 1 + shuffle_depth(shuffle);
    uint64_t blocks = 2 + (beyond + shuffle->block - 1) / shuffle->block;
    uint64_t longest = plan_lane_records(shuffle->plan, 0);
    uint64_t all = (longest + shuffle->block - 1) / shuffle->block;
    return shuffle->block * (blocks < all ? blocks : all);
}

struct shuffle *shuffle_new(const struct shuffle_params *params)
{
    struct plan *plan = plan_new(params->source, params->order, params->epoch);
    if (!plan)
        return NULL;
    struct shuffle *shuffle = mem_new(sizeof *shuffle);
    const struct steps *steps = &params->steps;
    shuffle->params = *params;
    shuffle->plan = plan;
    shuffle->lanes = plan_lanes(plan);
    shuffle->block = plan_block(plan);
    shuffle->total_steps = steps_total(steps);
    uint64_t first = steps->start + params->first_step * steps->world * steps->batch;
    shuffle->origin = first / shuffle->lanes / shuffle->block * shuffle->block;
    shuffle->permutation = mem_array(shuffle->block, sizeof *shuffle->permutation);
    shuffle->lane = mem_array(shuffle->lanes, sizeof *shuffle->lane);
    shuffle->touched = mem_array(shuffle->lanes, sizeof *shuffle->touched);
    for (uint32_t l = 0; l < shuffle->lanes; l++)
        shuffle->lane[l].next = shuffle->origin;
    find_touched(shuffle);
    shuffle->window = window_records(shuffle);
    return shuffle;
}

static uint64_t ring_bytes(const struct shuffle *shuffle)
{
    return shuffle->window * sizeof(struct entry);
}

static void free_lane(struct shuffle *shuffle, struct lane *lane)
{
    if (!lane->ring)
        return;
    for (uint64_t x = 0; x < shuffle->window; x++)
        sample_free(lane->ring[x].sample);
    free(lane->ring);
    lane->ring = NULL;
    ration_give(shuffle->params.ration, ring_bytes(shuffle), lane->from);
}

void shuffle_shed(struct shuffle *shuffle)
{
    for (uint32_t l = 0; l < shuffle->lanes; l++)
        free_lane(shuffle, &shuffle->lane[l]);
}

void shuffle_free(struct shuffle *shuffle)
{
    if (!shuffle)
        return;
    shuffle_shed(shuffle);
    plan_free(shuffle->plan);
    free(shuffle->permutation);
    free(shuffle->lane);
    free(shuffle->touched);
    free(shuffle);
}

const struct plan *shuffle_plan(const struct shuffle *shuffle)
{
    return shuffle->plan;
}

const struct steps *shuffle_steps(const struct shuffle *shuffle)
{
    return &shuffle->params.steps;
}

uint64_t shuffle_target(const struct shuffle *shuffle)
{
    return shuffle->ntouched * shuffle->block;
}

uint64_t shuffle_lack(const struct shuffle *shuffle, uint64_t from, uint64_t upto)
{
    uint64_t lack = 0;
    for (uint32_t i = 0; i < shuffle->ntouched; i++) {
        const struct lane *lane = &shuffle->lane[shuffle->touched[i]];
        uint64_t records = plan_lane_records(shuffle->plan, shuffle->touched[i]);
        uint64_t begin = lane->ring && lane->read > from ? lane->read : from;
        uint64_t end = upto < records ? upto : records;
        if (end > begin)
            lack += end - begin;
    }
    return lack;
}

/* The lane with its ring; NULL where there is no memory for one now. */
static struct lane *open_lane(struct shuffle *shuffle, uint32_t number)
{
    struct lane *lane = &shuffle->lane[number];
    uint64_t bytes = ring_bytes(shuffle);
    if (lane->ring)
        return lane;
    if (!ration_take(shuffle->params.ration, bytes, RATION_AHEAD, &lane->from))
        return NULL;
    lane->base = lane->known = lane->read = lane->next / shuffle->block * shuffle->block;
    lane->ring = calloc(shuffle->window, sizeof *lane->ring);
    if (lane->ring)
        return lane;
    ration_give(shuffle->params.ration, bytes, lane->from);
    return NULL;
}

static struct entry *entry_at(const struct shuffle *shuffle, const struct lane *lane, uint64_t x)
{
    return &lane->ring[x % shuffle->window];
}

static bool is_ours(const struct shuffle *shuffle, uint64_t i)
{
    const struct steps *steps = &shuffle->params.steps;
    if (i < steps->start)
        return false;
    struct steps_row row = steps_row_of(steps, i);
    return row.rank == shuffle->params.rank && row.step >= shuffle->params.first_step &&
           row.step < shuffle->total_steps;
}

/* The next block enters the window; false at the end of the lane or of the window. */
static bool learn_block(struct shuffle *shuffle, uint32_t number)
{
    struct lane *lane = &shuffle->lane[number];
    uint64_t first = lane->known;
    if (first == plan_lane_records(shuffle->plan, number) ||
        first + shuffle->block > lane->base + shuffle->window)
        return false;
    uint32_t count =
        plan_permutation(shuffle->plan, number, first / shuffle->block, shuffle->permutation);
    for (uint32_t e = 0; e < count; e++) {
        uint64_t i = (first + e) * shuffle->lanes + number;
        entry_at(shuffle, lane, first + e)->order = shuffle->permutation[e];
        entry_at(shuffle, lane, first + shuffle->permutation[e])->wanted =
            first + e >= lane->next && is_ours(shuffle, i);
    }
    lane->known += count;
    return true;
}

static struct sample *take_entry(struct entry *entry)
{
    struct sample *sample = entry->sample;
    entry->sample = NULL;
    entry->wanted = false;
    return sample;
}

/* The block of record y becomes the one being emitted. */
static void move_lane(struct shuffle *shuffle, struct lane *lane, uint64_t y)
{
    uint64_t base = y / shuffle->block * shuffle->block;
    for (uint64_t x = lane->base; x < base && x < lane->known; x++)
        sample_free(take_entry(entry_at(shuffle, lane, x)));
    if (base > lane->base)
        lane->base = base;
    if (base > lane->known)
        lane->known = base;
    if (base > lane->read)
        lane->read = base;
}

struct sample *shuffle_take(struct shuffle *shuffle, uint64_t i, struct plan_place *place)
{
    uint32_t number = (uint32_t)(i % shuffle->lanes);
    uint64_t y = i / shuffle->lanes;
    struct lane *lane = open_lane(shuffle, number);
    shuffle->lane[number].next = y + 1;
    if (!lane) {
        *place = plan_at(shuffle->plan, i);
        return NULL;
    }
    move_lane(shuffle, lane, y);
    while (lane->known <= y)
        learn_block(shuffle, number);
    uint64_t x = lane->base + entry_at(shuffle, lane, y)->order;
    struct sample *sample = take_entry(entry_at(shuffle, lane, x));
    *place = sample ? sample->place : plan_lane_at(shuffle->plan, number, x);
    return sample;
}

/* Steps over what is not wanted or held; false at the end of what can be read. */
static bool find_wanted(struct shuffle *shuffle, uint32_t number)
{
    struct lane *lane = &shuffle->lane[number];
    while (lane->read < lane->known || learn_block(shuffle, number)) {
        const struct entry *entry = entry_at(shuffle, lane, lane->read);
        if (entry->wanted && !entry->sample)
            return true;
        lane->read++;
    }
    return false;
}

/* Where record x of a lane lies. Mostly it follows the one that was asked for last. */
static struct plan_place place_of(struct shuffle *shuffle, uint32_t number, uint64_t x)
{
    struct lane *lane = &shuffle->lane[number];
    if (x < lane->run || x - lane->run >= lane->left) {
        lane->run = x;
        lane->run_place = plan_lane_run(shuffle->plan, number, x, &lane->left);
    }
    struct plan_place place = lane->run_place;
    place.record += x - lane->run;
    return place;
}

/* The records that follow `read` in its run, up to `count`. */
static void give_hint(struct shuffle *shuffle, uint32_t number, uint64_t count,
                      const struct shuffle_source *source)
{
    const struct lane *lane = &shuffle->lane[number];
    if (lane->read >= plan_lane_records(shuffle->plan, number))
        return;
    struct plan_place from = place_of(shuffle, number, lane->read);
    uint64_t left = lane->run + lane->left - lane->read;
    struct plan_place last = from;
    last.record += (count < left ? count : left) - 1;
    source->hint(source->context, from, last);
}

/* One chunk of one lane; *full: there was no memory for more. Returns the bytes. */
static uint64_t read_chunk(struct shuffle *shuffle, uint32_t number,
                           const struct shuffle_source *source, bool *full)
{
    struct lane *lane = &shuffle->lane[number];
    uint64_t bytes = 0;
    uint64_t count = 0;
    while (bytes < SHUFFLE_CHUNK && find_wanted(shuffle, number)) {
        struct plan_place place = place_of(shuffle, number, lane->read);
        struct sample *sample = source->load(source->context, place);
        *full = !sample;
        if (!sample)
            break;
        entry_at(shuffle, lane, lane->read++)->sample = sample;
        bytes += sample->charge;
        count++;
    }
    if (count && !*full && source->hint)
        give_hint(shuffle, number, count, source);
    return bytes;
}

/* Whether the lane lacks records before `upto`. */
static bool lags(struct shuffle *shuffle, uint32_t number, uint64_t upto)
{
    return open_lane(shuffle, number) && shuffle->lane[number].read < upto &&
           find_wanted(shuffle, number) && shuffle->lane[number].read < upto;
}

uint64_t shuffle_ahead(struct shuffle *shuffle, uint64_t upto, uint64_t quota,
                       const struct shuffle_source *source)
{
    uint64_t bytes = 0;
    bool full = false;
    /* Turn by turn, so that no lane waits for another; ends after one round without a lag. */
    for (uint32_t idle = 0; idle < shuffle->ntouched && bytes < quota && !full;) {
        uint32_t number = shuffle->touched[shuffle->turn];
        shuffle->turn = (shuffle->turn + 1) % shuffle->ntouched;
        idle++;
        if (lags(shuffle, number, upto)) {
            bytes += read_chunk(shuffle, number, source, &full);
            idle = 0;
        }
    }
    return bytes;
}
