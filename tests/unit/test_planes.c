/* image/planes.c: the scaled planes of pictures of all kinds against the same in floating point by
 * the definitions, and vector instructions against plain C. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "image/planes.h"
#include "image/resample.h"
#include "image/simd.h"
#include "jpeg_maker.h"

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

enum { GAP = 7, GUARD = 0xA5 };
#ifdef SANITIZED
enum { ROUNDS = 12 };
#else
enum { ROUNDS = 60 };
#endif

static struct jpeg_partial *partial;
static struct resampler *resampler;
static struct planes *ways[3]; /* plain C, and the vector instructions that this machine has */
static int nways;
static struct philox draws;

static void setup(void)
{
    partial = jpeg_partial_new(true);
    resampler = resampler_new(&resample_plain);
    nways = 0;
    ways[nways++] = planes_new(&plane_plain);
#ifdef SIMD_X86
    if (simd_level() >= SIMD_AVX2)
        ways[nways++] = planes_new(&plane_avx2);
    if (simd_level() >= SIMD_AVX512)
        ways[nways++] = planes_new(&plane_avx512);
#endif
    philox_start(&draws, 7, PHILOX_DRAW, 0, 0, 0);
}

static void teardown(void)
{
    jpeg_partial_free(partial);
    resampler_free(resampler);
    for (int way = 0; way < nways; way++)
        planes_free(ways[way]);
}

static int32_t below(int32_t n)
{
    return (int32_t)philox_below(&draws, (uint32_t)n);
}

/* ------- the same in floating point ------- */

struct picture {
    struct jpeg_header header;
    int32_t width[3], height[3];
    uint8_t *plane[3];
};

static void collect(void *context, const struct jpeg_rows rows[JPEG_COMPONENTS])
{
    struct picture *picture = context;
    for (uint32_t c = 0; c < picture->header.components; c++)
        for (int32_t i = 0; i < rows[c].count; i++) {
            size_t width = (size_t)picture->width[c];
            memcpy(picture->plane[c] + (size_t)(rows[c].y + i) * width,
                   rows[c].at + (size_t)i * rows[c].stride, width);
        }
}

static void open_picture(struct picture *picture, const uint8_t *bytes, size_t size)
{
    const struct jpeg_sink sink = {collect, picture};
    require(jpeg_header_parse(&picture->header, bytes, size));
    const struct jpeg_box all = {0, 0, picture->header.width, picture->header.height};
    for (uint32_t c = 0; c < picture->header.components; c++) {
        struct jpeg_box part = jpeg_partial_needs(&picture->header, &all, c);
        require(part.x == 0 && part.y == 0);
        picture->width[c] = part.width;
        picture->height[c] = part.height;
        picture->plane[c] = malloc((size_t)part.width * (size_t)part.height);
    }
    require(jpeg_partial_planes(partial, &picture->header, &all, &sink));
}

static void close_picture(const struct picture *picture)
{
    for (uint32_t c = 0; c < picture->header.components; c++)
        free(picture->plane[c]);
}

