/* Frames in byte buffers, names, escaped text. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frames.h"
#include "proto/limits.h"

static uint8_t *frame_of(Dlp__Envelope *env, size_t *size)
{
    *size = dlp_frame_size(env);
    uint8_t *bytes = malloc(*size);
    ck_assert_uint_eq(dlp_frame_pack(env, bytes), *size);
    return bytes;
}

/* The frame of an AttachReply with this many empty tensors: 2 bytes each on the wire. */
static uint8_t *many_tensors(size_t count, size_t *size)
{
    Dlp__Tensor tensor = DLP__TENSOR__INIT;
    Dlp__Tensor **tensors = malloc(count * sizeof *tensors);
    for (size_t i = 0; i < count; i++)
        tensors[i] = &tensor;
    Dlp__AttachReply reply = DLP__ATTACH_REPLY__INIT;
    reply.n_tensors = count;
    reply.tensors = tensors;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_ATTACH_REPLY;
    env.attach_reply = &reply;
    uint8_t *bytes = frame_of(&env, size);
    free(tensors);
    return bytes;
}

START_TEST(round_trip)
{
    Dlp__Number rank = DLP__NUMBER__INIT;
    Dlp__Position resume = DLP__POSITION__INIT;
    resume.step = UINT64_MAX;
    Dlp__Attach attach = DLP__ATTACH__INIT;
    attach.feed = "imagenet-train";
    attach.rank = &rank; /* rank 0 is not the same as no rank */
    attach.resume = &resume;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = 7;
    env.body_case = DLP__ENVELOPE__BODY_ATTACH;
    env.attach = &attach;
    size_t size;
    uint8_t *bytes = frame_of(&env, &size);
    ck_assert_int_eq(dlp_frame_peek(bytes, size, DLP_FRAME_TO_DAEMON_MAX), (long)size);

    Dlp__Envelope *back = dlp_frame_unpack(bytes, size, DLP_UNPACK_TO_DAEMON_MAX);
    ck_assert_ptr_nonnull(back);
    ck_assert_uint_eq(back->id, 7);
    ck_assert_int_eq(back->body_case, DLP__ENVELOPE__BODY_ATTACH);
    ck_assert_str_eq(back->attach->feed, "imagenet-train");
    ck_assert_str_eq(back->attach->job, "");
    ck_assert_ptr_nonnull(back->attach->rank);
    ck_assert_ptr_null(back->attach->world);
    ck_assert_uint_eq(back->attach->resume->step, UINT64_MAX);
    dlp_frame_free(back);
    dlp_frame_free(NULL);
    free(bytes);
}
END_TEST

START_TEST(peek)
{
    uint8_t bytes[64] = {10};
    for (size_t size = 0; size < 14; size++)
        ck_assert_int_eq(dlp_frame_peek(bytes, size, 10), 0);
    ck_assert_int_eq(dlp_frame_peek(bytes, 14, 10), 14);
    ck_assert_int_eq(dlp_frame_peek(bytes, 64, 10), 14);
    ck_assert_int_eq(dlp_frame_peek(bytes, 64, 9), -EMSGSIZE);
    /* Seen from the prefix alone, before the bytes are there. */
    bytes[3] = 0xff;
    ck_assert_int_eq(dlp_frame_peek(bytes, 4, DLP_FRAME_TO_CLIENT_MAX), -EMSGSIZE);
    memset(bytes, 0, 4);
    ck_assert_int_eq(dlp_frame_peek(bytes, 64, 10), -EPROTO);
}
END_TEST

START_TEST(garbage)
{
    uint8_t bytes[32] = {28};
    memset(bytes + 4, 0xff, 28);
    ck_assert_ptr_null(dlp_frame_unpack(bytes, 32, 1 << 20));
    ck_assert_ptr_null(dlp_frame_unpack(bytes, 3, 1 << 20));
    /* A body that ends before its length says so. */
    uint8_t cut[] = {2, 0, 0, 0, 0x12, 0x7f};
    ck_assert_ptr_null(dlp_frame_unpack(cut, sizeof cut, 1 << 20));
}
END_TEST

