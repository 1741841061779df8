#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "store/source.h"

static struct scratch scratch;
static struct source source;
static struct error err;

static void set_up(void)
{
    scratch_make(&scratch);
    static const char *const names[] = {"a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar", "b-1.tar",
                                        "b-2.tar",  "B-3.tar",  "x y.tar",  "sub/c.tar"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        scratch_file(&scratch, names[i], names[i], 3);
    ck_assert_int_eq(chdir(scratch.path), 0);
    err = (struct error){0};
}

static void tear_down(void)
{
    source_done(&source);
    ck_assert_int_eq(chdir("/"), 0);
    scratch_remove(&scratch);
}

static const char *expanded(const char *pattern)
{
    static char text[2000];
    text[0] = '\0';
    int rc = source_expand(&pattern, 1, &source, &err);
    ck_assert_msg(rc == 0, "%s", err.text);
    for (size_t i = 0; i < source.count; i++) {
        strcat(text, i ? " " : "");
        strcat(text, source.paths[i]);
    }
    source_done(&source);
    return text;
}

static void refused(const char *pattern, int code, const char *word)
{
    int rc = source_expand(&pattern, 1, &source, &err);
    ck_assert_msg(rc == code, "%s: %d %s", pattern, rc, err.text);
    ck_assert_int_eq(err.code, code);
    ck_assert_msg(strstr(err.text, word) != NULL, "%s", err.text);
    ck_assert_uint_eq(source.count, 0);
}

START_TEST(plain_paths_and_lists)
{
    ck_assert_str_eq(expanded("b-1.tar"), "b-1.tar");
    ck_assert_str_eq(expanded("x y.tar"), "x y.tar");
    ck_assert_str_eq(expanded("b-2.tar::b-1.tar"), "b-2.tar b-1.tar");
    ck_assert_str_eq(expanded("sub/*.tar::{b,B}-*.tar"), "sub/c.tar b-1.tar b-2.tar B-3.tar");
}
END_TEST

START_TEST(ranges)
{
    ck_assert_str_eq(expanded("a-{08..11}.tar"), "a-08.tar a-09.tar a-10.tar a-11.tar");
    ck_assert_str_eq(expanded("b-{1..2}.tar"), "b-1.tar b-2.tar");
}
END_TEST

/* What is there under that very name is meant. */
START_TEST(braces_in_a_name)
{
    const char *const names[] = {"{1..2}.tar", "odd}.tar", "{b,B}-x.tar"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        scratch_file(&scratch, names[i], "x", 1);
        ck_assert_str_eq(expanded(names[i]), names[i]);
        unlink(names[i]);
    }
    refused("{1..2}.tar", -ENOENT, "1.tar");
}
END_TEST

START_TEST(globs_are_sorted_bytewise)
{
    ck_assert_str_eq(expanded("?-*.tar"),
                     "B-3.tar a-08.tar a-09.tar a-10.tar a-11.tar b-1.tar b-2.tar");
    ck_assert_str_eq(expanded("a-{1,0}[01899].tar"), "a-10.tar a-11.tar a-08.tar a-09.tar");
}
END_TEST

START_TEST(several_pairs)
{
    ck_assert_str_eq(expanded("{a,a}-{08..09}.tar"), "a-08.tar a-09.tar a-08.tar a-09.tar");
    ck_assert_str_eq(expanded("{sub/c,b-2}.tar"), "sub/c.tar b-2.tar");
}
END_TEST

START_TEST(what_is_missing_is_named)
{
    refused("a-{08..12}.tar", -ENOENT, "a-12.tar");
    refused("a-{08..12}.tar", -ENOENT, "{08..12}");
    refused("nothing.tar", -ENOENT, "nothing.tar");
    refused("nothing-*.tar", -ENOENT, "nothing-*.tar");
    refused("b-1.tar::nothing-*.tar", -ENOENT, "nothing-*.tar");
    refused("b-1.tar/x.tar", -ENOTDIR, "b-1.tar/x.tar");
}
END_TEST

START_TEST(patterns_that_make_no_sense)
{
    refused("", -EINVAL, "empty");
    refused("b-1.tar::", -EINVAL, "empty");
    refused("b-1.tar::::b-2.tar", -EINVAL, "empty");
    refused("a-{08..11.tar", -EINVAL, "braces");
    refused("a-{0{1..2}..3}.tar", -EINVAL, "braces");
    refused("a-{11..08}.tar", -EINVAL, "{11..08}");
    refused("a-{a..c}.tar", -EINVAL, "{a..c}");
    refused("a-{..}.tar", -EINVAL, "{..}");
    refused("a-{0..99999999999999999999}.tar", -EINVAL, "range");
    refused("a-{0..999999999}.tar", -EINVAL, "range");
    refused("{1,1}{1,1}{1,1}{1,1}{1,1}{1,1}{1,1}{1,1}{1,1}", -EINVAL, "too many");
}
END_TEST

START_TEST(unreadable_directory)
{
    bool root = geteuid() == 0; /* who reads all */
    ck_assert_int_eq(chmod(scratch.path, 0755), 0);
    ck_assert_int_eq(chmod("sub", 0), 0);
    ck_assert(!root || seteuid(65534) == 0);
    refused("sub/*.tar", -EACCES, "sub");
    refused("sub/c.tar", -EACCES, "sub/c.tar");
    ck_assert(!root || seteuid(0) == 0);
    ck_assert_int_eq(chmod("sub", 0755), 0);
}
END_TEST

START_TEST(listed_twice_is_noted)
{
    const char *const patterns[] = {"b-1.tar", "a-08.tar", "./b-1.tar", "a-08.tar"};
    ck_assert_int_eq(source_expand(patterns, 2, &source, &err), 0);
    ck_assert_uint_eq(source.nnotes, 0);
    source_done(&source);
    ck_assert_int_eq(source_expand(patterns, 4, &source, &err), 0);
    ck_assert_uint_eq(source.count, 4);
    ck_assert_uint_eq(source.nnotes, 2);
    bool other_path = strstr(source.notes[0], "./b-1.tar") || strstr(source.notes[1], "./b-1.tar");
    ck_assert(other_path);
    ck_assert_ptr_nonnull(strstr(source.notes[0], "twice"));
}
END_TEST

START_TEST(many_repeats_are_summed_up)
{
    const char *pattern = "{b,b,b,b,b,b}-{1,1,1,1,1,1}.tar";
    ck_assert_int_eq(source_expand(&pattern, 1, &source, &err), 0);
    ck_assert_uint_eq(source.count, 36);
    ck_assert_uint_eq(source.nnotes, 11);
    ck_assert_ptr_nonnull(strstr(source.notes[10], "35"));
}
END_TEST

START_TEST(no_patterns)
{
    ck_assert_int_eq(source_expand(NULL, 0, &source, &err), -EINVAL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("source");
    TCase *tests = tcase_create("source");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, plain_paths_and_lists);
    tcase_add_test(tests, ranges);
    tcase_add_test(tests, braces_in_a_name);
    tcase_add_test(tests, globs_are_sorted_bytewise);
    tcase_add_test(tests, several_pairs);
    tcase_add_test(tests, what_is_missing_is_named);
    tcase_add_test(tests, patterns_that_make_no_sense);
    tcase_add_test(tests, unreadable_directory);
    tcase_add_test(tests, listed_twice_is_noted);
    tcase_add_test(tests, many_repeats_are_summed_up);
    tcase_add_test(tests, no_patterns);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
