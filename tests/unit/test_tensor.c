#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "image/tensor.h"

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The value of a float16, by its definition. */
static double half_value(uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double size = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    if (exponent == 31)
        size = INFINITY;
    return half & 0x8000 ? -size : size;
}

START_TEST(half_is_the_nearest_even)
{
    static const struct {
        float value;
        uint16_t half;
    } known[] = {{0, 0},
                 {-0.0F, 0x8000},
                 {1, 0x3C00},
                 {-2, 0xC000},
                 {65504, 0x7BFF},
                 {65519, 0x7BFF},
                 {65520, 0x7C00},
                 {1e10F, 0x7C00},
                 {-INFINITY, 0xFC00},
                 {0x1p-24F, 1},
                 {0x1p-25F, 0},
                 {0x1.8p-25F, 1},
                 {0x1p-14F, 0x0400},
                 {0x1.ff8p-15F, 0x03FF},
                 {1.0F / 3, 0x3555}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        ck_assert_uint_eq(tensor_half(known[i].value), known[i].half);
    /* Between any two neighbours: the nearer one, at half the one with an even last bit. */
    for (uint32_t half = 0; half < 0x7BFF; half++) {
        float low = (float)half_value((uint16_t)half),
              high = (float)half_value((uint16_t)(half + 1));
        float middle = low + (high - low) / 2;
        require(tensor_half(low) == half);
        require(tensor_half(middle) == (half & 1 ? half + 1 : half));
        require(tensor_half(nextafterf(middle, 0)) == half);
        require(tensor_half(-nextafterf(middle, 1e6F)) == (0x8000 | (half + 1)));
    }
}
END_TEST

START_TEST(bfloat_is_the_nearest_even)
{
    for (uint32_t upper = 0; upper < 0x7F80; upper += 3) {
        require(tensor_bfloat(float_of(upper << 16)) == upper);
        require(tensor_bfloat(float_of(upper << 16 | 0x7FFF)) == upper);
        require(tensor_bfloat(float_of(upper << 16 | 0x8000)) == upper + (upper & 1));
        require(tensor_bfloat(float_of(0x80000000U | upper << 16 | 0x8001)) ==
                (0x8000 | (upper + 1)));
    }
}
END_TEST

static const float normals[][2][3] = {
    {{0, 0, 0}, {1, 1, 1}},
    {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}},
    {{0.5F, 0.5F, 0.5F}, {0.5F, 0.5F, 0.5F}},
    {{-1, 100, 1e-30F}, {1e-3F, 7, 0.3333F}},
    {{0.1F, 0.2F, 0.3F}, {1e-38F, 1e-45F, 1e38F}}, /* infinities, subnormals */
};

/* ((float)x / 255 - mean) / std, each operation rounded; 16 bit from that. */
static void expect_value(const struct tensor *tensor, const uint8_t *dst, size_t at, int c,
                         uint8_t x)
{
    volatile float value = (float)x / 255.0F;
    value = value - tensor->mean[c];
    value = value / tensor->std[c];
    float want = value;
    uint16_t half = tensor->pixels == PIXELS_F16_NCHW ? tensor_half(want) : tensor_bfloat(want);
    if (tensor->pixels == PIXELS_U8_NCHW)
        require(dst[at] == x);
    else if (tensor->pixels == PIXELS_F32_NCHW)
        require(memcmp(dst + 4 * at, &want, 4) == 0);
    else
        require(memcmp(dst + 2 * at, &half, 2) == 0);
}

/* Written in two parts. */
static void expect_planes(struct tensor *tensor, const uint8_t *rgb, size_t n)
{
    size_t bytes = 3 * n * pixels_size(tensor->pixels), half = n / 2;
    struct tensor_planes planes;
    uint8_t *dst = malloc(bytes + 8);
    memset(dst, 0xA5, bytes + 8);
    tensor_place(tensor, n, dst, &planes);
    tensor_write(tensor, rgb + 3 * half, n - half, half, &planes);
    tensor_write(tensor, rgb, half, 0, &planes);
    for (int c = 0; c < 3; c++)
        for (size_t i = 0; i < n; i++)
            expect_value(tensor, dst, (size_t)c * n + i, c, rgb[3 * i + (size_t)c]);
    for (int i = 0; i < 8; i++)
        require(dst[bytes + (size_t)i] == 0xA5);
    free(dst);
}

