#include "image/plane_taps.h"

#include <string.h>

enum {
    STRIP = PLANE_STRIP, /* compilers make vectors of loops with a fixed number of rounds */
    LANE = 16,
    GUARD = 3, /* rows of zeros before the weights of a strip's pixels */
    MOST_ONE = 127,
    MOST_TWO = 128,
};

/* One number for each output of a strip. */
struct row {
    int32_t of[STRIP];
};

/* Weights before they are rounded, sums of a strip one row a sample. */
struct fold {
    const struct plane_axis *axis;
    int32_t room, used; /* rows of a strip */
    int bits;           /* after the point */
    struct row *sums;
    struct row *pixels;  /* weights of a strip's pixels, after the guard */
    struct row one, two; /* the largest, and the largest sum of neighbours */
};

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t strips(int32_t count)
{
    return (count + 2 * STRIP - 1) / (2 * STRIP) * 2;
}

/* ------- folding ------- */

int32_t plane_taps_most(int32_t pairs)
{
    return 2 * pairs + 2;
}

/* The place of output number i of the strip among the taps. */
static size_t index_of(const struct plane_axis *axis, int32_t output)
{
    int32_t last = axis->taps->key.count - 1, number = least(output, last);
    return (size_t)(axis->flip ? last - number : number);
}

/* Where the size does not change an output is made of its own pixel: no other need be there. */
static bool unchanged(const struct taps *taps)
{
    return taps->key.in == taps->key.out;
}

static int32_t first_pixel(const struct plane_axis *axis, size_t index)
{
    const struct taps *taps = axis->taps;
    int32_t first = unchanged(taps) ? taps->key.first + (int32_t)index : taps->start[index];
    return axis->offset + first;
}

/* The weights of its taps one under the other, from the given row on. */
static void put_column(const struct plane_axis *axis, size_t index, struct row *rows,
                       int32_t column)
{
    const struct taps *taps = axis->taps;
    const struct taps_pair *pair = taps->pair + index * (size_t)taps->pairs;
    bool own = unchanged(taps);
    for (int32_t j = 0; j < taps->pairs; j++, rows += 2) {
        rows[0].of[column] = own ? (j == 0) << TAPS_BITS : taps_weight(pair + j, 0);
        rows[1].of[column] = own ? 0 : taps_weight(pair + j, 1);
    }
}

static void put_same(const struct fold *fold, int32_t first, struct row *sums, int32_t *start)
{
    const struct plane_axis *axis = fold->axis;
    for (int32_t k = 0; k < STRIP; k++) {
        size_t index = index_of(axis, first + k);
        put_column(axis, index, sums, k);
        start[k] = first_pixel(axis, index);
    }
}

/* Of the pixels 2k, 2k + 1 and those beside them, sample k has 3, 3, 1 and 1 quarters. */
static void add_quarters(const struct row *pixels, struct row *sum)
{
    for (int k = 0; k < STRIP; k++) {
        int32_t inside = pixels[1].of[k] + pixels[2].of[k];
        sum->of[k] = 2 * inside + inside + pixels[0].of[k] + pixels[3].of[k];
    }
}

/* What would lie outside of the plane is its outermost sample. */
static void mend_edges(const struct fold *fold, struct row *sums, int32_t column, int32_t *start)
{
    int32_t end = fold->axis->size;
    if (*start < 0) {
        sums[1].of[column] += sums[0].of[column];
        for (int32_t i = 1; i < fold->room; i++)
            sums[i - 1].of[column] = sums[i].of[column];
        sums[fold->room - 1].of[column] = 0;
        *start = 0;
    }
    for (int32_t i = most(end - *start, 1); i < fold->room; i++) {
        sums[end - 1 - *start].of[column] += sums[i].of[column];
        sums[i].of[column] = 0;
    }
}

/* With a guard before: the first sample has a weight of the first pixel, if any. */
static size_t pixel_rows(size_t room)
{
    return 2 * room + 2;
}

