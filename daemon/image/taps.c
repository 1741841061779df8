#include "image/taps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { SLOTS = 64, SLOT_BYTES = 8192 };

struct taps_cache {
    struct taps slots[SLOTS];
    struct taps large; /* the one that fits no slot */
};

struct axis {
    double scale, stretch, support;
};

static struct axis axis_of(const struct taps_key *key)
{
    struct axis axis;
    axis.scale = (double)key->in / key->out;
    axis.stretch = fmax(axis.scale, 1);
    axis.support = (key->filter == FILTER_BICUBIC ? 2.0 : 1.0) * axis.stretch;
    return axis;
}

/* The span of one output before zero weights are cut off: inputs [from, to). */
static void span(const struct taps_key *key, const struct axis *axis, int32_t output, int32_t *from,
                 int32_t *to)
{
    double centre = (output + 0.5) * axis->scale;
    int32_t low = (int32_t)(centre - axis->support + 0.5);
    int32_t high = (int32_t)(centre + axis->support + 0.5);
    *from = low < 0 ? 0 : low;
    *to = high > key->in ? key->in : high;
}

int32_t taps_pairs_most(const struct taps_key *key)
{
    struct axis axis = axis_of(key);
    double most = fmin(floor(2 * axis.support) + 1, key->in);
    return (int32_t)(most + 1) / 2;
}

uint64_t taps_bytes(const struct taps_key *key)
{
    return (uint64_t)key->count *
           (sizeof(int32_t) + (uint64_t)taps_pairs_most(key) * sizeof(struct taps_pair));
}

void taps_reach(const struct taps_key *key, int32_t *from, int32_t *to)
{
    struct axis axis = axis_of(key);
    int32_t last, unused, width = 2 * taps_pairs_most(key);
    span(key, &axis, key->first, from, &unused);
    span(key, &axis, key->first + key->count - 1, &last, &unused);
    if (*from + width > key->in) /* such taps begin sooner */
        *from = key->in > width ? key->in - width : 0;
    *to = last + width < key->in ? last + width : key->in;
}

/* As many outputs at a time: compilers make vectors of loops with a fixed number of rounds. Sums
 * and products of each are in the order of its taps. */
enum { STRIP = 16 };

struct strip {
    double centre[STRIP], start[STRIP], from[STRIP], to[STRIP]; /* of each output */
    double sum[STRIP];
    double *weights; /* of each tap: STRIP */
};

/* Distances of the strip's outputs from their tap number i, in units of the filter. */
static void distances(const struct strip *strip, double i, double inverse, double *x)
{
    for (int k = 0; k < STRIP; k++)
        x[k] = fabs((i + strip->start[k] - strip->centre[k] + 0.5) * inverse);
}

static void triangle(double *x)
{
    for (int k = 0; k < STRIP; k++) {
        double weight = 1 - x[k];
        x[k] = weight > 0 ? weight : 0;
    }
}

static void cubic(double *x)
{
    const double a = -0.5;
    for (int k = 0; k < STRIP; k++) {
        double near = ((a + 2) * x[k] - (a + 3)) * x[k] * x[k] + 1;
        double far = (((x[k] - 5) * x[k] + 8) * x[k] - 4) * a;
        x[k] = x[k] < 1 ? near : x[k] < 2 ? far : 0;
    }
}

static void weigh(struct strip *strip, const struct axis *axis, enum filter filter, int32_t taps)
{
    double inverse = 1.0 / axis->stretch;
    memset(strip->sum, 0, sizeof strip->sum);
    for (int32_t i = 0; i < taps; i++) {
        double *weights = strip->weights + STRIP * (size_t)i;
        distances(strip, i, inverse, weights);
        if (filter == FILTER_BICUBIC)
            cubic(weights);
        else
            triangle(weights);
        for (int k = 0; k < STRIP; k++) {
            double at = i + strip->start[k];
            double weight = at >= strip->from[k] && at < strip->to[k] ? weights[k] : 0;
            strip->sum[k] += weight;
            weights[k] = weight;
        }
    }
    for (int k = 0; k < STRIP; k++)
        strip->sum[k] = strip->sum[k] == 0 ? 1 : strip->sum[k];
}

/* The weights of tap number i as whole numbers. */
static void round_weights(const struct strip *strip, int32_t i, int32_t *fixed)
{
    const double *weights = strip->weights + STRIP * (size_t)i;
    for (int k = 0; k < STRIP; k++) {
        double scaled = weights[k] / strip->sum[k] * (1 << TAPS_BITS);
        fixed[k] = (int32_t)(scaled + copysign(0.5, scaled));
    }
}

static uint32_t high_byte(int32_t fixed)
{
    return (uint32_t)(fixed + (1 << (TAPS_SPLIT - 1))) >> TAPS_SPLIT & 0xFF;
}

