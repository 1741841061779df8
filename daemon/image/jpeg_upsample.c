#include "image/jpeg_upsample.h"

static void wider(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = (uint8_t)((3 * in[i] + in[(ptrdiff_t)i - 1] + 1) >> 2);
        out[2 * i + 1] = (uint8_t)((3 * in[i] + in[i + 1] + 2) >> 2);
    }
}

static int column(const uint8_t *near, const uint8_t *far, ptrdiff_t i)
{
    return 3 * near[i] + far[i];
}

static void both(const uint8_t *near, const uint8_t *far, size_t n, uint8_t *out)
{
    for (ptrdiff_t i = 0; i < (ptrdiff_t)n; i++) {
        int here = 3 * column(near, far, i);
        out[2 * i] = (uint8_t)((here + column(near, far, i - 1) + 8) >> 4);
        out[2 * i + 1] = (uint8_t)((here + column(near, far, i + 1) + 7) >> 4);
    }
}

static void higher(const uint8_t *near, const uint8_t *far, size_t n, int bias, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)((3 * near[i] + far[i] + bias) >> 2);
}

void jpeg_upsample_twice(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[2 * i] = out[2 * i + 1] = in[i];
}

const struct jpeg_upsample jpeg_upsample_plain = {wider, both, higher};
