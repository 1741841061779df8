#include "image/plane_kernels.h"
#include "image/simd.h"

#ifdef SIMD_X86
#include <immintrin.h>
#include <string.h>

#define inlined simd_target static inline __attribute__((always_inline))

enum { STEP = 32 };

inlined __m256i load(const void *from)
{
    return _mm256_loadu_si256(from);
}

inlined __m256i load_two(const uint8_t *a, const uint8_t *b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)a)),
                                   _mm_loadu_si128((const void *)b), 1);
}

/* ------- across ------- */

struct four {
    __m256i of[PLANE_ROWS];
};

/* 16-bit sums of products by twos, of two lanes of four rows. */
inlined struct four sums_of_lanes(const struct plane_rows *rows, const int32_t *at, __m256i shuffle,
                                  const uint8_t *lane_weights, int32_t rounds, int32_t unit)
{
    const size_t near = (size_t)at[0], far = (size_t)at[1];
    struct four sums;
#pragma GCC unroll 4
    for (int r = 0; r < PLANE_ROWS; r++)
        sums.of[r] = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int32_t i = 0; i < rounds; i++) {
        const __m256i weights = load(lane_weights + STEP * (size_t)i);
        const size_t along = (size_t)i * (size_t)unit;
#pragma GCC unroll 4
        for (int r = 0; r < PLANE_ROWS; r++) {
            const uint8_t *from = rows->from[r] + along;
            __m256i samples = _mm256_shuffle_epi8(load_two(from + near, from + far), shuffle);
            sums.of[r] = _mm256_add_epi16(sums.of[r], _mm256_maddubs_epi16(samples, weights));
        }
    }
    return sums;
}

/* 128 * 2^bits is taken off the sums, which wrap around till then; rounding is added. */
struct rounding {
    __m256i off;
    __m128i bits;
};

inlined struct rounding rounding_of(const struct plane_taps *taps)
{
    int off = (1 << (taps->bits - 1)) - (128 << taps->bits);
    return (struct rounding){_mm256_set1_epi16((short)off), _mm_cvtsi32_si128(taps->bits)};
}

inlined __m256i bytes_of(__m256i a, __m256i b, const struct rounding *rounding)
{
    a = _mm256_sra_epi16(_mm256_add_epi16(a, rounding->off), rounding->bits);
    b = _mm256_sra_epi16(_mm256_add_epi16(b, rounding->off), rounding->bits);
    return _mm256_xor_si256(_mm256_packs_epi16(a, b), _mm256_set1_epi8((char)0x80));
}

/* 8 outputs a lane. */
inlined void store_eights(const struct four *sums, const struct rounding *rounding,
                          const struct plane_rows *rows, size_t to)
{
#pragma GCC unroll 2
    for (int r = 0; r < PLANE_ROWS; r += 2) {
        __m256i bytes = bytes_of(sums->of[r], sums->of[r + 1], rounding);
        bytes = _mm256_permute4x64_epi64(bytes, 0xD8);
        _mm_storeu_si128((void *)(rows->to[r] + to), _mm256_castsi256_si128(bytes));
        _mm_storeu_si128((void *)(rows->to[r + 1] + to), _mm256_extracti128_si256(bytes, 1));
    }
}

/* 4 outputs a lane, of two sums each. */
inlined void store_fours(const struct four *sums, const struct rounding *rounding,
                         const struct plane_rows *rows, size_t to)
{
    __m256i near = _mm256_hadd_epi16(sums->of[0], sums->of[1]);
    __m256i far = _mm256_hadd_epi16(sums->of[2], sums->of[3]);
    __m256i bytes = bytes_of(near, far, rounding);
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    __m128i first = _mm256_castsi256_si128(bytes), last = _mm256_extracti128_si256(bytes, 1);
    _mm_storel_epi64((void *)(rows->to[0] + to), first);
    _mm_storeh_pi((void *)(rows->to[1] + to), _mm_castsi128_ps(first));
    _mm_storel_epi64((void *)(rows->to[2] + to), last);
    _mm_storeh_pi((void *)(rows->to[3] + to), _mm_castsi128_ps(last));
}

