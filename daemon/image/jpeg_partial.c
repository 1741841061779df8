#include "image/jpeg_partial.h"

#include <stdlib.h>

#include "base/mem.h"
#include "image/jpeg_entropy.h"
#include "image/jpeg_idct.h"
#include "image/jpeg_rgb.h"
#include "image/jpeg_upsample.h"
#include "image/simd.h"

enum { SIDE = 8, ALIGN = 64, KEEP = 1 << 18 };

/* Part of an axis: from, up to but not including, to. */
struct span {
    int32_t from, to;
};

/* One component of the box: samples that it needs, and the strip that holds those of the present
 * row of MCUs, with the last row of the MCUs above before them. */
struct plane {
    struct span columns, rows; /* needed, in samples */
    int32_t width, height;     /* of the component in all */
    uint8_t h, v;              /* blocks of an MCU */
    bool wide, high;           /* half as many columns, rows as the picture */
    const int16_t *quant;
    uint8_t *strip; /* row 0, first column of the strip's MCUs */
    size_t stride;
};

/* Where a block of each MCU goes: the first MCU's, and how far on the next one's. */
struct target {
    const int16_t *quant;
    uint8_t *dst;
    size_t stride, step;
};

struct jpeg_partial {
    const struct jpeg_header *header;
    struct jpeg_marks *marks;
    const struct jpeg_upsample *upsample;
    const struct jpeg_rgb *rgb;
    bool vector;
    const struct jpeg_box *box;
    const struct jpeg_sink *sink; /* NULL: rows become pixels */
    uint8_t *dst;                 /* of the box's next row */
    size_t stride;
    int32_t next_row;          /* of the picture, to be written */
    struct span columns, rows; /* of MCUs, needed */
    struct span inner;         /* columns of MCUs that are needed from side to side */
    int32_t across, down;      /* MCUs of the picture */
    struct plane plane[JPEG_COMPONENTS];
    uint8_t *wide[2]; /* a row of Cb, Cr as wide as the picture */
    uint8_t *scratch;
    uint64_t capacity;
    /* Blocks are transformed by twos; one may wait while the next MCU is read. */
    _Alignas(32) int16_t coefficients[2][JPEG_BLOCKS][JPEG_BLOCK_ROOM];
    struct target target[JPEG_BLOCKS];
    uint32_t turn; /* half of them that is written next */
    struct jpeg_idct_job jobs[2];
    uint32_t waiting;
    struct jpeg_entropy entropy;
};

