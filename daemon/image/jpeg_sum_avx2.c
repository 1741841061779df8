#include "image/jpeg_sum.h"
#include "image/simd.h"

/* xxhash takes the vectors that the compiler may use: the build gives this file AVX2. */
#ifdef SIMD_X86

#include <immintrin.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static uint64_t sum(const uint8_t *bytes, size_t size)
{
    return XXH3_64bits(bytes, size);
}

static size_t fills(const uint8_t *bytes, size_t size)
{
    const __m256i fill = _mm256_set1_epi8(-1);
    size_t count = 0, i = 0;
    for (; i + sizeof fill <= size; i += sizeof fill) {
        __m256i found = _mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)(bytes + i)), fill);
        count += (size_t)__builtin_popcount((unsigned)_mm256_movemask_epi8(found));
    }
    for (; i < size; i++)
        count += bytes[i] == 0xFF;
    return count;
}

const struct jpeg_sum jpeg_sum_avx2 = {sum, fills};

#endif
