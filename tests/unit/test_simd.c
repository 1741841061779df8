/* image/simd.c: the environment lowers the level, and never raises it. Each test is a process. */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "image/simd.h"

static const struct {
    const char *text;
    enum simd most;
} words[] = {
    {"none", SIMD_NONE},     {"sse4", SIMD_SSE4},   {"avx2", SIMD_AVX2},
    {"avx512", SIMD_AVX512}, {"AVX2", SIMD_AVX512}, {"", SIMD_AVX512}, /* the last two: unknown */
};

/* What the kernel says of the processor. */
static bool has(const char *flag)
{
    char command[64];
    snprintf(command, sizeof command, "grep -qw %s /proc/cpuinfo", flag);
    return system(command) == 0;
}

static enum simd level_of_machine(void)
{
    bool avx512 = has("avx512bw") && has("avx512vl") && has("avx512vbmi") && has("avx512_vnni");
    if (has("avx2") && has("fma") && has("f16c"))
        return avx512 ? SIMD_AVX512 : SIMD_AVX2;
    return has("sse4_1") ? SIMD_SSE4 : SIMD_NONE;
}

START_TEST(never_more_than_is_asked_for_or_there)
{
    enum simd machine = level_of_machine();
    setenv("DATALOADD_SIMD", words[_i].text, 1);
    ck_assert_int_eq(simd_level(), words[_i].most < machine ? words[_i].most : machine);
    setenv("DATALOADD_SIMD", "none", 1); /* read once */
    ck_assert_int_eq(simd_level(), words[_i].most < machine ? words[_i].most : machine);
}
END_TEST

START_TEST(the_best_where_nothing_is_said)
{
    unsetenv("DATALOADD_SIMD");
    ck_assert_int_eq(simd_level(), level_of_machine());
    ck_assert_str_eq(simd_name(SIMD_NONE), "none");
    ck_assert_str_eq(simd_name(SIMD_AVX512), "avx512");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("simd");
    tcase_add_loop_test(tests, never_more_than_is_asked_for_or_there, 0,
                        sizeof words / sizeof *words);
    tcase_add_test(tests, the_best_where_nothing_is_said);
    Suite *suite = suite_create("simd");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
