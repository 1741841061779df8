#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "image/resample.h"
#include "image/simd.h"

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

enum { FNV_START = 0x811C9DC5 };

static uint32_t fnv(uint32_t hash, const void *data, size_t n)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * 16777619U;
    return hash;
}

static const struct resample_kernels *const kernels[] = {&resample_plain,
#ifdef SIMD_X86
                                                         &resample_sse4, &resample_avx2,
                                                         &resample_avx512
#endif
};

/* How many of them this machine can run; plain C is the first. */
static int usable(void)
{
    return simd_level() + 1;
}

/* A few rows at a time. */
static void push_some(struct resampler *resampler, const uint8_t *src, size_t stride, int32_t rows,
                      int32_t most)
{
    int32_t step = 0;
    for (int32_t y = 0; y < rows; y += step) {
        step = most < rows - y ? most : rows - y;
        resampler_push(resampler, src + (size_t)y * stride, stride, step);
    }
}

/* A copy of what a step needs of src, with only the promised slack. The caller frees. */
static uint8_t *part_of(const uint8_t *src, int32_t width, const struct geometry_step *step,
                        const struct resample_reach *reach)
{
    size_t row = 3 * (size_t)reach->width, bytes = row * (size_t)reach->height;
    uint8_t *part = malloc(bytes + RESAMPLE_SLACK);
    require(part && reach->x >= 0 && reach->y >= 0 && reach->width > 0 && reach->height > 0 &&
            reach->x + reach->width <= step->box_w && reach->y + reach->height <= step->box_h);
    src += 3 * ((size_t)(step->box_y + reach->y) * width + step->box_x + reach->x);
    for (int32_t y = 0; y < reach->height; y++)
        memcpy(part + (size_t)y * row, src + 3 * (size_t)y * width, row);
    memset(part + bytes, 0x5A, RESAMPLE_SLACK);
    return part;
}

/* Runs a step and checks that nothing but the window is written. at_once: rows that are pushed, 0 =
 * all. The caller frees. */
static uint8_t *run_some(struct resampler *resampler, const struct geometry_step *step,
                         const uint8_t *src, int32_t width, int32_t at_once)
{
    size_t out = 3 * (size_t)step->win_w * step->win_h;
    struct resample_reach reach = resampler_reach(step);
    uint8_t *part = part_of(src, width, step, &reach), *dst = malloc(out + 64);
    uint8_t *scratch = malloc(resampler_bytes(step) + RESAMPLE_SLACK);
    size_t row = 3 * (size_t)reach.width;
    require(dst && scratch);
    memset(dst, 0xA5, out + 64);
    if (at_once) {
        require(resampler_begin(resampler, step, NULL, dst + 32, scratch) == 0);
        push_some(resampler, part, row, reach.height, at_once);
    } else {
        require(resampler_run(resampler, step, part, row, NULL, dst + 32, scratch) == 0);
    }
    for (int i = 0; i < 32; i++)
        require(dst[i] == 0xA5 && dst[32 + out + i] == 0xA5);
    memmove(dst, dst + 32, out);
    free(part);
    free(scratch);
    return dst;
}

static uint8_t *run(struct resampler *resampler, const struct geometry_step *step,
                    const uint8_t *src, int32_t width)
{
    return run_some(resampler, step, src, width, 0);
}

static struct geometry_step whole(int32_t width, int32_t height, int32_t to_width,
                                  int32_t to_height, enum filter filter)
{
    return (struct geometry_step){.box_w = width,
                                  .box_h = height,
                                  .width = to_width,
                                  .height = to_height,
                                  .win_w = to_width,
                                  .win_h = to_height,
                                  .filter = filter};
}

/* Sums of Pillow 9.4's bytes for a picture of 60x50. */
static const struct {
    int32_t width, height;
    uint32_t sums[2]; /* bilinear, bicubic */
} pillow[] = {
    {7, 6, {0x133e2fc3, 0xc696aeee}},     {23, 31, {0xdab0cf29, 0x9ff01751}},
    {60, 20, {0x69226d73, 0x2293d57b}},   {20, 50, {0x021b7dab, 0xa6eb910a}},
    {100, 120, {0xe42b20fc, 0x0cc75b7c}},
};

