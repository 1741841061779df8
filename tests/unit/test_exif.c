#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/exif.h"
#include "jpeg_maker.h"

START_TEST(every_orientation_in_both_byte_orders)
{
    for (int big = 0; big < 2; big++)
        for (int orientation = 1; orientation <= 8; orientation++) {
            size_t size;
            uint8_t *jpeg = jpeg_maker_make(
                &(struct jpeg_recipe){.orientation = orientation, .exif_big_endian = big}, &size);
            ck_assert_int_eq(exif_orientation(jpeg, size), orientation);
            free(jpeg);
        }
}
END_TEST

START_TEST(none_is_1)
{
    size_t size;
    uint8_t *jpeg = jpeg_maker_plain(32, 32, 1, &size);
    ck_assert_int_eq(exif_orientation(jpeg, size), 1);
    ck_assert_int_eq(exif_orientation(jpeg, 0), 1);
    ck_assert_int_eq(exif_orientation((const uint8_t *)"\x89PNG\r\n\x1a\n", 8), 1);
    free(jpeg);
}
END_TEST

/* In a buffer of exactly that size, so that a read past it is seen by the sanitizer. */
static int at_size(const uint8_t *jpeg, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, jpeg, size);
    int orientation = exif_orientation(exact, size);
    free(exact);
    return orientation;
}

START_TEST(cut_anywhere)
{
    size_t size;
    bool seen = false;
    uint8_t *jpeg = jpeg_maker_make(&(struct jpeg_recipe){.orientation = 6}, &size);
    for (size_t cut = 0; cut < size && cut < 300; cut++) {
        int orientation = at_size(jpeg, cut);
        ck_assert(orientation == 6 || (orientation == 1 && !seen));
        seen |= orientation == 6;
    }
    ck_assert(seen);
    free(jpeg);
}
END_TEST

/* SOI, APP1 with a TIFF header, directory at `directory`, `entries` claimed, one entry there. */
static int made(uint32_t directory, uint16_t entries, uint16_t type, uint16_t value)
{
    uint8_t bytes[] = {0xff,
                       0xd8,
                       0xff,
                       0xe1,
                       0,
                       34,
                       'E',
                       'x',
                       'i',
                       'f',
                       0,
                       0,
                       'I',
                       'I',
                       42,
                       0,
                       (uint8_t)directory,
                       (uint8_t)(directory >> 8),
                       (uint8_t)(directory >> 16),
                       (uint8_t)(directory >> 24),
                       (uint8_t)entries,
                       (uint8_t)(entries >> 8),
                       0x12,
                       0x01,
                       (uint8_t)type,
                       0,
                       1,
                       0,
                       0,
                       0,
                       (uint8_t)value,
                       (uint8_t)(value >> 8),
                       0,
                       0,
                       0,
                       0,
                       0,
                       0};
    return at_size(bytes, sizeof bytes);
}

START_TEST(lies_in_the_directory)
{
    ck_assert_int_eq(made(8, 1, 3, 6), 6);
    ck_assert_int_eq(made(8, 1, 4, 6), 6);
    ck_assert_int_eq(made(8, 65535, 3, 6), 6);
    ck_assert_int_eq(made(8, 0, 3, 6), 1);
    ck_assert_int_eq(made(8, 1, 2, 6), 1);
    ck_assert_int_eq(made(8, 1, 3, 0), 1);
    ck_assert_int_eq(made(8, 1, 3, 9), 1);
    ck_assert_int_eq(made(0xffffffff, 1, 3, 6), 1);
    ck_assert_int_eq(made(24, 1, 3, 6), 1);
}
END_TEST

START_TEST(segments_before_it_are_skipped)
{
    static const uint8_t before[] = {0xff, 0xd8, 0xff, 0xe0, 0,   4,   1,   2,  0xff,
                                     0xff, 0xe1, 0,    6,    'h', 't', 't', 'p'};
    static const uint8_t exif[] = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0,    0,    'M', 'M',
                                   0,    42,   0, 0,  0,   8,   0,   1,   0x01, 0x12, 0,   3,
                                   0,    0,    0, 1,  0,   3,   0,   0,   0,    0,    0,   0};
    uint8_t bytes[sizeof before + sizeof exif];
    memcpy(bytes, before, sizeof before);
    memcpy(bytes + sizeof before, exif, sizeof exif);
    ck_assert_int_eq(at_size(bytes, sizeof bytes), 3);
    bytes[3] = 0xda; /* the scan begins: nothing is looked at behind it */
    ck_assert_int_eq(at_size(bytes, sizeof bytes), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exif");
    TCase *tests = tcase_create("exif");
    tcase_add_test(tests, every_orientation_in_both_byte_orders);
    tcase_add_test(tests, none_is_1);
    tcase_add_test(tests, cut_anywhere);
    tcase_add_test(tests, lies_in_the_directory);
    tcase_add_test(tests, segments_before_it_are_skipped);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
