/* The two passes of resampling, by plain C and by vector instructions: the same bytes.
 *
 * A sample is (2^21 + sum of p * k) >> 22, cut to 0..255, with 22-bit weights k = high * 2^16 + low
 * (image/taps.h). Multiply-add instructions take 16-bit factors, or 8-bit ones, so they make two
 * sums, L of p * low and H of p * high; the sample is ((L >> 16) + H + 2^5) >> 6. As |low| <= |k|
 * and the |k| add up to less than 1.5 * 2^22, L stays within 32 bits, and L >> 16 and its sum with
 * H within 16 bits, so that H may be summed up in 16 bits: where it wraps, the whole does not. Two
 * products of 8 bits stay within 16 bits too: their |high| add up to less than 1.5 * 2^6 + 1. */
#ifndef RESAMPLE_KERNELS_H
#define RESAMPLE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "image/across.h"
#include "image/taps.h"

/* Bytes that are readable after the last pixel of a source; also writable after a row of `to`. */
#define RESAMPLE_SLACK 64

/* Rows that one call treats; where there are fewer, the last comes again. */
enum { RESAMPLE_ROWS = 4 };

struct resample_rows {
    const uint8_t *from[RESAMPLE_ROWS];
    uint8_t *to[RESAMPLE_ROWS];
};

struct resample_kernels {
    int32_t vector; /* the layout that horizontal takes */
    void (*horizontal)(const struct across *across, const struct resample_rows *rows);
    /* One row of the result from 2 * pairs rows; exactly `bytes` bytes are written. */
    void (*vertical)(const uint8_t *const *rows, const struct taps_pair *pair, int32_t pairs,
                     size_t bytes, uint8_t *dst);
};

extern const struct resample_kernels resample_plain;
#if defined(__x86_64__)
extern const struct resample_kernels resample_sse4, resample_avx2, resample_avx512;
#endif
/* The fastest that simd_level() allows. */
const struct resample_kernels *resample_best(void);

#endif
