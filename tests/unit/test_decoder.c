#include <check.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/decoder.h"
#include "jpeg_maker.h"

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

enum { ROOM = 3 * 500 * 500 * 4 };

static struct decoder *decoder;
static struct transform none, train, eval;
static struct decoder_result result;
static uint8_t *row;

static struct transform preset(const char *name)
{
    struct transform transform = {0};
    require(transform_preset(&transform, name, NULL) == 0 &&
            transform_check(&transform, NULL) == 0);
    return transform;
}

static void setup(void)
{
    const struct decoder_limits limits = {.share = 64 << 20, .max = 64 << 20};
    decoder = decoder_new(&limits);
    none = preset("none");
    train = preset("train");
    eval = preset("eval");
    row = malloc(ROOM);
}

static void teardown(void)
{
    decoder_free(decoder);
    free(row);
}

/* Runs on a copy of exactly `size` bytes. */
static enum bad_class run(const void *bytes, size_t size, const struct transform *transform)
{
    uint8_t *copy = malloc(size + 1);
    memcpy(copy + 1, bytes, size);
    decoder_run(decoder, copy + 1, size, transform, 1, 2, 3, row, ROOM, &result);
    free(copy);
    return result.cls;
}

static enum bad_class run_recipe(struct jpeg_recipe recipe, const struct transform *transform)
{
    size_t size;
    uint8_t *bytes = jpeg_maker_make(&recipe, &size);
    enum bad_class cls = run(bytes, size, transform);
    free(bytes);
    return cls;
}

static const struct {
    const char *bytes;
    size_t size;
    enum bad_class cls;
    const char *says;
} contents[] = {
    {"", 0, BAD_EMPTY, "no bytes"},
    {"\x89PNG\r\n\x1a\n....", 12, BAD_UNSUP, "PNG"},
    {"GIF89a..", 8, BAD_UNSUP, "GIF"},
    {"RIFF\x10\0\0\0WEBPVP8 ", 16, BAD_UNSUP, "WebP"},
    {"BM\x36\0\0\0", 6, BAD_UNSUP, "BMP"},
    {"II*\0....", 8, BAD_UNSUP, "TIFF"},
    {"MM\0*....", 8, BAD_UNSUP, "TIFF"},
    {"\0\0\0 ftypavif", 12, BAD_UNSUP, "AVIF"},
    {"<!DOCTYPE html>", 15, BAD_TYPE, "begins with \"<!DOCTYPE html>\""},
    {"\0\0\0\0", 4, BAD_TYPE, "\\x00\\x00"},
    {"a\"\\\n\xff", 5, BAD_TYPE, "\"a\\x22\\x5c\\x0a\\xff\""},
    {"\xff", 1, BAD_TYPE, "\\xff"},
    {"\xff\xd8", 2, BAD_TRUNC, "before the picture"},
    {"\xff\xd8\xff\xd9", 4, BAD_CORRUPT, "no image"},
    {"\xff\xd8\xff\xe1\0\x10", 6, BAD_TRUNC, "before the picture"},
};

START_TEST(content_decides)
{
    enum bad_class cls = run(contents[_i].bytes, contents[_i].size, &train);
    ck_assert_msg(cls == contents[_i].cls && strstr(result.reason, contents[_i].says), "%s: %s",
                  bad_name(cls), result.reason);
}
END_TEST

START_TEST(presets_give_their_size)
{
    ck_assert_int_eq(run_recipe((struct jpeg_recipe){.width = 300, .height = 200}, &train), 0);
    ck_assert(result.width == 224 && result.height == 224);
    ck_assert_int_eq(run_recipe((struct jpeg_recipe){.width = 300, .height = 200}, &eval), 0);
    ck_assert(result.width == 224 && result.height == 224);
    ck_assert_int_eq(run_recipe((struct jpeg_recipe){.width = 300, .height = 200}, &none), 0);
    ck_assert(result.width == 300 && result.height == 200);
    ck_assert(!result.damaged && !result.turned && result.decode_ns > 0 && result.reason[0] == 0);
}
END_TEST