/* Of an even pixel, the sample before has a quarter too. */
static void put_halves(const struct fold *fold, int32_t first, struct row *sums, int32_t *start)
{
    const struct plane_axis *axis = fold->axis;
    memset(fold->pixels, 0, pixel_rows((size_t)fold->room) * sizeof *fold->pixels);
    for (int32_t k = 0; k < STRIP; k++) {
        size_t index = index_of(axis, first + k);
        int32_t pixel = first_pixel(axis, index);
        put_column(axis, index, fold->pixels + GUARD - pixel % 2, k);
        start[k] = pixel / 2 - 1 + pixel % 2;
    }
    for (int32_t i = 0; i < fold->room; i++)
        add_quarters(fold->pixels + 2 * (size_t)i, &sums[i]);
    for (int32_t k = 0; k < STRIP; k++)
        if (start[k] < 0 || start[k] + fold->room > axis->size)
            mend_edges(fold, sums, k, &start[k]);
}

static int32_t positive(int32_t value)
{
    return value > 0 ? value : 0;
}

static void find_largest(struct fold *fold, const struct row *sums)
{
    struct row one = fold->one, two = fold->two, last = {0};
    for (int32_t i = 0; i < fold->room; i++) {
        int32_t any = 0;
        for (int k = 0; k < STRIP; k++) {
            int32_t sum = sums[i].of[k], up = positive(sum), both = up + last.of[k];
            any |= sum;
            last.of[k] = up;
            one.of[k] = up > one.of[k] ? up : one.of[k];
            two.of[k] = both > two.of[k] ? both : two.of[k];
        }
        if (any)
            fold->used = most(fold->used, i + 1);
    }
    fold->one = one;
    fold->two = two;
}

static void fold_all(struct fold *fold, int32_t *start)
{
    int32_t count = fold->axis->taps->key.count;
    for (int32_t i = 0; i < strips(count); i++, start += STRIP) {
        struct row *sums = fold->sums + (size_t)i * (size_t)fold->room;
        if (fold->axis->half)
            put_halves(fold, STRIP * i, sums, start);
        else
            put_same(fold, STRIP * i, sums, start);
        find_largest(fold, sums);
        for (int k = 0; k < STRIP; k++)
            start[k] -= fold->axis->from;
    }
}

/* ------- rounding ------- */

static int choose_bits(const struct fold *fold)
{
    int32_t one = 0, two = 0;
    int bits = fold->axis->bits;
    for (int k = 0; k < STRIP; k++) {
        one = most(one, fold->one.of[k]);
        two = most(two, fold->two.of[k]);
    }
    while (one > MOST_ONE << (fold->bits - bits) || two > MOST_TWO << (fold->bits - bits))
        bits--;
    return bits;
}

/* Sums of the weights are rounded, not the weights: so what one loses the next one gains. */
static void round_strip(const struct row *sums, int32_t pairs, int shift, uint16_t *weights)
{
    struct row sum, before = {0};
    for (int k = 0; k < STRIP; k++)
        sum.of[k] = 1 << (shift - 1);
    for (int32_t i = 0; i < pairs; i++, sums += 2, weights += STRIP)
        for (int k = 0; k < STRIP; k++) {
            int32_t one = sum.of[k] + sums[0].of[k], two = one + sums[1].of[k];
            uint32_t low = (uint32_t)((one >> shift) - before.of[k]);
            uint32_t high = (uint32_t)((two >> shift) - (one >> shift));
            weights[k] = (uint16_t)((low & 0xFF) | high << 8);
            before.of[k] = two >> shift;
            sum.of[k] = two;
        }
}

/* ------- lanes ------- */

static int32_t outputs_of_lane(const struct plane_taps *taps)
{
    return taps->window == PLANE_64 ? 2 * STRIP : LANE / taps->unit;
}

/* False where the samples of a lane's outputs lie too far apart. */
static bool place_lanes(struct plane_taps *taps)
{
    int32_t outputs = outputs_of_lane(taps), all = STRIP * strips(taps->count);
    taps->lanes = all / outputs;
    for (int32_t i = 0; i < taps->lanes; i++) {
        const int32_t *start = taps->start + (size_t)i * (size_t)outputs;
        int32_t from = least(start[0], start[outputs - 1]);
        if (most(start[0], start[outputs - 1]) - from + taps->unit > taps->window)
            return false;
        taps->at[i] = from;
    }
    return true;
}