static void join_pairs(const int32_t *one, const int32_t *two, struct taps_pair *pairs)
{
    for (int k = 0; k < STRIP; k++) {
        pairs[k].low = ((uint32_t)one[k] & 0xFFFF) | (uint32_t)two[k] << 16;
        pairs[k].high = (high_byte(one[k]) | high_byte(two[k]) << 8) * 0x10001;
    }
}

/* Where the samples of an output begin: where they would reach beyond the input, sooner. */
static int32_t start_of(const struct taps *taps, int32_t from)
{
    int32_t width = 2 * taps->pairs;
    if (from + width <= taps->key.in)
        return from;
    return taps->key.in > width ? taps->key.in - width : 0;
}

/* The taps of all outputs take as many pairs as the one with most needs. */
static int32_t needed_pairs(const struct taps_key *key, const struct axis *axis)
{
    int32_t most = 1;
    for (int32_t i = 0; i < key->count; i++) {
        int32_t from, to;
        span(key, axis, key->first + i, &from, &to);
        most = to - from > most ? to - from : most;
    }
    return (most + 1) / 2;
}

static bool reserve(struct taps *taps, size_t bytes)
{
    if (taps->capacity >= bytes)
        return true;
    free(taps->pair);
    taps->pair = malloc(bytes);
    taps->capacity = taps->pair ? bytes : 0;
    return taps->pair != NULL;
}

/* The outputs from `first` on; those of the strip after the last are not kept. */
static void place_strip(struct taps *taps, const struct axis *axis, int32_t first, int32_t count,
                        struct strip *strip)
{
    for (int k = 0; k < STRIP; k++) {
        int32_t output = taps->key.first + first + (k < count ? k : 0), from, to;
        span(&taps->key, axis, output, &from, &to);
        strip->centre[k] = (output + 0.5) * axis->scale;
        strip->start[k] = start_of(taps, from);
        strip->from[k] = from;
        strip->to[k] = to;
        if (k < count)
            taps->start[first + k] = (int32_t)strip->start[k];
    }
}

static void compute_strip(struct taps *taps, const struct axis *axis, int32_t first,
                          struct strip *strip)
{
    int32_t count = taps->key.count - first, one[STRIP], two[STRIP];
    struct taps_pair pairs[STRIP];
    count = count < STRIP ? count : STRIP;
    place_strip(taps, axis, first, count, strip);
    weigh(strip, axis, taps->key.filter, 2 * taps->pairs);
    for (int32_t j = 0; j < taps->pairs; j++) {
        round_weights(strip, 2 * j, one);
        round_weights(strip, 2 * j + 1, two);
        join_pairs(one, two, pairs);
        for (int32_t k = 0; k < count; k++)
            taps->pair[(size_t)(first + k) * (size_t)taps->pairs + (size_t)j] = pairs[k];
    }
}

static bool compute(struct taps *taps, const struct taps_key *key)
{
    struct axis axis = axis_of(key);
    int32_t pairs = needed_pairs(key, &axis);
    size_t count = (size_t)key->count;
    struct strip strip = {.weights = malloc(2 * (size_t)pairs * STRIP * sizeof(double))};
    *taps = (struct taps){.pair = taps->pair, .capacity = taps->capacity};
    if (!strip.weights ||
        !reserve(taps, count * ((size_t)pairs * sizeof *taps->pair + sizeof(int32_t)))) {
        free(strip.weights);
        return false;
    }
    taps->key = *key;
    taps->pairs = pairs;
    taps->start = (int32_t *)(taps->pair + count * (size_t)pairs);
    for (int32_t i = 0; i < key->count; i += STRIP)
        compute_strip(taps, &axis, i, &strip);
    free(strip.weights);
    return true;
}

struct taps_cache *taps_cache_new(void)
{
    return mem_new(sizeof(struct taps_cache));
}

void taps_cache_free(struct taps_cache *cache)
{
    if (!cache)
        return;
    for (int i = 0; i < SLOTS; i++)
        free(cache->slots[i].pair);
    free(cache->large.pair);
    free(cache);
}

static bool same(const struct taps_key *a, const struct taps_key *b)
{
    return a->in == b->in && a->out == b->out && a->first == b->first && a->count == b->count &&
           a->filter == b->filter;
}

const struct taps *taps_cache_get(struct taps_cache *cache, const struct taps_key *key)
{
    uint32_t hash = (uint32_t)key->in * 0x9E3779B1U ^ (uint32_t)key->out * 0x85EBCA77U;
    bool small = taps_bytes(key) <= SLOT_BYTES;
    struct taps *taps = small ? &cache->slots[(hash >> 16) % SLOTS] : &cache->large;
    if (same(&taps->key, key) || compute(taps, key))
        return taps;
    return NULL;
}

void taps_cache_trim(struct taps_cache *cache)
{
    free(cache->large.pair);
    cache->large = (struct taps){.pairs = 0};
}
