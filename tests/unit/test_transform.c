#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/geometry.h"
#include "image/transform.h"

static struct transform preset(const char *name)
{
    struct transform transform = {0};
    struct error err;
    ck_assert_int_eq(transform_preset(&transform, name, &err), 0);
    ck_assert_int_eq(transform_check(&transform, &err), 0);
    return transform;
}

static struct transform of_ops(const struct transform_op *ops, uint32_t count)
{
    struct transform transform = {.count = count};
    struct error err = {0};
    memcpy(transform.ops, ops, count * sizeof *ops);
    ck_assert_msg(transform_check(&transform, &err) == 0, "%s", err.text);
    return transform;
}

START_TEST(presets_in_words)
{
    static const struct {
        const char *name, *words;
        uint32_t size;
    } cases[] = {
        {"train", "random_resized_crop 224x224 scale 0.08-1 ratio 0.75-1.33 bilinear, flip 0.5",
         224},
        {"eval", "resize 256 bilinear, center_crop 224x224", 224},
        {"none", "none", 0},
    };
    char text[400];
    for (int i = 0; i < 3; i++) {
        struct transform transform = preset(cases[i].name);
        ck_assert_str_eq(transform_words(&transform, text, sizeof text), cases[i].words);
        ck_assert_uint_eq(transform.height, cases[i].size);
        ck_assert_uint_eq(transform.width, cases[i].size);
        ck_assert_int_eq(transform.pixels, PIXELS_U8_NHWC);
        ck_assert(!transform.exif);
    }
    struct transform transform = preset("eval");
    struct error err;
    transform.fast = true;
    ck_assert_str_eq(transform_words(&transform, text, sizeof text),
                     "resize 256 bilinear, center_crop 224x224; fast pixels");
    transform = (struct transform){0};
    ck_assert_int_eq(transform_preset(&transform, "trian", &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "trian"));
    ck_assert_uint_eq(transform.count, 0);
}
END_TEST

START_TEST(words_of_all_settings_and_of_too_little_room)
{
    struct transform transform = {
        .count = 3,
        .exif = true,
        .pixels = PIXELS_F32_NCHW,
        .ops = {{.kind = OP_RESIZE, .height = 100, .max_size = 200, .filter = FILTER_BICUBIC},
                {.kind = OP_CENTER_CROP, .height = 90, .width = 80},
                {.kind = OP_NORMALIZE, .mean = {0.5F, 0.25F, 0}, .std = {1, 2, 0.5F}}}};
    struct error err;
    char text[400], small[12];
    ck_assert_int_eq(transform_check(&transform, &err), 0);
    ck_assert_str_eq(transform_words(&transform, text, sizeof text),
                     "exif turn, resize 100 max 200 bicubic, center_crop 90x80, normalize mean "
                     "0.5/0.25/0 std 1/2/0.5");
    ck_assert_str_eq(transform_words(&transform, small, sizeof small), "exif turn, ");
    ck_assert(transform.mean[1] == 0.25F && transform.std[1] == 2);
}
END_TEST

static const struct {
    struct transform_op op;
    enum pixels pixels;
    const char *text;
} refused[] = {
    {{.kind = OP_RESIZE}, 0, "(resize): size 0x0 is outside 1..16384"},
    {{.kind = OP_RESIZE, .height = 16385}, 0, "16385"},
    {{.kind = OP_RESIZE, .height = 5, .width = 16385}, 0, "16385"},
    {{.kind = OP_RESIZE, .height = 5, .max_size = 5}, 0, "max_size 5"},
    {{.kind = OP_RESIZE, .height = 5, .width = 5, .max_size = 9}, 0, "max_size"},
    {{.kind = OP_RESIZE, .height = 5, .filter = 7}, 0, "interpolation"},
    {{.kind = OP_CENTER_CROP}, 0, "(center_crop): size"},
    {{.kind = OP_RANDOM_RESIZED_CROP, .height = 9, .scale = {0.5, 0.1}}, 0, "scale 0.5-0.1"},
    {{.kind = OP_RANDOM_RESIZED_CROP, .height = 9, .scale = {0.5, 2}}, 0, "scale 0.5-2"},
    {{.kind = OP_RANDOM_RESIZED_CROP, .height = 9, .scale = {NAN, 1}}, 0, "scale"},
    {{.kind = OP_RANDOM_RESIZED_CROP, .height = 9, .ratio = {2, 1}}, 0, "ratio 2-1"},
    {{.kind = OP_RANDOM_RESIZED_CROP, .height = 9, .ratio = {0, 1}}, 0, "ratio 0-1"},
    {{.kind = OP_FLIP, .probability = 1.5}, 0, "probability 1.5"},
    {{.kind = OP_FLIP, .probability = NAN}, 0, "probability"},
    {{.kind = OP_NORMALIZE, .std = {1, 1, 1}}, PIXELS_U8_NCHW, "float32_nchw"},
    {{.kind = OP_NORMALIZE, .std = {1, 0, 1}}, PIXELS_F32_NCHW, "std 0"},
    {{.kind = OP_NORMALIZE, .mean = {NAN}, .std = {1, 1, 1}}, PIXELS_F32_NCHW, "mean"},
    {{.kind = TRANSFORM_KINDS}, 0, "no such operation"},
};