/* 2 outputs a lane, of four sums each, or one of eight. */
inlined void store_few(const struct four *sums, const struct rounding *rounding,
                       const struct plane_rows *rows, size_t to, int32_t unit)
{
    uint8_t bytes[STEP];
    size_t outputs = 16 / (size_t)unit;
    __m256i near = _mm256_hadd_epi16(sums->of[0], sums->of[1]);
    __m256i far = _mm256_hadd_epi16(sums->of[2], sums->of[3]);
    __m256i all = _mm256_hadd_epi16(near, far);
    if (unit == 16)
        all = _mm256_hadd_epi16(all, all);
    _mm256_storeu_si256((void *)bytes, bytes_of(all, all, rounding));
    for (size_t r = 0; r < PLANE_ROWS; r++) {
        memcpy(rows->to[r] + to, bytes + r * outputs, outputs);
        memcpy(rows->to[r] + to + outputs, bytes + 16 + r * outputs, outputs);
    }
}

inlined void all_lanes(const struct plane_taps *taps, const struct plane_rows *some, int32_t unit,
                       int32_t rounds)
{
    const struct plane_rows rows = *some; /* in registers: stores of bytes may alias all else */
    const struct rounding rounding = rounding_of(taps);
    const int32_t *at = taps->at;
    const uint8_t *shuffles = taps->shuffles, *weights = taps->lane_weights;
    size_t to = 0;
    for (int32_t left = taps->lanes; left > 0; left -= 2) {
        struct four sums = sums_of_lanes(&rows, at, load(shuffles), weights, rounds, unit);
        if (unit == 2)
            store_eights(&sums, &rounding, &rows, to);
        else if (unit == 4)
            store_fours(&sums, &rounding, &rows, to);
        else
            store_few(&sums, &rounding, &rows, to, unit);
        at += 2;
        shuffles += STEP;
        weights += STEP * (size_t)rounds;
        to += STEP / (size_t)unit;
    }
}

simd_target static void across(const struct plane_taps *taps, const struct plane_rows *rows)
{
    int32_t rounds = taps->rounds;
    if (taps->unit == 4)
        all_lanes(taps, rows, 4, rounds);
    else if (taps->unit > 4)
        all_lanes(taps, rows, taps->unit, rounds);
    else if (rounds == 1) /* the usual numbers without a loop */
        all_lanes(taps, rows, 2, 1);
    else if (rounds == 2)
        all_lanes(taps, rows, 2, 2);
    else if (rounds == 3)
        all_lanes(taps, rows, 2, 3);
    else
        all_lanes(taps, rows, 2, rounds);
}

/* ------- down ------- */

/* Of 32 samples, by the halves that unpacking makes of each 16. */
struct parts {
    __m256i low, high;
};

inlined struct parts sums_of_column(const struct plane_column *column, int32_t pairs, size_t x)
{
    const __m256i off = _mm256_set1_epi16((short)(-(128 << column->bits) - column->less));
    const __m128i more = _mm_cvtsi32_si128(PLANE_BITS - column->bits);
    struct parts sums = {off, off};
#pragma GCC unroll 4
    for (int32_t i = 0; i < pairs; i++) {
        const __m256i weights = _mm256_set1_epi16((short)column->weights[i * PLANE_STRIP]);
        const __m256i a = load(column->rows[2 * i] + x), b = load(column->rows[2 * i + 1] + x);
        sums.low =
            _mm256_add_epi16(sums.low, _mm256_maddubs_epi16(_mm256_unpacklo_epi8(a, b), weights));
        sums.high =
            _mm256_add_epi16(sums.high, _mm256_maddubs_epi16(_mm256_unpackhi_epi8(a, b), weights));
    }
    return (struct parts){_mm256_sll_epi16(sums.low, more), _mm256_sll_epi16(sums.high, more)};
}

inlined void store_bytes(uint8_t *to, __m256i low, __m256i high, __m256i half)
{
    low = _mm256_srai_epi16(_mm256_adds_epi16(low, half), PLANE_BITS);
    high = _mm256_srai_epi16(_mm256_adds_epi16(high, half), PLANE_BITS);
    __m256i bytes = _mm256_xor_si256(_mm256_packs_epi16(low, high), _mm256_set1_epi8((char)0x80));
    _mm256_storeu_si256((void *)to, bytes);
}

