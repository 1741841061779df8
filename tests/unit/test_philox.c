#include <check.h>
#include <stdlib.h>

#include "base/philox.h"

#if __has_include(<Random123/philox.h>)
#include <Random123/philox.h>
#define WITH_ORACLE 1
#endif

/* From the known-answer file of the authors' library (philox4x32, 10 rounds). */
static const struct {
    uint32_t counter[4], key[2], out[4];
} known[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

START_TEST(known_answers)
{
    uint32_t out[4];
    philox_block(known[_i].counter, known[_i].key, out);
    ck_assert_mem_eq(out, known[_i].out, sizeof out);
}
END_TEST

#ifdef WITH_ORACLE
START_TEST(equals_random123)
{
    philox4x32_ctr_t counter = {{1, 2, 3, 4}};
    philox4x32_key_t key = {{5, 6}};
    for (int i = 0; i < 10000; i++) {
        philox4x32_ctr_t expected = philox4x32_R(10, counter, key);
        uint32_t out[4];
        philox_block(counter.v, key.v, out);
        ck_assert_mem_eq(out, expected.v, sizeof out);
        counter = expected;
        key.v[i & 1] ^= expected.v[2];
    }
}
END_TEST
#endif

START_TEST(stream_lays_its_name_into_the_counter)
{
    struct philox stream;
    philox_start(&stream, 0x1122334455667788, PHILOX_BLOCK, 0xABCDEF, 0xFEDC, 0x1234567890AB);
    const uint32_t key[2] = {0x55667788, 0x11223344};
    for (uint32_t block = 0; block < 3; block++) {
        const uint32_t counter[4] = {block, 0x567890AB, 0xFEDC1234, 0x06ABCDEF};
        uint32_t expected[4];
        philox_block(counter, key, expected);
        for (int i = 0; i < 4; i++)
            ck_assert_uint_eq(philox_u32(&stream), expected[i]);
    }
}
END_TEST

START_TEST(u64_and_unit_take_two_words)
{
    struct philox words, wide, unit;
    philox_start(&words, 7, PHILOX_DRAW, 0, 0, 9);
    wide = unit = words;
    for (int i = 0; i < 1000; i++) {
        uint64_t low = philox_u32(&words);
        uint64_t expected = (uint64_t)philox_u32(&words) << 32 | low;
        ck_assert_uint_eq(philox_u64(&wide), expected);
        double x = philox_unit(&unit);
        ck_assert(x >= 0 && x < 1 && x == (double)(expected >> 11) / 9007199254740992.0);
    }
}
END_TEST

static const uint64_t bounds[] = {1,
                                  2,
                                  3,
                                  7,
                                  1000,
                                  0x80000001,
                                  0xffffffff,
                                  0x100000000,
                                  0x100000001,
                                  1ULL << 63,
                                  (1ULL << 63) + 1,
                                  UINT64_MAX};

/* The definition, in other words: the first product whose low half is not among the 2^w mod n
 * smallest. */
static uint64_t below_slowly(struct philox *stream, uint64_t n)
{
    for (;;) {
        if (n <= 1ULL << 32) {
            uint64_t product = philox_u32(stream) * n;
            if (product % (1ULL << 32) >= (1ULL << 32) % n)
                return product >> 32;
        } else {
            unsigned __int128 product = (unsigned __int128)philox_u64(stream) * n;
            unsigned __int128 all = (unsigned __int128)1 << 64;
            if (product % all >= all % n)
                return (uint64_t)(product >> 64);
        }
    }
}

START_TEST(below_is_multiply_shift_with_rejection)
{
    uint64_t n = bounds[_i];
    struct philox stream, slow;
    philox_start(&stream, 3, PHILOX_DRAW, 0, 0, n & 0xffffffffffff);
    slow = stream;
    for (int i = 0; i < 20000; i++) {
        uint64_t x = philox_below(&stream, n);
        ck_assert(x < n);
        ck_assert_uint_eq(x, below_slowly(&slow, n));
    }
    ck_assert_uint_eq(philox_u32(&stream), philox_u32(&slow));
}
END_TEST

START_TEST(below_is_even)
{
    enum { N = 6, DRAWS = 60000 };
    uint32_t count[N] = {0};
    struct philox stream;
    philox_start(&stream, 11, PHILOX_DRAW, 0, 0, 0);
    for (int i = 0; i < DRAWS; i++)
        count[philox_below(&stream, N)]++;
    double chi = 0;
    for (int i = 0; i < N; i++)
        chi += ((double)count[i] - DRAWS / N) * ((double)count[i] - DRAWS / N) / (DRAWS / N);
    ck_assert(chi < 20.5); /* 5 degrees of freedom: 0.1 % */
}
END_TEST

START_TEST(permutes_all_evenly)
{
    enum { TIMES = 24000 };
    uint32_t seen[4 * 4 * 4 * 4] = {0};
    for (uint32_t i = 0; i < TIMES; i++) {
        uint32_t items[4] = {0, 1, 2, 3};
        struct philox stream;
        philox_start(&stream, 1, PHILOX_BLOCK, 0, 0, i);
        philox_permute(&stream, items, 4);
        seen[items[0] << 6 | items[1] << 4 | items[2] << 2 | items[3]]++;
    }
    int kinds = 0;
    for (int i = 0; i < 256; i++) {
        kinds += seen[i] > 0;
        ck_assert(seen[i] == 0 || (seen[i] > TIMES / 24 - 160 && seen[i] < TIMES / 24 + 160));
    }
    ck_assert_int_eq(kinds, 24);
}
END_TEST

START_TEST(permutation_is_kept)
{
    static const uint32_t kept[10] = {0, 3, 2, 7, 9, 6, 5, 8, 1, 4};
    uint32_t items[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct philox stream;
    philox_start(&stream, 42, PHILOX_BLOCK, 3, 5, 7);
    philox_permute(&stream, items, 10);
    for (int i = 0; i < 10; i++)
        ck_assert_msg(items[i] == kept[i], "place %d holds %u", i, items[i]);
    philox_permute(&stream, NULL, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("philox");
    tcase_add_loop_test(tests, known_answers, 0, 3);
#ifdef WITH_ORACLE
    tcase_add_test(tests, equals_random123);
#endif
    tcase_add_test(tests, stream_lays_its_name_into_the_counter);
    tcase_add_test(tests, u64_and_unit_take_two_words);
    tcase_add_loop_test(tests, below_is_multiply_shift_with_rejection, 0,
                        sizeof bounds / sizeof *bounds);
    tcase_add_test(tests, below_is_even);
    tcase_add_test(tests, permutes_all_evenly);
    tcase_add_test(tests, permutation_is_kept);
    Suite *suite = suite_create("philox");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
