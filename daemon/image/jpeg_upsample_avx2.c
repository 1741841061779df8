#include "image/jpeg_upsample.h"
#include "image/simd.h"

#ifdef SIMD_X86
#include <immintrin.h>

enum { STEP = 32 };

#define vector_inline simd_target static inline __attribute__((always_inline))

/* Of 32 samples, by the halves that unpacking makes of each 16. */
struct parts {
    __m256i low, high;
};

vector_inline __m256i load(const uint8_t *at)
{
    return _mm256_loadu_si256((const void *)at);
}

/* 3 * near + far */
vector_inline struct parts weigh(__m256i near, __m256i far)
{
    const __m256i weights = _mm256_set1_epi16(0x0103);
    return (struct parts){_mm256_maddubs_epi16(_mm256_unpacklo_epi8(near, far), weights),
                          _mm256_maddubs_epi16(_mm256_unpackhi_epi8(near, far), weights)};
}

vector_inline struct parts round_off(struct parts a, int bias, int shift)
{
    const __m256i half = _mm256_set1_epi16((short)bias);
    return (struct parts){_mm256_srli_epi16(_mm256_add_epi16(a.low, half), shift),
                          _mm256_srli_epi16(_mm256_add_epi16(a.high, half), shift)};
}

/* even[0] odd[0] even[1] odd[1] ... */
vector_inline void store_turns(uint8_t *out, struct parts even, struct parts odd)
{
    __m256i low = _mm256_or_si256(even.low, _mm256_slli_epi16(odd.low, 8));
    __m256i high = _mm256_or_si256(even.high, _mm256_slli_epi16(odd.high, 8));
    _mm256_storeu_si256((void *)out, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256((void *)(out + STEP), _mm256_permute2x128_si256(low, high, 0x31));
}

simd_target static void wider(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += STEP, in += STEP, out += 2 * STEP) {
        __m256i here = load(in);
        store_turns(out, round_off(weigh(here, load(in - 1)), 1, 2),
                    round_off(weigh(here, load(in + 1)), 2, 2));
    }
}

vector_inline struct parts columns(const uint8_t *near, const uint8_t *far, ptrdiff_t i)
{
    return weigh(load(near + i), load(far + i));
}

/* 3 * here + beside */
vector_inline struct parts weigh_columns(struct parts here, struct parts beside)
{
    const __m256i three = _mm256_set1_epi16(3);
    return (struct parts){_mm256_add_epi16(_mm256_mullo_epi16(here.low, three), beside.low),
                          _mm256_add_epi16(_mm256_mullo_epi16(here.high, three), beside.high)};
}

simd_target static void both(const uint8_t *near, const uint8_t *far, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += STEP, near += STEP, far += STEP, out += 2 * STEP) {
        struct parts here = columns(near, far, 0);
        store_turns(out, round_off(weigh_columns(here, columns(near, far, -1)), 8, 4),
                    round_off(weigh_columns(here, columns(near, far, 1)), 7, 4));
    }
}

simd_target static void higher(const uint8_t *near, const uint8_t *far, size_t n, int bias,
                               uint8_t *out)
{
    for (size_t i = 0; i < n; i += STEP) {
        struct parts sums = round_off(weigh(load(near + i), load(far + i)), bias, 2);
        _mm256_storeu_si256((void *)(out + i), _mm256_packus_epi16(sums.low, sums.high));
    }
}

const struct jpeg_upsample jpeg_upsample_avx2 = {wider, both, higher};

#endif
