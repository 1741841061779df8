/* control/exposition.c: lines of Prometheus' text format. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "control/exposition.h"

static struct text text;

static void expect(const char *line)
{
    ck_assert_str_eq(text.bytes, line);
    text_free(&text);
}

START_TEST(lines)
{
    static const struct {
        uint32_t small;
        uint64_t ns;
    } message = {7, 1234567890123456789};
    static const struct figure small = {"s", "gauge", "Help.", EXPOSITION_U32, 0};
    static const struct figure time = {"t", "counter", "Help.", EXPOSITION_NS, 8};
    text.most = 1000;
    exposition_family(&text, "a_total", "counter", "What it is.");
    expect("# HELP a_total What it is.\n# TYPE a_total counter\n");
    exposition_count(&text, "a_total", "", UINT64_MAX);
    expect("a_total 18446744073709551615\n");
    exposition_count(&text, "a_total", "x=\"1\",y=\"2\"", 0);
    expect("a_total{x=\"1\",y=\"2\"} 0\n");
    exposition_seconds(&text, "s", "", 60 * CLOCK_SECOND + 70 * CLOCK_MS + 999);
    expect("s 60.070000\n");
    exposition_seconds(&text, "s", "", 999 * CLOCK_MS + 999999);
    expect("s 0.999999\n");
    exposition_number(&text, "n", "", 0.25);
    expect("n 0.25\n");
    exposition_number(&text, "n", "", NAN);
    expect("n 0\n");
    exposition_number(&text, "n", "", -INFINITY);
    expect("n 0\n");
    exposition_figure(&text, &small, "x=\"1\"", &message);
    expect("s{x=\"1\"} 7\n");
    exposition_figure(&text, &time, "", &message);
    expect("t 1234567890.123456\n");
}
END_TEST

START_TEST(labels)
{
    char out[EXPOSITION_LABEL_MAX], quotes[2 * EXPOSITION_LABEL_MAX];
    ck_assert_str_eq(exposition_label("a\"b\\c\nd", out), "a\\\"b\\\\c\\nd");
    ck_assert_str_eq(exposition_label("", out), "");
    memset(quotes, '"', sizeof quotes);
    quotes[sizeof quotes - 1] = '\0';
    exposition_label(quotes, out);
    ck_assert_uint_lt(strlen(out), EXPOSITION_LABEL_MAX);
    ck_assert_uint_eq(strlen(out) % 2, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exposition");
    TCase *tcase = tcase_create("exposition");
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, lines);
    tcase_add_test(tcase, labels);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
