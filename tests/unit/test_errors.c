/* The table of errors that cross the socket. */
#include <check.h>
#include <stdlib.h>

#include "proto/errors.h"

START_TEST(known_codes)
{
    ck_assert_str_eq(dlp_error_text(DLP_ERROR_RANK_TAKEN), "this rank is taken");
    ck_assert_int_eq(dlp_error_errno(DLP_ERROR_RANK_TAKEN), EADDRINUSE);
    ck_assert_int_eq(dlp_error_errno(DLP_ERROR_MALFORMED), EPROTO);
    ck_assert_int_eq(dlp_error_errno(DLP_ERROR_INTERNAL), EIO);
}
END_TEST

START_TEST(unknown_codes)
{
    unsigned codes[] = {0, DLP_ERROR_REPLAY + 1, 1U << 31, ~0U};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        ck_assert_str_eq(dlp_error_text(codes[i]), "unknown error");
        ck_assert_int_eq(dlp_error_errno(codes[i]), EPROTO);
    }
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("errors");
    tcase_add_test(tc, known_codes);
    tcase_add_test(tc, unknown_codes);
    Suite *suite = suite_create("errors");
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