START_TEST(one_pixel_and_thin_pictures)
{
    const struct jpeg_recipe recipes[] = {{.width = 1, .height = 1},
                                          {.width = 1, .height = 1000, .colour = JPEG_MAKER_GREY},
                                          {.width = 3000, .height = 1, .h_samp = 2, .v_samp = 2},
                                          {.width = 1, .height = 60000, .flat = true}};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(run_recipe(recipes[i], &train), BAD_NONE);
        ck_assert_msg(run_recipe(recipes[i], &eval) == BAD_NONE, "%d: %s", i, result.reason);
    }
}
END_TEST

START_TEST(damage_is_delivered_and_told)
{
    size_t size;
    uint8_t *bytes = jpeg_maker_damaged(1, &size);
    ck_assert_int_eq(run(bytes, size, &train), BAD_NONE);
    ck_assert(result.damaged);
    ck_assert_ptr_nonnull(strstr(result.reason, "extraneous"));
    ck_assert_int_eq(run(bytes, size / 2, &train), BAD_TRUNC);
    free(bytes);
}
END_TEST

/* A crop of the first rows does not make a cut file a good one. */
START_TEST(a_cut_file_is_bad_whatever_the_crop)
{
    struct transform crop = {.count = 1, .ops = {{.kind = OP_CENTER_CROP, .height = 8}}};
    size_t size;
    uint8_t *bytes = jpeg_maker_plain(200, 400, 5, &size);
    require(transform_check(&crop, NULL) == 0);
    ck_assert_int_eq(run(bytes, size, &crop), BAD_NONE);
    ck_assert_int_eq(run(bytes, size - 2, &crop), BAD_TRUNC);
    free(bytes);
}
END_TEST

START_TEST(exif_is_told_and_turned_where_asked)
{
    struct transform turn = none;
    const struct jpeg_recipe plain = {.width = 32, .height = 16};
    static uint8_t upright[3 * 32 * 16];
    require(run_recipe(plain, &none) == BAD_NONE);
    memcpy(upright, row, sizeof upright);
    turn.exif = true;
    for (int orientation = 1; orientation <= 8; orientation++) {
        struct jpeg_recipe recipe = plain;
        recipe.orientation = orientation;
        ck_assert_int_eq(run_recipe(recipe, &none), BAD_NONE);
        ck_assert_int_eq(result.turned, orientation != 1);
        ck_assert(result.width == 32 && memcmp(row, upright, sizeof upright) == 0);
        ck_assert_int_eq(run_recipe(recipe, &turn), BAD_NONE);
        ck_assert_int_eq(result.width, orientation >= 5 ? 16 : 32);
        /* Where the stored first pixel comes to lie. */
        const int x = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
        const int y = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
        size_t at = (size_t)(y * (result.height - 1) * result.width + x * (result.width - 1));
        ck_assert_mem_eq(row + 3 * at, upright, 3);
    }
}
END_TEST

START_TEST(all_outputs_are_the_same_picture)
{
    struct transform transform = train;
    const struct jpeg_recipe recipe = {.width = 300, .height = 200, .seed = 3};
    const size_t n = 224 * 224;
    uint8_t *rgb = malloc(3 * n);
    require(run_recipe(recipe, &transform) == BAD_NONE);
    memcpy(rgb, row, 3 * n);
    transform.pixels = PIXELS_U8_NCHW;
    require(run_recipe(recipe, &transform) == BAD_NONE);
    for (size_t i = 0; i < 3 * n; i++)
        require(row[(i % 3) * n + i / 3] == rgb[i]);
    transform.pixels = PIXELS_F32_NCHW;
    require(run_recipe(recipe, &transform) == BAD_NONE);
    for (size_t i = 0; i < 3 * n; i++) {
        float value;
        memcpy(&value, row + 4 * ((i % 3) * n + i / 3), 4);
        require(value == (float)rgb[i] / 255.0F);
    }
    free(rgb);
}
END_TEST

