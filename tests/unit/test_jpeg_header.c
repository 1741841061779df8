/* image/jpeg_header.c: what is for our own decoder, and what is not. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "image/jpeg_header.h"
#include "jpeg_maker.h"

static struct jpeg_header header;

/* From a copy of exactly its size. */
static bool parse(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    bool taken = jpeg_header_parse(&header, copy, size);
    free(copy);
    return taken;
}

static bool parse_recipe(const struct jpeg_recipe *recipe)
{
    size_t size;
    uint8_t *bytes = jpeg_maker_make(recipe, &size);
    bool taken = parse(bytes, size);
    free(bytes);
    return taken;
}

START_TEST(what_is_read)
{
    const struct jpeg_recipe recipe = {.width = 70,
                                       .height = 50,
                                       .h_samp = 2,
                                       .v_samp = 2,
                                       .restart = 9,
                                       .quality = 50,
                                       .comment = 3000,
                                       .orientation = 6};
    ck_assert(parse_recipe(&recipe));
    ck_assert_int_eq(header.width, 70);
    ck_assert_int_eq(header.height, 50);
    ck_assert_int_eq(header.colour, JPEG_YCC);
    ck_assert_uint_eq(header.components, 3);
    ck_assert_uint_eq(header.h, 2);
    ck_assert_uint_eq(header.v, 2);
    ck_assert_uint_eq(header.component[2].h, 1);
    ck_assert_uint_eq(header.component[2].quant, 1);
    ck_assert_uint_eq(header.component[2].ac, 1);
    ck_assert_uint_eq(header.restart, 9);
    ck_assert_int_eq(header.quant[0][0], 16); /* quality 50 is the table of the standard */
    ck_assert_int_eq(header.quant[0][1], 11);
    ck_assert_int_eq(header.quant[0][8], 12);
    ck_assert_uint_eq(header.code[1][0].count, 162);
}
END_TEST

START_TEST(kinds_that_are_taken)
{
    const struct jpeg_recipe grey = {.colour = JPEG_MAKER_GREY, .h_samp = 2, .v_samp = 2};
    const struct jpeg_recipe rgb = {.colour = JPEG_MAKER_RGB};
    const struct jpeg_recipe wide = {.h_samp = 2}, high = {.v_samp = 2};
    ck_assert(parse_recipe(&grey));
    ck_assert_int_eq(header.colour, JPEG_GREY);
    ck_assert_uint_eq(header.h, 1);
    ck_assert(parse_recipe(&rgb));
    ck_assert_int_eq(header.colour, JPEG_RGB);
    ck_assert(parse_recipe(&wide) && header.h == 2 && header.v == 1);
    ck_assert(parse_recipe(&high) && header.h == 1 && header.v == 2);
}
END_TEST

static const struct jpeg_recipe others[] = {
    {.progressive = true},
    {.arithmetic = true},
    {.separate_scans = true},
    {.no_tables = true},
    {.colour = JPEG_MAKER_CMYK},
    {.colour = JPEG_MAKER_YCCK},
    {.h_samp = 4},
    {.v_samp = 4},
    {.h_samp = 3, .v_samp = 2},
    {.h_samp = 4, .v_samp = 2},
};

START_TEST(kinds_that_are_not)
{
    ck_assert(!parse_recipe(&others[_i]));
}
END_TEST