START_TEST(bad_settings_are_refused)
{
    struct transform transform = {.count = 1, .pixels = refused[_i].pixels};
    struct error err = {0};
    transform.ops[0] = refused[_i].op;
    ck_assert_int_eq(transform_check(&transform, &err), -EINVAL);
    ck_assert_msg(strstr(err.text, "operation 1 ") && strstr(err.text, refused[_i].text), "%s",
                  err.text);
}
END_TEST

START_TEST(bad_lists_are_refused)
{
    struct transform transform = {.count = TRANSFORM_OPS_MAX + 1};
    struct error err = {0};
    ck_assert_int_eq(transform_check(&transform, &err), -EINVAL);
    transform =
        (struct transform){.count = 2,
                           .pixels = PIXELS_F32_NCHW,
                           .ops = {{.kind = OP_NORMALIZE, .std = {1, 1, 1}}, {.kind = OP_FLIP}}};
    ck_assert_int_eq(transform_check(&transform, &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "last"));
    transform = (struct transform){.pixels = (enum pixels)9};
    ck_assert_int_eq(transform_check(&transform, &err), -EINVAL);
    transform = (struct transform){.pixels = PIXELS_F32_NCHW, .std = {-1, 1, 1}};
    ck_assert_int_eq(transform_check(&transform, &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "std -1"));
}
END_TEST

START_TEST(size_of_rows)
{
    const struct transform_op crop = {.kind = OP_CENTER_CROP, .height = 30, .width = 60};
    const struct transform_op side = {.kind = OP_RESIZE, .height = 10};
    const struct transform_op flip = {.kind = OP_FLIP, .probability = 1};
    struct transform transform = of_ops((struct transform_op[]){side, flip}, 2);
    ck_assert_uint_eq(transform.width, 0); /* depends on the picture */
    transform = of_ops((struct transform_op[]){side, crop, flip}, 3);
    ck_assert(transform.width == 60 && transform.height == 30);
    transform = of_ops((struct transform_op[]){crop, side}, 2);
    ck_assert(transform.width == 20 && transform.height == 10);
}
END_TEST

