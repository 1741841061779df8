/* The name of a job that the caller does not name. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client_parts.h"
#include "proto/frames.h"

static char name[DLP_NAME_MAX + 1], other[DLP_NAME_MAX + 1];

static void setup(void)
{
    static const char *all[] = {"SLURM_JOB_ID",         "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID",
                                "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",      "PMIX_RANK"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        unsetenv(all[i]);
}

/* The name that a child of this process would choose. */
static void name_in_child(int64_t world, char out[DLP_NAME_MAX + 1])
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    if (fork() == 0) {
        job_default(world, out);
        _exit(write(ends[1], out, DLP_NAME_MAX + 1) != DLP_NAME_MAX + 1);
    }
    ck_assert_int_eq(read(ends[0], out, DLP_NAME_MAX + 1), DLP_NAME_MAX + 1);
    wait(NULL);
    close(ends[0]);
    close(ends[1]);
}

START_TEST(slurm)
{
    setenv("SLURM_JOB_ID", "4711", 1);
    setenv("TORCHELASTIC_RUN_ID", "run", 1);
    job_default(8, name);
    ck_assert_str_eq(name, "slurm-4711.batch");
    setenv("SLURM_STEP_ID", "0", 1);
    job_default(DATALOAD_UNSET, name);
    ck_assert_str_eq(name, "slurm-4711.0");
}
END_TEST

START_TEST(torchrun)
{
    setenv("TORCHELASTIC_RUN_ID", "my run/\xc3\xa9", 1);
    job_default(DATALOAD_UNSET, name);
    ck_assert_str_eq(name, "torchrun-my_run/__");
    char run[400];
    memset(run, 'x', sizeof run);
    run[sizeof run - 1] = '\0';
    setenv("TORCHELASTIC_RUN_ID", run, 1);
    job_default(DATALOAD_UNSET, name);
    ck_assert(dlp_name_valid(name));
}
END_TEST

/* Ranks of one launcher agree; "none" is what torchrun says for all runs without an id. */
START_TEST(launcher)
{
    static const char *by[][2] = {{"TORCHELASTIC_RUN_ID", "none"},
                                  {"OMPI_COMM_WORLD_SIZE", "2"},
                                  {"PMI_SIZE", "2"},
                                  {"PMIX_RANK", "0"}};
    char begins[64];
    setenv(by[_i][0], by[_i][1], 1);
    name_in_child(2, name);
    name_in_child(2, other);
    ck_assert_str_eq(name, other);
    snprintf(begins, sizeof begins, "launcher-%d-", (int)getpid());
    ck_assert_int_eq(strncmp(name, begins, strlen(begins)), 0);
    ck_assert_int_gt(atoll(name + strlen(begins)), 0); /* start time */
}
END_TEST

START_TEST(world_alone)
{
    job_default(2, name);
    ck_assert_str_eq(name, "default");
}
END_TEST

START_TEST(unique)
{
    job_default(1, name);
    job_default(DATALOAD_UNSET, other);
    ck_assert_str_eq(name, other);
    ck_assert(dlp_name_valid(name));
    name_in_child(1, other);
    ck_assert_str_ne(name, other);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("job");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, slurm);
    tcase_add_test(tc, torchrun);
    tcase_add_loop_test(tc, launcher, 0, 4);
    tcase_add_test(tc, world_alone);
    tcase_add_test(tc, unique);
    Suite *suite = suite_create("job");
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
