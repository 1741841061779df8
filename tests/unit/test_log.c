#include "base/log.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bad.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/journal.h"

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

START_TEST(lines_of_one_place_are_limited_and_counted)
{
    struct log_site site = {.file = "here", .function = "test"};
    for (int i = 0; i < 25; i++)
        log_line(&site, LOG_INFO, log_about(LOG_NO_ID), "again %d", i);
    ck_assert_uint_eq(count_lines(written(), "info: again"), 10);
    log_info("another site");
    ck_assert_uint_eq(count_lines(written(), "another site"), 1);
    log_tick();
    ck_assert_uint_eq(count_lines(written(), "left out"), 0); /* its time has not come */
    log_flush();
    ck_assert_ptr_nonnull(
        strstr(written(), "info: 15 lines like this one left out in 0 s: again 10\n"));
    log_flush();
    ck_assert_uint_eq(count_lines(written(), "left out"), 1);
}
END_TEST

START_TEST(the_same_line_is_printed_once_and_counted)
{
    struct log_site site = {.file = "here", .function = "test"};
    for (int i = 0; i < 101; i++)
        log_line(&site, LOG_WARNING, log_about(LOG_NO_ID), "the same");
    log_warning("the same"); /* of another place */
    ck_assert_uint_eq(count_lines(written(), "warning: the same\n"), 2);
    log_flush();
    ck_assert_ptr_nonnull(strstr(written(), "warning: 100 times more in 0 s: the same\n"));
    log_flush();
    ck_assert_uint_eq(count_lines(written(), "\n"), 3);
}
END_TEST

START_TEST(lines_that_all_count)
{
    for (int i = 0; i < 1200; i++)
        log_each(log_about(LOG_NO_ID), "one %d", i);
    ck_assert_uint_eq(count_lines(written(), "info: one"), 1000);
}
END_TEST

static void account(unsigned times)
{
    const struct log_figure figures[] = {{"BATCHES", "7"}, {"SECONDS", "0.500"}};
    struct log_about about = {.id = LOG_DETACHED,
                              .client = 12,
                              .uid = 0,
                              .user = "root",
                              .feed = "feed",
                              .job = "slurm-5.0",
                              .reason = "process\nended",
                              .figures = figures,
                              .nfigures = 2};
    for (unsigned i = 0; i < times; i++)
        log_event(LOG_INFO, &about, "trainer has left");
}

START_TEST(accounts_are_lines_of_their_own_and_never_left_out)
{
    account(50);
    ck_assert_uint_eq(count_lines(written(), "info: trainer has left\n"), 50);
    ck_assert_uint_eq(
        count_lines(written(),
                    "info: account client=12 uid=0 user=root feed=feed job=slurm-5.0 rank=0 "
                    "reason=process\\x0aended batches=7 seconds=0.500\n"),
        50);
    log_flush();
    ck_assert_uint_eq(count_lines(written(), "\n"), 100);
}
END_TEST

/* ------- the journal ------- */

static int journal;
static char journal_path[64];

static void setup_journal(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    setup();
    set_stream(0);
    snprintf(journal_path, sizeof journal_path, "/tmp/test_log-%d", (int)getpid());
    snprintf(address.sun_path, sizeof address.sun_path, "%s", journal_path);
    journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(journal, (struct sockaddr *)&address, sizeof address), 0);
    journal_open(journal_path);
}

static void teardown_journal(void)
{
    close(journal);
    unlink(journal_path);
    teardown();
}