static int32_t up(int32_t value, int32_t unit)
{
    return (value + unit - 1) / unit;
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* ------- what a box needs ------- */

/* Samples of a component for picture samples `from` to `to`: where it is halved, those beside them
 * too, as the filter looks at one neighbour of each. */
static struct span needed(int32_t from, int32_t to, bool half, int32_t size)
{
    if (!half)
        return (struct span){from, to};
    return (struct span){most(up(from, 2) - 1, 0), least(to / 2 + 1, size)};
}

static struct plane plan_plane(const struct jpeg_header *header, const struct jpeg_box *box,
                               uint32_t number)
{
    const struct jpeg_component *component = &header->component[number];
    struct plane plane = {.h = component->h,
                          .v = component->v,
                          .wide = component->h < header->h,
                          .high = component->v < header->v,
                          .width = up(header->width * component->h, header->h),
                          .height = up(header->height * component->v, header->v),
                          .quant = header->quant[component->quant]};
    plane.columns = needed(box->x, box->x + box->width, plane.wide, plane.width);
    plane.rows = needed(box->y, box->y + box->height, plane.high, plane.height);
    return plane;
}

struct jpeg_box jpeg_partial_needs(const struct jpeg_header *header, const struct jpeg_box *box,
                                   uint32_t component)
{
    struct plane plane = plan_plane(header, box, component);
    return (struct jpeg_box){plane.columns.from, plane.rows.from,
                             plane.columns.to - plane.columns.from,
                             plane.rows.to - plane.rows.from};
}

/* Units that hold samples of the span, and those that hold no others. */
static struct span touched(struct span samples, int32_t unit)
{
    return (struct span){samples.from / unit, up(samples.to, unit)};
}

static struct span filled(struct span samples, int32_t unit)
{
    return (struct span){up(samples.from, unit), samples.to / unit};
}

static struct span both(struct span a, struct span b)
{
    return (struct span){least(a.from, b.from), most(a.to, b.to)};
}

static struct span common(struct span a, struct span b)
{
    return (struct span){most(a.from, b.from), least(a.to, b.to)};
}

static void plan(struct jpeg_partial *partial)
{
    const struct jpeg_header *header = partial->header;
    partial->across = jpeg_header_across(header);
    partial->down = jpeg_header_down(header);
    partial->columns = (struct span){partial->across, 0};
    partial->rows = (struct span){partial->down, 0};
    partial->inner = (struct span){0, partial->across};
    for (uint32_t c = 0; c < header->components; c++) {
        partial->plane[c] = plan_plane(header, partial->box, c);
        const struct plane *plane = &partial->plane[c];
        int32_t width = SIDE * plane->h, height = SIDE * plane->v;
        partial->columns = both(partial->columns, touched(plane->columns, width));
        partial->inner = common(partial->inner, filled(plane->columns, width));
        partial->rows = both(partial->rows, touched(plane->rows, height));
    }
}

static uint64_t stride_of(int32_t mcus, uint32_t blocks)
{
    return ((uint64_t)mcus * SIDE * blocks + JPEG_SLACK + 2 * ALIGN - 1) / ALIGN * ALIGN;
}

/* A strip has a row of context, and before each row room for a neighbour. */
static uint64_t strip_bytes(uint64_t stride, uint32_t blocks)
{
    return stride * (SIDE * blocks + 1);
}

static uint64_t memory_of(const struct jpeg_header *header, int32_t mcus)
{
    uint64_t bytes = 2 * stride_of(mcus, header->h) + 2 * ALIGN;
    for (uint32_t c = 0; c < header->components; c++)
        bytes += strip_bytes(stride_of(mcus, header->component[c].h), header->component[c].v);
    return bytes;
}

static bool reserve(struct jpeg_partial *partial)
{
    int32_t mcus = partial->columns.to - partial->columns.from;
    uint64_t bytes = memory_of(partial->header, mcus);
    if (bytes > partial->capacity) {
        free(partial->scratch);
        partial->scratch = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
        partial->capacity = partial->scratch ? bytes : 0;
    }
    if (!partial->scratch)
        return false;
    uint8_t *at = partial->scratch + ALIGN;
    for (uint32_t c = 0; c < partial->header->components; c++) {
        struct plane *plane = &partial->plane[c];
        plane->stride = stride_of(mcus, plane->h);
        plane->strip = at + plane->stride;
        at += strip_bytes(plane->stride, plane->v);
    }
    partial->wide[0] = at;
    partial->wide[1] = at + stride_of(mcus, partial->header->h);
    return true;
}

/* ------- blocks ------- */

static void set_targets(struct jpeg_partial *partial)
{
    struct target *target = partial->target;
    for (uint32_t c = 0; c < partial->header->components; c++) {
        const struct plane *plane = &partial->plane[c];
        for (size_t v = 0; v < plane->v; v++)
            for (size_t h = 0; h < plane->h; h++)
                *target++ = (struct target){plane->quant,
                                            plane->strip + v * SIDE * plane->stride + h * SIDE,
                                            plane->stride, (size_t)SIDE * plane->h};
    }
}

/* Transforms what waits, once there are two; plain C does them one by one. */
static void transform(struct jpeg_partial *partial)
{
#ifdef SIMD_X86
    if (partial->vector) {
        if (partial->waiting == 2)
            jpeg_idct_avx2(partial->jobs);
        partial->waiting %= 2;
        return;
    }
#endif
    jpeg_idct_plain(&partial->jobs[0]);
    partial->waiting = 0;
}

static void transform_last(struct jpeg_partial *partial)
{
    if (partial->waiting == 0)
        return;
    partial->jobs[partial->waiting++] = partial->jobs[0];
    transform(partial);
}

static bool holds(struct span span, int32_t block)
{
    return (block + 1) * SIDE > span.from && block * SIDE < span.to;
}

/* Which blocks of the MCU at column x, row y are needed. */
static uint32_t wanted(const struct jpeg_partial *partial, int32_t x, int32_t y)
{
    uint32_t want = 0, number = 0;
    for (uint32_t c = 0; c < partial->header->components; c++) {
        const struct plane *plane = &partial->plane[c];
        for (int32_t v = 0; v < plane->v; v++)
            for (int32_t h = 0; h < plane->h; h++, number++)
                if (holds(plane->columns, x * plane->h + h) && holds(plane->rows, y * plane->v + v))
                    want |= 1U << number;
    }
    return want;
}

static void put_mcu(struct jpeg_partial *partial, int32_t column, uint32_t want, uint32_t busy)
{
    int16_t(*coefficients)[JPEG_BLOCK_ROOM] = partial->coefficients[partial->turn];
    for (uint32_t b = 0; want >> b; b++) {
        const struct target *target = &partial->target[b];
        struct jpeg_idct_job *job = &partial->jobs[partial->waiting];
        if (!(want >> b & 1))
            continue;
        job->coefficients = coefficients[b];
        job->quant = target->quant;
        job->dst = target->dst + (size_t)column * target->step;
        job->stride = target->stride;
        if (busy >> b & 1) {
            partial->waiting++;
            transform(partial);
        } else {
            jpeg_idct_flat(job);
        }
    }
    partial->turn ^= busy != 0; /* else the one that waits is of the other half */
}

/* The needed columns of a row of MCUs. */
static bool read_row(struct jpeg_partial *partial, int32_t row)
{
    uint32_t inside = wanted(partial, partial->inner.from, row);
    for (int32_t x = partial->columns.from; x < partial->columns.to; x++) {
        bool inner = x >= partial->inner.from && x < partial->inner.to;
        uint32_t busy, want = inner ? inside : wanted(partial, x, row);
        if (!jpeg_entropy_read(&partial->entropy, want, partial->coefficients[partial->turn],
                               &busy))
            return false;
        put_mcu(partial, x - partial->columns.from, want, busy);
    }
    transform_last(partial);
    return true;
}

/* ------- rows ------- */

/* A row of a component, counted in the component, from its first column in the strip on. */
static uint8_t *strip_row(const struct plane *plane, int32_t mcu_row, int32_t y)
{
    return plane->strip + (ptrdiff_t)(y - mcu_row * SIDE * plane->v) * (ptrdiff_t)plane->stride;
}

static int32_t first_column(const struct jpeg_partial *partial, const struct plane *plane)
{
    return partial->columns.from * SIDE * plane->h;
}

/* At an edge of the picture the outermost sample goes on beside it. */
static uint8_t *mend_edges(const struct jpeg_partial *partial, const struct plane *plane,
                           uint8_t *row)
{
    int32_t first = first_column(partial, plane);
    if (first == 0)
        row[-1] = row[0];
    if (plane->columns.to == plane->width)
        row[plane->width - first] = row[plane->width - first - 1];
    return row;
}

/* Samples of chroma row `near` and its neighbour `far` as wide as the picture. Returns that of the
 * box's first column. */
static const uint8_t *widened(const struct jpeg_partial *partial, const struct plane *plane,
                              uint8_t *near, uint8_t *far, uint8_t *out)
{
    int32_t from = partial->box->x / 2, to = (partial->box->x + partial->box->width + 1) / 2;
    int32_t at = from - first_column(partial, plane);
    size_t n = (size_t)(to - from);
    if (plane->width <= 2) {
        jpeg_upsample_twice(near + at, n, out);
    } else if (plane->high) {
        mend_edges(partial, plane, near);
        mend_edges(partial, plane, far);
        partial->upsample->both(near + at, far + at, n, out);
    } else {
        mend_edges(partial, plane, near);
        partial->upsample->wider(near + at, n, out);
    }
    return out + partial->box->x % 2;
}

/* Samples of one component for picture row y, from the box's first column on. */
static const uint8_t *samples(const struct jpeg_partial *partial, uint32_t component,
                              int32_t mcu_row, int32_t y)
{
    const struct plane *plane = &partial->plane[component];
    const struct jpeg_box *box = partial->box;
    if (!plane->wide && !plane->high)
        return strip_row(plane, mcu_row, y) + (box->x - first_column(partial, plane));
    uint8_t *out = partial->wide[component - 1];
    int32_t here = plane->high ? y / 2 : y, beside = y % 2 ? here + 1 : here - 1;
    beside = most(least(beside, plane->height - 1), 0);
    uint8_t *near = strip_row(plane, mcu_row, here), *far = strip_row(plane, mcu_row, beside);
    if (plane->wide)
        return widened(partial, plane, near, far, out);
    int32_t at = box->x - first_column(partial, plane);
    partial->upsample->higher(near + at, far + at, (size_t)box->width, 1 + y % 2, out);
    return out;
}

static void write_row(struct jpeg_partial *partial, int32_t mcu_row, int32_t y)
{
    const uint8_t *row[JPEG_COMPONENTS] = {samples(partial, 0, mcu_row, y)};
    size_t n = (size_t)partial->box->width;
    for (uint32_t c = 1; c < JPEG_COMPONENTS; c++)
        row[c] = c < partial->header->components ? samples(partial, c, mcu_row, y) : row[0];
    if (partial->header->colour == JPEG_YCC)
        partial->rgb->from_ycc(row[0], row[1], row[2], n, partial->dst);
    else
        partial->rgb->from_planes(row[0], row[1], row[2], n, partial->dst);
    partial->dst += partial->stride;
}

/* All rows of the box that the strips now allow: the last one of these MCUs waits for the next
 * ones where chroma is halved in height. */
static void write_rows(struct jpeg_partial *partial, int32_t mcu_row)
{
    int32_t end = partial->box->y + partial->box->height;
    if (mcu_row + 1 < partial->rows.to)
        end = least(end, (mcu_row + 1) * SIDE * partial->header->v - (partial->header->v - 1));
    for (; partial->next_row < end; partial->next_row++)
        write_row(partial, mcu_row, partial->next_row);
}

/* The needed rows of these MCUs, as they are. */
static void give_rows(const struct jpeg_partial *partial, int32_t mcu_row)
{
    struct jpeg_rows rows[JPEG_COMPONENTS] = {0};
    for (uint32_t c = 0; c < partial->header->components; c++) {
        const struct plane *plane = &partial->plane[c];
        int32_t height = SIDE * plane->v;
        struct span there = {mcu_row * height, (mcu_row + 1) * height};
        there = common(there, plane->rows);
        rows[c].at = strip_row(plane, mcu_row, there.from) +
                     (plane->columns.from - first_column(partial, plane));
        rows[c].stride = plane->stride;
        rows[c].y = there.from;
        rows[c].count = most(there.to - there.from, 0);
    }
    partial->sink->take(partial->sink->context, rows);
}

static void keep_last_rows(const struct jpeg_partial *partial)
{
    for (uint32_t c = 0; c < partial->header->components && partial->header->v > 1; c++) {
        const struct plane *plane = &partial->plane[c];
        memcpy(plane->strip - plane->stride,
               plane->strip + (size_t)(SIDE * plane->v - 1) * plane->stride, plane->stride - 1);
    }
}

static void use_rows(struct jpeg_partial *partial, int32_t mcu_row)
{
    if (partial->sink) {
        give_rows(partial, mcu_row);
        return;
    }
    write_rows(partial, mcu_row);
    keep_last_rows(partial);
}

static bool read_box(struct jpeg_partial *partial)
{
    struct jpeg_entropy *entropy = &partial->entropy;
    struct span rows = partial->rows, columns = partial->columns;
    uint64_t across = (uint64_t)partial->across,
             beside = across - (uint64_t)(columns.to - columns.from);
    if (!jpeg_entropy_start(entropy, partial->header, jpeg_header_mcus(partial->header)))
        return false;
    if (partial->marks)
        jpeg_entropy_mark(entropy, partial->marks);
    if (!jpeg_entropy_skip(entropy, (uint64_t)rows.from * across + (uint64_t)columns.from))
        return false;
    for (int32_t row = rows.from; row < rows.to; row++) {
        if (!read_row(partial, row))
            return false;
        use_rows(partial, row);
        if (row + 1 < rows.to && !jpeg_entropy_skip(entropy, beside))
            return false;
    }
    return jpeg_entropy_finish(entropy, rows.to == partial->down && columns.to == partial->across);
}

static bool read_part(struct jpeg_partial *partial, const struct jpeg_header *header,
                      const struct jpeg_box *box)
{
    partial->header = header;
    partial->box = box;
    partial->next_row = box->y;
    partial->waiting = 0;
    plan(partial);
    if (!reserve(partial))
        return false;
    set_targets(partial);
    return read_box(partial);
}

bool jpeg_partial_read(struct jpeg_partial *partial, const struct jpeg_header *header,
                       const struct jpeg_box *box, uint8_t *dst, size_t stride)
{
    partial->sink = NULL;
    partial->dst = dst;
    partial->stride = stride;
    return read_part(partial, header, box);
}

bool jpeg_partial_planes(struct jpeg_partial *partial, const struct jpeg_header *header,
                         const struct jpeg_box *box, const struct jpeg_sink *sink)
{
    partial->sink = sink;
    return read_part(partial, header, box);
}

void jpeg_partial_mark(struct jpeg_partial *partial, struct jpeg_marks *marks)
{
    partial->marks = marks;
}

struct jpeg_partial *jpeg_partial_new(bool vector)
{
    struct jpeg_partial *partial =
        aligned_alloc(ALIGN, (sizeof *partial + ALIGN - 1) / ALIGN * ALIGN);
    if (!partial)
        abort();
    memset(partial, 0, sizeof *partial);
    partial->upsample = &jpeg_upsample_plain;
    partial->rgb = &jpeg_rgb_plain;
#ifdef SIMD_X86
    partial->vector = vector && simd_level() >= SIMD_AVX2;
    if (partial->vector) {
        partial->upsample = &jpeg_upsample_avx2;
        partial->rgb = &jpeg_rgb_avx2;
    }
#else
    (void)vector;
#endif
    return partial;
}

void jpeg_partial_free(struct jpeg_partial *partial)
{
    if (!partial)
        return;
    free(partial->scratch);
    free(partial);
}

void jpeg_partial_trim(struct jpeg_partial *partial)
{
    if (!partial || partial->capacity <= KEEP)
        return;
    free(partial->scratch);
    partial->scratch = NULL;
    partial->capacity = 0;
}
