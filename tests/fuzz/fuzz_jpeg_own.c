/* Our own JPEG decoder against libjpeg-turbo: the same pictures are refused, for the same reason,
 * and boxes of the others have the same pixels. Scaling of their planes (`pixels: fast`): vector
 * instructions against plain C, in rooms of exactly the size that was asked for. Input is a JPEG,
 * or else a recipe for one, followed by changes of its bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/jpeg.h"
#include "image/planes.h"
#include "image/resample.h"
#include "jpeg_maker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECIPE = 8, CHANGE = 3, PIXELS_MAX = 1 << 18, BOXES = 4 };

struct outcome {
    bool opened, done;
    struct jpeg_image_header header;
    struct jpeg_image_fault fault;
};

static struct jpeg_image *image;
static uint8_t *whole, *part;
static uint32_t state;

static uint32_t below(int32_t n)
{
    state = state * 1664525U + 1013904223U;
    return (uint32_t)((uint64_t)(state >> 8) * (uint32_t)n >> 24);
}

static void require(bool condition, const struct outcome *got, const struct outcome *want)
{
    if (condition)
        return;
    fprintf(stderr, "ours: done %d, class %d, damaged %d, %s\n", got->done, (int)got->fault.cls,
            got->fault.damaged, got->fault.reason);
    fprintf(stderr, "turbo: done %d, class %d, damaged %d, %s\n", want->done, (int)want->fault.cls,
            want->fault.damaged, want->fault.reason);
    abort();
}

static bool fits(const struct jpeg_image_header *header)
{
    return (uint64_t)header->width * (uint64_t)header->height <= PIXELS_MAX;
}

/* box: NULL for the whole picture. */
static struct outcome run(const uint8_t *bytes, size_t size, enum jpeg_way way,
                          const struct jpeg_box *box, uint8_t *dst)
{
    struct outcome outcome = {0};
    outcome.opened = jpeg_image_open(image, bytes, size, way, &outcome.header);
    if (outcome.opened && fits(&outcome.header)) {
        const struct jpeg_box all = {0, 0, outcome.header.width, outcome.header.height};
        box = box ? box : &all;
        outcome.done = jpeg_image_read(image, box, dst, 3 * (size_t)box->width);
    }
    outcome.fault = *jpeg_image_fault(image);
    jpeg_image_close(image);
    return outcome;
}

static void check_box(const uint8_t *bytes, size_t size, const struct outcome *want,
                      const struct jpeg_box *box)
{
    struct outcome got = run(bytes, size, JPEG_AUTO, box, part);
    require(got.done == want->done && got.fault.cls == want->fault.cls, &got, want);
    require(got.header.memory == want->header.memory, &got, want);
    require(got.done || strcmp(got.fault.reason, want->fault.reason) == 0, &got, want);
    size_t row = 3 * (size_t)box->width, stride = 3 * (size_t)want->header.width;
    for (int32_t y = 0; y < box->height && got.done; y++)
        require(memcmp(part + (size_t)y * row,
                       whole + (size_t)(box->y + y) * stride + 3 * (size_t)box->x, row) == 0,
                &got, want);
    if (box->width == want->header.width && box->height == want->header.height)
        require(got.fault.damaged == want->fault.damaged &&
                    strcmp(got.fault.reason, want->fault.reason) == 0,
                &got, want);
}

/* ------- pixels: fast ------- */

enum { SIDE_MAX = 120 };

static struct jpeg_partial *partial;
static struct resampler *resampler;
static struct planes *ways[2];

static struct geometry_step draw_step(const struct jpeg_header *header)
{
    struct geometry_step step = {.box_w = 1 + (int32_t)below(header->width),
                                 .box_h = 1 + (int32_t)below(header->height),
                                 .width = 1 + (int32_t)below(SIDE_MAX),
                                 .height = 1 + (int32_t)below(SIDE_MAX),
                                 .flip = below(2),
                                 .filter = (enum filter)below(2)};
    step.box_x = (int32_t)below(header->width - step.box_w + 1);
    step.box_y = (int32_t)below(header->height - step.box_h + 1);
    step.height = below(4) ? step.height : step.box_h;
    step.win_w = 1 + (int32_t)below(step.width);
    step.win_h = 1 + (int32_t)below(step.height);
    step.win_x = (int32_t)below(step.width - step.win_w + 1);
    step.win_y = (int32_t)below(step.height - step.win_h + 1);
    return step;
}

