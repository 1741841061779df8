/* image/jpeg_idct.c, jpeg_upsample.c, jpeg_rgb.c: the vector kernels give the bytes of the plain
 * ones, and the plain ones those of the definitions. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "image/jpeg_header.h"
#include "image/jpeg_idct.h"
#include "image/jpeg_rgb.h"
#include "image/jpeg_upsample.h"
#include "image/simd.h"

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

enum { ROUNDS = 20000, ROOM = 400, BEFORE = 1 };

static struct philox draws;

static void setup(void)
{
    philox_start(&draws, 7, PHILOX_DRAW, 0, 0, 0);
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)philox_below(&draws, n);
}

START_TEST(flat_blocks)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        int16_t coefficients[JPEG_BLOCK] = {(int16_t)below(65536)}, quant[JPEG_BLOCK];
        _Alignas(8) uint8_t want[64], got[64];
        for (int k = 0; k < JPEG_BLOCK; k++)
            quant[k] = (int16_t)below(i % 2 ? 65536 : 64);
        jpeg_idct_plain(&(struct jpeg_idct_job){coefficients, quant, want, 8});
        jpeg_idct_flat(&(struct jpeg_idct_job){coefficients, quant, got, 8});
        require(memcmp(got, want, sizeof got) == 0);
    }
}
END_TEST

/* A DC of 8 * 8 is 8 levels above the middle; a cosine along a row is one. */
START_TEST(known_blocks)
{
    int16_t coefficients[JPEG_BLOCK] = {64}, quant[JPEG_BLOCK];
    _Alignas(8) uint8_t samples[64];
    for (int k = 0; k < JPEG_BLOCK; k++)
        quant[k] = 1;
    const struct jpeg_idct_job job = {coefficients, quant, samples, 8};
    jpeg_idct_plain(&job);
    for (int i = 0; i < 64; i++)
        ck_assert_int_eq(samples[i], 136);
    coefficients[0] = 0;
    coefficients[1] = 100;
    jpeg_idct_plain(&job);
    const uint8_t want[8] = {145, 143, 138, 131, 125, 118, 113, 111};
    for (int y = 0; y < 8; y++)
        ck_assert_mem_eq(samples + 8 * y, want, 8);
}
END_TEST

#ifdef SIMD_X86
static bool vector(void)
{
    return simd_level() >= SIMD_AVX2;
}

/* From pictures' usual coefficients to any that a file may hold. */
static void draw_block(int16_t *coefficients, int16_t *quant, uint32_t wild)
{
    uint32_t count = 1 + below(JPEG_BLOCK);
    memset(coefficients, 0, JPEG_BLOCK * sizeof *coefficients);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t range = wild == 0 ? 64 : wild == 1 ? 2048 : 65536;
        coefficients[wild == 2 && count % 3 == 0 ? k & 7 : jpeg_natural[k]] =
            (int16_t)((int32_t)below(range) - (int32_t)range / 2);
    }
    for (uint32_t k = 0; k < JPEG_BLOCK; k++)
        quant[k] = (int16_t)(1 + below(wild == 0 ? 16 : wild == 1 ? 255 : 65535));
}

START_TEST(two_blocks_at_once)
{
    _Alignas(32) int16_t coefficients[2][JPEG_BLOCK_ROOM];
    int16_t quant[2][JPEG_BLOCK];
    _Alignas(8) uint8_t want[2][8 * 24], got[2][8 * 24];
    for (uint32_t i = 0; i < ROUNDS && vector(); i++) {
        struct jpeg_idct_job jobs[2];
        memset(want, 1, sizeof want);
        memset(got, 1, sizeof got);
        for (uint32_t k = 0; k < 2; k++) {
            draw_block(coefficients[k], quant[k], (i + k) % 3);
            jobs[k] = (struct jpeg_idct_job){coefficients[k], quant[k], want[k], 24};
            jpeg_idct_plain(&jobs[k]);
            jobs[k].dst = got[k];
        }
        jpeg_idct_avx2(jobs);
        require(memcmp(got, want, sizeof got) == 0);
    }
}
END_TEST

static void draw_row(uint8_t *row)
{
    uint32_t kind = below(3);
    for (int i = 0; i < ROOM; i++)
        row[i] = (uint8_t)(kind == 0 ? below(256) : kind == 1 ? 255 * below(2) : 200 + below(56));
}

