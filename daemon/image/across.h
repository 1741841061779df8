/* The taps of one horizontal pass over RGB, laid out for vector instructions that gather bytes.
 *
 * The values of a result row (3 a pixel) are cut into lanes; a lane's samples for one pair of taps
 * lie within one window of the source row, from where a byte shuffle brings them next to each
 * other: for each value two 16-bit words, the samples of the pair's taps. The next pair's are 6
 * bytes further. Mirroring is part of the layout. */
#ifndef ACROSS_H
#define ACROSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/taps.h"

/* Bytes of a vector; a lane has 16 bytes, but ACROSS_64 takes the whole vector as one. */
enum { ACROSS_NONE = 0, ACROSS_16 = 16, ACROSS_32 = 32, ACROSS_64 = 64 };

struct across {
    const struct taps *taps;
    int32_t first; /* column of the source at which its rows begin */
    bool flip;
    int32_t vector; /* may be less than asked for: large reductions need small windows */
    int32_t values; /* a lane: 16 (ACROSS_64), 4, or 3 where pixels lie far apart */
    int32_t blocks; /* vectors of values */
    int32_t *at;    /* of each lane: where its window begins in a source row */
    /* Of each block, `vector` bytes each: the shuffle; then of each pair of taps the low halves
     * and the high halves of the weights. Not aligned. */
    uint8_t *data;
};

/* Bytes of memory that across_make takes at most for `count` pixels with `pairs` pairs of taps. */
uint64_t across_bytes(int32_t count, int32_t pairs);
/* taps must outlive it. ACROSS_NONE: nothing but the taps. */
void across_make(struct across *across, int32_t most, const struct taps *taps, int32_t first,
                 bool flip, void *memory);

#endif
