#include <check.h>
#include <errno.h>
#include <string.h>

#include "control/http_address.h"

START_TEST(addresses_of_the_loopback)
{
    static const char *const good[] = {"127.0.0.1:9475", "127.9.8.7:0", "[::1]:65535"};
    struct http_address address;
    char text[HTTP_ADDRESS_MAX];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_int_eq(http_address_parse(good[i], &address, NULL), 0);
        ck_assert_str_eq(http_address_text(&address, text), good[i]);
    }
}
END_TEST

START_TEST(other_addresses_say_why_not)
{
    static const struct {
        const char *text, *word;
    } bad[] = {
        {"0.0.0.0:9475", "nobody who he is"},
        {"10.0.0.1:9475", "loopback"},
        {"[::]:9475", "loopback"},
        {"[fe80::1]:1", "loopback"},
        {"[::ffff:127.0.0.1]:1", "loopback"},
        {"localhost:9475", "loopback"},
        {"9475", "loopback"},
        {"", "loopback"},
        {"127.0.0.1", "port"},
        {"127.0.0.1:", "port"},
        {"127.0.0.1:65536", "port"},
        {"127.0.0.1:-1", "port"},
        {"127.0.0.1: 1", "port"},
        {"127.0.0.1:80x", "port"},
        {"[::1]", "port"},
        {"[::1", "no ADDRESS:PORT"},
        {"[::1]9475", "no ADDRESS:PORT"},
        {"127.0.0.1.127.0.0.1.127.0.0.1.127.0.0.1.127.0.0.1.127.0.0.1.127.0.0.1:1",
         "no ADDRESS:PORT"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct http_address address;
        struct error err = {0};
        ck_assert_int_eq(http_address_parse(bad[i].text, &address, &err), -EINVAL);
        ck_assert_msg(strstr(err.text, bad[i].word), "%s: %s", bad[i].text, err.text);
    }
}
END_TEST

START_TEST(hosts)
{
    static const char *const own[] = {"localhost",      "LocalHost:8080", "127.0.0.1",
                                      "127.0.0.1:9475", "[::1]",          "[::1]:1"};
    static const char *const others[] = {"",
                                         "evil.example",
                                         "evil.example:9475",
                                         "[::1",
                                         "::1",
                                         "localhost.evil.example",
                                         "127.0.0.1.evil.example:1",
                                         "10.0.0.1",
                                         "0.0.0.0",
                                         "127.0.0.1/x",
                                         "localhost\t"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        ck_assert_msg(http_address_is_host(own[i]), "%s", own[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ck_assert_msg(!http_address_is_host(others[i]), "%s", others[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_address");
    TCase *tcase = tcase_create("http_address");
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, addresses_of_the_loopback);
    tcase_add_test(tcase, other_addresses_say_why_not);
    tcase_add_test(tcase, hosts);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
