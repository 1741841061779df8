#include "pack/fractal.h"

#include "base/mem.h"

struct lattice {
    int8_t *values;
    uint32_t columns, rows;
};

static struct lattice lattice_new(uint32_t columns, uint32_t rows, struct philox *stream)
{
    size_t words = ((size_t)columns * rows + 3) / 4;
    uint32_t *values = mem_array(words, sizeof *values);
    for (size_t i = 0; i < words; i++)
        values[i] = philox_u32(stream);
    return (struct lattice){(int8_t *)values, columns, rows};
}

/* 3t^2 - 2t^3, of 256. */
static int32_t smooth(uint32_t step, uint32_t cell)
{
    int64_t t = (int64_t)step * 256 / cell;
    return (int32_t)(t * t * (768 - 2 * t) / 65536);
}

static void mix_rows(const struct lattice *lattice, uint32_t row, int32_t weight, int32_t *out)
{
    const int8_t *upper = lattice->values + (size_t)row * lattice->columns;
    const int8_t *lower = upper + lattice->columns;
    for (uint32_t i = 0; i < lattice->columns; i++)
        out[i] = upper[i] * (256 - weight) + lower[i] * weight;
}

static void add_row(int16_t *out, uint32_t width, const int32_t *nodes, const int32_t *weights,
                    uint32_t log_cell, int32_t gain)
{
    uint32_t cell = 1U << log_cell;
    for (uint32_t x = 0; x < width; x += cell) {
        int32_t left = nodes[x >> log_cell];
        int32_t step = nodes[(x >> log_cell) + 1] - left;
        uint32_t end = width - x < cell ? width - x : cell;
        for (uint32_t i = 0; i < end; i++)
            out[x + i] =
                (int16_t)(out[x + i] + (((left * 256 + step * weights[i]) >> 8) * gain >> 13));
    }
}

static void add_field(int16_t *out, uint32_t width, uint32_t height, struct philox *stream,
                      uint32_t log_cell, int32_t gain)
{
    uint32_t cell = 1U << log_cell;
    struct lattice lattice = lattice_new((width >> log_cell) + 2, (height >> log_cell) + 2, stream);
    cleanup_free int32_t *nodes = mem_array(lattice.columns, sizeof *nodes);
    int32_t weights[1 << FRACTAL_COARSEST] = {0};
    for (uint32_t i = 0; i < cell; i++)
        weights[i] = smooth(i, cell);
    for (uint32_t y = 0; y < height; y++) {
        mix_rows(&lattice, y >> log_cell, weights[y & (cell - 1)], nodes);
        add_row(out + (size_t)y * width, width, nodes, weights, log_cell, gain);
    }
    free(lattice.values);
}

void fractal_add(int16_t *out, uint32_t width, uint32_t height, struct philox *stream,
                 uint32_t coarsest, uint32_t finest, int32_t fineness)
{
    int32_t gain = 256;
    for (uint32_t k = coarsest + 1; k-- > finest;) {
        add_field(out, width, height, stream, k, gain);
        gain = gain * fineness / 256;
    }
}
