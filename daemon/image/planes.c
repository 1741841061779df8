#include "image/planes.h"

#include <string.h>

#include "base/mem.h"
#include "image/jpeg_rgb.h"
#include "image/resample.h"
#include "image/simd.h"

enum { ALIGN = 64, SIDE = 8, SPARE_ROWS = 8 };

/* The taps of planes of one size, and which of their samples come. */
struct form {
    struct plane_taps wide, high;
    struct jpeg_box part;
};

/* One plane: rows that have been scaled across, and those needed no more. */
struct plane {
    const struct form *form;
    const uint8_t **rows; /* a pointer to each row of the ring, and all once more */
    int32_t slots, seen;
};

/* Offsets in the scratch. */
struct layout {
    uint64_t taps[2][2], spare, rows[JPEG_COMPONENTS], ring[JPEG_COMPONENTS], lines[3], line;
    uint64_t total, stride;
    int32_t slots[JPEG_COMPONENTS];
};

struct planes {
    const struct plane_kernels *kernels;
    const struct jpeg_rgb *rgb;
    /* Of the picture that is under way: */
    uint32_t components;
    int32_t width, height, done;
    struct form forms[2]; /* Y, and Cb and Cr where they have another size */
    struct plane plane[JPEG_COMPONENTS];
    struct layout layout;
    uint8_t *scratch;
    const struct tensor *tensor;
    struct tensor_planes places;
    uint8_t *dst;
};

const struct plane_kernels *planes_best(void)
{
#ifdef SIMD_X86
    if (simd_level() < SIMD_AVX2)
        return NULL;
    return simd_level() == SIMD_AVX2 ? &plane_avx2 : &plane_avx512;
#else
    return NULL;
#endif
}

struct planes *planes_new(const struct plane_kernels *kernels)
{
    struct planes *planes = mem_new(sizeof *planes);
    planes->kernels = kernels;
    planes->rgb = &jpeg_rgb_plain;
#ifdef SIMD_X86
    if (kernels != &plane_plain)
        planes->rgb = &jpeg_rgb_avx2;
#endif
    return planes;
}

void planes_free(struct planes *planes)
{
    free(planes);
}

/* ------- what a picture takes ------- */

static bool halved(const struct jpeg_header *header, bool wide)
{
    const struct jpeg_component *chroma = &header->component[1];
    return header->components > 1 && (wide ? chroma->h < header->h : chroma->v < header->v);
}

static bool two_forms(const struct jpeg_header *header)
{
    return halved(header, true) || halved(header, false);
}

bool planes_fit(const struct jpeg_header *header, const struct geometry *geometry)
{
    const struct geometry_step *step = &geometry->steps[0];
    bool resized = step->width != step->box_w || step->height != step->box_h;
    return header->colour != JPEG_RGB && geometry->count == 1 && resized && resampler_plain(step) &&
           (header->width > 4 || !halved(header, true));
}

struct jpeg_box planes_box(const struct geometry_step *step)
{
    struct resample_reach reach = resampler_reach(step);
    return (struct jpeg_box){step->box_x + reach.x, step->box_y + reach.y, reach.width,
                             reach.height};
}