START_TEST(too_large_for_the_row)
{
    size_t size;
    uint8_t *bytes = jpeg_maker_plain(60, 50, 5, &size);
    decoder_run(decoder, bytes, size, &none, 0, 0, 0, row, 3 * 60 * 50 - 1, &result);
    ck_assert_int_eq(result.cls, BAD_SIZE);
    ck_assert_msg(strstr(result.reason, "60x50 takes 9000 bytes, a row has 8999"), "%s",
                  result.reason);
    row[9000] = 0xA5;
    decoder_run(decoder, bytes, size, &none, 0, 0, 0, row, 3 * 60 * 50, &result);
    ck_assert(result.cls == BAD_NONE && row[9000] == 0xA5);
    free(bytes);
}
END_TEST

/* What came before does not change a row. */
START_TEST(rows_do_not_depend_on_history)
{
    const struct jpeg_recipe recipes[] = {{.width = 300, .height = 200, .optimize = true},
                                          {.no_tables = true, .seed = 2},
                                          {.width = 90, .height = 400, .progressive = true},
                                          {.colour = JPEG_MAKER_CMYK, .width = 99}};
    const size_t bytes = 3 * 224 * 224;
    uint8_t *first[4];
    for (int i = 0; i < 4; i++) {
        first[i] = malloc(bytes);
        require(run_recipe(recipes[i], &train) == BAD_NONE);
        memcpy(first[i], row, bytes);
        decoder_free(decoder);
        decoder = decoder_new(&(struct decoder_limits){.share = 1 << 26, .max = 1 << 26});
    }
    for (int round = 0; round < 8; round++) {
        int i = (round * 3 + round / 4) % 4;
        run("\xff\xd8\xff", 3, &train);
        require(run_recipe(recipes[i], &train) == BAD_NONE);
        ck_assert_mem_eq(row, first[i], bytes);
    }
    for (int i = 0; i < 4; i++)
        free(first[i]);
}
END_TEST

/* ---- limits ---- */

static struct {
    uint64_t asked, out;
    int borrows;
    bool refuse;
} common;

static bool borrow(void *context, uint64_t bytes)
{
    require(context == &common && bytes > 0);
    if (common.refuse)
        return false;
    common.borrows++;
    common.asked = bytes;
    common.out += bytes;
    return true;
}

static void give_back(void *context, uint64_t bytes)
{
    require(context == &common && bytes <= common.out);
    common.out -= bytes;
}

static void use_limits(uint64_t share, uint64_t max)
{
    decoder_free(decoder);
    decoder = decoder_new(&(struct decoder_limits){share, max, borrow, give_back, &common});
    memset(&common, 0, sizeof common);
}

START_TEST(size_is_refused_from_the_header)
{
    /* 400x400: 480 kB of pixels, as much again of coefficients where progressive */
    use_limits(1 << 20, 900 << 10);
    ck_assert_int_eq(run_recipe((struct jpeg_recipe){.width = 400, .height = 400}, &train), 0);
    struct jpeg_recipe progressive = {.width = 400, .height = 400, .progressive = true};
    ck_assert_int_eq(run_recipe(progressive, &train), BAD_SIZE);
    ck_assert_msg(strstr(result.reason, "400x400") && strstr(result.reason, "decode_memory"), "%s",
                  result.reason);
    ck_assert_int_eq(common.borrows, 0);
    /* only the result is large */
    struct transform enlarge = {.count = 1, .ops = {{.kind = OP_RESIZE, .height = 480}}};
    require(transform_check(&enlarge, NULL) == 0);
    ck_assert_int_eq(run_recipe((struct jpeg_recipe){.width = 4, .height = 400}, &enlarge),
                     BAD_SIZE);
}
END_TEST

