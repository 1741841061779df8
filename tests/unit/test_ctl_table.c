#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl_json.h"
#include "client/ctl/ctl_table.h"

static const struct ctl_column columns[] = {{"NAME", false}, {"COUNT", true}, {"NOTE", false}};

static char *printed(const struct ctl_table *table, bool headers)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ctl_table_print(table, out, headers);
    fclose(out);
    return text;
}

START_TEST(columns_are_aligned)
{
    struct ctl_table table;
    ctl_table_init(&table, columns, 3);
    ctl_table_add(&table, "a");
    ctl_table_add(&table, "%d", 12345678);
    ctl_table_add(&table, "x");
    ctl_table_add(&table, "longer");
    ctl_table_add(&table, "%d", 7);
    ctl_table_add(&table, "%s", "");
    char *text = printed(&table, true);
    ck_assert_str_eq(text, "NAME       COUNT  NOTE\n"
                           "a       12345678  x\n"
                           "longer         7  -\n");
    free(text);
    text = printed(&table, false);
    ck_assert_str_eq(text, "a       12345678  x\n"
                           "longer         7  -\n");
    free(text);
    ctl_table_free(&table);
}
END_TEST

START_TEST(cells_are_escaped_and_counted_in_characters)
{
    struct ctl_table table;
    ctl_table_init(&table, columns, 3);
    ctl_table_add(&table, "\x1b[31m");
    ctl_table_add(&table, "1");
    ctl_table_add(&table, "a\nb\\x0A");        /* what is escaped already stays so */
    ctl_table_add(&table, "\xc3\xa9\xc3\xa9"); /* two characters, four bytes */
    ctl_table_add(&table, "2");
    ctl_table_add(&table, "\xff");
    char *text = printed(&table, false);
    ck_assert_str_eq(text, "\\x1B[31m  1  a\\x0Ab\\x0A\n"
                           "\xc3\xa9\xc3\xa9        2  \\xFF\n");
    free(text);
    ctl_table_free(&table);
}
END_TEST

START_TEST(an_empty_table_has_titles)
{
    struct ctl_table table;
    ctl_table_init(&table, columns, 3);
    char *text = printed(&table, true);
    ck_assert_str_eq(text, "NAME  COUNT  NOTE\n");
    free(text);
    ctl_table_free(&table);
}
END_TEST

START_TEST(sizes)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},         {999, "999 B"},         {1000, "1.0 kB"},
                 {999999, "1.0 MB"}, {3200000000, "3.2 GB"}, {UINT64_MAX, "18.4 EB"}};
    char text[CTL_TEXT_MAX];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        ck_assert_str_eq(ctl_text_bytes(cases[i].bytes, text), cases[i].text);
}
END_TEST

START_TEST(times)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {{0, "0.00 ms"},
                 {40000, "0.04 ms"},
                 {4200000, "4.2 ms"},
                 {1500000000, "1.5 s"},
                 {61000000000, "1 min 1 s"},
                 {3 * 3600000000000 + 720000000000, "3 h 12 min"},
                 {49 * 3600000000000, "2 d 1 h"},
                 {UINT64_MAX, "213503 d 23 h"}};
    char text[CTL_TEXT_MAX];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        ck_assert_str_eq(ctl_text_time(cases[i].ns, text), cases[i].text);
}
END_TEST

START_TEST(rates)
{
    char text[CTL_TEXT_MAX];
    ck_assert_str_eq(ctl_text_rate(0, text), "-");
    ck_assert_str_eq(ctl_text_rate(NAN, text), "-");
    ck_assert_str_eq(ctl_text_rate(INFINITY, text), "-");
    ck_assert_str_eq(ctl_text_rate(3.21, text), "3.2");
    ck_assert_str_eq(ctl_text_rate(1234.5, text), "1234");
}
END_TEST

static json_t *loaded(json_t *object, bool pretty)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ctl_json_print(out, object, pretty);
    fclose(out);
    ck_assert_int_eq(text[size - 1], '\n');
    if (!pretty)
        ck_assert_ptr_eq(strchr(text, '\n'), text + size - 1);
    json_t *json = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(json);
    free(text);
    return json;
}

START_TEST(messages_become_json)
{
    Dlp__BadSample sample = DLP__BAD_SAMPLE__INIT, *samples[] = {&sample};
    Dlp__BadReply reply = DLP__BAD_REPLY__INIT;
    sample.feed = (char *)"train";
    sample.cls = (char *)"BAD-TRUNC";
    sample.key = (char *)"\xff\n";
    sample.offset = UINT64_MAX;
    reply.n_samples = 1;
    reply.samples = samples;
    reply.more = true;
    json_t *json = loaded(ctl_json_message(&reply.base), false);
    ck_assert_int_eq(json_integer_value(json_object_get(json, "schema_version")), 1);
    ck_assert_ptr_null(json_object_get(json, "more"));
    json_t *first = json_array_get(json_object_get(json, "samples"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(first, "class")), "BAD-TRUNC");
    ck_assert_str_eq(json_string_value(json_object_get(first, "key")), "\\xFF\\x0A");
    ck_assert(json_integer_value(json_object_get(first, "offset")) == INT64_MAX);
    json_decref(json);
}
END_TEST

START_TEST(times_become_seconds)
{
    Dlp__ClientStatus client = DLP__CLIENT_STATUS__INIT;
    client.waiting_ns = 1500000000;
    client.window_s = 4.5;
    client.samples_per_s = NAN;
    json_t *json = loaded(ctl_json_message(&client.base), true);
    ck_assert_double_eq_tol(json_number_value(json_object_get(json, "waiting_s")), 1.5, 1e-9);
    ck_assert_double_eq_tol(json_number_value(json_object_get(json, "window_s")), 4.5, 1e-9);
    ck_assert_double_eq(json_number_value(json_object_get(json, "samples_per_s")), 0);
    json_decref(json);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ctl_table");
    TCase *tcase = tcase_create("text");
    tcase_add_test(tcase, columns_are_aligned);
    tcase_add_test(tcase, cells_are_escaped_and_counted_in_characters);
    tcase_add_test(tcase, an_empty_table_has_titles);
    tcase_add_test(tcase, sizes);
    tcase_add_test(tcase, times);
    tcase_add_test(tcase, rates);
    tcase_add_test(tcase, messages_become_json);
    tcase_add_test(tcase, times_become_seconds);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
