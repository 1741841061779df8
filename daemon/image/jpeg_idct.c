#include "image/jpeg_idct.h"

#include <stdbool.h>
#include <string.h>

static int16_t saturate(int32_t value)
{
    return (int16_t)(value > INT16_MAX ? INT16_MAX : value < INT16_MIN ? INT16_MIN : value);
}

static int16_t sum16(int16_t a, int16_t b)
{
    return (int16_t)(a + b);
}

/* Sums of 32 bits wrap around. */
static int16_t descale(uint32_t value, int shift)
{
    return saturate((int32_t)(value + (1U << (shift - 1))) >> shift);
}

static uint32_t product(int16_t a, int32_t factor)
{
    return (uint32_t)(a * factor);
}

/* One row or column of `in`, the values `step` apart. */
static void transform(const int16_t *in, int16_t *out, int step, int shift)
{
    int16_t x[8];
    for (int i = 0; i < 8; i++)
        x[i] = in[i * step];
    uint32_t low = product(x[2], JPEG_0_541) + product(x[6], JPEG_0_541 - JPEG_1_847);
    uint32_t high = product(x[2], JPEG_0_541 + JPEG_0_765) + product(x[6], JPEG_0_541);
    uint32_t sum = product(sum16(x[0], x[4]), 1 << JPEG_FACTOR_BITS);
    uint32_t rest = product((int16_t)(x[0] - x[4]), 1 << JPEG_FACTOR_BITS);
    uint32_t even[4] = {sum + high, rest + low, rest - low, sum - high};
    int16_t z3 = sum16(x[7], x[3]), z4 = sum16(x[5], x[1]);
    uint32_t a = product(z3, JPEG_1_175 - JPEG_1_961) + product(z4, JPEG_1_175);
    uint32_t b = product(z3, JPEG_1_175) + product(z4, JPEG_1_175 - JPEG_0_390);
    uint32_t odd[4] = {
        product(x[1], JPEG_1_501 - JPEG_0_899) - product(x[7], JPEG_0_899) + b,
        product(x[3], JPEG_3_072 - JPEG_2_562) - product(x[5], JPEG_2_562) + a,
        product(x[5], JPEG_2_053 - JPEG_2_562) - product(x[3], JPEG_2_562) + b,
        product(x[7], JPEG_0_298 - JPEG_0_899) - product(x[1], JPEG_0_899) + a,
    };
    for (int i = 0; i < 4; i++) {
        out[i * step] = descale(even[i] + odd[i], shift);
        out[(7 - i) * step] = descale(even[i] - odd[i], shift);
    }
}

static uint8_t sample(int16_t value)
{
    return (uint8_t)((value > 127 ? 127 : value < -128 ? -128 : value) + 128);
}

static bool only_first_row(const int16_t *coefficients)
{
    int any = 0;
    for (int i = 8; i < 64; i++)
        any |= coefficients[i];
    return any == 0;
}

void jpeg_idct_plain(const struct jpeg_idct_job *job)
{
    int16_t values[64];
    for (int i = 0; i < 64; i++)
        values[i] = (int16_t)(job->coefficients[i] * job->quant[i]);
    if (only_first_row(job->coefficients)) /* wraps around, where the full way saturates */
        for (int i = 63; i >= 0; i--)
            values[i] = (int16_t)(values[i & 7] * (1 << JPEG_PASS_BITS));
    else
        for (int x = 0; x < 8; x++)
            transform(values + x, values + x, 8, JPEG_SHIFT_1);
    for (int y = 0; y < 8; y++) {
        transform(values + 8 * y, values + 8 * y, 1, JPEG_SHIFT_2);
        for (int x = 0; x < 8; x++)
            job->dst[(size_t)y * job->stride + (size_t)x] = sample(values[8 * y + x]);
    }
}

void jpeg_idct_flat(const struct jpeg_idct_job *job)
{
    int16_t value = (int16_t)(job->coefficients[0] * job->quant[0]);
    value = (int16_t)(value * (1 << JPEG_PASS_BITS));
    uint8_t level = sample((int16_t)((value + 16) >> 5));
    for (size_t y = 0; y < 8; y++)
        memset(job->dst + y * job->stride, level, 8);
}
