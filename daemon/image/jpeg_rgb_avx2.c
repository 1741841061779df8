#include <string.h>

#include "image/jpeg_rgb.h"
#include "image/simd.h"

#ifdef SIMD_X86
#include <immintrin.h>

enum { STEP = 32, ONE = 1 << 16 };

#define vector_inline simd_target static inline __attribute__((always_inline))

vector_inline __m256i load(const uint8_t *at)
{
    return _mm256_loadu_si256((const void *)at);
}

/* (x * factor + 2^15) >> 16 */
vector_inline __m256i part(__m256i x, int factor)
{
    __m256i twice = _mm256_add_epi16(x, x);
    __m256i product = _mm256_mulhi_epi16(twice, _mm256_set1_epi16((short)factor));
    return _mm256_srai_epi16(_mm256_add_epi16(product, _mm256_set1_epi16(1)), 1);
}

vector_inline __m256i green_pairs(__m256i pairs)
{
    const int factors = (ONE - JPEG_G_CR) << 16 | (uint16_t)-JPEG_G_CB;
    __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi32(factors));
    return _mm256_srai_epi32(_mm256_add_epi32(sums, _mm256_set1_epi32(ONE / 2)), 16);
}

/* Of 16 pixels, 16 bits each; factors beyond 16 bits are split off as whole numbers. */
vector_inline void convert(__m256i y, __m256i u, __m256i v, __m256i rgb[3])
{
    const __m256i centre = _mm256_set1_epi16(128);
    u = _mm256_sub_epi16(u, centre);
    v = _mm256_sub_epi16(v, centre);
    __m256i green = _mm256_packs_epi32(green_pairs(_mm256_unpacklo_epi16(u, v)),
                                       green_pairs(_mm256_unpackhi_epi16(u, v)));
    rgb[0] = _mm256_add_epi16(_mm256_add_epi16(y, v), part(v, JPEG_R_CR - ONE));
    rgb[1] = _mm256_add_epi16(_mm256_sub_epi16(y, v), green);
    rgb[2] =
        _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(u, u)), part(u, JPEG_B_CB - 2 * ONE));
}

/* Bytes of one channel of 16 pixels, set out so that each of the three 16-byte parts of the result
 * finds its own at their places: bytes 0, 3, ... are for the first, and so on. */
#define PLACES_0 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5
#define PLACES_1 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10
#define PLACES_2 10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15
static const uint8_t places[3][STEP] = {
    {PLACES_0, PLACES_0}, {PLACES_1, PLACES_1}, {PLACES_2, PLACES_2}};

/* In the set of bytes i with i % 3 == number. */
vector_inline __m256i thirds(int number)
{
    static const uint8_t masks[3 + STEP] = {0xFF, 0, 0, 0xFF, 0, 0, 0xFF, 0, 0, 0xFF, 0, 0,
                                            0xFF, 0, 0, 0xFF, 0, 0, 0xFF, 0, 0, 0xFF, 0, 0,
                                            0xFF, 0, 0, 0xFF, 0, 0, 0xFF, 0, 0, 0xFF, 0};
    __m128i mask = _mm_loadu_si128((const void *)(masks + (3 - number) % 3));
    return _mm256_broadcastsi128_si256(mask);
}

/* 32 pixels; the halves of the registers hold 16 each. */
vector_inline void store(const __m256i channels[3], uint8_t *rgb)
{
    __m256i c[3];
#pragma GCC unroll 8
    for (int i = 0; i < 3; i++)
        c[i] = _mm256_shuffle_epi8(channels[i], load(places[i]));
#pragma GCC unroll 8
    for (int i = 0; i < 3; i++) {
        /* byte b of part i is channel (16 * i + b) % 3 */
        __m256i out = _mm256_blendv_epi8(c[i], c[(i + 1) % 3], thirds(1));
        out = _mm256_blendv_epi8(out, c[(i + 2) % 3], thirds(2));
        _mm_storeu_si128((void *)(rgb + 16 * i), _mm256_castsi256_si128(out));
        _mm_storeu_si128((void *)(rgb + 48 + 16 * i), _mm256_extracti128_si256(out, 1));
    }
}

vector_inline void block_of_ycc(const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
                                uint8_t *rgb)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i a = load(y), b = load(cb), c = load(cr), low[3], high[3], channels[3];
    convert(_mm256_unpacklo_epi8(a, zero), _mm256_unpacklo_epi8(b, zero),
            _mm256_unpacklo_epi8(c, zero), low);
    convert(_mm256_unpackhi_epi8(a, zero), _mm256_unpackhi_epi8(b, zero),
            _mm256_unpackhi_epi8(c, zero), high);
#pragma GCC unroll 8
    for (int i = 0; i < 3; i++)
        channels[i] = _mm256_packus_epi16(low[i], high[i]);
    store(channels, rgb);
}

vector_inline void block_of_planes(const uint8_t *red, const uint8_t *green, const uint8_t *blue,
                                   uint8_t *rgb)
{
    const __m256i channels[3] = {load(red), load(green), load(blue)};
    store(channels, rgb);
}

simd_target static void from_ycc(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t n,
                                 uint8_t *rgb)
{
    uint8_t rest[3 * STEP];
    size_t i = 0;
    for (; i + STEP <= n; i += STEP)
        block_of_ycc(y + i, cb + i, cr + i, rgb + 3 * i);
    if (i == n)
        return;
    block_of_ycc(y + i, cb + i, cr + i, rest);
    memcpy(rgb + 3 * i, rest, 3 * (n - i));
}

simd_target static void from_planes(const uint8_t *red, const uint8_t *green, const uint8_t *blue,
                                    size_t n, uint8_t *rgb)
{
    uint8_t rest[3 * STEP];
    size_t i = 0;
    for (; i + STEP <= n; i += STEP)
        block_of_planes(red + i, green + i, blue + i, rgb + 3 * i);
    if (i == n)
        return;
    block_of_planes(red + i, green + i, blue + i, rest);
    memcpy(rgb + 3 * i, rest, 3 * (n - i));
}

const struct jpeg_rgb jpeg_rgb_avx2 = {from_ycc, from_planes};

#endif
