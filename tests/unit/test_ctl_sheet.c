/* Contact sheets, read back with spng. */
#include <check.h>
#include <errno.h>
#include <spng.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/ctl_sheet.h"

#define H 4
#define W 40
#define N 3

struct picture {
    uint8_t *rgb;
    uint32_t width, height;
};

static struct picture decoded(const char *path)
{
    struct spng_ihdr header;
    struct picture picture;
    size_t size;
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    spng_ctx *png = spng_ctx_new(0);
    ck_assert_int_eq(spng_set_png_file(png, file), 0);
    ck_assert_int_eq(spng_get_ihdr(png, &header), 0);
    ck_assert_int_eq(spng_decoded_image_size(png, SPNG_FMT_RGB8, &size), 0);
    picture = (struct picture){malloc(size), header.width, header.height};
    ck_assert_int_eq(spng_decode_image(png, picture.rgb, size, SPNG_FMT_RGB8, 0), 0);
    spng_ctx_free(png);
    fclose(file);
    return picture;
}

/* Draws, writes, reads back. */
static struct picture sheet_of(const struct sheet_source *source)
{
    char path[] = "/tmp/test-sheet-XXXXXX";
    struct sheet sheet;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(sheet_draw(source, &sheet), 0);
    ck_assert_int_eq(sheet_write(&sheet, path), 0);
    struct picture picture = decoded(path);
    ck_assert_uint_eq(picture.width, sheet.width);
    ck_assert_uint_eq(picture.height, sheet.height);
    ck_assert_mem_eq(picture.rgb, sheet.rgb, (size_t)sheet.width * sheet.height * 3);
    sheet_free(&sheet);
    unlink(path);
    return picture;
}

static void ck_pixel(const struct picture *picture, uint32_t x, uint32_t y, int r, int g, int b)
{
    const uint8_t *p = picture->rgb + ((size_t)y * picture->width + x) * 3;
    ck_assert_msg(p[0] == r && p[1] == g && p[2] == b, "pixel %u,%u is %d %d %d, not %d %d %d", x,
                  y, p[0], p[1], p[2], r, g, b);
}

