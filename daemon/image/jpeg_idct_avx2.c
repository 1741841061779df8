#include "image/jpeg_idct.h"

#include <stdbool.h>

#include "image/simd.h"

#ifdef SIMD_X86
#include <immintrin.h>

/* Each half of a register belongs to one of the two blocks. */
#define vector_inline simd_target static inline __attribute__((always_inline))

/* 32-bit sums of the products of two rows, four columns each. */
struct wide {
    __m256i low, high;
};

vector_inline struct wide products(__m256i a, __m256i b, int factor_a, int factor_b)
{
    const __m256i factors = _mm256_set1_epi32((int)((uint32_t)factor_b << 16 | (uint16_t)factor_a));
    return (struct wide){_mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), factors),
                         _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), factors)};
}

vector_inline struct wide sum(struct wide a, struct wide b)
{
    return (struct wide){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

vector_inline struct wide difference(struct wide a, struct wide b)
{
    return (struct wide){_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}

/* a * 2^13, and what rounds the end result. */
vector_inline struct wide scaled(__m256i a, int shift)
{
    const __m256i zero = _mm256_setzero_si256(), half = _mm256_set1_epi32(1 << (shift - 1));
    const int down = 16 - JPEG_FACTOR_BITS;
    struct wide product = {_mm256_srai_epi32(_mm256_unpacklo_epi16(zero, a), down),
                           _mm256_srai_epi32(_mm256_unpackhi_epi16(zero, a), down)};
    return sum(product, (struct wide){half, half});
}

vector_inline __m256i descale(struct wide a, int shift)
{
    return _mm256_packs_epi32(_mm256_srai_epi32(a.low, shift), _mm256_srai_epi32(a.high, shift));
}

vector_inline void pass(__m256i x[8], int shift)
{
    struct wide low = products(x[2], x[6], JPEG_0_541, JPEG_0_541 - JPEG_1_847);
    struct wide high = products(x[2], x[6], JPEG_0_541 + JPEG_0_765, JPEG_0_541);
    struct wide first = scaled(_mm256_add_epi16(x[0], x[4]), shift);
    struct wide second = scaled(_mm256_sub_epi16(x[0], x[4]), shift);
    struct wide even[4] = {sum(first, high), sum(second, low), difference(second, low),
                           difference(first, high)};
    __m256i z3 = _mm256_add_epi16(x[7], x[3]), z4 = _mm256_add_epi16(x[5], x[1]);
    struct wide a = products(z3, z4, JPEG_1_175 - JPEG_1_961, JPEG_1_175);
    struct wide b = products(z3, z4, JPEG_1_175, JPEG_1_175 - JPEG_0_390);
    struct wide odd[4] = {
        sum(products(x[1], x[7], JPEG_1_501 - JPEG_0_899, -JPEG_0_899), b),
        sum(products(x[3], x[5], JPEG_3_072 - JPEG_2_562, -JPEG_2_562), a),
        sum(products(x[3], x[5], -JPEG_2_562, JPEG_2_053 - JPEG_2_562), b),
        sum(products(x[1], x[7], -JPEG_0_899, JPEG_0_298 - JPEG_0_899), a),
    };
#pragma GCC unroll 8
    for (int i = 0; i < 4; i++) {
        x[i] = descale(sum(even[i], odd[i]), shift);
        x[7 - i] = descale(difference(even[i], odd[i]), shift);
    }
}

vector_inline void transpose(__m256i x[8])
{
    __m256i a[8], b[8];
#pragma GCC unroll 8
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_epi16(x[2 * i], x[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi16(x[2 * i], x[2 * i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 2; i++) {
        b[4 * i] = _mm256_unpacklo_epi32(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi32(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi32(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi32(a[4 * i + 1], a[4 * i + 3]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 4; i++) {
        x[2 * i] = _mm256_unpacklo_epi64(b[i], b[i + 4]);
        x[2 * i + 1] = _mm256_unpackhi_epi64(b[i], b[i + 4]);
    }
}

vector_inline void store_pair(const struct jpeg_idct_job *job, int row, __m128i rows)
{
    uint8_t *dst = job->dst + (size_t)row * job->stride;
    _mm_storel_epi64((void *)dst, rows);
    _mm_storeh_pd((void *)(dst + job->stride), _mm_castsi128_pd(rows));
}

/* x are columns: bytes are packed first, then turned into rows. */
vector_inline void store(const __m256i x[8], const struct jpeg_idct_job jobs[2])
{
    const __m256i centre = _mm256_set1_epi8(-128);
    __m256i a[4], b[4], c[4];
#pragma GCC unroll 8
    for (int i = 0; i < 4; i++) {
        int k = (i & 1) + (i & 2) * 2;
        a[i] = _mm256_packs_epi16(x[k], x[k + 2]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 4; i += 2) {
        b[i] = _mm256_unpacklo_epi8(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_epi8(a[i], a[i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 2; i++) {
        c[2 * i] = _mm256_unpacklo_epi16(b[2 * i], b[2 * i + 1]);
        c[2 * i + 1] = _mm256_unpackhi_epi16(b[2 * i], b[2 * i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 4; i++) {
        __m256i rows = i & 1 ? _mm256_unpackhi_epi32(c[i / 2], c[i / 2 + 2])
                             : _mm256_unpacklo_epi32(c[i / 2], c[i / 2 + 2]);
        rows = _mm256_xor_si256(rows, centre);
        store_pair(&jobs[0], 2 * i, _mm256_castsi256_si128(rows));
        store_pair(&jobs[1], 2 * i, _mm256_extracti128_si256(rows, 1));
    }
}

vector_inline __m256i load(const int16_t *a, const int16_t *b)
{
    __m256i low = _mm256_castsi128_si256(_mm_loadu_si128((const void *)a));
    return _mm256_inserti128_si256(low, _mm_loadu_si128((const void *)b), 1);
}

/* The first row may be scaled by 4 without overflow: then the way of libjpeg-turbo for blocks of
 * one row alone gives the same as the full way. */
vector_inline bool is_moderate(__m256i row)
{
    __m256i back = _mm256_srai_epi16(_mm256_slli_epi16(row, JPEG_PASS_BITS), JPEG_PASS_BITS);
    return _mm256_movemask_epi8(_mm256_cmpeq_epi16(back, row)) == -1;
}

simd_target void jpeg_idct_avx2(const struct jpeg_idct_job jobs[2])
{
    __m256i x[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        x[i] = _mm256_mullo_epi16(load(jobs[0].coefficients + 8 * i, jobs[1].coefficients + 8 * i),
                                  load(jobs[0].quant + 8 * i, jobs[1].quant + 8 * i));
    if (!is_moderate(x[0])) {
        jpeg_idct_plain(&jobs[0]);
        jpeg_idct_plain(&jobs[1]);
        return;
    }
    pass(x, JPEG_SHIFT_1);
    transpose(x);
    pass(x, JPEG_SHIFT_2);
    store(x, jobs);
}

#endif
