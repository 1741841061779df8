#include "image/plane_kernels.h"

static int32_t cut(int32_t value, int32_t from, int32_t to)
{
    return value < from ? from : value > to ? to : value;
}

static int32_t weight_of(const uint16_t *pairs, int32_t i)
{
    return (int8_t)(pairs[i / 2 * PLANE_STRIP] >> 8 * (i % 2));
}

static void across(const struct plane_taps *taps, const struct plane_rows *rows)
{
    for (int r = 0; r < PLANE_ROWS; r++)
        for (int32_t x = 0; x < taps->count; x++) {
            const uint8_t *from = rows->from[r] + taps->start[x];
            const uint16_t *weights = plane_taps_of(taps, x);
            int32_t sum = 1 << (taps->bits - 1);
            for (int32_t i = 0; i < 2 * taps->pairs; i++)
                sum += (from[i] - 128) * weight_of(weights, i);
            rows->to[r][x] = (uint8_t)(128 + cut(sum >> taps->bits, -128, 127));
        }
}

static int32_t short_of(int32_t value)
{
    return cut(value, INT16_MIN, INT16_MAX);
}

static int32_t product(int32_t value, int32_t factor)
{
    return (value * factor + (1 << 14)) >> 15;
}

static uint8_t byte_of(int32_t value, int half)
{
    int32_t rounded = short_of(short_of(value) + half) >> PLANE_BITS;
    return (uint8_t)(128 + cut(rounded, -128, 127));
}

static int32_t sum_of(const struct plane_column *column, size_t x)
{
    int32_t sum = -column->less;
    for (int32_t i = 0; i < 2 * column->pairs; i++)
        sum += (column->rows[i][x] - 128) * weight_of(column->weights, i);
    return sum * (1 << (PLANE_BITS - column->bits));
}

static void down(const struct plane_column columns[3], bool colour, int half, size_t n,
                 uint8_t *const rgb[3])
{
    for (size_t x = 0; x < n; x++) {
        int32_t y = sum_of(&columns[0], x), u = 0, v = 0;
        if (colour) {
            u = sum_of(&columns[1], x);
            v = sum_of(&columns[2], x);
        }
        rgb[0][x] = byte_of(y + short_of(v + product(v, PLANE_R_V)), half);
        rgb[1][x] = byte_of(y - short_of(product(u, PLANE_G_U) + product(v, PLANE_G_V)), half);
        rgb[2][x] = byte_of(y + short_of(u + product(u, PLANE_B_U)), half);
    }
}

const struct plane_kernels plane_plain = {PLANE_NONE, across, down};
