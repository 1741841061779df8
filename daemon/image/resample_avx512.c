#include "image/resample_kernels.h"
#include "image/simd.h"

#ifdef SIMD_X86
#include <immintrin.h>
#include <string.h>

#define inlined simd_target_avx512 static inline __attribute__((always_inline))

struct sums {
    __m512i low, high;
};

inlined void add(struct sums *sums, __m512i samples, __m512i low, __m512i high)
{
    sums->low = _mm512_dpwssd_epi32(sums->low, samples, low);
    sums->high = _mm512_dpwssd_epi32(sums->high, samples, high);
}

/* Of two vectors of sums: 16-bit values, 2^6 times the samples. */
inlined __m512i join(struct sums a, struct sums b)
{
    return _mm512_packs_epi32(_mm512_add_epi32(_mm512_srai_epi32(a.low, TAPS_SPLIT), a.high),
                              _mm512_add_epi32(_mm512_srai_epi32(b.low, TAPS_SPLIT), b.high));
}

/* mulhrs: (x + 2^5) >> 6 */
inlined __m512i bytes_of(__m512i a, __m512i b)
{
    const __m512i factor = _mm512_set1_epi16(1 << (15 - (TAPS_BITS - TAPS_SPLIT)));
    return _mm512_packus_epi16(_mm512_mulhrs_epi16(a, factor), _mm512_mulhrs_epi16(b, factor));
}

inlined __m512i load(const uint8_t *from)
{
    return _mm512_loadu_si512((const void *)from);
}

inlined struct sums block_of_row(const uint8_t *from, const uint8_t *data, int32_t pairs)
{
    const __mmask64 low_bytes = 0x5555555555555555;
    const __m512i shuffle = load(data);
    struct sums sums = {_mm512_setzero_si512(), _mm512_setzero_si512()};
#pragma GCC unroll 4
    for (int32_t j = 0; j < pairs; j++, from += 6, data += 128) {
        __m512i samples = _mm512_maskz_permutexvar_epi8(low_bytes, shuffle, load(from));
        add(&sums, samples, load(data + 64), load(data + 128));
    }
    return sums;
}

inlined void all_blocks(const struct across *across, const struct resample_rows *rows,
                        int32_t pairs)
{
    const struct resample_rows four = *rows; /* in registers: stores of bytes may alias all else */
    const __m512i by_row = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const int32_t *at = across->at, blocks = across->blocks;
    const uint8_t *data = across->data;
    for (int32_t i = 0; i < blocks; i++, data += 64 + 128 * pairs) {
        size_t from = (size_t)at[i], to = 16 * (size_t)i;
        __m512i near = join(block_of_row(four.from[0] + from, data, pairs),
                            block_of_row(four.from[1] + from, data, pairs));
        __m512i far = join(block_of_row(four.from[2] + from, data, pairs),
                           block_of_row(four.from[3] + from, data, pairs));
        __m512i bytes = _mm512_permutexvar_epi32(by_row, bytes_of(near, far));
        _mm_storeu_si128((void *)(four.to[0] + to), _mm512_castsi512_si128(bytes));
        _mm_storeu_si128((void *)(four.to[1] + to), _mm512_extracti32x4_epi32(bytes, 1));
        _mm_storeu_si128((void *)(four.to[2] + to), _mm512_extracti32x4_epi32(bytes, 2));
        _mm_storeu_si128((void *)(four.to[3] + to), _mm512_extracti32x4_epi32(bytes, 3));
    }
}

simd_target_avx512 static void horizontal(const struct across *across,
                                          const struct resample_rows *rows)
{
    int32_t pairs = across->taps->pairs;
    if (across->vector == ACROSS_32)
        resample_avx2.horizontal(across, rows);
    else if (pairs == 1) /* the usual numbers without a loop */
        all_blocks(across, rows, 1);
    else if (pairs == 2)
        all_blocks(across, rows, 2);
    else if (pairs == 3)
        all_blocks(across, rows, 3);
    else
        all_blocks(across, rows, pairs);
}

/* Of two vectors of low sums. */
inlined __m512i whole(__m512i a, __m512i b)
{
    return _mm512_packs_epi32(_mm512_srai_epi32(a, TAPS_SPLIT), _mm512_srai_epi32(b, TAPS_SPLIT));
}

/* Up to 64 bytes of one row. */
inlined __m512i part_of_row(const uint8_t *const *rows, size_t at, const struct taps_pair *pair,
                            int32_t pairs, __mmask64 wanted)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i low[4] = {zero, zero, zero, zero}, high[2] = {zero, zero};
#pragma GCC unroll 4
    for (int32_t j = 0; j < pairs; j++) {
        __m512i a = _mm512_maskz_loadu_epi8(wanted, rows[2 * j] + at);
        __m512i b = _mm512_maskz_loadu_epi8(wanted, rows[2 * j + 1] + at);
        __m512i near = _mm512_unpacklo_epi8(a, b), far = _mm512_unpackhi_epi8(a, b);
        __m512i by_low = _mm512_set1_epi32((int)pair[j].low);
        __m512i by_high = _mm512_set1_epi32((int)pair[j].high);
        high[0] = _mm512_add_epi16(high[0], _mm512_maddubs_epi16(near, by_high));
        high[1] = _mm512_add_epi16(high[1], _mm512_maddubs_epi16(far, by_high));
        low[0] = _mm512_dpwssd_epi32(low[0], _mm512_unpacklo_epi8(near, zero), by_low);
        low[1] = _mm512_dpwssd_epi32(low[1], _mm512_unpackhi_epi8(near, zero), by_low);
        low[2] = _mm512_dpwssd_epi32(low[2], _mm512_unpacklo_epi8(far, zero), by_low);
        low[3] = _mm512_dpwssd_epi32(low[3], _mm512_unpackhi_epi8(far, zero), by_low);
    }
    high[0] = _mm512_add_epi16(high[0], whole(low[0], low[1]));
    high[1] = _mm512_add_epi16(high[1], whole(low[2], low[3]));
    return bytes_of(high[0], high[1]);
}

inlined void all_parts(const uint8_t *const *rows, const struct taps_pair *pair, int32_t pairs,
                       size_t bytes, uint8_t *dst)
{
    for (size_t at = 0; at < bytes; at += 64) {
        __mmask64 wanted = bytes - at < 64 ? (1ULL << (bytes - at)) - 1 : ~0ULL;
        _mm512_mask_storeu_epi8(dst + at, wanted, part_of_row(rows, at, pair, pairs, wanted));
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

simd_target_avx512 static void vertical(const uint8_t *const *rows, const struct taps_pair *pair,
                                        int32_t pairs, size_t bytes, uint8_t *dst)
{
    if (pairs == 1)
        few_pairs(rows, pair, 1, bytes, dst);
    else if (pairs == 2)
        few_pairs(rows, pair, 2, bytes, dst);
    else if (pairs == 3)
        few_pairs(rows, pair, 3, bytes, dst);
    else
        all_parts(rows, pair, pairs, bytes, dst);
}

const struct resample_kernels resample_avx512 = {ACROSS_64, horizontal, vertical};

#endif
