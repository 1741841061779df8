/* The program itself: what it says about a command line, and with which exit status. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define PROGRAM BINARY_DIR "/client/dataloadctl"

static char said[16384];

/* Runs the program; both streams go to `said`. */
static int run(const char *arguments)
{
    char command[1024];
    snprintf(command, sizeof(command), "%s %s 2>&1", PROGRAM, arguments);
    FILE *pipe = popen(command, "re");
    ck_assert_ptr_nonnull(pipe);
    size_t size = fread(said, 1, sizeof(said) - 1, pipe);
    said[size] = 0;
    int status = pclose(pipe);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const struct {
    const char *arguments, *said;
} wrong[] = {
    {"frobnicate", "no verb 'frobnicate'"},
    {"ping again", "ping takes no argument 'again'"},
    {"ping --world 2", "ping has no option --world"},
    {"status --out x", "status has no option --out"},
    {"slices train", "slices needs --world"},
    {"slices --world 2", "slices needs the name of a feed"},
    {"show train", "show needs --out"},
    {"show 'a b' --out x", "a feed's name has"},
    {"bench train --world 0", "--world=0: give a whole number from 1 to 65536"},
    {"bench train --world 1e3", "--world=1e3"},
    {"bench train --batch 99999999999999999999", "--batch="},
    {"bench train --seconds nan", "--seconds=nan"},
    {"bench train --seconds 3 --epochs 2", "not both"},
    {"status --watch=0", "--watch=0"},
    {"mix", "mix needs the name of a feed"},
    {"mix train --step 1", "mix has no option --step"},
    {"batch train", "batch needs --step"},
    {"batch train --step -1", "--step=-1"},
    {"batch train --step 1 --world 2 --out x", "needs --rank"},
    {"show train --out x --count 65537", "show takes 1 to 65536 images"},
    {"mix train --seed 1 --token {}", "not both"},
    {"slices train --world 2 --rank 1", "slices has no option --rank"},
    {"replay", "replay needs the name of a job"},
    {"replay j --batches 3 --seconds 2", "give --batches or --seconds, not both"},
    {"measure j --step 3", "measure has no option --step"},
    {"find train", "find needs the key of a record"},
    {"find train key again", "find takes no argument 'again'"},
    {"status --nonsense", "unrecognized option"},
};

START_TEST(wrong_lines_are_usage_errors)
{
    ck_assert_int_eq(run(wrong[_i].arguments), 64);
    ck_assert_msg(strstr(said, wrong[_i].said) != NULL, "'%s' is not in: %s", wrong[_i].said, said);
}
END_TEST

START_TEST(help)
{
    static const char *const forms[] = {"--help", "-h", "-?", "ping --help"};
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
        ck_assert_int_eq(run(forms[i]), 0);
        ck_assert_ptr_nonnull(strstr(said, "Usage: dataloadctl"));
        ck_assert_ptr_nonnull(strstr(said, "Exit status: 0 fine, 3 not running"));
    }
}
END_TEST

START_TEST(version)
{
    ck_assert_int_eq(run("--version"), 0);
    ck_assert_str_eq(said, "dataloadctl " DATALOADD_VERSION "\n");
    ck_assert_int_eq(run("version"), 0);
    ck_assert_ptr_eq(strstr(said, "dataloadctl " DATALOADD_VERSION ", protocol 1"), said);
    ck_assert_int_eq(run("version --json"), 0);
    ck_assert_ptr_nonnull(strstr(said, "\"schema_version\": 1"));
}
END_TEST

/* The manual and --help name the same options. */
START_TEST(manual_has_all_options)
{
    static char manual[65536];
    FILE *file = fopen(SOURCE_DIR "/docs/dataloadctl.1", "r");
    ck_assert_ptr_nonnull(file);
    manual[fread(manual, 1, sizeof(manual) - 1, file)] = 0;
    fclose(file);
    ck_assert_int_eq(run("--help"), 0);
    int options = 0;
    for (const char *at = strstr(said, " --"); at; at = strstr(at + 1, " --")) {
        char name[64], macro[80];
        ck_assert_int_eq(sscanf(at, " --%63[a-z-]", name), 1);
        snprintf(macro, sizeof(macro), "Fl -%s", name);
        if (strcmp(name, "usage") == 0)
            continue;
        ck_assert_msg(strstr(manual, macro) != NULL, "--%s is not in the manual", name);
        options++;
    }
    ck_assert_int_ge(options, 12);
}
END_TEST

static const char *const verbs[] = {"",
                                    "status",
                                    "ping",
                                    "feeds",
                                    "slices x --world 1",
                                    "bad x",
                                    "token x --step 1",
                                    "mix x",
                                    "batch x --step 1",
                                    "find x y",
                                    "gpu",
                                    "bench x --json",
                                    "show x --out /tmp/no.png"};

START_TEST(no_daemon_is_3)
{
    char line[256];
    snprintf(line, sizeof(line), "%s --socket /nowhere/at/all.sock", verbs[_i]);
    ck_assert_int_eq(run(line), 3);
    ck_assert_ptr_nonnull(strstr(said, "/nowhere/at/all.sock"));
}
END_TEST

/* A closed or full output is no success. */
START_TEST(output_is_checked)
{
    ck_assert_int_eq(run("version > /dev/full"), 69);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ctl_verbs");
    TCase *tcase = tcase_create("lines");
    tcase_add_loop_test(tcase, wrong_lines_are_usage_errors, 0, sizeof(wrong) / sizeof(*wrong));
    tcase_add_test(tcase, help);
    tcase_add_test(tcase, version);
    tcase_add_test(tcase, manual_has_all_options);
    tcase_add_loop_test(tcase, no_daemon_is_3, 0, sizeof(verbs) / sizeof(*verbs));
    tcase_add_test(tcase, output_is_checked);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