/* One byte changed, counted from the first marker of a kind. */
static const struct {
    uint8_t marker;
    int at;
    uint8_t byte;
} changes[] = {
    {0xC0, 4, 12},                   /* bits of a sample */
    {0xC0, 6, 0},                    /* no height, with the next one */
    {0xC0, 3, 18},                   /* length */
    {0xC0, 9, 2},                    /* components */
    {0xC0, 13, 1},                   /* the same id twice */
    {0xC0, 11, 0},                   /* sampling factors */
    {0xC0, 14, 0x21}, {0xC0, 12, 4}, /* table of none */
    {0xC0, 12, 3},                   /* table that is not there */
    {0xDA, 4, 1},                    /* components of the scan */
    {0xDA, 5, 2},                    /* their order */
    {0xDA, 6, 0x40},                 /* tables */
    {0xDA, 6, 0x02},  {0xDA, 11, 1}, /* spectrum */
    {0xDA, 12, 62},   {0xDA, 13, 1},   {0xDA, 3, 11},   {0xDB, 4, 0x20}, /* kinds and numbers of
                                                                            tables */
    {0xDB, 4, 0x04},  {0xDB, 4, 0x10},                                   /* 16 bits: too short */
    {0xC4, 4, 0x20},  {0xC4, 4, 0x04}, {0xC4, 5, 255}, /* symbols beyond the segment */
    {0xE0, 1, 0xD0},                                   /* markers that do not belong there */
    {0xE0, 1, 0x01},  {0xE0, 1, 0xC8}, {0xE0, 1, 0xD9}, {0xE0, 0, 0xFE}, {0xE0, 3, 1},
    {0xDD, 3, 5}, /* length of the restart interval */
};

static size_t find(const uint8_t *bytes, size_t size, uint8_t marker)
{
    for (size_t i = 2; i + 1 < size; i++)
        if (bytes[i] == 0xFF && bytes[i + 1] == marker)
            return i;
    ck_abort_msg("no marker");
    return 0;
}

START_TEST(headers_that_are_not_taken)
{
    const struct jpeg_recipe recipe = {.width = 200, .height = 200, .restart = 5};
    size_t size;
    uint8_t *bytes = jpeg_maker_make(&recipe, &size);
    size_t at = find(bytes, size, changes[_i].marker) + (size_t)changes[_i].at;
    ck_assert(parse(bytes, size));
    ck_assert_uint_ne(bytes[at], changes[_i].byte);
    bytes[at] = changes[_i].byte;
    if (changes[_i].marker == 0xC0 && changes[_i].at == 6)
        bytes[at - 1] = 0;
    ck_assert(!parse(bytes, size));
    free(bytes);
}
END_TEST

START_TEST(cut_headers)
{
    const struct jpeg_recipe recipe = {.restart = 5, .orientation = 2};
    size_t size;
    uint8_t *bytes = jpeg_maker_make(&recipe, &size);
    size_t scan = find(bytes, size, 0xDA) + 14;
    for (size_t cut = 0; cut < size; cut++)
        ck_assert_msg(parse(bytes, cut) == (cut >= scan), "%zu", cut);
    free(bytes);
}
END_TEST

START_TEST(fill_bytes_and_adobe)
{
    const struct jpeg_recipe recipe = {.colour = JPEG_MAKER_RGB};
    size_t size;
    uint8_t *bytes = jpeg_maker_make(&recipe, &size), *longer = malloc(size + 2);
    size_t adobe = find(bytes, size, 0xEE);
    memcpy(longer, bytes, adobe);
    memset(longer + adobe, 0xFF, 2);
    memcpy(longer + adobe + 2, bytes + adobe, size - adobe);
    ck_assert(parse(longer, size + 2) && header.colour == JPEG_RGB);
    bytes[adobe + 15] = 1;
    ck_assert(parse(bytes, size) && header.colour == JPEG_YCC);
    bytes[adobe + 15] = 2; /* libjpeg guesses, with a warning */
    ck_assert(!parse(bytes, size));
    bytes[adobe + 4] = 'a'; /* no Adobe marker: the component ids say RGB */
    ck_assert(parse(bytes, size) && header.colour == JPEG_RGB);
    free(longer);
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jpeg_header");
    TCase *tests = tcase_create("jpeg_header");
    tcase_add_test(tests, what_is_read);
    tcase_add_test(tests, kinds_that_are_taken);
    tcase_add_loop_test(tests, kinds_that_are_not, 0, sizeof others / sizeof *others);
    tcase_add_loop_test(tests, headers_that_are_not_taken, 0, sizeof changes / sizeof *changes);
    tcase_add_test(tests, cut_headers);
    tcase_add_test(tests, fill_bytes_and_adobe);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
