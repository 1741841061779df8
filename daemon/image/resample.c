#include "image/resample.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "image/simd.h"

enum { ALIGN = 64 };

/* The part of a window that lies on the resized picture, and where it comes in the result. */
struct visible {
    int32_t x, y, w, h; /* of the resized picture */
    int32_t to_x, to_y; /* of the result */
};

/* Offsets in the scratch. Rows have room for what kernels write beyond their end. */
struct layout {
    uint64_t across, rows, ring, spare[2], line, total;
    uint64_t stride; /* of rows in the ring */
    int32_t slots;   /* rows in it */
};

struct resampler {
    const struct resample_kernels *kernels;
    struct taps_cache *wide_taps, *high_taps;
    /* Of the step that is under way: */
    struct geometry_step step;
    struct visible part;
    struct resample_reach reach;
    const struct taps *wide, *high; /* NULL: the size does not change */
    struct across across;
    int32_t seen, done; /* the next row of the box, and of the part */
    uint8_t *scratch;
    struct layout layout;
    const struct tensor *tensor;
    struct tensor_planes planes;
    uint8_t *dst;
};

const struct resample_kernels *resample_best(void)
{
#ifdef SIMD_X86
    static const struct resample_kernels *const kernels[] = {&resample_plain, &resample_sse4,
                                                             &resample_avx2, &resample_avx512};
    return kernels[simd_level()];
#else
    return &resample_plain;
#endif
}

struct resampler *resampler_new(const struct resample_kernels *kernels)
{
    struct resampler *resampler = mem_new(sizeof *resampler);
    resampler->kernels = kernels;
    resampler->wide_taps = taps_cache_new();
    resampler->high_taps = taps_cache_new();
    return resampler;
}

void resampler_free(struct resampler *resampler)
{
    if (!resampler)
        return;
    taps_cache_free(resampler->wide_taps);
    taps_cache_free(resampler->high_taps);
    free(resampler);
}

void resampler_trim(struct resampler *resampler)
{
    taps_cache_trim(resampler->wide_taps);
    taps_cache_trim(resampler->high_taps);
}

/* ------- what a step takes ------- */

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static struct visible visible_part(const struct geometry_step *step)
{
    struct visible part = {.x = step->win_x > 0 ? step->win_x : 0,
                           .y = step->win_y > 0 ? step->win_y : 0};
    part.w = least(step->win_x + step->win_w, step->width) - part.x;
    part.h = least(step->win_y + step->win_h, step->height) - part.y;
    if (part.w <= 0 || part.h <= 0)
        return (struct visible){0};
    part.to_x = part.x - step->win_x;
    part.to_y = part.y - step->win_y;
    if (step->flip)
        part.to_x = step->win_w - part.to_x - part.w;
    return part;
}

static struct taps_key key_wide(const struct geometry_step *step, const struct visible *part)
{
    return (struct taps_key){step->box_w, step->width, part->x, part->w, step->filter};
}

static struct taps_key key_high(const struct geometry_step *step, const struct visible *part)
{
    return (struct taps_key){step->box_h, step->height, part->y, part->h, step->filter};
}

static bool goes_wide(const struct geometry_step *step)
{
    return step->width != step->box_w;
}

static bool goes_high(const struct geometry_step *step)
{
    return step->height != step->box_h;
}

static bool high_first(const struct geometry_step *step)
{
    return goes_wide(step) && step->box_h > (int64_t)step->box_w * 100 &&
           step->height < step->box_h;
}

struct resample_reach resampler_reach(const struct geometry_step *step)
{
    struct visible part = visible_part(step);
    struct taps_key wide = key_wide(step, &part), high = key_high(step, &part);
    struct resample_reach reach = {part.x, part.y, part.w, part.h};
    int32_t end;
    if (part.w == 0)
        return (struct resample_reach){0, 0, 1, 1};
    if (goes_wide(step)) {
        taps_reach(&wide, &reach.x, &end);
        reach.width = end - reach.x;
    }
    if (goes_high(step)) {
        taps_reach(&high, &reach.y, &end);
        reach.height = end - reach.y;
    }
    return reach;
}

static uint64_t row_bytes(int32_t pixels)
{
    return (3 * (uint64_t)pixels + RESAMPLE_SLACK + ALIGN - 1) / ALIGN * ALIGN;
}