static void put_shuffles(const struct plane_taps *taps)
{
    int32_t outputs = outputs_of_lane(taps);
    uint8_t *to = taps->shuffles;
    for (int32_t i = 0; i < taps->lanes; i++)
        for (int32_t k = 0; k < outputs; k++) {
            int32_t place = taps->start[i * outputs + k] - taps->at[i];
            for (int32_t j = 0; j < taps->unit; j++)
                *to++ = (uint8_t)(place + j);
        }
}

/* In units of two the weights lie as they are. */
static void put_weights(const struct plane_taps *taps, uint8_t *to)
{
    int32_t outputs = 2 * LANE / taps->unit, pairs = taps->unit / 2;
    for (int32_t i = 0; i < taps->lanes / 2; i++)
        for (int32_t round = 0; round < taps->rounds; round++)
            for (int32_t k = 0; k < outputs; k++) {
                const uint16_t *from = plane_taps_of(taps, i * outputs + k);
                for (int32_t j = round * pairs; j < (round + 1) * pairs; j++, to += 2) {
                    uint16_t pair = j < taps->pairs ? from[j * STRIP] : 0;
                    memcpy(to, &pair, sizeof pair);
                }
            }
}

void plane_taps_lanes(struct plane_taps *taps, int32_t window)
{
    uint8_t *own = taps->shuffles + (size_t)LANE * STRIP * (size_t)strips(taps->count);
    taps->window = window;
    taps->unit = 2;
    if (window == PLANE_64 && !place_lanes(taps))
        taps->window = PLANE_16;
    while (taps->window == PLANE_16 && !place_lanes(taps))
        taps->unit *= 2;
    taps->rounds = (2 * taps->pairs + taps->unit - 1) / taps->unit;
    put_shuffles(taps);
    taps->lane_weights = (const uint8_t *)taps->weights;
    if (taps->unit == 2)
        return;
    put_weights(taps, own);
    taps->lane_weights = own;
}

/* ------- all ------- */

static uint64_t outputs_of(int32_t count)
{
    return STRIP * (uint64_t)strips(count);
}

static int32_t pairs_most(int32_t pairs)
{
    return (plane_taps_most(pairs) + 1) / 2;
}

/* Starts, weights, and for lanes: places, shuffles, weights once more, for 16 samples or more. */
uint64_t plane_taps_bytes(int32_t count, int32_t pairs)
{
    uint64_t weights = 2 * (uint64_t)pairs_most(pairs);
    return outputs_of(count) * (2 * sizeof(int32_t) + 2 * weights + 2 * LANE);
}

uint64_t plane_taps_spare(int32_t count, int32_t pairs)
{
    uint64_t room = (uint64_t)plane_taps_most(pairs);
    return ((uint64_t)strips(count) * room + pixel_rows(room)) * sizeof(struct row);
}

void plane_taps_make(struct plane_taps *taps, const struct plane_axis *axis, uint8_t *memory,
                     uint8_t *spare)
{
    const struct taps *whole = axis->taps;
    int32_t count = whole->key.count;
    size_t outputs = outputs_of(count);
    struct fold fold = {.axis = axis, .used = 1, .sums = (struct row *)spare};
    fold.room = axis->half ? (whole->pairs + 3) / 2 * 2 : 2 * whole->pairs; /* even */
    fold.bits = axis->half ? TAPS_BITS + 2 : TAPS_BITS;
    size_t rows = (size_t)strips(count) * (size_t)fold.room;
    fold.pixels = fold.sums + rows;
    *taps = (struct plane_taps){.count = count, .start = (int32_t *)memory};
    taps->at = taps->start + outputs;
    fold_all(&fold, taps->start);
    taps->bits = choose_bits(&fold);
    taps->pairs = (fold.used + 1) / 2;
    taps->weights = (uint16_t *)(taps->at + outputs);
    taps->shuffles = (uint8_t *)(taps->weights + outputs * (size_t)taps->pairs);
    for (int32_t i = 0; i < strips(count); i++)
        round_strip(fold.sums + (size_t)i * (size_t)fold.room, taps->pairs, fold.bits - taps->bits,
                    taps->weights + (size_t)i * (size_t)taps->pairs * STRIP);
}
