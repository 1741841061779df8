/* feed/label.c: texts of every kind to int64 or LABEL-BAD, never to a wrong number. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "feed/label.h"

#define BAD INT64_C(-77777)

static const struct {
    const char *text;
    int64_t value; /* BAD = refused */
} texts[] = {
    {"7", 7},
    {"7\n", 7},
    {" 42 ", 42},
    {"\t\r\n\v\f1\t", 1},
    {"+5", 5},
    {"-1", -1},
    {"-0", 0},
    {"0007", 7},
    {"2147483648", 2147483648},
    {"9223372036854775807", INT64_MAX},
    {"-9223372036854775808", INT64_MIN},
    {"9223372036854775808", BAD},
    {"-9223372036854775809", BAD},
    {"99999999999999999999999999", BAD},
    {"3.0", BAD},
    {"1e3", BAD},
    {"0x10", BAD},
    {"cat", BAD},
    {"", BAD},
    {"  ", BAD},
    {"+", BAD},
    {"-", BAD},
    {"--1", BAD},
    {"+ 1", BAD},
    {"1 2 3", BAD},
    {"\xef\xbb\xbf"
     "8",
     BAD},
    {"8\x01", BAD},
};

START_TEST(test_text)
{
    char reason[LABEL_REASON_MAX] = "";
    int64_t value = 0;
    size_t size = strlen(texts[_i].text);
    /* An exact copy, so that a read past the end is seen. */
    uint8_t *copy = malloc(size + !size);
    memcpy(copy, texts[_i].text, size);
    enum bad_class bad = label_text(copy, size, &value, reason);
    free(copy);
    if (texts[_i].value == BAD) {
        ck_assert_int_eq(bad, BAD_LABEL);
        ck_assert(*reason);
    } else {
        ck_assert_int_eq(bad, BAD_NONE);
        ck_assert_int_eq(value, texts[_i].value);
    }
}
END_TEST

START_TEST(test_nul_inside)
{
    char reason[LABEL_REASON_MAX];
    int64_t value;
    ck_assert_int_eq(label_text((const uint8_t *)"8\0", 2, &value, reason), BAD_LABEL);
}
END_TEST

static const struct {
    const char *text;
    int64_t value;
} jsons[] = {
    {"{\"label\": 3}", 3},
    {" {\"a\": [1, {\"label\": 9}], \"label\": -4, \"s\": \"[[[[\"} ", -4},
    {"{\"label\": 9223372036854775807}", INT64_MAX},
    {"{\"label\": 9223372036854775808}", BAD},
    {"{\"label\": 3.0}", BAD},
    {"{\"label\": \"3\"}", BAD},
    {"{\"label\": true}", BAD},
    {"{\"label\": null}", BAD},
    {"{\"label\": 1, \"label\": 2}", BAD},
    {"{\"other\": 3}", BAD},
    {"[3]", BAD},
    {"3", BAD},
    {"", BAD},
    {"{\"label\": 3", BAD},
    {"{\"label\": 3} x", BAD},
};

START_TEST(test_json)
{
    char reason[LABEL_REASON_MAX] = "";
    int64_t value = 0;
    enum bad_class bad = label_json((const uint8_t *)jsons[_i].text, strlen(jsons[_i].text),
                                    "label", &value, reason);
    ck_assert_int_eq(bad, jsons[_i].value == BAD ? BAD_LABEL : BAD_NONE);
    if (bad)
        ck_assert(*reason);
    else
        ck_assert_int_eq(value, jsons[_i].value);
}
END_TEST

static enum bad_class nested(int depth)
{
    char text[400] = "{\"label\": 1, \"x\": ";
    size_t at = strlen(text);
    memset(text + at, '[', depth);
    memset(text + at + depth, ']', depth);
    strcpy(text + at + 2 * depth, "}");
    char reason[LABEL_REASON_MAX];
    int64_t value;
    return label_json((uint8_t *)text, strlen(text), "label", &value, reason);
}

START_TEST(test_json_limits)
{
    char reason[LABEL_REASON_MAX];
    int64_t value;
    ck_assert_int_eq(nested(LABEL_JSON_DEPTH - 1), BAD_NONE);
    ck_assert_int_eq(nested(LABEL_JSON_DEPTH), BAD_LABEL);
    size_t size = LABEL_JSON_MAX + 1;
    char *text = malloc(size);
    memset(text, ' ', size);
    memcpy(text, "{\"label\": 1}", 12);
    ck_assert_int_eq(label_json((uint8_t *)text, size - 1, "label", &value, reason), BAD_NONE);
    ck_assert_int_eq(label_json((uint8_t *)text, size, "label", &value, reason), BAD_LABEL);
    free(text);
}
END_TEST

static enum bad_class of_field(int64_t classes, const char *text, int64_t *value)
{
    struct field_spec field = {.kind = FIELD_INT, .classes = classes};
    struct sample_part part = {.bytes = (uint8_t *)text, .size = strlen(text)};
    char reason[LABEL_REASON_MAX];
    return label_of(&field, &part, value, reason);
}

START_TEST(test_classes)
{
    int64_t value;
    ck_assert_int_eq(of_field(10, "9", &value), BAD_NONE);
    ck_assert_int_eq(value, 9);
    ck_assert_int_eq(of_field(10, "10", &value), BAD_LABEL);
    ck_assert_int_eq(of_field(10, "-1", &value), BAD_LABEL);
    ck_assert_int_eq(of_field(0, "-1", &value), BAD_NONE);
    ck_assert_int_eq(value, -1);
}
END_TEST

START_TEST(test_value_of_index)
{
    struct field_spec field = {.kind = FIELD_INT, .classes = 10};
    struct sample_part part = {.value = true, .offset = 9};
    char reason[LABEL_REASON_MAX];
    int64_t value;
    ck_assert_int_eq(label_of(&field, &part, &value, reason), BAD_NONE);
    ck_assert_int_eq(value, 9);
    part.offset = 10;
    ck_assert_int_eq(label_of(&field, &part, &value, reason), BAD_LABEL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("label");
    TCase *tcase = tcase_create("label");
    tcase_add_loop_test(tcase, test_text, 0, sizeof texts / sizeof *texts);
    tcase_add_test(tcase, test_nul_inside);
    tcase_add_loop_test(tcase, test_json, 0, sizeof jsons / sizeof *jsons);
    tcase_add_test(tcase, test_json_limits);
    tcase_add_test(tcase, test_classes);
    tcase_add_test(tcase, test_value_of_index);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
