#include "image/jpeg_rgb.h"

enum { HALF = 1 << 15 };

static uint8_t clip(int value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void from_ycc(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, size_t n, uint8_t *rgb)
{
    for (size_t i = 0; i < n; i++, rgb += 3) {
        int u = cb[i] - 128, v = cr[i] - 128;
        rgb[0] = clip(y[i] + ((JPEG_R_CR * v + HALF) >> 16));
        rgb[1] = clip(y[i] + ((-JPEG_G_CB * u - JPEG_G_CR * v + HALF) >> 16));
        rgb[2] = clip(y[i] + ((JPEG_B_CB * u + HALF) >> 16));
    }
}

static void from_planes(const uint8_t *red, const uint8_t *green, const uint8_t *blue, size_t n,
                        uint8_t *rgb)
{
    for (size_t i = 0; i < n; i++, rgb += 3) {
        rgb[0] = red[i];
        rgb[1] = green[i];
        rgb[2] = blue[i];
    }
}

const struct jpeg_rgb jpeg_rgb_plain = {from_ycc, from_planes};
