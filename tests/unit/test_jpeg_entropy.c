/* image/jpeg_entropy.c: coefficients against libjpeg-turbo's, read and skipped in turns. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "base/philox.h"
#include "image/jpeg_entropy.h"
#include "jpeg_maker.h"

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

static struct philox draws;
static struct jpeg_header header;
static struct jpeg_entropy *entropy;
static int32_t across, down;

static void setup(void)
{
    philox_start(&draws, 9, PHILOX_DRAW, 0, 0, 0);
    entropy = calloc(1, sizeof *entropy);
}

static void teardown(void)
{
    free(entropy);
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)philox_below(&draws, n);
}

static bool start(const uint8_t *bytes, size_t size)
{
    require(jpeg_header_parse(&header, bytes, size));
    across = (header.width + 8 * header.h - 1) / (8 * header.h);
    down = (header.height + 8 * header.v - 1) / (8 * header.v);
    return jpeg_entropy_start(entropy, &header, (uint32_t)(across * down));
}

/* One block of libjpeg-turbo's; NULL where an MCU reaches beyond the picture's blocks. */
static const JCOEF *wanted(struct jpeg_decompress_struct *info, jvirt_barray_ptr *arrays, int c,
                           int32_t x, int32_t y)
{
    const jpeg_component_info *component = &info->comp_info[c];
    if (x >= (int32_t)component->width_in_blocks || y >= (int32_t)component->height_in_blocks)
        return NULL;
    JBLOCKARRAY rows =
        info->mem->access_virt_barray((j_common_ptr)info, arrays[c], (JDIMENSION)y, 1, FALSE);
    return rows[0][x];
}

static void check_mcu(struct jpeg_decompress_struct *info, jvirt_barray_ptr *arrays, int32_t mcu,
                      uint32_t want)
{
    int16_t blocks[JPEG_BLOCKS][JPEG_BLOCK_ROOM];
    uint32_t busy, b = 0;
    require(jpeg_entropy_read(entropy, want, blocks, &busy));
    for (int c = 0; c < (int)header.components; c++)
        for (int32_t v = 0; v < header.component[c].v; v++)
            for (int32_t h = 0; h < header.component[c].h; h++, b++) {
                const JCOEF *block =
                    wanted(info, arrays, c, mcu % across * header.component[c].h + h,
                           mcu / across * header.component[c].v + v);
                if (!block || !(want >> b & 1))
                    continue;
                require(memcmp(blocks[b], block, JPEG_BLOCK * sizeof *block) == 0);
                bool more = false;
                for (int k = 1; k < JPEG_BLOCK; k++)
                    more |= block[k] != 0;
                require(more == (busy >> b & 1));
            }
}

static void check_file(uint8_t *bytes, size_t size)
{
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    info.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, bytes, size);
    jpeg_read_header(&info, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&info);
    require(start(bytes, size));
    int32_t end = across * down;
    for (int32_t mcu = 0; mcu < end;) {
        uint64_t skip = below(4) ? 0 : below(40);
        skip = skip < (uint64_t)(end - mcu) ? skip : 0;
        require(jpeg_entropy_skip(entropy, skip));
        mcu += (int32_t)skip;
        check_mcu(&info, arrays, mcu++, below(3) ? 63 : below(64));
    }
    require(jpeg_entropy_finish(entropy, true));
    jpeg_destroy_decompress(&info);
}

START_TEST(coefficients)
{
    for (int i = 0; i < 200; i++) {
        const struct jpeg_recipe recipe = {
            .width = 8 + below(150),
            .height = 8 + below(150),
            .colour = below(4) ? JPEG_MAKER_YCC : JPEG_MAKER_GREY,
            .h_samp = 1 + (int)below(2),
            .v_samp = 1 + (int)below(2),
            .quality = i % 3 ? 1 + (int)below(100) : 100,
            .optimize = below(2),
            .restart = below(2) ? 0 : 1 + below(50),
            .seed = (uint32_t)i,
        };
        size_t size;
        uint8_t *bytes = jpeg_maker_make(&recipe, &size);
        check_file(bytes, size);
        free(bytes);
    }
}
END_TEST

