#include "image/resample_kernels.h"
#include "image/simd.h"

#ifdef SIMD_X86
#include <immintrin.h>
#include <string.h>

#define inlined simd_target static inline __attribute__((always_inline))

struct sums {
    __m256i low, high;
};

inlined void add(struct sums *sums, __m256i samples, __m256i low, __m256i high)
{
    sums->low = _mm256_add_epi32(sums->low, _mm256_madd_epi16(samples, low));
    sums->high = _mm256_add_epi32(sums->high, _mm256_madd_epi16(samples, high));
}

/* Of two vectors of sums: 16-bit values, 2^6 times the samples. */
inlined __m256i join(struct sums a, struct sums b)
{
    return _mm256_packs_epi32(_mm256_add_epi32(_mm256_srai_epi32(a.low, TAPS_SPLIT), a.high),
                              _mm256_add_epi32(_mm256_srai_epi32(b.low, TAPS_SPLIT), b.high));
}

/* mulhrs: (x + 2^5) >> 6 */
inlined __m256i bytes_of(__m256i a, __m256i b)
{
    const __m256i factor = _mm256_set1_epi16(1 << (15 - (TAPS_BITS - TAPS_SPLIT)));
    return _mm256_packus_epi16(_mm256_mulhrs_epi16(a, factor), _mm256_mulhrs_epi16(b, factor));
}

inlined __m256i load(const uint8_t *from)
{
    return _mm256_loadu_si256((const void *)from);
}

inlined __m256i load_two(const uint8_t *a, const uint8_t *b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)a)),
                                   _mm_loadu_si128((const void *)b), 1);
}

inlined struct sums lanes_of_row(const uint8_t *row, const int32_t *at, const uint8_t *data,
                                 int32_t pairs)
{
    const uint8_t *a = row + at[0], *b = row + at[1];
    const __m256i shuffle = load(data);
    struct sums sums = {_mm256_setzero_si256(), _mm256_setzero_si256()};
#pragma GCC unroll 4
    for (int32_t j = 0; j < pairs; j++, a += 6, b += 6, data += 64)
        add(&sums, _mm256_shuffle_epi8(load_two(a, b), shuffle), load(data + 32), load(data + 64));
    return sums;
}

/* Two lanes of four rows: the low half of bytes has a lane of each row, the high half the next. */
inlined __m256i lanes_of_four(const struct resample_rows *four, const int32_t *at,
                              const uint8_t *data, int32_t pairs)
{
    __m256i near = join(lanes_of_row(four->from[0], at, data, pairs),
                        lanes_of_row(four->from[1], at, data, pairs));
    __m256i far = join(lanes_of_row(four->from[2], at, data, pairs),
                       lanes_of_row(four->from[3], at, data, pairs));
    return bytes_of(near, far);
}

/* 4 values a lane. */
inlined void store_eights(__m256i bytes, const struct resample_rows *four, size_t to)
{
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    __m128i near = _mm256_castsi256_si128(bytes), far = _mm256_extracti128_si256(bytes, 1);
    _mm_storel_epi64((void *)(four->to[0] + to), near);
    _mm_storeh_pi((void *)(four->to[1] + to), _mm_castsi128_ps(near));
    _mm_storel_epi64((void *)(four->to[2] + to), far);
    _mm_storeh_pi((void *)(four->to[3] + to), _mm_castsi128_ps(far));
}

/* 3 values a lane: the fourth byte is overwritten by the next lane. */
inlined void store_threes(__m256i bytes, const struct resample_rows *four, size_t to)
{
    int32_t values[8];
    _mm256_storeu_si256((void *)values, bytes);
    for (int r = 0; r < RESAMPLE_ROWS; r++) {
        memcpy(four->to[r] + to, &values[r], sizeof values[r]);
        memcpy(four->to[r] + to + 3, &values[4 + r], sizeof values[r]);
    }
}