static double filter_at(enum filter filter, double x)
{
    x = fabs(x);
    if (filter == FILTER_BILINEAR)
        return x < 1 ? 1 - x : 0;
    if (x < 1)
        return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

/* Weights of the pixels of an axis for one output, from its first pixel on. */
static int32_t weights_of(enum filter filter, int32_t in, int32_t out, int32_t x, double *weights,
                          int32_t *first)
{
    double scale = (double)in / out, stretch = scale > 1 ? scale : 1, sum = 0;
    double centre = (x + 0.5) * scale, support = (filter == FILTER_BICUBIC ? 2 : 1) * stretch;
    int32_t from = (int32_t)fmax(centre - support + 0.5, 0);
    int32_t to = (int32_t)fmin(centre + support + 0.5, in);
    *first = from;
    for (int32_t i = from; i < to; i++)
        sum += weights[i - from] = filter_at(filter, (i - centre + 0.5) / stretch);
    for (int32_t i = from; i < to; i++)
        weights[i - from] /= sum;
    return to - from;
}

static int32_t within(int32_t value, int32_t size)
{
    return value < 0 ? 0 : value >= size ? size - 1 : value;
}

/* Adds a pixel's weight to the samples that it is made of. */
static void spread(double weight, int32_t pixel, bool half, int32_t size, double *samples)
{
    if (!half) {
        samples[pixel] += weight;
        return;
    }
    samples[pixel / 2] += 0.75 * weight;
    samples[within(pixel % 2 ? pixel / 2 + 1 : pixel / 2 - 1, size)] += 0.25 * weight;
}

/* weights[output][sample] of an axis of a plane. */
static double *matrix(enum filter filter, int32_t box, int32_t at, int32_t out, int32_t from,
                      int32_t count, bool half, int32_t size)
{
    double *rows = calloc((size_t)count * (size_t)size, sizeof *rows), *weights;
    weights = calloc((size_t)box + 1, sizeof *weights);
    for (int32_t y = 0; y < count; y++) {
        int32_t first, taps = weights_of(filter, box, out, from + y, weights, &first);
        for (int32_t i = 0; i < taps; i++)
            spread(weights[i], at + first + i, half, size, rows + (size_t)y * (size_t)size);
    }
    free(weights);
    return rows;
}

static double *scaled(const struct picture *picture, const struct geometry_step *step, int c)
{
    const struct jpeg_header *header = &picture->header;
    int32_t width = picture->width[c], height = picture->height[c];
    double *across = matrix(step->filter, step->box_w, step->box_x, step->width, step->win_x,
                            step->win_w, header->component[c].h < header->h, width);
    double *down = matrix(step->filter, step->box_h, step->box_y, step->height, step->win_y,
                          step->win_h, header->component[c].v < header->v, height);
    double *middle = calloc((size_t)height * (size_t)step->win_w, sizeof *middle);
    double *result = calloc((size_t)step->win_h * (size_t)step->win_w, sizeof *result);
    for (int32_t x = 0; x < step->win_w; x++)
        for (int32_t i = 0; i < width; i++)
            for (int32_t y = 0; across[x * width + i] != 0 && y < height; y++)
                middle[y * step->win_w + x] +=
                    across[x * width + i] * picture->plane[c][y * width + i];
    for (int32_t y = 0; y < step->win_h; y++)
        for (int32_t i = 0; i < height; i++)
            for (int32_t x = 0; down[y * height + i] != 0 && x < step->win_w; x++)
                result[y * step->win_w + x] += down[y * height + i] * middle[i * step->win_w + x];
    free(across);
    free(down);
    free(middle);
    return result;
}

static double level(double value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

/* HWC */
static double *reference(const struct picture *picture, const struct geometry_step *step)
{
    size_t pixels = (size_t)step->win_w * (size_t)step->win_h;
    double *rgb = malloc(3 * pixels * sizeof *rgb), *plane[3] = {0};
    for (uint32_t c = 0; c < picture->header.components; c++)
        plane[c] = scaled(picture, step, (int)c);
    for (size_t i = 0; i < pixels; i++) {
        size_t x = i % (size_t)step->win_w,
               to = step->flip ? i - x + (size_t)step->win_w - 1 - x : i;
        double y = plane[0][i], u = plane[1] ? plane[1][i] - 128 : 0,
               v = plane[2] ? plane[2][i] - 128 : 0;
        rgb[3 * to] = level(y + 1.402 * v);
        rgb[3 * to + 1] = level(y - 0.344136 * u - 0.714136 * v);
        rgb[3 * to + 2] = level(y + 1.772 * u);
    }
    for (int c = 0; c < 3; c++)
        free(plane[c]);
    return rgb;
}

/* ------- checks ------- */

static uint8_t *run(struct planes *planes, const struct jpeg_header *header,
                    const struct geometry_step *step, const struct tensor *tensor, size_t bytes)
{
    const struct taps *taps[2];
    const struct jpeg_box box = planes_box(step);
    size_t room = planes_bytes(header, step);
    uint8_t *scratch = malloc(room), *dst = malloc(bytes + GAP);
    memset(dst, GUARD, bytes + GAP);
    require(resampler_taps(resampler, step, taps) == 0);
    planes_begin(planes, header, step, taps, tensor, dst, scratch);
    const struct jpeg_sink sink = planes_sink(planes);
    require(jpeg_partial_planes(partial, header, &box, &sink));
    for (size_t i = bytes; i < bytes + GAP; i++)
        require(dst[i] == GUARD);
    free(scratch);
    return dst;
}

static void compare(const uint8_t *got, const double *want, const struct geometry_step *step,
                    double most, double mean)
{
    size_t values = 3 * (size_t)step->win_w * (size_t)step->win_h;
    double sum = 0, worst = 0;
    for (size_t i = 0; i < values; i++) {
        double difference = fabs(got[i] - want[i]);
        sum += difference;
        worst = difference > worst ? difference : worst;
    }
    if (worst > most || sum / (double)values > mean)
        ck_abort_msg(
            "box %d,%d %dx%d to %dx%d, window %d,%d %dx%d, flip %d, filter %d: off by %.2f "
            "at most, %.3f on average",
            step->box_x, step->box_y, step->box_w, step->box_h, step->width, step->height,
            step->win_x, step->win_y, step->win_w, step->win_h, step->flip, (int)step->filter,
            worst, sum / (double)values);
}

static void check_step(const struct picture *picture, const struct geometry_step *step)
{
    size_t bytes = 3 * (size_t)step->win_w * (size_t)step->win_h;
    double *want = reference(picture, step);
    uint8_t *plain = run(ways[0], &picture->header, step, NULL, bytes);
    bool large = step->win_w >= 8 && step->win_h >= 8; /* small ones scatter */
    compare(plain, want, step, 2.6, large ? 0.55 : 2.6);
    for (int way = 1; way < nways; way++) {
        uint8_t *vector = run(ways[way], &picture->header, step, NULL, bytes);
        require(memcmp(plain, vector, bytes) == 0);
        free(vector);
    }
    free(plain);
    free(want);
}

/* Any box, larger or smaller, any window. */
static struct geometry_step draw_step(const struct jpeg_header *header, int32_t most)
{
    struct geometry_step step = {.box_w = 1 + below(header->width),
                                 .box_h = 1 + below(header->height),
                                 .width = 1 + below(most),
                                 .height = 1 + below(most),
                                 .flip = below(2),
                                 .filter = (enum filter)below(2)};
    step.box_x = below(header->width - step.box_w + 1);
    step.box_y = below(header->height - step.box_h + 1);
    if (below(4) == 0)
        step.width = step.box_w;
    if (below(4) == 0)
        step.height = step.box_h;
    step.win_w = below(2) ? step.width : 1 + below(step.width);
    step.win_h = below(2) ? step.height : 1 + below(step.height);
    step.win_x = below(step.width - step.win_w + 1);
    step.win_y = below(step.height - step.win_h + 1);
    return step;
}

static bool fits(const struct jpeg_header *header, const struct geometry_step *step)
{
    const struct geometry geometry = {.steps = {*step}, .count = 1};
    return planes_fit(header, &geometry);
}

static const struct {
    enum jpeg_maker_colour colour;
    int h, v;
} kinds[] = {{JPEG_MAKER_YCC, 1, 1}, {JPEG_MAKER_YCC, 2, 1},  {JPEG_MAKER_YCC, 2, 2},
             {JPEG_MAKER_YCC, 1, 2}, {JPEG_MAKER_GREY, 1, 1}, {JPEG_MAKER_GREY, 2, 2}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static int check_picture(const struct jpeg_recipe *recipe, int steps)
{
    struct picture picture = {0};
    size_t size;
    int done = 0;
    uint8_t *bytes = jpeg_maker_make(recipe, &size);
    open_picture(&picture, bytes, size);
    for (int i = 0; i < steps; i++) {
        struct geometry_step step = draw_step(&picture.header, 100);
        if (!fits(&picture.header, &step))
            continue;
        check_step(&picture, &step);
        done++;
    }
    close_picture(&picture);
    free(bytes);
    return done;
}

START_TEST(small_pictures)
{
    int done = 0;
    for (uint32_t width = 1; width <= 21; width += 2)
        for (uint32_t height = 1; height <= 21; height += 4) {
            const struct jpeg_recipe recipe = {.width = width + height / 4 % 2,
                                               .height = height + width / 2 % 2,
                                               .colour = kinds[_i].colour,
                                               .h_samp = kinds[_i].h,
                                               .v_samp = kinds[_i].v,
                                               .seed = width * height};
            done += check_picture(&recipe, 4);
        }
    ck_assert_int_gt(done, 100);
}
END_TEST

START_TEST(larger_pictures)
{
    int done = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const struct jpeg_recipe recipe = {.width = 20 + (uint32_t)below(230),
                                           .height = 20 + (uint32_t)below(230),
                                           .colour = kinds[_i].colour,
                                           .h_samp = kinds[_i].h,
                                           .v_samp = kinds[_i].v,
                                           .quality = 50 + below(50),
                                           .restart = below(3) ? 0 : 1 + (unsigned)below(20),
                                           .seed = i};
        done += check_picture(&recipe, 4);
    }
    ck_assert_int_gt(done, 2 * ROUNDS);
}
END_TEST

/* Rows far apart, and up to hundreds of weights. */
START_TEST(large_reductions)
{
    struct picture picture = {0};
    size_t size;
    const struct jpeg_recipe recipe = {.width = 1203,
                                       .height = 611,
                                       .h_samp = kinds[_i].h,
                                       .v_samp = kinds[_i].v,
                                       .colour = kinds[_i].colour};
    uint8_t *bytes = jpeg_maker_make(&recipe, &size);
    open_picture(&picture, bytes, size);
    for (int32_t side = 5; side <= 45; side += 8) {
        struct geometry_step step = {
            0, 0, 1203, 611,  side,  side,
            0, 0, side, side, false, side % 2 ? FILTER_BILINEAR : FILTER_BICUBIC};
        check_step(&picture, &step);
        step.box_x = step.box_y = 1;
        step.box_w = step.box_h = 610;
        step.flip = true;
        check_step(&picture, &step);
    }
    close_picture(&picture);
    free(bytes);
}
END_TEST

START_TEST(a_flip_is_a_mirror)
{
    const struct jpeg_recipe recipe = {.width = 133, .height = 70, .h_samp = 2, .v_samp = 2};
    struct geometry_step step = {3, 2, 121, 60, 91, 45, 1, 2, 77, 40, false, FILTER_BILINEAR};
    struct jpeg_header header;
    size_t size, bytes = 3 * 77 * 40;
    uint8_t *file = jpeg_maker_make(&recipe, &size);
    require(jpeg_header_parse(&header, file, size));
    uint8_t *straight = run(ways[0], &header, &step, NULL, bytes);
    step.flip = true;
    uint8_t *flipped = run(ways[0], &header, &step, NULL, bytes);
    for (int y = 0; y < 40; y++)
        for (int x = 0; x < 77; x++)
            require(memcmp(straight + 3 * (y * 77 + x), flipped + 3 * (y * 77 + 76 - x), 3) == 0);
    free(straight);
    free(flipped);
    free(file);
}
END_TEST

/* One colour stays as it is, through any filter: no weight is lost. */
START_TEST(one_colour_stays)
{
    for (uint32_t seed = 0; seed < 40; seed++) {
        const struct jpeg_recipe recipe = {.width = 100,
                                           .height = 90,
                                           .h_samp = 1 + (int)seed % 2,
                                           .v_samp = 1 + (int)seed / 2 % 2,
                                           .flat = true,
                                           .seed = seed,
                                           .quality = 100};
        struct picture picture = {0};
        size_t size;
        uint8_t *bytes = jpeg_maker_make(&recipe, &size);
        open_picture(&picture, bytes, size);
        struct geometry_step step = draw_step(&picture.header, 100);
        double *want = reference(&picture, &step);
        uint8_t *got =
            run(ways[0], &picture.header, &step, NULL, 3 * (size_t)step.win_w * (size_t)step.win_h);
        compare(got, want, &step, 0.53, 0.53);
        close_picture(&picture);
        free(got);
        free(want);
        free(bytes);
    }
}
END_TEST

/* Planes of all types have the values of the bytes. */
START_TEST(outputs)
{
    static const float mean[3] = {0.5F, 0.25F, 0.1F}, std[3] = {0.2F, 0.3F, 0.4F};
    static struct tensor tensor;
    const struct jpeg_recipe recipe = {.width = 90, .height = 75, .h_samp = 2, .v_samp = 2};
    const struct geometry_step step = {3, 2, 81, 60, 53, 45, 0, 2, 53, 40, true, FILTER_BILINEAR};
    struct jpeg_header header;
    size_t size, pixels = 53 * 40;
    uint8_t *file = jpeg_maker_make(&recipe, &size);
    require(jpeg_header_parse(&header, file, size));
    uint8_t *rgb = run(ways[0], &header, &step, NULL, 3 * pixels);
    for (enum pixels type = PIXELS_U8_NCHW; type <= PIXELS_BF16_NCHW; type++) {
        size_t bytes = 3 * pixels * pixels_size(type);
        struct tensor_planes places;
        uint8_t *want = malloc(bytes);
        tensor_set(&tensor, type, mean, std, SIMD_NONE);
        tensor_place(&tensor, pixels, want, &places);
        tensor_write(&tensor, rgb, pixels, 0, &places);
        for (int way = 0; way < nways; way++) {
            uint8_t *got = run(ways[way], &header, &step, &tensor, bytes);
            require(memcmp(got, want, bytes) == 0);
            free(got);
        }
        free(want);
    }
    free(rgb);
    free(file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("planes");
    TCase *tests = tcase_create("planes");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, small_pictures, 0, KINDS);
    tcase_add_loop_test(tests, larger_pictures, 0, KINDS);
    tcase_add_loop_test(tests, large_reductions, 0, KINDS);
    tcase_add_test(tests, a_flip_is_a_mirror);
    tcase_add_test(tests, one_colour_stays);
    tcase_add_test(tests, outputs);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
