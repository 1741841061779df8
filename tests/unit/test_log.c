#include "base/log.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bad.h"
#include "base/clock.h"
#include "base/error.h"

/* What the log writes goes into a memory file in place of stderr. */
static int real_stderr;

static void setup(void)
{
    int fd = memfd_create("stderr", MFD_CLOEXEC);
    fcntl(fd, F_SETFL, O_APPEND); /* a memory file's place is not safe among threads */
    real_stderr = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
    unsetenv("JOURNAL_STREAM");
    log_start(LOG_INFO);
}

static void teardown(void)
{
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
}

static const char *written(void)
{
    static char text[1 << 20];
    ssize_t length = pread(STDERR_FILENO, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return text;
}

static unsigned count_lines(const char *text, const char *part)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        count++;
    return count;
}

START_TEST(plain_lines_have_time_and_level)
{
    log_warning("shard %d is gone", 7);
    int year, month, day, hour, minute, second, ms, end = 0;
    ck_assert_int_eq(sscanf(written(), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ warning: shard 7 is gone\n%n",
                            &year, &month, &day, &hour, &minute, &second, &ms, &end),
                     7);
    ck_assert_uint_eq((unsigned)end, strlen(written()));
}
END_TEST

START_TEST(level_hides)
{
    log_debug("hidden");
    ck_assert_str_eq(written(), "");
    log_start(LOG_DEBUG);
    log_debug("shown");
    ck_assert_ptr_nonnull(strstr(written(), " debug: shown\n"));
}
END_TEST

static void set_stream(unsigned long long inode_offset)
{
    struct stat status;
    char name[64];
    fstat(STDERR_FILENO, &status);
    snprintf(name, sizeof name, "%llu:%llu", (unsigned long long)status.st_dev,
             (unsigned long long)status.st_ino + inode_offset);
    setenv("JOURNAL_STREAM", name, 1);
    log_start(LOG_INFO);
}

START_TEST(journal_prefix_for_our_stream)
{
    set_stream(0);
    log_error("broken");
    ck_assert_str_eq(written(), "<3>broken\n");
}
END_TEST

START_TEST(no_journal_prefix_for_another_stream)
{
    set_stream(1);
    log_error("broken");
    ck_assert_ptr_nonnull(strstr(written(), "Z error: broken\n"));
}
END_TEST

START_TEST(one_line_whatever_is_in_it)
{
    log_info("%s", "a\nb\rc\x1b[31md\x7f");
    ck_assert_ptr_nonnull(strstr(written(), "info: a\\x0ab\\x0dc\\x1b[31md\\x7f\n"));
    ck_assert_uint_eq(count_lines(written(), "\n"), 1);
}
END_TEST

START_TEST(long_lines_are_cut_and_ended)
{
    char text[5000];
    memset(text, '\n', sizeof text); /* the longest when escaped */
    text[sizeof text - 1] = '\0';
    log_info("%s", text);
    ck_assert_uint_le(strlen(written()), 2048);
    ck_assert_uint_ge(strlen(written()), 2000);
    ck_assert_int_eq(written()[strlen(written()) - 1], '\n');
}
END_TEST

START_TEST(repeated_lines_are_limited_and_counted)
{
    struct log_site site = {0};
    for (int i = 0; i < 25; i++)
        log_line(&site, LOG_INFO, "again");
    ck_assert_uint_eq(count_lines(written(), "again"), 10);
    log_info("another site");
    ck_assert_uint_eq(count_lines(written(), "another site"), 1);
    site.window -= 5; /* the window is over */
    log_line(&site, LOG_INFO, "again");
    ck_assert_uint_eq(count_lines(written(), "15 lines like the next one left out"), 1);
    ck_assert_uint_eq(count_lines(written(), "info: again"), 11);
}
END_TEST

START_TEST(lines_that_all_count)
{
    for (int i = 0; i < 1200; i++)
        log_each("one");
    ck_assert_uint_eq(count_lines(written(), "info: one"), 1000);
}
END_TEST

static void *log_many(void *context)
{
    for (int i = 0; i < 1000; i++) {
        struct log_site site = {0};
        log_line(&site, LOG_INFO, "%s", (const char *)context);
    }
    return NULL;
}

START_TEST(threads_do_not_mix_lines)
{
    pthread_t a, b;
    char first[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         second[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    char ends[64];
    pthread_create(&a, NULL, log_many, first);
    pthread_create(&b, NULL, log_many, second);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    snprintf(ends, sizeof ends, "info: %s\n", first);
    ck_assert_uint_eq(count_lines(written(), ends), 1000);
    snprintf(ends, sizeof ends, "info: %s\n", second);
    ck_assert_uint_eq(count_lines(written(), ends), 1000);
}
END_TEST

START_TEST(errors_carry_code_and_prefix)
{
    struct error err = {0};
    ck_assert_int_eq(error_set(&err, -ENOENT, "no %s", "file"), -ENOENT);
    ck_assert_int_eq(error_prefix(&err, "feed %d", 3), -ENOENT);
    ck_assert_str_eq(err.text, "feed 3: no file");
    ck_assert_int_eq(err.code, -ENOENT);
    error_set(&err, -EIO, "%s, twice", err.text);
    ck_assert_str_eq(err.text, "feed 3: no file, twice");
    ck_assert_int_eq(error_set(NULL, -EIO, "nobody asks"), -EIO);
}
END_TEST

START_TEST(long_errors_are_cut)
{
    struct error err = {0};
    char text[3000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    error_set(&err, -EIO, "%s", text);
    error_prefix(&err, "%s", "where");
    error_prefix(&err, "%s", text);
    ck_assert_uint_eq(strlen(err.text), ERROR_TEXT_MAX - 1);
    ck_assert_int_eq(err.text[0], 'x');
}
END_TEST

START_TEST(classes_have_names)
{
    ck_assert_str_eq(bad_name(BAD_NONE), "OK");
    ck_assert_str_eq(bad_name(BAD_READ), "BAD-READ");
    ck_assert_str_eq(bad_text(BAD_EMPTY), "no bytes");
    ck_assert_str_eq(bad_name(BAD_CLASSES_COUNT), "unknown");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *log = tcase_create("lines");
    tcase_add_checked_fixture(log, setup, teardown);
    tcase_add_test(log, plain_lines_have_time_and_level);
    tcase_add_test(log, level_hides);
    tcase_add_test(log, journal_prefix_for_our_stream);
    tcase_add_test(log, no_journal_prefix_for_another_stream);
    tcase_add_test(log, one_line_whatever_is_in_it);
    tcase_add_test(log, long_lines_are_cut_and_ended);
    tcase_add_test(log, repeated_lines_are_limited_and_counted);
    tcase_add_test(log, lines_that_all_count);
    tcase_add_test(log, threads_do_not_mix_lines);
    suite_add_tcase(suite, log);
    TCase *texts = tcase_create("texts");
    tcase_add_test(texts, errors_carry_code_and_prefix);
    tcase_add_test(texts, long_errors_are_cut);
    tcase_add_test(texts, classes_have_names);
    suite_add_tcase(suite, texts);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
