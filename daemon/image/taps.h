/* The weights of one resampling along one axis, and a cache of them.
 *
 * Numbers as in Pillow's Resample.c: scale = in / out, f = max(scale, 1), support = s * f (s = 1
 * bilinear, 2 bicubic with a = -0.5), centre = (x + 0.5) * scale, taps from (int)(centre - support
 * + 0.5) up to, not including, (int)(centre + support + 0.5), both within the input; weights in
 * double, divided by their sum, rounded to 22 bits after the point. A weight k is stored in two
 * parts for multiply-add instructions: k = high * 2^16 + low, -2^15 <= low < 2^15. No weight is
 * larger than 1.2, so that high has 8 bits. */
#ifndef TAPS_H
#define TAPS_H

#include <stddef.h>
#include <stdint.h>

#include "image/transform.h"

enum { TAPS_BITS = 22, TAPS_SPLIT = 16 };

struct taps_key {
    int32_t in, out;      /* sizes of the whole axis */
    int32_t first, count; /* outputs wanted */
    enum filter filter;
};

/* Weights of samples 2j and 2j + 1 after start. */
struct taps_pair {
    uint32_t low;  /* two 16-bit numbers, the first in the lower half */
    uint32_t high; /* two 8-bit numbers, and the same in the upper half */
};

/* Weight number i of an output. */
static inline int32_t taps_weight(const struct taps_pair *pairs, int32_t i)
{
    int16_t low = (int16_t)(pairs[i / 2].low >> 16 * (i % 2));
    int8_t high = (int8_t)(pairs[i / 2].high >> 8 * (i % 2));
    return high * (1 << TAPS_SPLIT) + low;
}

/* Outputs have equally many pairs; those too many are zero. start + 2 * pairs <= in, but where the
 * input is smaller than that: then by one. */
struct taps {
    struct taps_key key;
    int32_t pairs;
    int32_t *start;         /* count */
    struct taps_pair *pair; /* count * pairs */
    size_t capacity;        /* bytes allocated */
};

struct taps_cache;

struct taps_cache *taps_cache_new(void);
void taps_cache_free(struct taps_cache *cache);
/* Valid until the next call; NULL = no memory. */
const struct taps *taps_cache_get(struct taps_cache *cache, const struct taps_key *key);
/* Frees what is larger than usual. A cache then keeps at most TAPS_CACHE_BYTES. */
void taps_cache_trim(struct taps_cache *cache);
#define TAPS_CACHE_BYTES ((size_t)64 * 8192)

/* Without the weights: pairs and bytes at most, and the inputs [*from, *to) that hold all that the
 * outputs need. */
int32_t taps_pairs_most(const struct taps_key *key);
uint64_t taps_bytes(const struct taps_key *key);
void taps_reach(const struct taps_key *key, int32_t *from, int32_t *to);

#endif
