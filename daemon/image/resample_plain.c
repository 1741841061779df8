#include "image/resample_kernels.h"

static inline uint8_t clip8(int32_t value)
{
    value >>= TAPS_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void put_pixel(uint8_t *dst, int32_t red, int32_t green, int32_t blue)
{
    dst[0] = clip8(red);
    dst[1] = clip8(green);
    dst[2] = clip8(blue);
}

/* One pixel of two rows: putting a weight together is work too. */
static void two_pixels(const uint8_t *a, const uint8_t *b, const struct taps_pair *pair,
                       int32_t count, uint8_t *to_a, uint8_t *to_b)
{
    int32_t half = 1 << (TAPS_BITS - 1), red_a = half, green_a = half, blue_a = half;
    int32_t red_b = half, green_b = half, blue_b = half;
    for (int32_t i = 0; i < count; i++, a += 3, b += 3) {
        int32_t factor = taps_weight(pair, i);
        red_a += a[0] * factor;
        green_a += a[1] * factor;
        blue_a += a[2] * factor;
        red_b += b[0] * factor;
        green_b += b[1] * factor;
        blue_b += b[2] * factor;
    }
    put_pixel(to_a, red_a, green_a, blue_a);
    put_pixel(to_b, red_b, green_b, blue_b);
}

static void horizontal(const struct across *across, const struct resample_rows *rows)
{
    const struct taps *taps = across->taps;
    int32_t count = taps->key.count, width = 2 * taps->pairs;
    for (int r = 0; r < RESAMPLE_ROWS; r += 2)
        for (int32_t x = 0; x < count; x++) {
            int32_t index = across->flip ? count - 1 - x : x, start = taps->start[index];
            int32_t room = taps->key.in - start;
            size_t at = 3 * (size_t)(start - across->first), to = 3 * (size_t)x;
            two_pixels(rows->from[r] + at, rows->from[r + 1] + at,
                       taps->pair + (size_t)index * (size_t)taps->pairs,
                       width < room ? width : room, rows->to[r] + to, rows->to[r + 1] + to);
        }
}

enum { STRIP = 64 }; /* a fixed number of sums at a time: compilers turn the loops into vectors */

static void one_strip(const uint8_t *const *rows, size_t at, const struct taps_pair *pair,
                      int32_t count, size_t bytes, uint8_t *dst)
{
    int32_t sum[STRIP];
    for (int x = 0; x < STRIP; x++)
        sum[x] = 1 << (TAPS_BITS - 1);
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *src = rows[i] + at;
        int32_t factor = taps_weight(pair, i);
        for (int x = 0; x < STRIP; x++)
            sum[x] += src[x] * factor;
    }
    for (size_t x = 0; x < bytes; x++)
        dst[x] = clip8(sum[x]);
}

static void vertical(const uint8_t *const *rows, const struct taps_pair *pair, int32_t pairs,
                     size_t bytes, uint8_t *dst)
{
    size_t at = 0;
    for (; at + STRIP <= bytes; at += STRIP)
        one_strip(rows, at, pair, 2 * pairs, STRIP, dst + at);
    if (at < bytes)
        one_strip(rows, at, pair, 2 * pairs, bytes - at, dst + at);
}

const struct resample_kernels resample_plain = {ACROSS_NONE, horizontal, vertical};