inlined void all_blocks(const struct across *across, const struct resample_rows *rows,
                        int32_t pairs, int32_t values)
{
    const struct resample_rows four = *rows; /* in registers: stores of bytes may alias all else */
    const int32_t *at = across->at, blocks = across->blocks;
    const uint8_t *data = across->data;
    for (int32_t i = 0; i < blocks; i++, at += 2, data += 32 + 64 * pairs) {
        size_t to = 2 * (size_t)i * (size_t)values;
        __m256i bytes = lanes_of_four(&four, at, data, pairs);
        if (values == 4)
            store_eights(bytes, &four, to);
        else
            store_threes(bytes, &four, to);
    }
}

simd_target static void horizontal(const struct across *across, const struct resample_rows *rows)
{
    int32_t pairs = across->taps->pairs;
    if (across->values == 3)
        all_blocks(across, rows, pairs, 3);
    else if (pairs == 1) /* the usual numbers without a loop */
        all_blocks(across, rows, 1, 4);
    else if (pairs == 2)
        all_blocks(across, rows, 2, 4);
    else if (pairs == 3)
        all_blocks(across, rows, 3, 4);
    else
        all_blocks(across, rows, pairs, 4);
}

/* Of two vectors of low sums. */
inlined __m256i whole(__m256i a, __m256i b)
{
    return _mm256_packs_epi32(_mm256_srai_epi32(a, TAPS_SPLIT), _mm256_srai_epi32(b, TAPS_SPLIT));
}

/* 32 bytes of one row. */
inlined __m256i part_of_row(const uint8_t *const *rows, size_t at, const struct taps_pair *pair,
                            int32_t pairs)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i low[4] = {zero, zero, zero, zero}, high[2] = {zero, zero};
#pragma GCC unroll 4
    for (int32_t j = 0; j < pairs; j++) {
        __m256i a = load(rows[2 * j] + at), b = load(rows[2 * j + 1] + at);
        __m256i near = _mm256_unpacklo_epi8(a, b), far = _mm256_unpackhi_epi8(a, b);
        __m256i by_low = _mm256_set1_epi32((int)pair[j].low);
        __m256i by_high = _mm256_set1_epi32((int)pair[j].high);
        high[0] = _mm256_add_epi16(high[0], _mm256_maddubs_epi16(near, by_high));
        high[1] = _mm256_add_epi16(high[1], _mm256_maddubs_epi16(far, by_high));
        low[0] =
            _mm256_add_epi32(low[0], _mm256_madd_epi16(_mm256_unpacklo_epi8(near, zero), by_low));
        low[1] =
            _mm256_add_epi32(low[1], _mm256_madd_epi16(_mm256_unpackhi_epi8(near, zero), by_low));
        low[2] =
            _mm256_add_epi32(low[2], _mm256_madd_epi16(_mm256_unpacklo_epi8(far, zero), by_low));
        low[3] =
            _mm256_add_epi32(low[3], _mm256_madd_epi16(_mm256_unpackhi_epi8(far, zero), by_low));
    }
    high[0] = _mm256_add_epi16(high[0], whole(low[0], low[1]));
    high[1] = _mm256_add_epi16(high[1], whole(low[2], low[3]));
    return bytes_of(high[0], high[1]);
}

inlined void all_parts(const uint8_t *const *rows, const struct taps_pair *pair, int32_t pairs,
                       size_t bytes, uint8_t *dst)
{
    for (size_t x = 0; x < bytes; x += 32) {
        size_t at = x + 32 <= bytes ? x : bytes - 32;
        _mm256_storeu_si256((void *)(dst + at), part_of_row(rows, at, pair, pairs));
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

simd_target static void vertical(const uint8_t *const *rows, const struct taps_pair *pair,
                                 int32_t pairs, size_t bytes, uint8_t *dst)
{
    if (bytes < 32)
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

const struct resample_kernels resample_avx2 = {ACROSS_32, horizontal, vertical};

#endif
