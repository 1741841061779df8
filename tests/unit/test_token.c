/* control/token.c: what is printed is read again, what is damaged is told, what differs is named.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/token.h"

#define FINGERPRINT "0123456789abcdef0123456789abcdef"

static struct feed_spec spec;
static struct token made;
static struct refusal refusal;

static void setup(void)
{
    spec = (struct feed_spec){.name = "f", .shuffle = 16384, .lanes = 64, .tail = TAIL_WRAP};
    struct error err;
    ck_assert_int_eq(transform_preset(&spec.transform, "train", &err), 0);
    ck_assert_int_eq(transform_check(&spec.transform, &err), 0);
    token_make(&made, &spec, FINGERPRINT, 7);
    memset(&refusal, 0, sizeof refusal);
}

START_TEST(printed_and_read)
{
    static const uint64_t numbers[][4] = {
        {0, 0, 0, 0}, {7, 3, 480, 16384}, {UINT64_MAX, 16777215, UINT64_MAX, UINT64_MAX}};
    char text[DLP_TOKEN_MAX], again[DLP_TOKEN_MAX];
    struct token read;
    made.seed = numbers[_i][0];
    made.epoch = numbers[_i][1];
    made.next = numbers[_i][2];
    made.shuffle = numbers[_i][3];
    token_print(&made, text);
    ck_assert_int_eq(token_parse(text, &read, &refusal), 0);
    ck_assert_mem_eq(&read, &made, sizeof read);
    ck_assert_str_eq(token_print(&read, again), text);
}
END_TEST

START_TEST(says_all_that_the_order_depends_on)
{
    char text[DLP_TOKEN_MAX];
    made.epoch = 3;
    made.next = 480;
    token_print(&made, text);
    const char *start = "{\"schema\":1,\"order_version\":1,\"fingerprint\":\"" FINGERPRINT
                        "\",\"seed\":7,\"epoch\":3,\"next\":480,\"shuffle\":16384,\"lanes\":64,"
                        "\"tail\":\"wrap\",\"plan_id\":\"";
    ck_assert_msg(strncmp(text, start, strlen(start)) == 0, "%s", text);
    ck_assert_uint_eq(strlen(made.plan_id), 16);
    ck_assert_uint_eq(strlen(made.transform), 16);
}
END_TEST

START_TEST(a_template_has_two_places)
{
    char text[DLP_TOKEN_MAX];
    token_template(&made, text);
    ck_assert_ptr_nonnull(strstr(text, "\"epoch\":#,\"next\":#,"));
    ck_assert_ptr_eq(strchr(strchr(strchr(text, '#') + 1, '#') + 1, '#'), NULL);
}
END_TEST

/* A checkpoint's writer may set it anew: other blanks, another order, members that we do not know.
 */
START_TEST(any_flat_json_will_do)
{
    const char *text = " { \"tail\" : \"drop\",\n\"mine\":12 , \"note\":\"x\", \"next\": 8,\t"
                       "\"epoch\":2,\"seed\":1,\"lanes\":4,\"shuffle\":0,\"fingerprint\":\"ab\","
                       "\"order_version\":1,\"schema\":1 } \r\n";
    struct token token;
    ck_assert_msg(token_parse(text, &token, &refusal) == 0, "%s", refusal.text);
    ck_assert_str_eq(token.tail, "drop");
    ck_assert_uint_eq(token.next, 8);
    ck_assert_uint_eq(token.epoch, 2);
    ck_assert_str_eq(token.plan_id, "");
}
END_TEST

#define REST                                                                                       \
    "\"order_version\":1,\"fingerprint\":\"a\",\"seed\":1,\"epoch\":0,\"shuffle\":1,\"lanes\":1,"  \
    "\"tail\":\"wrap\""