static uint64_t take(uint64_t *total, uint64_t bytes)
{
    uint64_t at = *total;
    *total = at + (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static void lay_out(struct layout *layout, const struct geometry_step *step,
                    const struct visible *part)
{
    struct taps_key wide = key_wide(step, part), high = key_high(step, part);
    int32_t taps = goes_high(step) ? 2 * taps_pairs_most(&high) : 0;
    int32_t width = part->w;
    *layout = (struct layout){.slots = taps + RESAMPLE_ROWS};
    if (goes_wide(step))
        layout->across = take(&layout->total, across_bytes(part->w, taps_pairs_most(&wide)));
    layout->rows = take(&layout->total, 2 * (uint64_t)layout->slots * sizeof(uint8_t *));
    if (high_first(step)) {
        width = resampler_reach(step).width;
        layout->spare[0] = take(&layout->total, row_bytes(width));
        layout->spare[1] = take(&layout->total, row_bytes(part->w));
    }
    layout->stride = row_bytes(width);
    layout->ring = take(&layout->total, layout->stride * (uint64_t)layout->slots);
    layout->line = take(&layout->total, row_bytes(step->win_w));
}

uint64_t resampler_bytes(const struct geometry_step *step)
{
    struct visible part = visible_part(step);
    struct taps_key wide = key_wide(step, &part), high = key_high(step, &part);
    struct layout layout;
    if (part.w == 0)
        return row_bytes(step->win_w);
    lay_out(&layout, step, &part);
    return layout.total + (goes_wide(step) ? taps_bytes(&wide) : 0) +
           (goes_high(step) ? taps_bytes(&high) : 0);
}

/* ------- rows of the result ------- */

/* Where row y of the window is put together. */
static uint8_t *line_of(const struct resampler *resampler, int32_t y)
{
    if (resampler->tensor)
        return resampler->scratch + resampler->layout.line;
    return resampler->dst + 3 * (size_t)resampler->step.win_w * (size_t)y;
}

static void finish_line(const struct resampler *resampler, int32_t y)
{
    size_t width = (size_t)resampler->step.win_w;
    if (resampler->tensor)
        tensor_write(resampler->tensor, line_of(resampler, y), width, width * (size_t)y,
                     &resampler->planes);
}

static bool hidden(const struct visible *part, int32_t y)
{
    return y < part->to_y || y >= part->to_y + part->h;
}

/* Zeros where the window is outside of the picture. */
static void write_margin(const struct resampler *resampler)
{
    const struct geometry_step *step = &resampler->step;
    const struct visible *part = &resampler->part;
    size_t row = 3 * (size_t)step->win_w;
    if (part->w == step->win_w && part->h == step->win_h)
        return;
    memset(line_of(resampler, 0), 0, row * (resampler->tensor ? 1 : (size_t)step->win_h));
    for (int32_t y = 0; y < step->win_h; y++)
        if (hidden(part, y))
            finish_line(resampler, y);
}

/* Pointers to a row of the ring and to those that follow it: the table goes round twice. */
static uint8_t **slots_from(const struct resampler *resampler, int32_t row)
{
    uint8_t **rows = (uint8_t **)(resampler->scratch + resampler->layout.rows);
    return rows + row % resampler->layout.slots;
}

static void fill_slots(const struct resampler *resampler)
{
    const struct layout *layout = &resampler->layout;
    uint8_t **rows = slots_from(resampler, 0);
    for (int32_t i = 0; i < layout->slots; i++)
        rows[i] = rows[i + layout->slots] =
            resampler->scratch + layout->ring + layout->stride * (uint64_t)i;
}

/* Where the input has fewer rows than there are taps, the last row has no weight. */
static void pass_down(const struct resampler *resampler, int32_t y, size_t bytes, uint8_t *dst)
{
    const struct taps *taps = resampler->high;
    const uint8_t *const *rows = (const uint8_t *const *)slots_from(resampler, taps->start[y]);
    resampler->kernels->vertical(rows, taps->pair + (size_t)y * (size_t)taps->pairs, taps->pairs,
                                 bytes, dst);
}

static void write_row(const struct resampler *resampler, int32_t y)
{
    const struct visible *part = &resampler->part;
    uint8_t *dst = line_of(resampler, part->to_y + y) + 3 * (size_t)part->to_x;
    uint8_t *high = resampler->scratch + resampler->layout.spare[0];
    uint8_t *both = resampler->scratch + resampler->layout.spare[1];
    size_t bytes = 3 * (size_t)part->w;
    if (!resampler->high) {
        memcpy(dst, *slots_from(resampler, part->y + y), bytes);
    } else if (!high_first(&resampler->step)) {
        pass_down(resampler, y, bytes, dst);
    } else {
        const struct resample_rows one = {{high, high, high, high}, {both, both, both, both}};
        pass_down(resampler, y, 3 * (size_t)resampler->reach.width, high);
        resampler->kernels->horizontal(&resampler->across, &one);
        memcpy(dst, both, bytes);
    }
    finish_line(resampler, part->to_y + y);
}

/* ------- rows of the source ------- */

/* As it is, or mirrored where no horizontal pass does that. */
static void copy_row(const struct resampler *resampler, const uint8_t *src, uint8_t *dst)
{
    int32_t width = resampler->reach.width;
    if (resampler->wide || !resampler->step.flip) {
        memcpy(dst, src, 3 * (size_t)width);
        return;
    }
    for (int32_t x = 0; x < width; x++)
        memcpy(dst + 3 * (size_t)x, src + 3 * (size_t)(width - 1 - x), 3);
}

/* Up to RESAMPLE_ROWS rows into the ring. */
static void take_rows(struct resampler *resampler, const uint8_t *src, size_t stride, int32_t count)
{
    struct resample_rows rows;
    uint8_t *const *slots = slots_from(resampler, resampler->seen);
    for (int32_t i = 0; i < RESAMPLE_ROWS; i++) {
        int32_t row = least(i, count - 1);
        rows.from[i] = src + (size_t)row * stride;
        rows.to[i] = slots[row];
    }
    resampler->seen += count;
    if (resampler->wide && !high_first(&resampler->step)) {
        resampler->kernels->horizontal(&resampler->across, &rows);
        return;
    }
    for (int32_t i = 0; i < count; i++)
        copy_row(resampler, rows.from[i], rows.to[i]);
}

/* The first row of the source that row y of the part does not need any more. */
static int32_t end_of(const struct resampler *resampler, int32_t y)
{
    const struct taps *high = resampler->high;
    if (!high)
        return resampler->part.y + y + 1;
    return least(high->start[y] + 2 * high->pairs, high->key.in);
}

void resampler_push(struct resampler *resampler, const uint8_t *src, size_t stride, int32_t rows)
{
    int32_t height = resampler->part.h;
    for (int32_t i = 0; i < rows && resampler->done < height; i += RESAMPLE_ROWS) {
        take_rows(resampler, src + (size_t)i * stride, stride, least(RESAMPLE_ROWS, rows - i));
        while (resampler->done < height && end_of(resampler, resampler->done) <= resampler->seen)
            write_row(resampler, resampler->done++);
    }
}

/* ------- steps ------- */

bool resampler_plain(const struct geometry_step *step)
{
    struct visible part = visible_part(step);
    return part.w == step->win_w && part.h == step->win_h && !high_first(step);
}

void resampler_keys(const struct geometry_step *step, struct taps_key keys[2])
{
    struct visible part = visible_part(step);
    keys[0] = key_wide(step, &part);
    keys[1] = key_high(step, &part);
}

int resampler_taps(struct resampler *resampler, const struct geometry_step *step,
                   const struct taps *taps[2])
{
    struct taps_key keys[2];
    resampler_keys(step, keys);
    taps[0] = taps_cache_get(resampler->wide_taps, &keys[0]);
    taps[1] = taps_cache_get(resampler->high_taps, &keys[1]);
    return taps[0] && taps[1] ? 0 : -ENOMEM;
}

static int find_taps(struct resampler *resampler)
{
    const struct geometry_step *step = &resampler->step;
    struct taps_key wide = key_wide(step, &resampler->part);
    struct taps_key high = key_high(step, &resampler->part);
    resampler->wide = resampler->high = NULL;
    if (goes_wide(step) && !(resampler->wide = taps_cache_get(resampler->wide_taps, &wide)))
        return -ENOMEM;
    if (goes_high(step) && !(resampler->high = taps_cache_get(resampler->high_taps, &high)))
        return -ENOMEM;
    return 0;
}

int resampler_begin(struct resampler *resampler, const struct geometry_step *step,
                    const struct tensor *tensor, void *dst, uint8_t *scratch)
{
    resampler->step = *step;
    resampler->part = visible_part(step);
    resampler->reach = resampler_reach(step);
    resampler->seen = resampler->reach.y;
    resampler->tensor = tensor;
    resampler->dst = dst;
    resampler->scratch = scratch;
    resampler->layout = (struct layout){0};
    resampler->wide = resampler->high = NULL;
    resampler->done = 0;
    if (tensor)
        tensor_place(tensor, (size_t)step->win_w * (size_t)step->win_h, dst, &resampler->planes);
    if (resampler->part.h) {
        lay_out(&resampler->layout, step, &resampler->part);
        fill_slots(resampler);
        if (find_taps(resampler) < 0)
            return -ENOMEM;
        if (resampler->wide)
            across_make(&resampler->across, resampler->kernels->vector, resampler->wide,
                        resampler->reach.x, step->flip, scratch + resampler->layout.across);
    }
    write_margin(resampler);
    return 0;
}

int resampler_run(struct resampler *resampler, const struct geometry_step *step, const uint8_t *src,
                  size_t stride, const struct tensor *tensor, void *dst, uint8_t *scratch)
{
    int rc = resampler_begin(resampler, step, tensor, dst, scratch);
    if (rc == 0)
        resampler_push(resampler, src, stride, resampler->reach.height);
    return rc;
}