START_TEST(bytes_stand_in_their_cells)
{
    uint8_t pixels[N][H][W][3];
    int64_t labels[N] = {7, 123, -5};
    uint8_t valid[N] = {1, 0, 1};
    for (int i = 0; i < N; i++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                memcpy(pixels[i][y][x], (uint8_t[]){i * 50 + 1, y * 10, x}, 3);
    struct picture picture = sheet_of(&(struct sheet_source){.pixels = pixels,
                                                             .dtype = DATALOAD_UINT8,
                                                             .height = H,
                                                             .width = W,
                                                             .channels = 3,
                                                             .count = N,
                                                             .labels = labels,
                                                             .valid = valid});
    const uint32_t cell_w = W + 2 * SHEET_GAP, cell_h = H + 2 * SHEET_GAP + SHEET_LABEL;
    ck_assert_uint_eq(picture.width, 2 * cell_w);
    ck_assert_uint_eq(picture.height, 2 * cell_h);
    ck_pixel(&picture, SHEET_GAP, SHEET_GAP, 1, 0, 0);
    ck_pixel(&picture, SHEET_GAP + 39, SHEET_GAP + 3, 1, 30, 39);
    ck_pixel(&picture, cell_w + SHEET_GAP + 5, SHEET_GAP + 2, 51, 20, 5);
    ck_pixel(&picture, SHEET_GAP + 1, cell_h + SHEET_GAP + 1, 101, 10, 1);
    /* red frame around the second only */
    ck_pixel(&picture, cell_w + SHEET_GAP - 1, SHEET_GAP, 220, 20, 20);
    ck_pixel(&picture, SHEET_GAP - 1, SHEET_GAP, 32, 32, 32);
    /* a seven: full top row, then only the right dot */
    const uint32_t text = SHEET_GAP + H + SHEET_GAP;
    ck_pixel(&picture, SHEET_GAP, text, 230, 230, 230);
    ck_pixel(&picture, SHEET_GAP, text + 2, 32, 32, 32);
    ck_pixel(&picture, SHEET_GAP + 4, text + 2, 230, 230, 230);
    /* a minus before the five of the third */
    ck_pixel(&picture, SHEET_GAP, cell_h + text + 4, 230, 230, 230);
    ck_pixel(&picture, SHEET_GAP, cell_h + text, 32, 32, 32);
    free(picture.rgb);
}
END_TEST

START_TEST(planes_of_bytes)
{
    uint8_t pixels[3][2][2] = {{{10, 20}, {30, 40}}, {{50, 60}, {70, 80}}, {{90, 91}, {92, 93}}};
    struct picture picture = sheet_of(&(struct sheet_source){.pixels = pixels,
                                                             .dtype = DATALOAD_UINT8,
                                                             .planar = true,
                                                             .height = 2,
                                                             .width = 2,
                                                             .channels = 3,
                                                             .count = 1});
    ck_pixel(&picture, SHEET_GAP + 1, SHEET_GAP + 1, 40, 80, 93);
    ck_assert_uint_eq(picture.height, 2 + 2 * SHEET_GAP);
    free(picture.rgb);
}
END_TEST

/* The same four values, -1 0 1 3, in each float type: stretched to 0, 64, 128, 255. */
START_TEST(floats_are_stretched)
{
    static const float wide[] = {-1, 0, 1, 3};
    static const uint16_t half[] = {0xBC00, 0, 0x3C00, 0x4200};
    static const uint16_t brain[] = {0xBF80, 0, 0x3F80, 0x4040};
    const struct {
        dataload_dtype dtype;
        const void *pixels;
    } types[] = {{DATALOAD_FLOAT32, wide}, {DATALOAD_FLOAT16, half}, {DATALOAD_BFLOAT16, brain}};
    static const int grey[] = {0, 64, 128, 255};
    struct picture picture = sheet_of(&(struct sheet_source){.pixels = types[_i].pixels,
                                                             .dtype = types[_i].dtype,
                                                             .planar = true,
                                                             .height = 1,
                                                             .width = 4,
                                                             .channels = 1,
                                                             .count = 1});
    for (uint32_t x = 0; x < 4; x++)
        ck_pixel(&picture, SHEET_GAP + x, SHEET_GAP, grey[x], grey[x], grey[x]);
    free(picture.rgb);
}
END_TEST

START_TEST(floats_from_0_to_1_are_kept)
{
    static const float pixels[] = {0.2F, 0.4F};
    struct picture picture = sheet_of(&(struct sheet_source){.pixels = pixels,
                                                             .dtype = DATALOAD_FLOAT32,
                                                             .planar = true,
                                                             .height = 1,
                                                             .width = 2,
                                                             .channels = 1,
                                                             .count = 1});
    ck_pixel(&picture, SHEET_GAP, SHEET_GAP, 51, 51, 51);
    ck_pixel(&picture, SHEET_GAP + 1, SHEET_GAP, 102, 102, 102);
    free(picture.rgb);
}
END_TEST

START_TEST(halves_of_all_kinds)
{
    /* smallest subnormal, infinities, NaN: none decides the range, none is out of it */
    static const uint16_t pixels[] = {0x0001, 0x7C00, 0xFC00, 0x7E00, 0x3800};
    struct picture picture = sheet_of(&(struct sheet_source){.pixels = pixels,
                                                             .dtype = DATALOAD_FLOAT16,
                                                             .planar = true,
                                                             .height = 1,
                                                             .width = 5,
                                                             .channels = 1,
                                                             .count = 1});
    static const int grey[] = {0, 255, 0, 0, 128};
    for (uint32_t x = 0; x < 5; x++)
        ck_pixel(&picture, SHEET_GAP + x, SHEET_GAP, grey[x], grey[x], grey[x]);
    free(picture.rgb);
}
END_TEST

START_TEST(what_is_no_picture_is_refused)
{
    uint8_t pixel[8] = {0};
    struct sheet sheet;
    struct sheet_source source = {.pixels = pixel,
                                  .dtype = DATALOAD_INT64,
                                  .height = 1,
                                  .width = 1,
                                  .channels = 1,
                                  .count = 1};
    ck_assert_int_eq(sheet_draw(&source, &sheet), -EINVAL);
    source.dtype = DATALOAD_UINT8;
    source.channels = 2;
    ck_assert_int_eq(sheet_draw(&source, &sheet), -EINVAL);
    source.channels = 1;
    source.count = 0;
    ck_assert_int_eq(sheet_draw(&source, &sheet), -EINVAL);
    source.count = source.width = source.height = UINT32_MAX;
    ck_assert_int_eq(sheet_draw(&source, &sheet), -EFBIG);
}
END_TEST

START_TEST(an_unwritable_file_is_an_error)
{
    uint8_t pixel = 0;
    struct sheet sheet;
    ck_assert_int_eq(sheet_draw(&(struct sheet_source){.pixels = &pixel,
                                                       .dtype = DATALOAD_UINT8,
                                                       .height = 1,
                                                       .width = 1,
                                                       .channels = 1,
                                                       .count = 1},
                                &sheet),
                     0);
    ck_assert_int_eq(sheet_write(&sheet, "/nowhere/at/all.png"), -ENOENT);
    ck_assert_int_eq(sheet_write(&sheet, "/dev/full"), -ENOSPC);
    sheet_free(&sheet);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ctl_sheet");
    TCase *tcase = tcase_create("sheet");
    tcase_add_test(tcase, bytes_stand_in_their_cells);
    tcase_add_test(tcase, planes_of_bytes);
    tcase_add_loop_test(tcase, floats_are_stretched, 0, 3);
    tcase_add_test(tcase, floats_from_0_to_1_are_kept);
    tcase_add_test(tcase, halves_of_all_kinds);
    tcase_add_test(tcase, what_is_no_picture_is_refused);
    tcase_add_test(tcase, an_unwritable_file_is_an_error);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
