/* The table of the CUDA driver's results. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/cuda_result.h"

START_TEST(rows)
{
    ck_assert_str_eq(dlp_cu_result_name(0), "CUDA_SUCCESS");
    ck_assert_int_eq(dlp_cu_result_errno(0), 0);
    ck_assert(!dlp_cu_result_lost(0));
    ck_assert_str_eq(dlp_cu_result_name(DLP_CU_OUT_OF_MEMORY), "CUDA_ERROR_OUT_OF_MEMORY");
    ck_assert_int_eq(dlp_cu_result_errno(DLP_CU_OUT_OF_MEMORY), ENOMEM);
    ck_assert(!dlp_cu_result_lost(DLP_CU_OUT_OF_MEMORY));
    ck_assert(dlp_cu_result_lost(DLP_CU_ILLEGAL_ADDRESS));
    ck_assert(dlp_cu_result_lost(DLP_CU_LAUNCH_FAILED));
    ck_assert(dlp_cu_result_lost(DLP_CU_ECC_UNCORRECTABLE));
    ck_assert_int_eq(dlp_cu_result_errno(DLP_CU_NOT_READY), EAGAIN);
}
END_TEST

START_TEST(unknown)
{
    ck_assert_ptr_null(dlp_cu_result_name(77777));
    ck_assert_int_eq(dlp_cu_result_errno(77777), EIO);
    ck_assert(!dlp_cu_result_lost(77777));
    char text[200];
    ck_assert_int_eq(dlp_cu_result_explain(77777, "cuMemMap", text, sizeof text), -EIO);
    ck_assert_str_eq(text, "cuMemMap: unknown CUDA result (77777): an error of the driver that "
                           "this program does not know");
}
END_TEST

START_TEST(explained_on_one_line)
{
    char text[300];
    ck_assert_int_eq(dlp_cu_result_explain(DLP_CU_OUT_OF_MEMORY, "cuMemCreate", text, sizeof text),
                     -ENOMEM);
    ck_assert_str_eq(text, "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2): the GPU's memory is full");
#define X(code, name, err, fate, cause)                                                            \
    ck_assert_int_eq(dlp_cu_result_explain(code, "cuX", text, sizeof text), -(err));               \
    ck_assert_msg(strlen(text) < sizeof text - 1 && !strchr(text, '\n'), "%s", text);
    DLP_CU_RESULTS(X)
#undef X
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda_result");
    TCase *tcase = tcase_create("table");
    tcase_add_test(tcase, rows);
    tcase_add_test(tcase, unknown);
    tcase_add_test(tcase, explained_on_one_line);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