/* The next entry; "" = there is none. */
static const char *entry(void)
{
    static char text[1 << 16];
    ssize_t length = recv(journal, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return text;
}

static bool has_field(const char *text, const char *field)
{
    size_t length = strlen(field);
    for (const char *line = text; line && *line; line = strchr(line, '\n') + 1)
        if (strncmp(line, field, length) == 0 && line[length] == '\n')
            return true;
    return false;
}

START_TEST(entries_have_fields)
{
    log_event(LOG_WARNING,
              log_about(LOG_BAD_SAMPLE, .feed = "feed", .job = "job", .rank = 3, .shard = "/a b",
                        .key = "0001"),
              "record %d is bad", 1);
    const char *got = entry();
    ck_assert(has_field(got, "MESSAGE=record 1 is bad"));
    ck_assert(has_field(got, "PRIORITY=4"));
    ck_assert(has_field(got, "SYSLOG_IDENTIFIER=test_log"));
    ck_assert(has_field(got, "MESSAGE_ID=de651c032a30437da612af5184064c6b"));
    ck_assert(has_field(got, "CODE_FUNC=entries_have_fields_fn"));
    ck_assert(has_field(got, "DATALOADD_FEED=feed"));
    ck_assert(has_field(got, "DATALOADD_JOB=job"));
    ck_assert(has_field(got, "DATALOADD_RANK=3"));
    ck_assert(has_field(got, "DATALOADD_SHARD=/a b"));
    ck_assert(has_field(got, "DATALOADD_KEY=0001"));
    ck_assert_ptr_null(strstr(got, "DATALOADD_UID"));
    ck_assert_str_eq(written(), ""); /* nothing on stderr besides */
    account(1);
    got = entry();
    ck_assert(has_field(got, "MESSAGE=trainer has left"));
    ck_assert(has_field(got, "DATALOADD_CLIENT=12"));
    ck_assert(has_field(got, "DATALOADD_UID=0"));
    ck_assert(has_field(got, "DATALOADD_BATCHES=7"));
    ck_assert_str_eq(entry(), "");
}
END_TEST

START_TEST(peers_forge_no_fields)
{
    log_event(LOG_NOTICE, log_about(LOG_REFUSED, .client = 1, .user = "a\nPRIORITY=0\nX=y"), "%s",
              "b\nMESSAGE_ID=00000000000000000000000000000000");
    const char *got = entry();
    ck_assert(has_field(got, "MESSAGE=b\\x0aMESSAGE_ID=00000000000000000000000000000000"));
    ck_assert(has_field(got, "DATALOADD_USER=a\\x0aPRIORITY=0\\x0aX=y"));
    ck_assert(!has_field(got, "PRIORITY=0"));
    ck_assert_uint_eq(count_lines(got, "\nMESSAGE_ID="), 1);
}
END_TEST

START_TEST(long_fields_are_cut)
{
    char text[5000];
    memset(text, '\n', sizeof text);
    text[sizeof text - 1] = '\0';
    log_event(LOG_INFO, log_about(LOG_NO_ID, .shard = text, .key = text), "%s", text);
    const char *got = entry();
    ck_assert_uint_le(strlen(got), JOURNAL_ENTRY_MAX);
    ck_assert_uint_gt(strlen(got), 3000);
    ck_assert_int_eq(got[strlen(got) - 1], '\n');
    ck_assert(has_field(got, "PRIORITY=6"));
}
END_TEST

START_TEST(without_journald_lines_have_the_prefix)
{
    unlink(journal_path);
    log_event(LOG_WARNING, log_about(LOG_DRAIN), "draining");
    account(1);
    ck_assert_ptr_nonnull(
        strstr(written(), "<4>draining\n<6>trainer has left\n<6>account client=12"));
}
END_TEST

/* journald hangs, and so does its other end of stderr: nobody waits. */
START_TEST(a_journal_that_does_not_read_is_not_waited_for)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    dup2(pair[0], STDERR_FILENO);
    close(pair[0]);
    uint64_t begin = clock_ns();
    for (int i = 0; i < 100000; i++) {
        struct log_site site = {.file = "here", .function = "test"};
        log_line(&site, LOG_INFO, log_about(LOG_NO_ID), "line %d", i);
    }
    ck_assert_uint_lt(clock_ns() - begin, 60 * CLOCK_SECOND);
    unsigned told = 0, lost = 0;
    while (*entry())
        told++;
    ck_assert_uint_gt(told, 0);
    log_info("it reads again");
    const char *got = entry();
    ck_assert_int_eq(sscanf(got, "MESSAGE=%u lines of the log are lost", &lost), 1);
    ck_assert(has_field(entry(), "MESSAGE=it reads again"));
    ck_assert_uint_gt(lost, 0);
    char buffer[1 << 16];
    ssize_t length;
    unsigned lines = 0;
    while ((length = recv(pair[1], buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
        for (ssize_t i = 0; i < length; i++)
            lines += buffer[i] == '\n';
    ck_assert_uint_eq(told + lines + lost, 100000);
    close(pair[1]);
}
END_TEST

static void *log_many(void *context)
{
    for (int i = 0; i < 1000; i++) {
        struct log_site site = {.most = UINT_MAX};
        log_line(&site, LOG_INFO, log_about(LOG_NO_ID), "%d %s", i, (const char *)context);
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
    snprintf(ends, sizeof ends, " %s\n", first);
    ck_assert_uint_eq(count_lines(written(), ends), 1000);
    snprintf(ends, sizeof ends, " %s\n", second);
    ck_assert_uint_eq(count_lines(written(), "info: "), 2000);
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
    tcase_add_test(log, lines_of_one_place_are_limited_and_counted);
    tcase_add_test(log, the_same_line_is_printed_once_and_counted);
    tcase_add_test(log, accounts_are_lines_of_their_own_and_never_left_out);
    tcase_add_test(log, lines_that_all_count);
    tcase_add_test(log, threads_do_not_mix_lines);
    suite_add_tcase(suite, log);
    TCase *entries = tcase_create("journal");
    tcase_add_checked_fixture(entries, setup_journal, teardown_journal);
    tcase_add_test(entries, entries_have_fields);
    tcase_add_test(entries, peers_forge_no_fields);
    tcase_add_test(entries, long_fields_are_cut);
    tcase_add_test(entries, without_journald_lines_have_the_prefix);
    tcase_add_test(entries, a_journal_that_does_not_read_is_not_waited_for);
    suite_add_tcase(suite, entries);
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
