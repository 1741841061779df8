/* store/exclude.c: files of keys. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/exclude.h"

static char path[] = "/tmp/exclude-XXXXXX";

static void write_text(const char *text, size_t size)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

static struct exclude *read_text(const char *text)
{
    struct exclude *exclude = NULL;
    struct error err;
    write_text(text, strlen(text));
    ck_assert_msg(exclude_read(path, &exclude, &err) == 0, "%s", err.text);
    return exclude;
}

START_TEST(keys_are_whole_lines)
{
    const char *first;
    struct exclude *exclude = read_text("\n\nb\na key\nb\nä/1.jpg\n\r\nlast");
    ck_assert_uint_eq(exclude_keys(exclude), 5);
    ck_assert(exclude_has(exclude, "a key"));
    ck_assert(exclude_has(exclude, "last"));
    ck_assert(exclude_has(exclude, "ä/1.jpg"));
    ck_assert(!exclude_has(exclude, "a"));
    ck_assert(!exclude_has(exclude, ""));
    ck_assert(!exclude_has(exclude, "lastly"));
    ck_assert_uint_eq(exclude_unmet(exclude, &first), 2);
    ck_assert_str_eq(first, "\r");
    ck_assert(exclude_has(exclude, "\r"));
    ck_assert(exclude_has(exclude, "b"));
    ck_assert_uint_eq(exclude_unmet(exclude, &first), 0);
    ck_assert_ptr_null(first);
    exclude_free(exclude);
}
END_TEST

START_TEST(an_empty_file_names_nothing)
{
    const char *first;
    struct exclude *exclude = read_text("");
    ck_assert_uint_eq(exclude_keys(exclude), 0);
    ck_assert(!exclude_has(exclude, "a"));
    ck_assert_uint_eq(exclude_unmet(exclude, &first), 0);
    exclude_free(exclude);
    exclude = read_text("\n\n\n");
    ck_assert_uint_eq(exclude_keys(exclude), 0);
    exclude_free(exclude);
}
END_TEST

START_TEST(a_change_is_noticed)
{
    struct exclude *exclude = read_text("a\n");
    struct exclude_stamp stamp = exclude_stamp(exclude);
    exclude_free(exclude);
    ck_assert(exclude_current(path, &stamp));
    usleep(20000); /* a clock of files ticks each few milliseconds */
    write_text("b\n", 2);
    ck_assert(!exclude_current(path, &stamp));
    unlink(path);
    ck_assert(!exclude_current(path, &stamp));
}
END_TEST

static void check_refused(const char *name, int code, const char *says)
{
    struct exclude *exclude = NULL;
    struct error err;
    ck_assert_int_eq(exclude_read(name, &exclude, &err), code);
    ck_assert_ptr_null(exclude);
    ck_assert_ptr_nonnull(strstr(err.text, name));
    ck_assert_ptr_nonnull(strstr(err.text, says));
}

START_TEST(what_is_no_list_is_refused)
{
    check_refused("/nowhere/list", -ENOENT, "No such file");
    check_refused("/tmp", -EINVAL, "not a regular file");
    check_refused("/dev/null", -EINVAL, "not a regular file");
    write_text("a\0b\n", 4);
    check_refused(path, -EINVAL, "NUL byte");
    ck_assert_int_eq(truncate(path, (off_t)EXCLUDE_FILE_MAX + 1), 0);
    check_refused(path, -EINVAL, "1 GiB");
}
END_TEST

int main(void)
{
    close(mkstemp(path));
    Suite *suite = suite_create("exclude");
    TCase *tests = tcase_create("exclude");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, keys_are_whole_lines);
    tcase_add_test(tests, an_empty_file_names_nothing);
    tcase_add_test(tests, a_change_is_noticed);
    tcase_add_test(tests, what_is_no_list_is_refused);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    unlink(path);
    return failed != 0;
}
