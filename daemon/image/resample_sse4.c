#include "image/resample_kernels.h"
#include "image/simd.h"

#ifdef SIMD_X86
#include <smmintrin.h>
#include <string.h>

#define inlined simd_target_sse4 static inline __attribute__((always_inline))

struct sums {
    __m128i low, high;
};

inlined void add(struct sums *sums, __m128i samples, __m128i low, __m128i high)
{
    sums->low = _mm_add_epi32(sums->low, _mm_madd_epi16(samples, low));
    sums->high = _mm_add_epi32(sums->high, _mm_madd_epi16(samples, high));
}

/* Of two vectors of sums: 16-bit values, 2^6 times the samples. */
inlined __m128i join(struct sums a, struct sums b)
{
    return _mm_packs_epi32(_mm_add_epi32(_mm_srai_epi32(a.low, TAPS_SPLIT), a.high),
                           _mm_add_epi32(_mm_srai_epi32(b.low, TAPS_SPLIT), b.high));
}

/* mulhrs: (x + 2^5) >> 6 */
inlined __m128i bytes_of(__m128i a, __m128i b)
{
    const __m128i factor = _mm_set1_epi16(1 << (15 - (TAPS_BITS - TAPS_SPLIT)));
    return _mm_packus_epi16(_mm_mulhrs_epi16(a, factor), _mm_mulhrs_epi16(b, factor));
}

inlined __m128i load(const uint8_t *from)
{
    return _mm_loadu_si128((const void *)from);
}

inlined struct sums lane_of_row(const uint8_t *from, const uint8_t *data, int32_t pairs)
{
    const __m128i shuffle = load(data);
    struct sums sums = {_mm_setzero_si128(), _mm_setzero_si128()};
#pragma GCC unroll 4
    for (int32_t j = 0; j < pairs; j++, from += 6, data += 32)
        add(&sums, _mm_shuffle_epi8(load(from), shuffle), load(data + 16), load(data + 32));
    return sums;
}

inlined void store_four(uint8_t *dst, int values)
{
    memcpy(dst, &values, sizeof values);
}

inlined void all_lanes(const struct across *across, const struct resample_rows *rows, int32_t pairs)
{
    const struct resample_rows four = *rows; /* in registers: stores of bytes may alias all else */
    const uint8_t *data = across->data;
    size_t to = 0, values = (size_t)across->values;
    for (int32_t lane = 0; lane < across->blocks; lane++, to += values, data += 16 + 32 * pairs) {
        size_t at = (size_t)across->at[lane];
        __m128i near = join(lane_of_row(four.from[0] + at, data, pairs),
                            lane_of_row(four.from[1] + at, data, pairs));
        __m128i far = join(lane_of_row(four.from[2] + at, data, pairs),
                           lane_of_row(four.from[3] + at, data, pairs));
        __m128i bytes = bytes_of(near, far);
        store_four(four.to[0] + to, _mm_cvtsi128_si32(bytes));
        store_four(four.to[1] + to, _mm_extract_epi32(bytes, 1));
        store_four(four.to[2] + to, _mm_extract_epi32(bytes, 2));
        store_four(four.to[3] + to, _mm_extract_epi32(bytes, 3));
    }
}

simd_target_sse4 static void horizontal(const struct across *across,
                                        const struct resample_rows *rows)
{
    switch (across->taps->pairs) { /* the usual numbers without a loop */
    case 1:
        all_lanes(across, rows, 1);
        break;
    case 2:
        all_lanes(across, rows, 2);
        break;
    default:
        all_lanes(across, rows, across->taps->pairs);
    }
}

/* Of two vectors of low sums. */
inlined __m128i whole(__m128i a, __m128i b)
{
    return _mm_packs_epi32(_mm_srai_epi32(a, TAPS_SPLIT), _mm_srai_epi32(b, TAPS_SPLIT));
}

/* 16 bytes of one row. */
inlined __m128i part_of_row(const uint8_t *const *rows, size_t at, const struct taps_pair *pair,
                            int32_t pairs)
{
    const __m128i zero = _mm_setzero_si128();
    __m128i low[4] = {zero, zero, zero, zero}, high[2] = {zero, zero};
#pragma GCC unroll 4
    for (int32_t j = 0; j < pairs; j++) {
        __m128i a = load(rows[2 * j] + at), b = load(rows[2 * j + 1] + at);
        __m128i near = _mm_unpacklo_epi8(a, b), far = _mm_unpackhi_epi8(a, b);
        __m128i by_low = _mm_set1_epi32((int)pair[j].low);
        __m128i by_high = _mm_set1_epi32((int)pair[j].high);
        high[0] = _mm_add_epi16(high[0], _mm_maddubs_epi16(near, by_high));
        high[1] = _mm_add_epi16(high[1], _mm_maddubs_epi16(far, by_high));
        low[0] = _mm_add_epi32(low[0], _mm_madd_epi16(_mm_unpacklo_epi8(near, zero), by_low));
        low[1] = _mm_add_epi32(low[1], _mm_madd_epi16(_mm_unpackhi_epi8(near, zero), by_low));
        low[2] = _mm_add_epi32(low[2], _mm_madd_epi16(_mm_unpacklo_epi8(far, zero), by_low));
        low[3] = _mm_add_epi32(low[3], _mm_madd_epi16(_mm_unpackhi_epi8(far, zero), by_low));
    }
    high[0] = _mm_add_epi16(high[0], whole(low[0], low[1]));
    high[1] = _mm_add_epi16(high[1], whole(low[2], low[3]));
    return bytes_of(high[0], high[1]);
}

inlined void all_parts(const uint8_t *const *rows, const struct taps_pair *pair, int32_t pairs,
                       size_t bytes, uint8_t *dst)
{
    for (size_t x = 0; x < bytes; x += 16) {
        size_t at = x + 16 <= bytes ? x : bytes - 16;
        _mm_storeu_si128((void *)(dst + at), part_of_row(rows, at, pair, pairs));
    }
}

/* Few pairs are known to be in registers: stores of bytes may alias all else. */
inlined void few_pairs(const uint8_t *const *rows, const struct taps_pair *pair, int32_t pairs,
                       size_t bytes, uint8_t *dst)
{
    const uint8_t *own_rows[2 * 3];
    struct taps_pair own_pair[3];
    memcpy(own_rows, rows, 2 * (size_t)pairs * sizeof *rows);
    memcpy(own_pair, pair, (size_t)pairs * sizeof *pair);
    all_parts(own_rows, own_pair, pairs, bytes, dst);
}

simd_target_sse4 static void vertical(const uint8_t *const *rows, const struct taps_pair *pair,
                                      int32_t pairs, size_t bytes, uint8_t *dst)
{
    if (bytes < 16)
        resample_plain.vertical(rows, pair, pairs, bytes, dst);
    else if (pairs == 1)
        few_pairs(rows, pair, 1, bytes, dst);
    else if (pairs == 2)
        few_pairs(rows, pair, 2, bytes, dst);
    else if (pairs == 3)
        few_pairs(rows, pair, 3, bytes, dst);
    else
        all_parts(rows, pair, pairs, bytes, dst);
}

const struct resample_kernels resample_sse4 = {ACROSS_16, horizontal, vertical};

#endif