/* NULL: it met damage. */
static uint8_t *scale(struct planes *planes, const struct jpeg_header *header,
                      const struct geometry_step *step, size_t row_bytes)
{
    const struct jpeg_box box = planes_box(step);
    const struct taps *taps[2];
    uint8_t *scratch = malloc(planes_bytes(header, step)), *dst = malloc(row_bytes);
    if (resampler_taps(resampler, step, taps) < 0)
        abort();
    planes_begin(planes, header, step, taps, NULL, dst, scratch);
    const struct jpeg_sink sink = planes_sink(planes);
    bool done = jpeg_partial_planes(partial, header, &box, &sink);
    free(scratch);
    if (done)
        return dst;
    free(dst);
    return NULL;
}

static void compare_ways(const uint8_t *bytes, size_t size)
{
    struct jpeg_header header;
    if (!ways[1] || !jpeg_header_parse(&header, bytes, size) ||
        (uint64_t)header.width * (uint64_t)header.height > PIXELS_MAX)
        return;
    struct geometry geometry = {.count = 1, .steps = {draw_step(&header)}};
    const struct geometry_step *step = &geometry.steps[0];
    size_t row_bytes = 3 * (size_t)step->win_w * (size_t)step->win_h;
    if (!planes_fit(&header, &geometry))
        return;
    uint8_t *plain = scale(ways[0], &header, step, row_bytes);
    uint8_t *vector = scale(ways[1], &header, step, row_bytes);
    if (!plain != !vector || (plain && memcmp(plain, vector, row_bytes) != 0))
        abort();
    free(plain);
    free(vector);
}

/* ------- all ------- */

static void compare(const uint8_t *bytes, size_t size)
{
    compare_ways(bytes, size);
    struct outcome want = run(bytes, size, JPEG_TURBO, NULL, whole);
    if (!want.opened) {
        struct outcome got = run(bytes, size, JPEG_AUTO, NULL, part);
        require(!got.done, &got, &want);
        return;
    }
    if (!fits(&want.header))
        return;
    struct jpeg_box box = {0, 0, want.header.width, want.header.height};
    for (int i = 0; i < BOXES; i++) {
        check_box(bytes, size, &want, &box);
        box.width = 1 + (int32_t)below(want.header.width);
        box.height = 1 + (int32_t)below(want.header.height);
        box.x = (int32_t)below(want.header.width - box.width + 1);
        box.y = (int32_t)below(want.header.height - box.height + 1);
    }
}

static void compare_made(const uint8_t *data, size_t size)
{
    size_t length;
    uint32_t more = data[7] % 8 == 7 ? 150 : 0; /* then the scan is larger than the bit window */
    struct jpeg_recipe recipe = {.width = 1 + data[0] % 70U + more,
                                 .height = 1 + data[1] % 70U + more,
                                 .colour = (enum jpeg_maker_colour)(data[2] % 3),
                                 .h_samp = 1 + data[3] % 2,
                                 .v_samp = 1 + data[3] / 2 % 2,
                                 .quality = 1 + data[4] % 100,
                                 .optimize = data[3] & 4,
                                 .restart = data[5] % 32U,
                                 .flat = data[3] & 8,
                                 .seed = data[6]};
    uint8_t *bytes = jpeg_maker_make(&recipe, &length);
    for (data += RECIPE, size -= RECIPE; size >= CHANGE; data += CHANGE, size -= CHANGE)
        bytes[((size_t)data[0] << 8 | data[1]) % length] ^= data[2];
    compare(bytes, length);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!image) {
        image = jpeg_image_new();
        whole = malloc(3 * (size_t)PIXELS_MAX);
        part = malloc(3 * (size_t)PIXELS_MAX);
        partial = jpeg_partial_new(true);
        resampler = resampler_new(&resample_plain);
        ways[0] = planes_new(&plane_plain);
        ways[1] = planes_best() ? planes_new(planes_best()) : NULL;
    }
    state = (uint32_t)size;
    for (size_t i = 0; i < size; i++)
        state = state * 31 + data[i];
    if (size >= 2 && data[0] == 0xFF && data[1] == 0xD8)
        compare(data, size);
    else if (size >= RECIPE)
        compare_made(data, size);
    return 0;
}