START_TEST(upsampling)
{
    uint8_t near[ROOM], far[ROOM], want[2 * ROOM], got[2 * ROOM];
    const struct jpeg_upsample *plain = &jpeg_upsample_plain, *fast = &jpeg_upsample_avx2;
    for (uint32_t i = 0; i < ROUNDS && vector(); i++) {
        size_t n = 1 + below(ROOM - JPEG_SLACK - BEFORE);
        draw_row(near);
        draw_row(far);
        plain->wider(near + BEFORE, n, want);
        fast->wider(near + BEFORE, n, got);
        require(memcmp(got, want, 2 * n) == 0);
        plain->both(near + BEFORE, far + BEFORE, n, want);
        fast->both(near + BEFORE, far + BEFORE, n, got);
        require(memcmp(got, want, 2 * n) == 0);
        plain->higher(near, far, n, 1 + (int)(i % 2), want);
        fast->higher(near, far, n, 1 + (int)(i % 2), got);
        require(memcmp(got, want, n) == 0);
    }
}
END_TEST

/* All pairs of Cb and Cr, each with many Y. */
START_TEST(colours)
{
    uint8_t y[256 + JPEG_SLACK], cb[256 + JPEG_SLACK], cr[256 + JPEG_SLACK];
    uint8_t want[768], got[768];
    for (int u = 0; u < 256 && vector(); u++)
        for (int shift = 0; shift < 256; shift += 15) {
            for (int i = 0; i < 256; i++) {
                y[i] = (uint8_t)(i + shift);
                cb[i] = (uint8_t)u;
                cr[i] = (uint8_t)i;
            }
            jpeg_rgb_plain.from_ycc(y, cb, cr, 256, want);
            jpeg_rgb_avx2.from_ycc(y, cb, cr, 256, got);
            require(memcmp(got, want, sizeof got) == 0);
        }
}
END_TEST

START_TEST(no_byte_more)
{
    uint8_t row[3][ROOM], want[3 * ROOM], got[3 * ROOM];
    for (size_t n = 0; n < ROOM - JPEG_SLACK && vector(); n++) {
        for (int c = 0; c < 3; c++)
            draw_row(row[c]);
        memset(want, 0xA5, sizeof want);
        memset(got, 0xA5, sizeof got);
        jpeg_rgb_plain.from_ycc(row[0], row[1], row[2], n, want);
        jpeg_rgb_avx2.from_ycc(row[0], row[1], row[2], n, got);
        require(memcmp(got, want, sizeof got) == 0);
        jpeg_rgb_plain.from_planes(row[0], row[1], row[2], n, want);
        jpeg_rgb_avx2.from_planes(row[0], row[1], row[2], n, got);
        require(memcmp(got, want, sizeof got) == 0);
    }
}
END_TEST
#endif

START_TEST(triangle_filter)
{
    const uint8_t near[4] = {100, 100, 20, 20}, far[4] = {60, 60, 60, 60};
    uint8_t out[4];
    jpeg_upsample_plain.wider(near + 1, 2, out);
    ck_assert_mem_eq(out, ((uint8_t[]){100, 80, 40, 20}), 4);
    jpeg_upsample_plain.both(near + 1, far + 1, 2, out);
    ck_assert_mem_eq(out, ((uint8_t[]){90, 75, 45, 30}), 4);
    jpeg_upsample_plain.higher(near, far, 4, 1, out);
    ck_assert_mem_eq(out, ((uint8_t[]){90, 90, 30, 30}), 4);
    jpeg_upsample_twice(near + 1, 2, out);
    ck_assert_mem_eq(out, ((uint8_t[]){100, 100, 20, 20}), 4);
}
END_TEST

START_TEST(known_colours)
{
    const uint8_t y[4] = {76, 150, 29, 255}, cb[4] = {85, 44, 255, 128},
                  cr[4] = {255, 21, 107, 128};
    uint8_t rgb[12];
    jpeg_rgb_plain.from_ycc(y, cb, cr, 4, rgb);
    ck_assert_mem_eq(rgb, ((uint8_t[]){254, 0, 0, 0, 255, 1, 0, 0, 254, 255, 255, 255}), 12);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jpeg_kernels");
    TCase *tests = tcase_create("jpeg_kernels");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, known_blocks);
    tcase_add_test(tests, flat_blocks);
    tcase_add_test(tests, triangle_filter);
    tcase_add_test(tests, known_colours);
#ifdef SIMD_X86
    tcase_add_test(tests, two_blocks_at_once);
    tcase_add_test(tests, upsampling);
    tcase_add_test(tests, colours);
    tcase_add_test(tests, no_byte_more);
#endif
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
