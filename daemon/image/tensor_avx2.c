#include "image/simd.h"
#include "image/tensor.h"

#ifdef SIMD_X86
#include <immintrin.h>

#define inlined simd_target static inline __attribute__((always_inline))

enum { BLOCK = 16 };

/* A division is a product with the reciprocal in two parts: as good as always rounded as it should
 * be. What is fused, (x / 255 - mean) / std as x * factor + offset, is not, but a rounding to 16
 * bits mostly hides it. tensor_set proves either for all values before it is used. */
struct divisor {
    __m256 high, low;
};

struct channel {
    struct divisor range, std;
    __m256 mean;
    __m256 factor, offset;
};

inlined struct divisor divisor(float value)
{
    float high = 1.0F / value;
    return (struct divisor){_mm256_set1_ps(high),
                            _mm256_set1_ps((float)(1.0 / (double)value - (double)high))};
}

inlined __m256 divide(__m256 x, struct divisor by)
{
    return _mm256_fmadd_ps(x, by.high, _mm256_mul_ps(x, by.low));
}

simd_target static struct channel channel_of(float mean, float std)
{
    return (struct channel){.range = divisor(255),
                            .std = divisor(std),
                            .mean = _mm256_set1_ps(mean),
                            .factor = _mm256_set1_ps((float)(1 / (255.0 * (double)std))),
                            .offset = _mm256_set1_ps((float)(-(double)mean / (double)std))};
}

inlined __m256 normal(__m128i bytes, const struct channel *channel, bool fused)
{
    __m256 x = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    if (fused)
        return _mm256_fmadd_ps(x, channel->factor, channel->offset);
    x = _mm256_sub_ps(divide(x, channel->range), channel->mean);
    return divide(x, channel->std);
}

/* The 16 bytes of one channel out of 16 pixels. */
inlined __m128i gather(const __m128i parts[3], int c)
{
    static const int8_t picks[3][3][16] = {
        {{0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13}},
        {{1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14}},
        {{2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1},
         {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15}},
    };
    __m128i out = _mm_setzero_si128();
#pragma GCC unroll 3
    for (int part = 0; part < 3; part++) {
        __m128i pick = _mm_loadu_si128((const void *)picks[c][part]);
        out = _mm_or_si128(out, _mm_shuffle_epi8(parts[part], pick));
    }
    return out;
}

/* Two times 8 floats -> 16 bfloat16, nearest even. */
inlined __m256i bfloats(__m256 a, __m256 b)
{
    const __m256i half = _mm256_set1_epi32(0x7FFF), one = _mm256_set1_epi32(1);
    __m256i x = _mm256_castps_si256(a), y = _mm256_castps_si256(b);
    x = _mm256_add_epi32(_mm256_add_epi32(x, half),
                         _mm256_and_si256(_mm256_srli_epi32(x, 16), one));
    y = _mm256_add_epi32(_mm256_add_epi32(y, half),
                         _mm256_and_si256(_mm256_srli_epi32(y, 16), one));
    x = _mm256_packus_epi32(_mm256_srli_epi32(x, 16), _mm256_srli_epi32(y, 16));
    return _mm256_permute4x64_epi64(x, 0xD8);
}

inlined void store(enum pixels pixels, bool fused, __m128i bytes, const struct channel *channel,
                   void *plane, size_t at)
{
    if (pixels == PIXELS_U8_NCHW) {
        _mm_storeu_si128((void *)((uint8_t *)plane + at), bytes);
        return;
    }
    __m256 a = normal(bytes, channel, fused);
    __m256 b = normal(_mm_srli_si128(bytes, 8), channel, fused);
    if (pixels == PIXELS_F32_NCHW) {
        _mm256_storeu_ps((float *)plane + at, a);
        _mm256_storeu_ps((float *)plane + at + 8, b);
        return;
    }
    __m256i words = pixels == PIXELS_F16_NCHW
                        ? _mm256_set_m128i(_mm256_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT),
                                           _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT))
                        : bfloats(a, b);
    _mm256_storeu_si256((void *)((uint16_t *)plane + at), words);
}

inlined size_t blocks(enum pixels pixels, bool fused, const uint8_t *rgb, size_t n,
                      const struct channel channels[3], const struct tensor_planes *planes)
{
    size_t at = 0;
    for (; at + BLOCK <= n; at += BLOCK, rgb += 3 * BLOCK) {
        const __m128i parts[3] = {_mm_loadu_si128((const void *)rgb),
                                  _mm_loadu_si128((const void *)(rgb + 16)),
                                  _mm_loadu_si128((const void *)(rgb + 32))};
#pragma GCC unroll 3
        for (int c = 0; c < 3; c++)
            store(pixels, fused, gather(parts, c), &channels[c], planes->at[c], at);
    }
    return at;
}

simd_target size_t tensor_avx2(const struct tensor *tensor, const uint8_t *rgb, size_t n,
                               const struct tensor_planes *planes)
{
    struct channel channels[3];
    bool fused = tensor->fused;
    for (int c = 0; c < 3; c++)
        channels[c] = channel_of(tensor->mean[c], tensor->std[c]);
    switch (tensor->pixels) {
    case PIXELS_U8_NCHW:
        return blocks(PIXELS_U8_NCHW, false, rgb, n, channels, planes);
    case PIXELS_F32_NCHW:
        return blocks(PIXELS_F32_NCHW, false, rgb, n, channels, planes);
    case PIXELS_F16_NCHW:
        return fused ? blocks(PIXELS_F16_NCHW, true, rgb, n, channels, planes)
                     : blocks(PIXELS_F16_NCHW, false, rgb, n, channels, planes);
    case PIXELS_BF16_NCHW:
        return fused ? blocks(PIXELS_BF16_NCHW, true, rgb, n, channels, planes)
                     : blocks(PIXELS_BF16_NCHW, false, rgb, n, channels, planes);
    case PIXELS_U8_NHWC:
        break;
    }
    return 0;
}

#endif