/* An early end is found however it is read, a surplus where the end is read. */
START_TEST(cut_and_surplus)
{
    const struct jpeg_recipe recipe = {.width = 100, .height = 100, .quality = 90};
    size_t size;
    uint8_t *bytes = jpeg_maker_make(&recipe, &size), *changed = malloc(size + 8);
    int good = 0;
    for (int round = 0; round < 300; round++) {
        bool cut = round % 2;
        size_t by = 1 + below(8), at = size - 2;
        memcpy(changed, bytes, size);
        at = cut ? at - by : at + by;
        memset(changed + size - 2, 0x2A, 8);
        memcpy(changed + at, bytes + size - 2, 2);
        require(start(changed, at + 2));
        int16_t blocks[JPEG_BLOCKS][JPEG_BLOCK_ROOM];
        uint32_t busy, mcus = (uint32_t)(across * down);
        bool sound = jpeg_entropy_skip(entropy, mcus - 1) &&
                     jpeg_entropy_read(entropy, 7, blocks, &busy) &&
                     jpeg_entropy_finish(entropy, true);
        require(!sound);
        require(start(changed, at + 2));
        good += jpeg_entropy_skip(entropy, mcus / 2) && jpeg_entropy_finish(entropy, false);
    }
    ck_assert_int_eq(good, 300);
    free(changed);
    free(bytes);
}
END_TEST

/* Bits that an interval lacks are missed before the rest of it is jumped over. */
START_TEST(cut_interval)
{
    const struct jpeg_recipe recipe = {.width = 64, .height = 64, .restart = 6};
    int16_t blocks[JPEG_BLOCKS][JPEG_BLOCK_ROOM];
    uint32_t busy;
    int missed = 0;
    size_t size;
    uint8_t *bytes = jpeg_maker_make(&recipe, &size);
    require(start(bytes, size));
    size_t at = (size_t)(header.data - bytes);
    while (bytes[at] != 0xFF || bytes[at + 1] != 0xD0)
        at++;
    for (; bytes[at - 1] != 0xFF && missed < 5; at--, size--) {
        memmove(bytes + at - 1, bytes + at, size - at);
        require(start(bytes, size - 1));
        if (!jpeg_entropy_skip(entropy, 4) || !jpeg_entropy_read(entropy, 7, blocks, &busy))
            break;
        bool sound = jpeg_bits_sound(&entropy->bits);
        require(jpeg_entropy_skip(entropy, 1) == sound);
        missed += !sound;
    }
    ck_assert_int_gt(missed, 0);
    free(bytes);
}
END_TEST

/* Two grey blocks, each 32767 above the one before: libjpeg-turbo cuts the second to 16 bits. */
START_TEST(level_out_of_range)
{
    static const uint8_t frame[] = {0xFF, 0xC0, 0, 11, 8, 0, 8, 0, 16, 1, 1, 0x11, 0};
    static const uint8_t codes[] = {0xFF, 0xC4, 0, 38, 0, 1, 0, 0,  0,  0, 0, 0, 0, 0,
                                    0,    0,    0, 0,  0, 0, 0, 15, 16, 1, 0, 0, 0, 0,
                                    0,    0,    0, 0,  0, 0, 0, 0,  0,  0, 0, 0};
    static const uint8_t scan[] = {0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 63, 0};
    static const uint8_t data[] = {0x7F, 0xFF, 0, 0x3F, 0xFF, 0, 0xBF, 0xFF, 0xD9};
    uint8_t bytes[300] = {0xFF, 0xD8, 0xFF, 0xDB, 0, 67, 0}, *at = bytes + 7;
    int16_t blocks[JPEG_BLOCKS][JPEG_BLOCK_ROOM];
    uint32_t busy;
    memset(at, 1, 64);
    at = mempcpy(mempcpy(at + 64, frame, sizeof frame), codes, sizeof codes);
    at = mempcpy(mempcpy(at, scan, sizeof scan), data, sizeof data);
    require(start(bytes, (size_t)(at - bytes)));
    require(jpeg_entropy_read(entropy, 1, blocks, &busy) && busy == 0);
    ck_assert_int_eq(blocks[0][0], 32767);
    require(!jpeg_entropy_read(entropy, 1, blocks, &busy));
}
END_TEST

START_TEST(wrong_restarts)
{
    const struct jpeg_recipe recipe = {.width = 64, .height = 64, .restart = 6};
    size_t size;
    uint8_t *bytes = jpeg_maker_make(&recipe, &size);
    require(start(bytes, size) && jpeg_entropy_skip(entropy, 63));
    for (size_t i = size / 2; i + 2 < size; i++) {
        if (bytes[i] != 0xFF || bytes[i + 1] < 0xD0 || bytes[i + 1] > 0xD7)
            continue;
        bytes[i + 1] ^= 1;
        require(start(bytes, size) && !jpeg_entropy_skip(entropy, 63));
        require(start(bytes, size) && jpeg_entropy_skip(entropy, 3));
        require(!jpeg_entropy_finish(entropy, false));
        bytes[i + 1] ^= 1;
    }
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jpeg_entropy");
    TCase *tests = tcase_create("jpeg_entropy");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, coefficients);
    tcase_add_test(tests, cut_and_surplus);
    tcase_add_test(tests, cut_interval);
    tcase_add_test(tests, level_out_of_range);
    tcase_add_test(tests, wrong_restarts);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
