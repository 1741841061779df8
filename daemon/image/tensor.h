/* 8-bit RGB -> the values of a row: planes (NCHW) of uint8, float32, float16 or bfloat16.
 *
 * Floats are ((float)x / 255.0f - mean) / std, each operation rounded as float32, as torchvision's
 * ToTensor and Normalize; 16-bit ones are that, rounded to nearest even. A channel has 256 values
 * only, so they are tabulated. */
#ifndef TENSOR_H
#define TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/simd.h"
#include "image/transform.h"

/* One picture's planes: n values each. */
struct tensor_planes {
    void *at[3];
};

/* One channel's table as AVX-512 reads it: which bytes of 64 pixels are its, in two steps, and each
 * byte of the values by itself. */
struct tensor_lookup {
    uint8_t first[64], second[64];
    uint8_t bytes[4][256];
};

struct tensor {
    enum pixels pixels;
    float mean[3], std[3];
    float f32[3][256];
    uint16_t u16[3][256]; /* float16 or bfloat16 */
    enum simd level;      /* whose kernel is used; it gives these values, proved for all of them */
    bool fused;           /* of the AVX2 kernel: one multiply-add is exact enough */
    struct tensor_lookup lookup[3];
};

/* Makes the tables; cheap where nothing has changed. Start with a zeroed struct; level: the best
 * instructions that may be used. */
void tensor_set(struct tensor *tensor, enum pixels pixels, const float mean[3], const float std[3],
                enum simd level);
/* The planes of a picture of n pixels at dst. */
void tensor_place(const struct tensor *tensor, size_t n, void *dst, struct tensor_planes *planes);
/* n pixels of RGB become the values from number `at` on of each plane; not for PIXELS_U8_NHWC. */
void tensor_write(const struct tensor *tensor, const uint8_t *rgb, size_t n, size_t at,
                  const struct tensor_planes *planes);

uint16_t tensor_half(float value);   /* float16 bits, nearest even; no NaN */
uint16_t tensor_bfloat(float value); /* bfloat16 bits, nearest even; no NaN */

/* Kernels, x86-64 only: tensor_avx2 does whole blocks of pixels from the first on and returns how
 * many are done, tensor_avx512 all; that needs tensor_avx512_set. */
size_t tensor_avx2(const struct tensor *tensor, const uint8_t *rgb, size_t n,
                   const struct tensor_planes *planes);
void tensor_avx512_set(struct tensor *tensor);
void tensor_avx512(const struct tensor *tensor, const uint8_t *rgb, size_t n,
                   const struct tensor_planes *planes);

#endif
