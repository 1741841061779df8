#include "image/plane_kernels.h"
#include "image/simd.h"

#ifdef SIMD_X86
#include <immintrin.h>

#define inlined simd_target_avx512 static inline __attribute__((always_inline))

enum { STEP = 64, HALF = 32, FEW = 3 };

inlined __m512i load(const void *from)
{
    return _mm512_loadu_si512(from);
}

/* ------- across ------- */

/* Of two strips that follow each other. */
inlined __m512i load_pairs(const uint16_t *weights, int32_t rounds)
{
    __m256i first = _mm256_loadu_si256((const void *)weights);
    const uint16_t *next = weights + (size_t)rounds * PLANE_STRIP;
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), _mm256_loadu_si256((const void *)next),
                              1);
}

struct rounding {
    __m512i off;
    __m128i bits;
};

inlined __m256i bytes_of(__m512i sums, const struct rounding *rounding)
{
    sums = _mm512_sra_epi16(_mm512_add_epi16(sums, rounding->off), rounding->bits);
    return _mm256_xor_si256(_mm512_cvtsepi16_epi8(sums), _mm256_set1_epi8((char)0x80));
}

inlined void all_lanes(const struct plane_taps *taps, const struct plane_rows *some, int32_t rounds)
{
    const struct plane_rows rows = *some; /* in registers: stores of bytes may alias all else */
    const int off = (1 << (taps->bits - 1)) - (128 << taps->bits);
    const struct rounding rounding = {_mm512_set1_epi16((short)off), _mm_cvtsi32_si128(taps->bits)};
    const uint8_t *shuffles = taps->shuffles;
    const uint16_t *weights = taps->weights;
    for (int32_t lane = 0; lane < taps->lanes; lane++, shuffles += STEP) {
        const __m512i shuffle = load(shuffles);
        const size_t at = (size_t)taps->at[lane], to = HALF * (size_t)lane;
        __m512i sums[PLANE_ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < PLANE_ROWS; r++)
            sums[r] = _mm512_setzero_si512();
#pragma GCC unroll 4
        for (int32_t i = 0; i < rounds; i++) {
            const __m512i pairs = load_pairs(weights + (size_t)i * PLANE_STRIP, rounds);
#pragma GCC unroll 4
            for (int r = 0; r < PLANE_ROWS; r++) {
                __m512i samples = load(rows.from[r] + at + 2 * (size_t)i);
                samples = _mm512_permutexvar_epi8(shuffle, samples);
                sums[r] = _mm512_add_epi16(sums[r], _mm512_maddubs_epi16(samples, pairs));
            }
        }
        weights += 2 * (size_t)rounds * PLANE_STRIP;
#pragma GCC unroll 4
        for (int r = 0; r < PLANE_ROWS; r++)
            _mm256_storeu_si256((void *)(rows.to[r] + to), bytes_of(sums[r], &rounding));
    }
}

simd_target_avx512 static void across(const struct plane_taps *taps, const struct plane_rows *rows)
{
    if (taps->window != PLANE_64)
        plane_avx2.across(taps, rows);
    else if (taps->rounds == 1) /* the usual numbers without a loop */
        all_lanes(taps, rows, 1);
    else if (taps->rounds == 2)
        all_lanes(taps, rows, 2);
    else if (taps->rounds == 3)
        all_lanes(taps, rows, 3);
    else
        all_lanes(taps, rows, taps->rounds);
}

/* ------- down ------- */

/* Of 64 samples, by the halves that unpacking makes of each 16. */
struct parts {
    __m512i low, high;
};

inlined struct parts sums_of_column(const struct plane_column *column, int32_t pairs, size_t x)
{
    const __m512i off = _mm512_set1_epi16((short)(-(128 << column->bits) - column->less));
    const __m128i more = _mm_cvtsi32_si128(PLANE_BITS - column->bits);
    struct parts sums = {off, off};
#pragma GCC unroll 4
    for (int32_t i = 0; i < pairs; i++) {
        const __m512i weights = _mm512_set1_epi16((short)column->weights[i * PLANE_STRIP]);
        const __m512i a = load(column->rows[2 * i] + x), b = load(column->rows[2 * i + 1] + x);
        sums.low =
            _mm512_add_epi16(sums.low, _mm512_maddubs_epi16(_mm512_unpacklo_epi8(a, b), weights));
        sums.high =
            _mm512_add_epi16(sums.high, _mm512_maddubs_epi16(_mm512_unpackhi_epi8(a, b), weights));
    }
    return (struct parts){_mm512_sll_epi16(sums.low, more), _mm512_sll_epi16(sums.high, more)};
}

inlined void store_bytes(uint8_t *to, __m512i low, __m512i high, __m512i half)
{
    low = _mm512_srai_epi16(_mm512_adds_epi16(low, half), PLANE_BITS);
    high = _mm512_srai_epi16(_mm512_adds_epi16(high, half), PLANE_BITS);
    __m512i bytes = _mm512_xor_si512(_mm512_packs_epi16(low, high), _mm512_set1_epi8((char)0x80));
    _mm512_storeu_si512((void *)to, bytes);
}

inlined __m512i product(__m512i value, int factor)
{
    return _mm512_mulhrs_epi16(value, _mm512_set1_epi16((short)factor));
}

inlined __m512i red_of(__m512i y, __m512i v)
{
    return _mm512_adds_epi16(y, _mm512_adds_epi16(v, product(v, PLANE_R_V)));
}

inlined __m512i green_of(__m512i y, __m512i u, __m512i v)
{
    return _mm512_subs_epi16(y, _mm512_adds_epi16(product(u, PLANE_G_U), product(v, PLANE_G_V)));
}

inlined __m512i blue_of(__m512i y, __m512i u)
{
    return _mm512_adds_epi16(y, _mm512_adds_epi16(u, product(u, PLANE_B_U)));
}

/* y, uv: pairs of the columns. */
inlined void all_pixels(const struct plane_column columns[3], int32_t y_pairs, int32_t uv_pairs,
                        int half, size_t n, uint8_t *const rgb[3])
{
    uint8_t *red = rgb[0], *green = rgb[1], *blue = rgb[2];
    const __m512i halves = _mm512_set1_epi16((short)half);
    for (size_t x = 0; x < n; x += STEP) {
        struct parts y = sums_of_column(&columns[0], y_pairs, x);
        struct parts u = sums_of_column(&columns[1], uv_pairs, x);
        struct parts v = sums_of_column(&columns[2], uv_pairs, x);
        store_bytes(red + x, red_of(y.low, v.low), red_of(y.high, v.high), halves);
        store_bytes(green + x, green_of(y.low, u.low, v.low), green_of(y.high, u.high, v.high),
                    halves);
        store_bytes(blue + x, blue_of(y.low, u.low), blue_of(y.high, u.high), halves);
    }
}

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

simd_target_avx512 static void down(const struct plane_column columns[3], bool colour, int half,
                                    size_t n, uint8_t *const rgb[3])
{
    int32_t y = columns[0].pairs, uv = columns[1].pairs;
    if (!colour)
        plane_avx2.down(columns, false, half, n, rgb);
    else if (y == 2 && uv == 2) /* the usual numbers without a loop */
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

const struct plane_kernels plane_avx512 = {PLANE_64, across, down};

#endif
