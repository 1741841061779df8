/* image/jpeg_huffman.c: the tables against the code read bit by bit. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "image/jpeg_huffman.h"

static struct jpeg_huffman huffman;
static uint8_t lengths[16], symbols[256];
static struct jpeg_code code = {lengths, symbols, 0};
static struct philox draws;

static void setup(void)
{
    memset(lengths, 0, sizeof lengths);
    code.count = 0;
    philox_start(&draws, 3, PHILOX_DRAW, 0, 0, 0);
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)philox_below(&draws, n);
}

/* A valid code: of each length as many as a draw allows, never all ones. */
static void draw_code(bool ac)
{
    uint32_t room = 1;
    setup();
    for (uint32_t i = 0; i < 256; i++)
        symbols[i] = (uint8_t)(ac ? i * 37 : i % 16);
    philox_start(&draws, 3, PHILOX_DRAW, 0, 0, below(1U << 30));
    for (uint32_t length = 1; length <= 16; length++) {
        room *= 2;
        uint32_t most = room - 1 < 256 - code.count ? room - 1 : 256 - code.count;
        most = most < 255 ? most : 255;
        lengths[length - 1] = (uint8_t)(length > 2 ? below(most / 2 + 1) : below(most + 1));
        code.count += lengths[length - 1];
        room -= lengths[length - 1];
    }
}

/* Length << 8 | symbol of what 16 bits begin with; 0: no code. */
static uint32_t read_code(uint32_t bits)
{
    uint32_t first = 0, index = 0;
    for (uint32_t length = 1; length <= 16; length++) {
        uint32_t head = bits >> (16 - length);
        if (head < first + lengths[length - 1])
            return length << 8 | symbols[index + head - first];
        index += lengths[length - 1];
        first = (first + lengths[length - 1]) << 1;
    }
    return 0;
}

START_TEST(entries)
{
    bool ac = _i % 2;
    for (int round = 0; round < 50; round++) {
        draw_code(ac);
        ck_assert(jpeg_huffman_make(&huffman, &code, ac));
        for (uint32_t bits = 0; bits < 65536; bits++) {
            uint32_t found = read_code(bits), length = found >> 8, symbol = found & 0xFF;
            uint32_t entry = huffman.entry[bits >> (16 - JPEG_LOOK)];
            if (length == 0 || length > JPEG_LOOK)
                ck_assert_uint_eq(entry, 0);
            else
                ck_assert_uint_eq(entry, jpeg_huffman_entry(length, symbol, ac));
        }
    }
}
END_TEST

/* Followed symbol by symbol. */
static uint32_t follow(uint32_t index)
{
    uint32_t used = 0, places = 0;
    for (;;) {
        uint32_t found = read_code((index << used & 0x3FF) << 6);
        uint32_t length = found >> 8, run = found >> 4 & 15, size = found & 15;
        if (!length || used + length > JPEG_LOOK)
            return places << 8 | used;
        if (!size && run < 15)
            return (places | JPEG_SKIP_END) << 8 | (used + length);
        if (places + run + 1 >= JPEG_BLOCK)
            return places << 8 | used;
        places += run + 1;
        used += length + size;
        if (used >= JPEG_LOOK)
            return places << 8 | used;
    }
}

START_TEST(skips)
{
    for (int round = 0; round < 200; round++) {
        draw_code(true);
        ck_assert(jpeg_huffman_make(&huffman, &code, true));
        for (uint32_t index = 0; index < 1 << JPEG_LOOK; index++)
            ck_assert_uint_eq(huffman.skip[index], follow(index));
    }
}
END_TEST

START_TEST(known_entries)
{
    ck_assert_uint_eq(jpeg_huffman_entry(4, 0x00, true), 63U << 24 | 128 << 16 | 4 << 8 | 4);
    ck_assert_uint_eq(jpeg_huffman_entry(11, 0xF0, true), 63U << 24 | 15 << 16 | 11 << 8 | 11);
    ck_assert_uint_eq(jpeg_huffman_entry(5, 0x13, true), 60U << 24 | 1 << 16 | 5 << 8 | 8);
    ck_assert_uint_eq(jpeg_huffman_entry(3, 0x00, false), 63U << 24 | 3 << 8 | 3);
}
END_TEST

START_TEST(bad_codes)
{
    lengths[0] = 2; /* 0 and 1: all ones */
    code.count = 2;
    ck_assert(!jpeg_huffman_make(&huffman, &code, true));
    lengths[0] = 1;
    lengths[1] = 2;
    code.count = 3;
    ck_assert(!jpeg_huffman_make(&huffman, &code, true));
    lengths[1] = 1;
    code.count = 2;
    symbols[0] = symbols[1] = 16;
    ck_assert(jpeg_huffman_make(&huffman, &code, true));
    ck_assert(!jpeg_huffman_make(&huffman, &code, false));
    symbols[0] = symbols[1] = 15;
    ck_assert(jpeg_huffman_make(&huffman, &code, false));
    lengths[0] = 0;
    lengths[1] = 5; /* more than there are */
    code.count = 5;
    ck_assert(!jpeg_huffman_make(&huffman, &code, true));
}
END_TEST

/* The same code again, another one, one of the other kind. */
START_TEST(made_again)
{
    draw_code(false);
    ck_assert(jpeg_huffman_make(&huffman, &code, false));
    uint32_t before = huffman.entry[0];
    huffman.entry[0] = 1;
    ck_assert(jpeg_huffman_make(&huffman, &code, false));
    ck_assert_uint_eq(huffman.entry[0], 1); /* not made */
    ck_assert(jpeg_huffman_make(&huffman, &code, true));
    ck_assert(jpeg_huffman_make(&huffman, &code, false));
    ck_assert_uint_eq(huffman.entry[0], before);
    symbols[code.count - 1] ^= 1;
    huffman.entry[0] = 1;
    ck_assert(jpeg_huffman_make(&huffman, &code, false));
    ck_assert_uint_ne(huffman.entry[0], 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jpeg_huffman");
    TCase *tests = tcase_create("jpeg_huffman");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_loop_test(tests, entries, 0, 2);
    tcase_add_test(tests, skips);
    tcase_add_test(tests, known_entries);
    tcase_add_test(tests, bad_codes);
    tcase_add_test(tests, made_again);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
