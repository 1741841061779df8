#include "image/tensor.h"

#include <string.h>

enum { LINE = 64 }; /* bytes that caches fetch at once */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

uint16_t tensor_bfloat(float value)
{
    uint32_t bits = bits_of(value);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

uint16_t tensor_half(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size >= 0x47800000) /* 65536 */
        return (uint16_t)(sign | 0x7C00);
    if (size < 0x38800000) { /* 2^-14: the sum with 0.5 has the subnormal's last bit as its own */
        float magnitude;
        memcpy(&magnitude, &size, sizeof magnitude);
        return (uint16_t)(sign | (bits_of(magnitude + 0.5F) - bits_of(0.5F)));
    }
    size += 0xFFF + (size >> 13 & 1);
    return (uint16_t)(sign | ((size - (112U << 23)) >> 13)); /* exponent bias 127 -> 15 */
}

static void fill_tables(struct tensor *tensor)
{
    for (int c = 0; c < 3; c++)
        for (int x = 0; x < 256; x++) {
            float value = (float)x / 255.0F;
            value -= tensor->mean[c];
            value /= tensor->std[c];
            tensor->f32[c][x] = value;
            tensor->u16[c][x] =
                tensor->pixels == PIXELS_F16_NCHW ? tensor_half(value) : tensor_bfloat(value);
        }
}

static void plain(const struct tensor *tensor, const uint8_t *rgb, size_t from, size_t n,
                  const struct tensor_planes *planes)
{
    for (int c = 0; c < 3; c++) {
        const uint8_t *src = rgb + c;
        uint8_t *bytes = planes->at[c];
        uint16_t *halves = planes->at[c];
        float *floats = planes->at[c];
        if (tensor->pixels == PIXELS_U8_NCHW)
            for (size_t i = from; i < n; i++)
                bytes[i] = src[3 * i];
        else if (tensor->pixels == PIXELS_F32_NCHW)
            for (size_t i = from; i < n; i++)
                floats[i] = tensor->f32[c][src[3 * i]];
        else
            for (size_t i = from; i < n; i++)
                halves[i] = tensor->u16[c][src[3 * i]];
    }
}

#ifdef SIMD_X86
/* The AVX2 kernel computes instead of looking up: it must agree on every value. */
static bool avx2_agrees(const struct tensor *tensor)
{
    uint8_t all[256 * 3];
    float by_kernel[3][256], by_table[3][256];
    const struct tensor_planes kernel = {{by_kernel[0], by_kernel[1], by_kernel[2]}};
    const struct tensor_planes table = {{by_table[0], by_table[1], by_table[2]}};
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (uint8_t)(i / 3);
    tensor_avx2(tensor, all, 256, &kernel);
    plain(tensor, all, 0, 256, &table);
    for (int c = 0; c < 3; c++)
        if (memcmp(by_kernel[c], by_table[c], 256 * pixels_size(tensor->pixels)) != 0)
            return false;
    return true;
}
#endif

static enum simd choose(struct tensor *tensor, enum simd level)
{
#ifdef SIMD_X86
    if (level >= SIMD_AVX512) {
        tensor_avx512_set(tensor);
        return SIMD_AVX512;
    }
    tensor->fused = pixels_size(tensor->pixels) == 2;
    if (level == SIMD_AVX2 && avx2_agrees(tensor))
        return SIMD_AVX2;
    tensor->fused = false;
    if (level == SIMD_AVX2 && avx2_agrees(tensor))
        return SIMD_AVX2;
#else
    (void)tensor, (void)level;
#endif
    return SIMD_NONE;
}

static bool same(const float a[3], const float b[3])
{
    return a[0] == b[0] && a[1] == b[1] && a[2] == b[2];
}

void tensor_set(struct tensor *tensor, enum pixels pixels, const float mean[3], const float std[3],
                enum simd level)
{
    if (tensor->pixels == pixels && same(tensor->mean, mean) && same(tensor->std, std))
        return;
    tensor->pixels = pixels;
    memcpy(tensor->mean, mean, sizeof tensor->mean);
    memcpy(tensor->std, std, sizeof tensor->std);
    if (pixels_float(pixels))
        fill_tables(tensor);
    tensor->level = choose(tensor, level);
}

void tensor_place(const struct tensor *tensor, size_t n, void *dst, struct tensor_planes *planes)
{
    for (size_t c = 0; c < 3; c++)
        planes->at[c] = (uint8_t *)dst + c * n * pixels_size(tensor->pixels);
}

void tensor_write(const struct tensor *tensor, const uint8_t *rgb, size_t n, size_t at,
                  const struct tensor_planes *planes)
{
    struct tensor_planes to;
    size_t done = 0;
    size_t bytes = n * pixels_size(tensor->pixels);
    for (int c = 0; c < 3; c++) {
        to.at[c] = (uint8_t *)planes->at[c] + at * pixels_size(tensor->pixels);
        for (size_t i = bytes; i < 2 * bytes;
             i += LINE) /* of the next row, so that it needn't wait */
            __builtin_prefetch((uint8_t *)to.at[c] + i, 1);
    }
#ifdef SIMD_X86
    if (tensor->level == SIMD_AVX512) {
        tensor_avx512(tensor, rgb, n, &to);
        return;
    }
    if (tensor->level == SIMD_AVX2)
        done = tensor_avx2(tensor, rgb, n, &to);
#endif
    plain(tensor, rgb, done, n, &to);
}