START_TEST(equals_pillow)
{
    uint8_t src[60 * 50 * 3];
    for (int y = 0; y < 50; y++)
        for (int x = 0; x < 60; x++)
            for (int c = 0; c < 3; c++)
                src[(y * 60 + x) * 3 + c] = (uint8_t)(x * x * 3 + y * 91 + c * 53 + x * y);
    for (int k = 0; k < usable(); k++) {
        struct resampler *resampler = resampler_new(kernels[k]);
        for (size_t i = 0; i < sizeof pillow / sizeof pillow[0]; i++)
            for (int filter = 0; filter < 2; filter++) {
                int32_t width = pillow[i].width, height = pillow[i].height;
                struct geometry_step step = whole(60, 50, width, height, filter);
                uint8_t *got = run(resampler, &step, src, 60);
                ck_assert_uint_eq(fnv(FNV_START, got, 3 * (size_t)width * height),
                                  pillow[i].sums[filter]);
                free(got);
            }
        resampler_free(resampler);
    }
}
END_TEST

/* ---- random steps against a picture resized as a whole by plain C ---- */

static struct philox draws;

static int32_t draw(int32_t least, int32_t most)
{
    return least + (int32_t)philox_below(&draws, (uint64_t)(most - least + 1));
}

/* Mostly small numbers. */
static int32_t draw_size(int32_t most)
{
    return 1 + draw(0, draw(0, draw(0, most - 1)));
}

static struct geometry_step random_step(int32_t width, int32_t height)
{
    struct geometry_step step = {.filter = draw(0, 1), .flip = draw(0, 1)};
    step.box_x = draw(0, width - 1);
    step.box_y = draw(0, height - 1);
    step.box_w = draw(1, width - step.box_x);
    step.box_h = draw(1, height - step.box_y);
    step.width = draw(0, 4) ? draw_size(300) : step.box_w;
    step.height = draw(0, 4) ? draw_size(300) : step.box_h;
    step.win_x = draw(0, 2) ? draw(-10, step.width + 5) : 0;
    step.win_y = draw(0, 2) ? draw(-10, step.height + 5) : 0;
    step.win_w = draw(0, 2) ? draw(1, 100) : step.width;
    step.win_h = draw(0, 2) ? draw(1, 100) : step.height;
    return step;
}

static void expect_window(const struct geometry_step *step, const uint8_t *resized,
                          const uint8_t *got)
{
    for (int32_t y = 0; y < step->win_h; y++)
        for (int32_t x = 0; x < step->win_w; x++) {
            int32_t from_x = step->win_x + (step->flip ? step->win_w - 1 - x : x);
            int32_t from_y = step->win_y + y;
            bool inside =
                from_x >= 0 && from_x < step->width && from_y >= 0 && from_y < step->height;
            const uint8_t zero[3] = {0};
            require(memcmp(got + 3 * (y * step->win_w + x),
                           inside ? resized + 3 * (from_y * step->width + from_x) : zero, 3) == 0);
        }
}

static uint8_t *random_picture(int32_t width, int32_t height)
{
    uint8_t *src = malloc(3 * (size_t)width * height);
    bool extreme = draw(0, 1); /* only the largest sums */
    require(src);
    for (int32_t i = 0; i < 3 * width * height; i++)
        src[i] = (uint8_t)(extreme ? draw(0, 1) * 255 : draw(0, 255));
    return src;
}

START_TEST(windows_and_flips_are_parts_of_the_whole)
{
    struct resampler *plain = resampler_new(&resample_plain);
    philox_start(&draws, 5, PHILOX_DRAW, 0, 0, 0);
    for (int i = 0; i < 1500; i++) {
        int32_t width = draw(1, 120), height = draw(1, i % 10 ? 120 : 900);
        uint8_t *src = random_picture(width, height);
        struct geometry_step step = random_step(width, height), all = step;
        all.win_x = all.win_y = 0;
        all.win_w = all.width;
        all.win_h = all.height;
        all.flip = false;
        uint8_t *resized = run(plain, &all, src, width);
        uint8_t *got = run(plain, &step, src, width);
        expect_window(&step, resized, got);
        free(src);
        free(resized);
        free(got);
    }
    resampler_free(plain);
}
END_TEST

/* Sizes from 1 on, reductions of hundreds, enlargements, windows, flips, both filters, rows pushed
 * a few at a time. */
START_TEST(every_kernel_gives_the_bytes_of_plain_c)
{
    struct resampler *resamplers[4] = {NULL};
    philox_start(&draws, 6, PHILOX_DRAW, 0, 0, 0);
    for (int k = 0; k < usable(); k++)
        resamplers[k] = resampler_new(kernels[k]);
    for (int i = 0; i < 6000; i++) {
        int32_t width = draw_size(i % 20 ? 400 : 3000), height = draw_size(i % 25 ? 400 : 3000);
        uint8_t *src = random_picture(width, height);
        struct geometry_step step = random_step(width, height);
        uint8_t *want = run(resamplers[0], &step, src, width);
        for (int k = 0; k < usable(); k++) {
            uint8_t *got = run_some(resamplers[k], &step, src, width, draw(0, 9));
            require(memcmp(got, want, 3 * (size_t)step.win_w * step.win_h) == 0);
            free(got);
        }
        free(src);
        free(want);
    }
    for (int k = 0; k < usable(); k++)
        resampler_free(resamplers[k]);
}
END_TEST