START_TEST(short_side)
{
    static const struct {
        uint32_t side, most;
        int32_t width, height, to_width, to_height;
    } cases[] = {
        {256, 0, 500, 375, 341, 256},
        {256, 0, 333, 499, 256, 383},
        {256, 0, 256, 256, 256, 256},
        {100, 150, 400, 1000, 60, 150},
        {100, 300, 400, 1000, 100, 250},
        {2, 3, 1, 60000, 1, 3},
        {16384, 0, 1, 65500, 16384, 1073152000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct transform_op op = {
            .kind = OP_RESIZE, .height = cases[i].side, .max_size = cases[i].most};
        int32_t width, height;
        transform_resized(&op, cases[i].width, cases[i].height, &width, &height);
        ck_assert_int_eq(width, cases[i].to_width);
        ck_assert_int_eq(height, cases[i].to_height);
    }
}
END_TEST

/* From a second implementation (tests/oracle/driver.py). */
static const struct {
    uint64_t seed, epoch, id;
    int32_t width, height, box[4];
    bool flip;
} golden[] = {
    {0ULL, 0, 0ULL, 500, 375, {75, 73, 225, 291}, true},
    {1ULL, 2, 3ULL, 500, 375, {77, 35, 380, 293}, true},
    {18446744073709551615ULL, 16777215, 140737488355327ULL, 333, 499, {116, 142, 181, 214}, true},
    {42ULL, 1, 1281166ULL, 64, 64, {4, 1, 52, 55}, false},
    {7ULL, 0, 12345678901ULL, 4000, 3000, {653, 361, 2759, 2584}, false},
    {1ULL, 0, 5ULL, 1, 1000, {0, 499, 1, 1}, false}, /* no try fits: central */
    {1ULL, 0, 5ULL, 1000, 1, {499, 0, 1, 1}, false},
};

START_TEST(draws_are_pinned)
{
    struct transform train = preset("train");
    struct geometry geometry;
    geometry_draw(&train, golden[_i].width, golden[_i].height, golden[_i].seed, golden[_i].epoch,
                  golden[_i].id, &geometry);
    const struct geometry_step *step = &geometry.steps[0];
    ck_assert_uint_eq(geometry.count, 1);
    ck_assert_int_eq(step->box_x, golden[_i].box[0]);
    ck_assert_int_eq(step->box_y, golden[_i].box[1]);
    ck_assert_int_eq(step->box_w, golden[_i].box[2]);
    ck_assert_int_eq(step->box_h, golden[_i].box[3]);
    ck_assert_int_eq(step->flip, golden[_i].flip);
    ck_assert(geometry.width == 224 && geometry.height == 224);
}
END_TEST

START_TEST(crops_lie_inside_and_vary)
{
    struct transform train = preset("train");
    struct geometry geometry;
    int flips = 0, small = 0;
    const int count = 4000;
    for (int id = 0; id < count; id++) {
        geometry_draw(&train, 400, 300, 3, 1, (uint64_t)id, &geometry);
        const struct geometry_step *step = &geometry.steps[0];
        ck_assert(step->box_x >= 0 && step->box_y >= 0 && step->box_w > 0 && step->box_h > 0);
        ck_assert(step->box_x + step->box_w <= 400 && step->box_y + step->box_h <= 300);
        double ratio = (double)step->box_w / step->box_h;
        ck_assert(ratio > 0.74 && ratio < 1.35);
        flips += step->flip;
        small += step->box_w * step->box_h < 400 * 300 / 2;
    }
    ck_assert_int_gt(flips, count * 45 / 100);
    ck_assert_int_lt(flips, count * 55 / 100);
    ck_assert_int_gt(small, count * 40 /
                                100); /* 0.46 of the range, more since large ones fit less often */
    ck_assert_int_lt(small, count * 70 / 100);
}
END_TEST

START_TEST(every_part_of_the_key_counts)
{
    struct transform train = preset("train");
    struct geometry base, other;
    const uint64_t keys[][3] = {
        {2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1ULL << 33, 1, 1}, {1, 1, 1ULL << 40 | 1}};
    geometry_draw(&train, 4000, 3000, 1, 1, 1, &base);
    for (int i = 0; i < 5; i++) {
        geometry_draw(&train, 4000, 3000, keys[i][0], keys[i][1], keys[i][2], &other);
        ck_assert(base.steps[0].box_x != other.steps[0].box_x ||
                  base.steps[0].box_y != other.steps[0].box_y);
    }
}
END_TEST

START_TEST(resize_and_crop_are_one_step)
{
    struct transform eval = preset("eval");
    struct geometry geometry;
    geometry_draw(&eval, 500, 375, 0, 0, 0, &geometry);
    const struct geometry_step *step = &geometry.steps[0];
    ck_assert_uint_eq(geometry.count, 1);
    ck_assert(step->box_w == 500 && step->box_h == 375 && step->width == 341 &&
              step->height == 256);
    ck_assert(step->win_x == 58 && step->win_y == 16 && step->win_w == 224 && step->win_h == 224);
}
END_TEST

/* Half the difference, to even; a smaller picture is padded by half, rounded down, before it. */
START_TEST(center_of_odd_differences)
{
    static const int32_t cases[][3] = {{11, 10, 0}, {13, 10, 2}, {15, 10, 2}, {17, 10, 4},
                                       {10, 10, 0}, {9, 10, 0},  {7, 10, -1}, {1, 10, -4}};
    for (int i = 0; i < 8; i++) {
        const struct transform_op op = {.kind = OP_CENTER_CROP, .height = (uint32_t)cases[i][1]};
        struct transform transform = of_ops(&op, 1);
        struct geometry geometry;
        geometry_draw(&transform, cases[i][0], cases[i][0], 0, 0, 0, &geometry);
        ck_assert_int_eq(geometry.steps[0].win_x, cases[i][2]);
        ck_assert_int_eq(geometry.steps[0].win_y, cases[i][2]);
    }
}
END_TEST

START_TEST(steps_that_cannot_be_merged)
{
    const struct transform_op small = {.kind = OP_CENTER_CROP, .height = 10};
    const struct transform_op large = {.kind = OP_CENTER_CROP, .height = 20};
    const struct transform_op side = {.kind = OP_RESIZE, .height = 8};
    const struct transform_op flip = {.kind = OP_FLIP, .probability = 1};
    struct geometry geometry;
    struct transform transform = of_ops((struct transform_op[]){small, large}, 2);
    geometry_draw(&transform, 40, 40, 0, 0, 0, &geometry); /* zeros around the first crop */
    ck_assert_uint_eq(geometry.count, 2);
    transform = of_ops((struct transform_op[]){small, side}, 2);
    geometry_draw(&transform, 40, 40, 0, 0, 0, &geometry); /* a box, then its resize */
    ck_assert_uint_eq(geometry.count, 1);
    ck_assert_int_eq(geometry.steps[0].box_x, 15);
    transform = of_ops((struct transform_op[]){flip, side}, 2);
    geometry_draw(&transform, 40, 40, 0, 0, 0, &geometry); /* weights are not symmetric */
    ck_assert_uint_eq(geometry.count, 2);
    struct transform_op all[TRANSFORM_OPS_MAX];
    for (int i = 0; i < TRANSFORM_OPS_MAX; i++)
        all[i] = i % 2 ? large : small;
    transform = of_ops(all, TRANSFORM_OPS_MAX);
    geometry_draw(&transform, 40, 40, 0, 0, 0, &geometry);
    ck_assert_uint_le(geometry.count, TRANSFORM_OPS_MAX);
}
END_TEST

START_TEST(bytes_of_values)
{
    ck_assert_uint_eq(pixels_size(PIXELS_U8_NHWC), 1);
    ck_assert_uint_eq(pixels_size(PIXELS_U8_NCHW), 1);
    ck_assert_uint_eq(pixels_size(PIXELS_F32_NCHW), 4);
    ck_assert_uint_eq(pixels_size(PIXELS_F16_NCHW), 2);
    ck_assert_uint_eq(pixels_size(PIXELS_BF16_NCHW), 2);
    ck_assert(!pixels_float(PIXELS_U8_NCHW) && pixels_float(PIXELS_F32_NCHW));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transform");
    TCase *tests = tcase_create("transform");
    tcase_add_test(tests, presets_in_words);
    tcase_add_test(tests, words_of_all_settings_and_of_too_little_room);
    tcase_add_loop_test(tests, bad_settings_are_refused, 0, sizeof refused / sizeof refused[0]);
    tcase_add_test(tests, bad_lists_are_refused);
    tcase_add_test(tests, size_of_rows);
    tcase_add_test(tests, short_side);
    tcase_add_loop_test(tests, draws_are_pinned, 0, sizeof golden / sizeof golden[0]);
    tcase_add_test(tests, crops_lie_inside_and_vary);
    tcase_add_test(tests, every_part_of_the_key_counts);
    tcase_add_test(tests, resize_and_crop_are_one_step);
    tcase_add_test(tests, center_of_odd_differences);
    tcase_add_test(tests, steps_that_cannot_be_merged);
    tcase_add_test(tests, bytes_of_values);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
