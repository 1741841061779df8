/* The two passes of scaling planes for `pixels: fast`, and the colours of the result, by plain C
 * and by vector instructions: the same bytes.
 *
 * Across, a sample is 128 + ((sum of (p - 128) * k + half) >> bits), cut to 0..255. Down, the sum
 * of (p - 128) * k is kept as 16 bits, 2^7 times a sample's distance from 128, and colours are made
 * of that: with y, u, v such numbers, products rounded to nearest and sums cut to 16 bits, R = y +
 * (v + 0.402 * v)    G = y - (0.34414 * u + 0.71414 * v)    B = y + (u + 0.772 * u) and then (x +
 * half) >> 7, cut, + 128. */
#ifndef PLANE_KERNELS_H
#define PLANE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "image/plane_taps.h"

/* Bytes that may be read, and written, after the end of a row. */
enum { PLANE_SLACK = 64, PLANE_BITS = 7 };

/* Factors of colours, times 2^15. */
enum { PLANE_R_V = 13173, PLANE_G_U = 11277, PLANE_G_V = 23401, PLANE_B_U = 25297 };

/* Rows that one call treats; where there are fewer, the last comes again. */
enum { PLANE_ROWS = 4 };

struct plane_rows {
    const uint8_t *from[PLANE_ROWS];
    uint8_t *to[PLANE_ROWS];
};

/* What one row of the result takes of a plane: 2 * pairs rows and their weights. */
struct plane_column {
    const uint8_t *const *rows;
    const uint16_t *weights; /* plane_taps_of */
    int32_t pairs;
    int bits; /* at most PLANE_BITS */
    int less; /* taken off the sum */
};

struct plane_kernels {
    int32_t window; /* of the lanes that across takes */
    void (*across)(const struct plane_taps *taps, const struct plane_rows *rows);
    /* n pixels from Y, Cb, Cr, or from Y alone. */
    void (*down)(const struct plane_column columns[3], bool colour, int half, size_t n,
                 uint8_t *const rgb[3]);
};

extern const struct plane_kernels plane_plain;
#if defined(__x86_64__)
extern const struct plane_kernels plane_avx2, plane_avx512;
#endif

#endif
