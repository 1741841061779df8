/* image/jpeg_bits.c: bits between markers, at every place of the window's edge. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "image/jpeg_bits.h"

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

static struct jpeg_bits bits;
static struct philox draws;

static void setup(void)
{
    philox_start(&draws, 5, PHILOX_DRAW, 0, 0, 0);
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)philox_below(&draws, n);
}

/* n bytes, many of them FF, written stuffed to `to`. Returns its end. */
static uint8_t *stuff(const uint8_t *plain, size_t n, uint8_t *to)
{
    for (size_t i = 0; i < n; i++) {
        *to++ = plain[i];
        if (plain[i] == 0xFF)
            *to++ = 0;
    }
    return to;
}

static void draw_bytes(uint8_t *plain, size_t n)
{
    uint32_t kind = below(4);
    for (size_t i = 0; i < n; i++)
        plain[i] = (uint8_t)(kind == 0 || below(kind == 1 ? 3 : 200) == 0 ? 0xFF : below(256));
}

static uint8_t *put_marker(uint8_t *to, uint8_t marker)
{
    *to++ = 0xFF;
    *to++ = marker;
    return to;
}

/* Reads n bytes by units of up to a unit of an MCU, in pieces of 1..16 bits. */
static void read_bytes(const uint8_t *plain, size_t n, size_t unit)
{
    size_t done = 0; /* bits */
    while (done < 8 * n) {
        require(jpeg_bits_ready(&bits) || jpeg_bits_more(&bits));
        for (size_t end = done + 8 * unit; done < end && done < 8 * n;) {
            uint32_t part = 1 + below(16), want = 0;
            part = part < 8 * n - done ? part : (uint32_t)(8 * n - done);
            for (size_t i = done; i < done + part; i++)
                want = want << 1 | (plain[i / 8] >> (7 - i % 8) & 1U);
            jpeg_reader_fill(&bits.reader);
            require(jpeg_reader_peek(&bits.reader, part) == want);
            jpeg_reader_eat(&bits.reader, part);
            done += part;
        }
        require(jpeg_bits_sound(&bits));
    }
}

START_TEST(all_that_was_put_in)
{
    enum { MOST = 3 * JPEG_WINDOW };
    static uint8_t plain[MOST], stuffed[2 * MOST + 2];
    for (int round = 0; round < 300; round++) {
        size_t n = round < 100 ? (size_t)round
                               : JPEG_WINDOW * (1 + below(2)) - 50 + below(100) -
                                     (round % 2 ? JPEG_PAD : 0);
        draw_bytes(plain, n);
        const uint8_t *end = put_marker(stuff(plain, n, stuffed), 0xD9);
        size_t size = (size_t)(end - stuffed);
        uint8_t *exact = malloc(size);
        memcpy(exact, stuffed, size);
        jpeg_bits_start(&bits, exact, exact + size);
        read_bytes(plain, n, 1 + below(1500));
        require(jpeg_bits_over(&bits));
        require(jpeg_bits_tail(&bits, 0, 0));
        require(!jpeg_bits_tail(&bits, 0, 1));
        free(exact);
    }
}
END_TEST

/* A file that ends without marker gives no more than it has. */
START_TEST(cut_data)
{
    static uint8_t plain[2 * JPEG_WINDOW], stuffed[4 * JPEG_WINDOW];
    for (size_t n = 0; n < sizeof plain; n += n < 100 ? 1 : 997) {
        draw_bytes(plain, n);
        size_t size = (size_t)(stuff(plain, n, stuffed) - stuffed);
        uint8_t *exact = malloc(size + 1);
        memcpy(exact, stuffed, size);
        exact[size] = 0xFF;
        for (size_t more = 0; more < 2; more++) { /* in the middle of a marker too */
            size_t mcus = 0;
            jpeg_bits_start(&bits, exact, exact + size + more);
            for (; jpeg_bits_ready(&bits) || jpeg_bits_more(&bits); mcus++)
                bits.reader.at += 100;
            require(mcus <= n / 100);
            require(!jpeg_bits_tail(&bits, 0, 0));
        }
        free(exact);
    }
}
END_TEST

START_TEST(too_few_and_too_many)
{
    const uint8_t data[] = {1, 2, 3, 0xFF, 0xD9};
    jpeg_bits_start(&bits, data, data + sizeof data);
    require(jpeg_bits_more(&bits));
    jpeg_reader_fill(&bits.reader);
    jpeg_reader_eat(&bits.reader, 16);
    require(!jpeg_bits_over(&bits)); /* 8 bits are left */
    jpeg_reader_eat(&bits.reader, 1);
    require(jpeg_bits_over(&bits));
    jpeg_reader_eat(&bits.reader, 7);
    require(jpeg_bits_over(&bits) && jpeg_bits_sound(&bits));
    jpeg_reader_eat(&bits.reader, 1);
    require(!jpeg_bits_over(&bits) && !jpeg_bits_sound(&bits));
}
END_TEST

/* Ten bytes in each of ten intervals. */
static size_t make_intervals(uint8_t *to)
{
    uint8_t *at = to;
    for (uint8_t i = 0; i < 10; i++) {
        memset(at, i, 10);
        at[5] = 0xFF;
        at[6] = 0;
        at = put_marker(at + 10, i < 9 ? 0xD0 + i % 8 : 0xD9);
    }
    return (size_t)(at - to);
}

START_TEST(restarts)
{
    uint8_t data[200];
    size_t size = make_intervals(data);
    jpeg_bits_start(&bits, data, data + size);
    for (uint32_t i = 0; i < 9; i++) {
        uint8_t plain[9];
        memset(plain, (int)i, sizeof plain);
        plain[5] = 0xFF;
        require(jpeg_bits_tail(&bits, i, 9));
        if (i % 3 == 2)
            require(jpeg_bits_jump(&bits));
        else
            read_bytes(plain, sizeof plain, 3);
        require(jpeg_bits_over(&bits));
        require(jpeg_bits_tail(&bits, i, 9));
        require(!jpeg_bits_restart(&bits, i + 1));
        require(jpeg_bits_restart(&bits, i));
    }
    require(jpeg_bits_jump(&bits));
    require(!jpeg_bits_restart(&bits, 9));
}
END_TEST

START_TEST(tails)
{
    uint8_t data[200];
    size_t size = make_intervals(data);
    jpeg_bits_start(&bits, data, data + size);
    require(jpeg_bits_tail(&bits, 0, 9));
    require(!jpeg_bits_tail(&bits, 0, 8));
    require(!jpeg_bits_tail(&bits, 0, 10));
    require(!jpeg_bits_tail(&bits, 1, 10));
    for (size_t cut = 0; cut < size; cut++) {
        jpeg_bits_start(&bits, data, data + cut);
        require(!jpeg_bits_tail(&bits, 0, 9));
    }
    data[5 * 12 + 11] = 0xC4; /* another marker */
    jpeg_bits_start(&bits, data, data + size);
    require(!jpeg_bits_tail(&bits, 0, 9));
    data[5 * 12 + 11] = 0xFF; /* one with a fill byte */
    jpeg_bits_start(&bits, data, data + size);
    require(!jpeg_bits_tail(&bits, 0, 9));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jpeg_bits");
    TCase *tests = tcase_create("jpeg_bits");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, all_that_was_put_in);
    tcase_add_test(tests, cut_data);
    tcase_add_test(tests, too_few_and_too_many);
    tcase_add_test(tests, restarts);
    tcase_add_test(tests, tails);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