static uint64_t take(uint64_t *total, uint64_t bytes)
{
    uint64_t at = *total;
    *total = at + (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static void lay_out(struct layout *layout, const struct jpeg_header *header,
                    const struct geometry_step *step)
{
    struct taps_key keys[2];
    uint64_t *total = &layout->total, spare = 0;
    *layout = (struct layout){.stride = (uint64_t)step->win_w + PLANE_SLACK};
    resampler_keys(step, keys);
    for (int form = 0; form < 1 + two_forms(header); form++)
        for (int axis = 0; axis < 2; axis++) {
            int32_t pairs = taps_pairs_most(&keys[axis]), count = keys[axis].count;
            uint64_t more = plane_taps_spare(count, pairs);
            layout->taps[form][axis] = take(total, plane_taps_bytes(count, pairs));
            spare = more > spare ? more : spare;
        }
    layout->spare = take(total, spare);
    for (uint32_t c = 0; c < header->components; c++) {
        int32_t slots =
            plane_taps_most(taps_pairs_most(&keys[1])) + SIDE * header->component[c].v + SPARE_ROWS;
        layout->slots[c] = slots;
        layout->rows[c] = take(total, 2 * (uint64_t)slots * sizeof(uint8_t *));
        layout->ring[c] = take(total, (uint64_t)slots * layout->stride);
    }
    for (int c = 0; c < 3; c++)
        layout->lines[c] = take(total, layout->stride);
    layout->line = take(total, 3 * (uint64_t)step->win_w + RESAMPLE_SLACK);
}

uint64_t planes_bytes(const struct jpeg_header *header, const struct geometry_step *step)
{
    struct layout layout;
    lay_out(&layout, header, step);
    return layout.total;
}

/* ------- rows of the result ------- */

static bool has_rows(const struct plane *plane, int32_t y)
{
    const struct plane_taps *taps = &plane->form->high;
    int32_t end = taps->start[y] + 2 * taps->pairs;
    return plane->seen >= end || plane->seen == plane->form->part.height;
}

/* The pass across rounds halves up, which adds half of 2^-bits on average. It is taken off again:
 * of the sums down in so many rows that it is as much on average. */
static int excess(const struct form *form, int32_t y)
{
    int more = form->high.bits - form->wide.bits - 1;
    return more >= 0 ? 1 << more : y % (1 << -more) == 0;
}

static struct plane_column column_of(const struct plane *plane, int32_t y)
{
    const struct plane_taps *taps = &plane->form->high;
    return (struct plane_column){plane->rows + taps->start[y] % plane->slots,
                                 plane_taps_of(taps, y), taps->pairs, taps->bits,
                                 excess(plane->form, y)};
}

static void output(const struct planes *planes, int32_t y, uint8_t *const lines[3])
{
    size_t width = (size_t)planes->width, at = width * (size_t)y;
    uint8_t *line = planes->scratch + planes->layout.line;
    if (!planes->tensor) {
        planes->rgb->from_planes(lines[0], lines[1], lines[2], width, planes->dst + 3 * at);
        return;
    }
    if (planes->tensor->pixels == PIXELS_U8_NCHW) {
        for (int c = 0; c < 3; c++)
            memcpy((uint8_t *)planes->places.at[c] + at, lines[c], width);
        return;
    }
    planes->rgb->from_planes(lines[0], lines[1], lines[2], width, line);
    tensor_write(planes->tensor, line, width, at, &planes->places);
}

static bool write_row(const struct planes *planes, int32_t y)
{
    struct plane_column columns[JPEG_COMPONENTS] = {0};
    uint8_t *lines[3];
    for (uint32_t c = 0; c < planes->components; c++) {
        if (!has_rows(&planes->plane[c], y))
            return false;
        columns[c] = column_of(&planes->plane[c], y);
    }
    for (int c = 0; c < 3; c++)
        lines[c] = planes->scratch + planes->layout.lines[c];
    int half = (1 << (PLANE_BITS - 1)) - y % 2; /* up and down by turns */
    planes->kernels->down(columns, planes->components > 1, half, (size_t)planes->width, lines);
    output(planes, y, lines);
    return true;
}

/* ------- rows of the planes ------- */

static void take_rows(const struct planes *planes, struct plane *plane,
                      const struct jpeg_rows *rows)
{
    const struct plane_taps *taps = &plane->form->wide;
    for (int32_t i = 0; i < rows->count; i += PLANE_ROWS) {
        struct plane_rows four;
        const uint8_t **slots = plane->rows + plane->seen % plane->slots;
        int32_t last = rows->count - i < PLANE_ROWS ? rows->count - i : PLANE_ROWS;
        for (int32_t k = 0; k < PLANE_ROWS; k++) {
            int32_t row = k < last ? k : last - 1;
            four.from[k] = rows->at + (size_t)(i + row) * rows->stride;
            four.to[k] = (uint8_t *)slots[row];
        }
        planes->kernels->across(taps, &four);
        plane->seen += last;
    }
}

/* A row of the result waits for the last of its rows in all planes, which come together: so at most
 * as many as it takes, and a few beside, are kept when the next ones come. */
static void take_planes(void *context, const struct jpeg_rows rows[JPEG_COMPONENTS])
{
    struct planes *planes = context;
    for (uint32_t c = 0; c < planes->components; c++)
        take_rows(planes, &planes->plane[c], &rows[c]);
    while (planes->done < planes->height && write_row(planes, planes->done))
        planes->done++;
}

struct jpeg_sink planes_sink(struct planes *planes)
{
    return (struct jpeg_sink){take_planes, planes};
}

/* ------- pictures ------- */

static void make_form(struct planes *planes, const struct jpeg_header *header,
                      const struct geometry_step *step, const struct taps *const taps[2],
                      uint32_t number)
{
    const struct jpeg_box box = planes_box(step);
    struct form *form = &planes->forms[number];
    const uint64_t *at = planes->layout.taps[number];
    uint8_t *spare = planes->scratch + planes->layout.spare;
    bool half_wide = number && halved(header, true), half_high = number && halved(header, false);
    int bits = step->filter == FILTER_BICUBIC ? PLANE_BITS : PLANE_BITS + 1;
    form->part = jpeg_partial_needs(header, &box, number);
    const struct plane_axis wide = {.taps = taps[0],
                                    .offset = step->box_x,
                                    .half = half_wide,
                                    .size = half_wide ? (header->width + 1) / 2 : header->width,
                                    .from = form->part.x,
                                    .flip = step->flip,
                                    .bits = bits};
    const struct plane_axis high = {.taps = taps[1],
                                    .offset = step->box_y,
                                    .half = half_high,
                                    .size = half_high ? (header->height + 1) / 2 : header->height,
                                    .from = form->part.y,
                                    .bits = PLANE_BITS};
    plane_taps_make(&form->wide, &wide, planes->scratch + at[0], spare);
    plane_taps_make(&form->high, &high, planes->scratch + at[1], spare);
    if (planes->kernels->window != PLANE_NONE)
        plane_taps_lanes(&form->wide, planes->kernels->window);
}

static void make_ring(struct planes *planes, uint32_t number, const struct form *form)
{
    const struct layout *layout = &planes->layout;
    struct plane *plane = &planes->plane[number];
    *plane = (struct plane){.form = form, .slots = layout->slots[number]};
    plane->rows = (const uint8_t **)(planes->scratch + layout->rows[number]);
    for (int32_t i = 0; i < plane->slots; i++)
        plane->rows[i] = plane->rows[i + plane->slots] =
            planes->scratch + layout->ring[number] + layout->stride * (uint64_t)i;
}

void planes_begin(struct planes *planes, const struct jpeg_header *header,
                  const struct geometry_step *step, const struct taps *const taps[2],
                  const struct tensor *tensor, void *dst, uint8_t *scratch)
{
    planes->components = header->components;
    planes->width = step->win_w;
    planes->height = step->win_h;
    planes->done = 0;
    planes->scratch = scratch;
    planes->tensor = tensor;
    planes->dst = dst;
    if (tensor)
        tensor_place(tensor, (size_t)step->win_w * (size_t)step->win_h, dst, &planes->places);
    lay_out(&planes->layout, header, step);
    for (uint32_t form = 0; form < 1U + two_forms(header); form++)
        make_form(planes, header, step, taps, form);
    for (uint32_t c = 0; c < header->components; c++)
        make_ring(planes, c, &planes->forms[c && two_forms(header)]);
}