/* Outputs of other types are made row by row: what lies outside of the picture too. */
START_TEST(values_are_those_of_the_bytes)
{
    static const float mean[3] = {0.4F, 0.5F, 0.6F}, std[3] = {0.2F, 0.3F, 0.4F};
    struct resampler *resampler = resampler_new(resample_best());
    philox_start(&draws, 7, PHILOX_DRAW, 0, 0, 0);
    for (int i = 0; i < 1000; i++) {
        int32_t width = draw_size(200), height = draw_size(200);
        uint8_t *src = random_picture(width, height);
        struct geometry_step step = random_step(width, height);
        size_t n = (size_t)step.win_w * step.win_h;
        struct tensor tensor = {.level = SIMD_NONE};
        struct tensor_planes planes;
        tensor_set(&tensor, PIXELS_U8_NCHW + i % 4, mean, std, simd_level());
        size_t bytes = 3 * n * pixels_size(tensor.pixels);
        uint8_t *got = malloc(bytes), *want = malloc(bytes);
        uint8_t *scratch = malloc(resampler_bytes(&step) + RESAMPLE_SLACK);
        uint8_t *rgb = run(resampler, &step, src, width);
        tensor_place(&tensor, n, want, &planes);
        tensor_write(&tensor, rgb, n, 0, &planes);
        struct resample_reach reach = resampler_reach(&step);
        uint8_t *part = part_of(src, width, &step, &reach);
        require(resampler_run(resampler, &step, part, 3 * (size_t)reach.width, &tensor, got,
                              scratch) == 0);
        require(memcmp(got, want, bytes) == 0);
        free(src);
        free(part);
        free(got);
        free(want);
        free(scratch);
        free(rgb);
    }
    resampler_free(resampler);
}
END_TEST

START_TEST(one_colour_stays)
{
    struct resampler *resampler = resampler_new(resample_best());
    uint8_t src[70 * 40 * 3];
    memset(src, 200, sizeof src);
    for (int filter = 0; filter < 2; filter++)
        for (int32_t size = 1; size < 100; size += 7) {
            struct geometry_step step = whole(70, 40, size, 100 - size, filter);
            uint8_t *got = run(resampler, &step, src, 70);
            for (int32_t i = 0; i < 3 * size * (100 - size); i++)
                require(got[i] == 200);
            free(got);
        }
    resampler_free(resampler);
}
END_TEST

/* 2x900: passes change places, so that the picture is rounded after its height has shrunk. */
START_TEST(very_tall_pictures_shrink_in_height_first)
{
    struct resampler *resampler = resampler_new(resample_best());
    uint8_t src[2 * 900 * 3];
    philox_start(&draws, 6, PHILOX_DRAW, 0, 0, 0);
    for (size_t i = 0; i < sizeof src; i++)
        src[i] = (uint8_t)draw(0, 255);
    struct geometry_step both = whole(2, 900, 31, 30, FILTER_BICUBIC);
    struct geometry_step down = whole(2, 900, 2, 30, FILTER_BICUBIC);
    struct geometry_step across = whole(2, 30, 31, 30, FILTER_BICUBIC);
    uint8_t *got = run(resampler, &both, src, 2);
    uint8_t *low = run(resampler, &down, src, 2);
    uint8_t *want = run(resampler, &across, low, 2);
    ck_assert_mem_eq(got, want, 31 * 30 * 3);
    free(got);
    free(low);
    free(want);
    resampler_free(resampler);
}
END_TEST

/* Only the rows that a window needs are read: 1x60000 to 224 of 15 million rows. */
START_TEST(a_window_of_a_huge_result_is_cheap)
{
    struct resampler *resampler = resampler_new(resample_best());
    uint8_t *src = calloc(60000, 3);
    for (int32_t y = 0; y < 60000; y++)
        memset(src + 3 * y, y / 256, 3);
    struct geometry_step step = {.box_w = 1,
                                 .box_h = 60000,
                                 .width = 256,
                                 .height = 15360000,
                                 .win_x = 16,
                                 .win_y = 7679888,
                                 .win_w = 224,
                                 .win_h = 224};
    ck_assert_uint_lt(resampler_bytes(&step), 1 << 16);
    uint8_t *got = run(resampler, &step, src, 1);
    for (int i = 0; i < 224 * 224 * 3; i++)
        require(got[i] == 30000 / 256);
    free(got);
    free(src);
    resampler_free(resampler);
}
END_TEST

