/* Chroma samples to the width and height of luma, by libjpeg's triangle filter ("fancy
 * upsampling"). Row by row. Samples -1 and n must be readable, the same as 0 and n - 1 at the
 * edges of the picture; vector kernels read and write up to JPEG_SLACK bytes more. */
#ifndef JPEG_UPSAMPLE_H
#define JPEG_UPSAMPLE_H

#include <stddef.h>
#include <stdint.h>

enum { JPEG_SLACK = 64 };

struct jpeg_upsample {
    /* Twice as wide: 2 * n samples. */
    void (*wider)(const uint8_t *in, size_t n, uint8_t *out);
    /* Twice as wide and high: one row between two, nearer to one. */
    void (*both)(const uint8_t *near, const uint8_t *far, size_t n, uint8_t *out);
    /* Twice as high: n samples; bias 1 in the upper row of two, 2 in the lower. */
    void (*higher)(const uint8_t *near, const uint8_t *far, size_t n, int bias, uint8_t *out);
};

extern const struct jpeg_upsample jpeg_upsample_plain;
#if defined(__x86_64__)
extern const struct jpeg_upsample jpeg_upsample_avx2;
#endif
/* Without filter, for pictures too narrow for it. */
void jpeg_upsample_twice(const uint8_t *in, size_t n, uint8_t *out);

#endif