START_TEST(large_pictures_borrow)
{
    struct jpeg_recipe large = {.width = 400, .height = 400, .progressive = true};
    struct jpeg_recipe small = {.width = 50, .height = 50};
    use_limits(512 << 10, 8 << 20);
    ck_assert_int_eq(run_recipe(small, &eval), BAD_NONE);
    ck_assert_int_eq(common.borrows, 0);
    ck_assert_int_eq(run_recipe(large, &eval), BAD_NONE);
    ck_assert_int_eq(common.borrows, 1);
    ck_assert_uint_gt(common.asked, 960000 - (512 << 10));
    ck_assert_uint_eq(common.out, 0);
    size_t size;
    uint8_t *bytes = jpeg_maker_make(&large, &size);
    ck_assert_int_eq(run(bytes, size / 2, &eval), BAD_TRUNC); /* given back after an error too */
    ck_assert_uint_eq(common.out, 0);
    common.refuse = true;
    ck_assert_int_eq(run(bytes, size, &eval), BAD_SIZE);
    ck_assert_ptr_nonnull(strstr(result.reason, "no room"));
    ck_assert(result.busy);
    common.refuse = false;
    ck_assert_int_eq(run(bytes, size, &eval), BAD_NONE);
    ck_assert(!result.busy);
    ck_assert_int_eq(run_recipe(small, &eval), BAD_NONE);
    free(bytes);
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

START_TEST(scratch_shrinks_after_a_huge_picture)
{
    use_limits(512 << 10, 64 << 20);
    run_recipe((struct jpeg_recipe){.width = 50, .height = 50}, &eval);
    size_t before = allocated();
    ck_assert_int_eq(
        run_recipe(
            (struct jpeg_recipe){.width = 3000, .height = 2000, .flat = true, .progressive = true},
            &eval),
        BAD_NONE);
    ck_assert_uint_le(allocated(), before + (64 << 10));
}
END_TEST

/* Also where the share would allow it: once pictures have been small for a while. */
START_TEST(scratch_shrinks_when_pictures_are_small_again)
{
    const struct jpeg_recipe small = {.width = 50, .height = 50};
    const struct jpeg_recipe huge = {.width = 3000, .height = 2000, .flat = true};
    use_limits(64 << 20, 64 << 20);
    run_recipe(small, &eval);
    size_t before = allocated();
    ck_assert_int_eq(run_recipe(huge, &eval), BAD_NONE);
    ck_assert_uint_ge(allocated(), before + (4 << 20)); /* perhaps another one follows */
    for (int i = 0; i < 40; i++)
        run_recipe(small, &eval);
    ck_assert_uint_le(allocated(), before + (64 << 10));
}
END_TEST

/* The steady state allocates nothing that stays, and errors leave nothing behind. */
START_TEST(bad_pictures_leave_nothing)
{
    size_t size, damaged_size, before = 0;
    const struct jpeg_recipe recipe = {.width = 80, .height = 80, .progressive = true};
    uint8_t *bytes = jpeg_maker_make(&recipe, &size);
    uint8_t *damaged = jpeg_maker_damaged(1, &damaged_size);
    for (int i = 0; i < 10000; i++) {
        if (i == 100)
            before = allocated();
        require(run(bytes, 20 + (size_t)i * 7 % (size - 20), &none) == BAD_TRUNC);
        require(run(contents[i % 14].bytes, contents[i % 14].size, &none) != BAD_NONE);
        if (i % 16 == 0)
            require(run(damaged, damaged_size, &none) == BAD_NONE);
    }
    ck_assert_uint_le(allocated(), before + (64 << 10)); /* what caches of malloc hold counts */
    free(bytes);
    free(damaged);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("decoder");
    TCase *tests = tcase_create("decoder");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, content_decides, 0, sizeof contents / sizeof contents[0]);
    tcase_add_test(tests, presets_give_their_size);
    tcase_add_test(tests, one_pixel_and_thin_pictures);
    tcase_add_test(tests, damage_is_delivered_and_told);
    tcase_add_test(tests, a_cut_file_is_bad_whatever_the_crop);
    tcase_add_test(tests, exif_is_told_and_turned_where_asked);
    tcase_add_test(tests, all_outputs_are_the_same_picture);
    tcase_add_test(tests, too_large_for_the_row);
    tcase_add_test(tests, rows_do_not_depend_on_history);
    tcase_add_test(tests, size_is_refused_from_the_header);
    tcase_add_test(tests, large_pictures_borrow);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(tests, scratch_shrinks_after_a_huge_picture);
    tcase_add_test(tests, scratch_shrinks_when_pictures_are_small_again);
    tcase_add_test(tests, bad_pictures_leave_nothing);
#endif
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