START_TEST(every_cut_and_flip)
{
    size_t size;
    uint8_t *bytes = many_tensors(20, &size);
    for (size_t cut = 0; cut < size; cut++)
        dlp_frame_free(dlp_frame_unpack(bytes, cut, 1 << 20));
    for (size_t bit = 32; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        dlp_frame_free(dlp_frame_unpack(bytes, size, 1 << 20));
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    free(bytes);
}
END_TEST

START_TEST(unknown_body)
{
    uint8_t bytes[] = {6, 0, 0, 0, 0x08, 5, 0xfa, 0x7f, 1, 'x'}; /* id 5, field 2047 */
    Dlp__Envelope *env = dlp_frame_unpack(bytes, sizeof bytes, 1 << 20);
    ck_assert_ptr_nonnull(env);
    ck_assert_uint_eq(env->id, 5);
    ck_assert_int_eq(env->body_case, DLP__ENVELOPE__BODY__NOT_SET);
    dlp_frame_free(env);
}
END_TEST

/* 16 KiB of input would otherwise become more than a megabyte. */
START_TEST(unpack_is_capped)
{
    size_t size;
    uint8_t *bytes = many_tensors(DLP_FRAME_TO_DAEMON_MAX / 2 - 16, &size);
    ck_assert_uint_le(size, DLP_FRAME_TO_DAEMON_MAX + 4);
    ck_assert_ptr_null(dlp_frame_unpack(bytes, size, DLP_UNPACK_TO_DAEMON_MAX));
    ck_assert_ptr_null(dlp_frame_unpack(bytes, size, 1000000));
    Dlp__Envelope *env = dlp_frame_unpack(bytes, size, DLP_UNPACK_TO_CLIENT_MAX);
    ck_assert_ptr_nonnull(env);
    dlp_frame_free(env);
    free(bytes);
}
END_TEST

START_TEST(names)
{
    char longest[DLP_NAME_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[DLP_NAME_MAX] = '\0';
    static const char *good[] = {"a", "imagenet-train", "A.b_c:/-9", "-"};
    static const char *bad[] = {"", " ", "a b", "caf\xc3\xa9", "a\n", "a\\", "%s", "a\x7f"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ck_assert_msg(dlp_name_valid(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!dlp_name_valid(bad[i]), "%s", bad[i]);
    ck_assert(dlp_name_valid(longest));
    longest[DLP_NAME_MAX] = 'a';
    longest[DLP_NAME_MAX + 1] = '\0';
    ck_assert(!dlp_name_valid(longest));
}
END_TEST

START_TEST(names_of_feeds)
{
    char longest[DLP_NAME_MAX + 2] = "~1000/";
    memset(longest + 6, 'a', DLP_NAME_MAX - 6);
    static const char *good[] = {"a", "imagenet-train", "~0/a", "~4294967295/A.b_c:/-9"};
    static const char *bad[] = {"",     "~",         "~/a",   "~1",    "~1/",
                                "~a/b", "~1000/a b", "~1~/a", "a~1/b", "~1/~2/b"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ck_assert_msg(dlp_feed_name_valid(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!dlp_feed_name_valid(bad[i]), "%s", bad[i]);
    ck_assert(dlp_feed_name_valid(longest));
    longest[DLP_NAME_MAX] = 'a';
    ck_assert(!dlp_feed_name_valid(longest));
}
END_TEST

static const struct {
    const char *text, *safe;
} escapes[] = {
    {"", ""},
    {"plain text, 100 %", "plain text, 100 %"},
    {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
    {"\x1b[31m\r\n\t", "\\x1B[31m\\x0D\\x0A\\x09"},
    {"C:\\x", "C:\\x5Cx"},
    {"\x7f\xc2\x9b", "\\x7F\\xC2\\x9B"},                   /* DEL, C1 control */
    {"\xff\xc3", "\\xFF\\xC3"},                            /* never, and cut */
    {"\xc0\x80\xe0\x80\x80", "\\xC0\\x80\\xE0\\x80\\x80"}, /* overlong */
    {"\xed\xa0\x80", "\\xED\\xA0\\x80"},                   /* surrogate */
    {"\xf4\x90\x80\x80", "\\xF4\\x90\\x80\\x80"},          /* over 10FFFF */
    {"\xe2\x82", "\\xE2\\x82"},
    {"a\xe2\x80\xaetxt.gpj", "a\\xE2\\x80\\xAEtxt.gpj"}, /* right to left */
};

START_TEST(escape)
{
    char out[64];
    ck_assert_ptr_eq(dlp_escape(escapes[_i].text, out, sizeof out), out);
    ck_assert_str_eq(out, escapes[_i].safe);
}
END_TEST

/* What both ends make fit to be printed looks as if only the sender had. */
START_TEST(escaped_once)
{
    char once[64], twice[64];
    dlp_escape(escapes[_i].text, once, sizeof once);
    ck_assert_str_eq(dlp_printable(once, twice, sizeof twice), once);
    ck_assert_str_eq(dlp_printable("\\\n", twice, sizeof twice), "\\\\x0A");
}
END_TEST

START_TEST(escape_cuts_at_a_character)
{
    static const char text[] = "a\xe2\x82\xac\n";
    static const char *by_size[] = {[1] = "",
                                    [2] = "a",
                                    [3] = "a",
                                    [4] = "a",
                                    [5] = "a\xe2\x82\xac",
                                    [8] = "a\xe2\x82\xac",
                                    [9] = "a\xe2\x82\xac\\x0A"};
    for (size_t size = 1; size < sizeof by_size / sizeof *by_size; size++) {
        char *out = malloc(size);
        dlp_escape(text, out, size);
        if (by_size[size])
            ck_assert_str_eq(out, by_size[size]);
        free(out);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("frames");
    tcase_add_test(tc, round_trip);
    tcase_add_test(tc, peek);
    tcase_add_test(tc, garbage);
    tcase_add_test(tc, every_cut_and_flip);
    tcase_add_test(tc, unknown_body);
    tcase_add_test(tc, unpack_is_capped);
    tcase_add_test(tc, names);
    tcase_add_test(tc, names_of_feeds);
    tcase_add_loop_test(tc, escape, 0, sizeof escapes / sizeof *escapes);
    tcase_add_loop_test(tc, escaped_once, 0, sizeof escapes / sizeof *escapes);
    tcase_add_test(tc, escape_cuts_at_a_character);
    Suite *suite = suite_create("frames");
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