inlined __m256i product(__m256i value, int factor)
{
    return _mm256_mulhrs_epi16(value, _mm256_set1_epi16((short)factor));
}

inlined __m256i red_of(__m256i y, __m256i v)
{
    return _mm256_adds_epi16(y, _mm256_adds_epi16(v, product(v, PLANE_R_V)));
}

inlined __m256i green_of(__m256i y, __m256i u, __m256i v)
{
    return _mm256_subs_epi16(y, _mm256_adds_epi16(product(u, PLANE_G_U), product(v, PLANE_G_V)));
}

inlined __m256i blue_of(__m256i y, __m256i u)
{
    return _mm256_adds_epi16(y, _mm256_adds_epi16(u, product(u, PLANE_B_U)));
}

/* y, uv: pairs of the columns; uv = 0 without colour. */
inlined void all_pixels(const struct plane_column columns[3], int32_t y_pairs, int32_t uv_pairs,
                        int half, size_t n, uint8_t *const rgb[3])
{
    uint8_t *red = rgb[0], *green = rgb[1], *blue = rgb[2];
    const __m256i halves = _mm256_set1_epi16((short)half);
    for (size_t x = 0; x < n; x += STEP) {
        struct parts y = sums_of_column(&columns[0], y_pairs, x);
        if (uv_pairs) {
            struct parts u = sums_of_column(&columns[1], uv_pairs, x);
            struct parts v = sums_of_column(&columns[2], uv_pairs, x);
            store_bytes(red + x, red_of(y.low, v.low), red_of(y.high, v.high), halves);
            store_bytes(green + x, green_of(y.low, u.low, v.low), green_of(y.high, u.high, v.high),
                        halves);
            store_bytes(blue + x, blue_of(y.low, u.low), blue_of(y.high, u.high), halves);
            continue;
        }
        store_bytes(red + x, y.low, y.high, halves);
        store_bytes(green + x, y.low, y.high, halves);
        store_bytes(blue + x, y.low, y.high, halves);
    }
}

enum { FEW = 3 };

/* Few pairs are known to be in registers: stores of bytes may alias all else. */
inlined void few_pairs(const struct plane_column columns[3], int32_t y_pairs, int32_t uv_pairs,
                       int half, size_t n, uint8_t *const rgb[3])
{
    const uint8_t *rows[3][2 * FEW];
    uint16_t weights[3][FEW * PLANE_STRIP];
    struct plane_column own[3];
#pragma GCC unroll 3
    for (int c = 0; c < 3; c++) {
        int32_t pairs = c ? uv_pairs : y_pairs;
#pragma GCC unroll 3
        for (int32_t i = 0; i < pairs; i++) {
            rows[c][2 * i] = columns[c].rows[2 * i];
            rows[c][2 * i + 1] = columns[c].rows[2 * i + 1];
            weights[c][i * PLANE_STRIP] = columns[c].weights[i * PLANE_STRIP];
        }
        own[c] = columns[c];
        own[c].rows = rows[c];
        own[c].weights = weights[c];
    }
    all_pixels(own, y_pairs, uv_pairs, half, n, rgb);
}

simd_target static void down(const struct plane_column columns[3], bool colour, int half, size_t n,
                             uint8_t *const rgb[3])
{
    int32_t y = columns[0].pairs, uv = colour ? columns[1].pairs : 0;
    if (y == 2 && uv == 2) /* the usual numbers without a loop */
        few_pairs(columns, 2, 2, half, n, rgb);
    else if (y == 1 && uv == 2)
        few_pairs(columns, 1, 2, half, n, rgb);
    else if (y == 3 && uv == 2)
        few_pairs(columns, 3, 2, half, n, rgb);
    else if (y == 3 && uv == 3)
        few_pairs(columns, 3, 3, half, n, rgb);
    else
        all_pixels(columns, y, uv, half, n, rgb);
}

const struct plane_kernels plane_avx2 = {PLANE_16, across, down};

#endif