START_TEST(values_by_kernels_and_table)
{
    static const size_t sizes[] = {1, 15, 16, 17, 47, 63, 64, 65, 129, 256, 1000};
    for (enum simd level = SIMD_NONE; level <= simd_level(); level++)
        for (int pixels = PIXELS_U8_NCHW; pixels <= PIXELS_BF16_NCHW; pixels++)
            for (size_t k = 0; k < sizeof normals / sizeof normals[0]; k++) {
                struct tensor tensor = {.level = SIMD_NONE};
                tensor_set(&tensor, pixels, normals[k][0], normals[k][1], level);
                require(tensor.level <= level);
                for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                    uint8_t *rgb = malloc(3 * sizes[s]); /* exact, for ASan */
                    for (size_t i = 0; i < 3 * sizes[s]; i++)
                        rgb[i] = (uint8_t)(i * 7 + s);
                    expect_planes(&tensor, rgb, sizes[s]);
                    free(rgb);
                }
            }
}
END_TEST

START_TEST(the_kernels_serve_the_usual_settings)
{
    for (enum simd level = SIMD_AVX2; level <= simd_level(); level++)
        for (int pixels = PIXELS_U8_NCHW; pixels <= PIXELS_BF16_NCHW; pixels++)
            for (int k = 0; k < 3; k++) {
                struct tensor tensor = {.level = SIMD_NONE};
                tensor_set(&tensor, pixels, normals[k][0], normals[k][1], level);
                ck_assert_int_eq(tensor.level, level);
            }
}
END_TEST

/* What is computed in a shorter way must be found out where that is not good enough. */
START_TEST(any_setting_is_exact)
{
    struct philox draws;
    uint8_t rgb[3 * 256];
    int fused = 0;
    for (int i = 0; i < 3 * 256; i++)
        rgb[i] = (uint8_t)(i / 3);
    philox_start(&draws, 3, PHILOX_DRAW, 0, 0, 0);
    for (int i = 0; i < 300; i++) {
        float mean[3], std[3];
        for (int c = 0; c < 3; c++) {
            mean[c] = (float)philox_unit(&draws);
            std[c] = 0.1F + (float)philox_unit(&draws);
        }
        for (enum simd level = SIMD_NONE; level <= simd_level(); level++) {
            struct tensor tensor = {.level = SIMD_NONE};
            tensor_set(&tensor, PIXELS_F32_NCHW + i % 3, mean, std, level);
            expect_planes(&tensor, rgb, 256);
            fused += tensor.fused;
        }
    }
    if (simd_level() >= SIMD_AVX2)
        ck_assert(fused > 50 && fused < 190); /* both ways are taken */
}
END_TEST

START_TEST(settings_may_change)
{
    struct tensor tensor = {.level = SIMD_NONE};
    const uint8_t rgb[6] = {1, 2, 3, 4, 5, 6};
    tensor_set(&tensor, PIXELS_F16_NCHW, normals[1][0], normals[1][1], simd_level());
    expect_planes(&tensor, rgb, 2);
    tensor_set(&tensor, PIXELS_F16_NCHW, normals[2][0], normals[1][1], simd_level());
    expect_planes(&tensor, rgb, 2);
    tensor_set(&tensor, PIXELS_BF16_NCHW, normals[2][0], normals[1][1], simd_level());
    expect_planes(&tensor, rgb, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tensor");
    TCase *tests = tcase_create("tensor");
    tcase_add_test(tests, half_is_the_nearest_even);
    tcase_add_test(tests, bfloat_is_the_nearest_even);
    tcase_add_test(tests, values_by_kernels_and_table);
    tcase_add_test(tests, the_kernels_serve_the_usual_settings);
    tcase_add_test(tests, any_setting_is_exact);
    tcase_add_test(tests, settings_may_change);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
