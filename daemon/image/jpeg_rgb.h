/* Rows of samples -> RGB, bit for bit as libjpeg. Exactly 3 * n bytes are written; vector kernels
 * read up to JPEG_SLACK samples more. */
#ifndef JPEG_RGB_H
#define JPEG_RGB_H

#include <stddef.h>
#include <stdint.h>

/* Factors of the conversion, times 2^16. */
enum { JPEG_R_CR = 91881, JPEG_G_CB = 22554, JPEG_G_CR = 46802, JPEG_B_CB = 116130 };

struct jpeg_rgb {
    void (*from_ycc)(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t n,
                     uint8_t *rgb);
    void (*from_planes)(const uint8_t *red, const uint8_t *green, const uint8_t *blue, size_t n,
                        uint8_t *rgb);
};

extern const struct jpeg_rgb jpeg_rgb_plain;
#if defined(__x86_64__)
extern const struct jpeg_rgb jpeg_rgb_avx2;
#endif

#endif