/* Sums of (input, weight) of all weights but zeros, from a second implementation. */
static const struct {
    int32_t in;
    enum filter filter;
    uint32_t sum;
} weights[] = {{500, FILTER_BILINEAR, 0x1f1d7961},
               {500, FILTER_BICUBIC, 0x3d7b5a49},
               {150, FILTER_BILINEAR, 0xfb8bd6c4},
               {150, FILTER_BICUBIC, 0x8f5bed34}};

START_TEST(weights_are_exact)
{
    struct taps_cache *cache = taps_cache_new();
    const struct taps_key key = {weights[_i].in, 224, 0, 224, weights[_i].filter};
    const struct taps *taps = taps_cache_get(cache, &key);
    uint32_t sum = FNV_START;
    for (int32_t x = 0; x < 224; x++)
        for (int32_t j = 0; j < 2 * taps->pairs; j++) {
            const struct taps_pair *pair = taps->pair + (size_t)x * taps->pairs;
            const int32_t entry[2] = {taps->start[x] + j, taps_weight(pair, j)};
            sum = entry[1] ? fnv(sum, entry, sizeof entry) : sum;
        }
    ck_assert_uint_eq(sum, weights[_i].sum);
    taps_cache_free(cache);
}
END_TEST

START_TEST(weights_are_kept_and_bounded)
{
    struct taps_cache *cache = taps_cache_new();
    const struct taps_key key = {500, 224, 0, 224, FILTER_BILINEAR};
    const struct taps *taps = taps_cache_get(cache, &key);
    const int32_t *start = taps->start;
    const struct taps_key other = {499, 224, 0, 224, FILTER_BILINEAR};
    taps_cache_get(cache, &other);
    ck_assert_ptr_eq(taps_cache_get(cache, &key)->start, start);
    philox_start(&draws, 8, PHILOX_DRAW, 0, 0, 0);
    for (int i = 0; i < 4000; i++) {
        struct taps_key any = {draw(1, i % 2 ? 3000 : 6), draw(1, 500), 0, 0, draw(0, 1)};
        any.first = draw(0, any.out - 1);
        any.count = draw(1, any.out - any.first);
        taps = taps_cache_get(cache, &any);
        int32_t from, to;
        taps_reach(&any, &from, &to);
        require(0 <= from && from < to && to <= any.in);
        require(from == taps->start[0] || from + 2 * taps_pairs_most(&any) >= any.in);
        require((uint64_t)any.count * (4 + 8 * (uint64_t)taps->pairs) <= taps_bytes(&any));
        for (int32_t x = 0; x < any.count; x++) {
            const struct taps_pair *pair = taps->pair + (size_t)x * taps->pairs;
            int64_t sum = 0, all = 0;
            for (int32_t j = 0; j < 2 * taps->pairs; j++) {
                int32_t weight = taps_weight(pair, j);
                require(pair[j / 2].high >> 16 == (pair[j / 2].high & 0xFFFF));
                require(abs(weight) < 1.2 * (1 << TAPS_BITS));
                sum += weight;
                all += abs(weight);
            }
            require(llabs(sum - (1 << TAPS_BITS)) <= taps->pairs); /* each is rounded */
            require(all < 3 << (TAPS_BITS - 1));                   /* what the kernels count on */
            require(taps->start[x] >= from &&
                    taps->start[x] + 2 * taps->pairs <= to + (to == any.in));
        }
    }
    taps_cache_trim(cache);
    taps_cache_free(cache);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resample");
    TCase *tests = tcase_create("resample");
    tcase_add_test(tests, equals_pillow);
    tcase_add_test(tests, windows_and_flips_are_parts_of_the_whole);
    tcase_add_test(tests, every_kernel_gives_the_bytes_of_plain_c);
    tcase_add_test(tests, values_are_those_of_the_bytes);
    tcase_add_test(tests, one_colour_stays);
    tcase_add_test(tests, very_tall_pictures_shrink_in_height_first);
    tcase_add_test(tests, a_window_of_a_huge_result_is_cheap);
    tcase_add_loop_test(tests, weights_are_exact, 0, sizeof weights / sizeof weights[0]);
    tcase_add_test(tests, weights_are_kept_and_bounded);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
