#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

START_TEST(a_text_grows)
{
    struct text text = {.most = 1 << 20};
    char expected[16] = "";
    for (int i = 0; i < 10000; i++) {
        text_add(&text, "ab ");
        text_add_number(&text, (uint64_t)i);
        text_format(&text, " %c\n", 'x');
    }
    snprintf(expected, sizeof expected, "ab %d x\n", 9999);
    ck_assert(!text.cut);
    ck_assert_uint_eq(text.size, strlen(text.bytes));
    ck_assert_str_eq(text.bytes + text.size - strlen(expected), expected);
    text_free(&text);
    ck_assert_ptr_null(text.bytes);
    text_add_number(&text, UINT64_MAX);
    text_add_number(&text, 0);
    ck_assert_str_eq(text.bytes, "184467440737095516150");
    text_free(&text);
}
END_TEST

START_TEST(what_is_over_the_limit_is_left_out)
{
    struct text text = {.most = 8};
    text_add(&text, "12345");
    text_format(&text, "%s", "678");
    ck_assert(!text.cut);
    ck_assert_str_eq(text.bytes, "12345678");
    text_add(&text, "9");
    ck_assert(text.cut);
    text_add(&text, ""); /* nothing follows what is missing */
    text_format(&text, "%d", 1);
    ck_assert_str_eq(text.bytes, "12345678");
    text_free(&text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *tcase = tcase_create("text");
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, a_text_grows);
    tcase_add_test(tcase, what_is_over_the_limit_is_left_out);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