static const struct {
    const char *text, *what;
} damaged[] = {
    {"", "begin with '{'"},
    {"lost", "begin with '{'"},
    {"{}", "quotes is missing"},
    {"{\"schema\":1}", "\"order_version\" is missing"},
    {"{\"schema\":1," REST "}", "\"next\" is missing"},
    {"{\"schema\":1,\"next\":1," REST, "end with '}'"},
    {"{\"schema\":1,\"next\":1," REST "} x", "more after"},
    {"{\"schema\":1,\"next\":1," REST ",}", "quotes is missing"},
    {"{\"schema\":2,\"next\":1," REST "}", "schema 2"},
    {"{\"schema\":1,\"next\":1,\"next\":2," REST "}", "\"next\" is there twice"},
    {"{\"schema\":1,\"next\":\"1\"," REST "}", "\"next\" is of another kind"},
    {"{\"schema\":1,\"next\":-1," REST "}", "whole number"},
    {"{\"schema\":1,\"next\":1.5," REST "}", "end with '}'"},
    {"{\"schema\":1,\"next\":1e3," REST "}", "end with '}'"},
    {"{\"schema\":1,\"next\":0x10," REST "}", "end with '}'"},
    {"{\"schema\":1,\"next\":null," REST "}", "whole number"},
    {"{\"schema\":1,\"next\":{\"a\":{\"a\":{}}}," REST "}", "whole number"},
    {"{\"schema\":1,\"next\":18446744073709551616," REST "}", "64 bits"},
    {"{\"schema\":1,\"next\":[1]," REST "}", "whole number"},
    {"{\"schema\":1,\"next\":1,\"plan_id\":\"0123456789abcdef0\"," REST "}", "too long"},
    {"{\"schema\":1,\"next\":1,\"x\":\"\\u0041\"," REST "}", "too long"},
    {"{\"schema\":1,\"next\":1,\"x\":\"", "too long"},
    {"{\"schema\"1}", "':' is missing"},
    {"{\"schema\":1,\"order_version\":1,\"fingerprint\":\"a\",\"seed\":1,\"epoch\":16777216,"
     "\"next\":0,\"shuffle\":1,\"lanes\":1,\"tail\":\"wrap\"}",
     "\"epoch\" is over"},
};

START_TEST(damage_is_told)
{
    struct token token;
    ck_assert_int_eq(token_parse(damaged[_i].text, &token, &refusal), DLP_ERROR_RESUME);
    ck_assert_msg(strstr(refusal.text, damaged[_i].what), "%s: %s", damaged[_i].text, refusal.text);
}
END_TEST

static void differs(struct token theirs, const char *what, const char *first, const char *second)
{
    ck_assert_int_eq(token_compare(&theirs, &made, 100, "f", &refusal), DLP_ERROR_RESUME);
    ck_assert_msg(strstr(refusal.text, what) && strstr(refusal.text, first) &&
                      strstr(refusal.text, second),
                  "%s", refusal.text);
}

START_TEST(differences_are_named_with_both_values)
{
    struct token other = made;
    other.epoch = 5; /* no difference of the order, and what follows */
    other.next = 77;
    strcpy(other.transform, "x");
    ck_assert_int_eq(token_compare(&other, &made, 100, "f", &refusal), 0);
    other = made;
    other.order_version = 2;
    differs(other, "order_version", " 2", " 1");
    other = made;
    strcpy(other.fingerprint, "ffff");
    differs(other, "data set", "ffff", FINGERPRINT);
    other = made;
    other.seed = 8;
    differs(other, "seed", " 8", " 7");
    other = made;
    other.shuffle = 5;
    differs(other, "shuffle", " 5", "16384");
    other = made;
    other.next = 101;
    differs(other, "record", " 101", " 100 records");
    other = made;
    other.lanes = 32;
    differs(other, "lanes", "32", "64");
    other = made;
    strcpy(other.tail, "drop");
    differs(other, "tail", "drop", "wrap");
}
END_TEST

START_TEST(the_digest_is_of_all_that_changes_pixels)
{
    struct token other;
    struct error err;
    token_make(&other, &spec, FINGERPRINT, 8);
    ck_assert_str_eq(other.transform, made.transform);
    spec.transform.pixels = PIXELS_F32_NCHW;
    token_make(&other, &spec, FINGERPRINT, 7);
    ck_assert_str_ne(other.transform, made.transform);
    setup();
    spec.transform.exif = !spec.transform.exif;
    token_make(&other, &spec, FINGERPRINT, 7);
    ck_assert_str_ne(other.transform, made.transform);
    setup();
    spec.transform.fast = true;
    token_make(&other, &spec, FINGERPRINT, 7);
    ck_assert_str_ne(other.transform, made.transform);
    setup();
    ck_assert_int_eq(transform_preset(&spec.transform, "eval", &err), 0);
    token_make(&other, &spec, FINGERPRINT, 7);
    ck_assert_str_ne(other.transform, made.transform);
    ck_assert_str_eq(other.plan_id, made.plan_id); /* the order is the same */
}
END_TEST

int main(void)
{
    TCase *test = tcase_create("token");
    tcase_add_checked_fixture(test, setup, NULL);
    tcase_add_loop_test(test, printed_and_read, 0, 3);
    tcase_add_test(test, says_all_that_the_order_depends_on);
    tcase_add_test(test, a_template_has_two_places);
    tcase_add_test(test, any_flat_json_will_do);
    tcase_add_loop_test(test, damage_is_told, 0, sizeof damaged / sizeof damaged[0]);
    tcase_add_test(test, differences_are_named_with_both_values);
    tcase_add_test(test, the_digest_is_of_all_that_changes_pixels);
    Suite *suite = suite_create("token");
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
