/* The counters file: what the daemon writes is what a reader gets, and nothing else passes. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/heartbeat.h"
#include "proto/counters.h"
#include "scratch.h"

static struct scratch scratch;
static const char *socket_path;
static char path[DLP_COUNTERS_PATH_MAX];
static struct heartbeat *heartbeat;
static struct dlp_counters got;
static struct error err;

static void setup(void)
{
    scratch_make(&scratch);
    socket_path = scratch_file(&scratch, "control.sock", "", 0);
    dlp_counters_path(socket_path, path);
    heartbeat = heartbeat_new(socket_path, &err);
    ck_assert_msg(heartbeat != NULL, "%s", err.text);
}

static void teardown(void)
{
    heartbeat_free(heartbeat);
    dlp_counters_free(&got);
    scratch_remove(&scratch);
}

static Dlp__StatusReply reply_of(unsigned workers)
{
    Dlp__StatusReply reply = DLP__STATUS_REPLY__INIT;
    reply.version = (char *)"1.2.3";
    reply.workers = workers;
    return reply;
}

static void show(unsigned workers)
{
    Dlp__StatusReply reply = reply_of(workers);
    heartbeat_begin(heartbeat);
    ck_assert(heartbeat_add(heartbeat, &reply));
    heartbeat_show(heartbeat, 0);
}

static int read_again(void)
{
    dlp_counters_free(&got);
    return dlp_counters_read(socket_path, &got);
}

/* Overwrites bytes of the file. */
static void spoil(size_t at, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, bytes, size, (off_t)at), (ssize_t)size);
    close(fd);
}

START_TEST(beats_are_read)
{
    ck_assert_int_eq(read_again(), 0);
    ck_assert_uint_eq(got.pid, (unsigned)getpid());
    ck_assert_uint_eq(got.instance, 0);
    ck_assert_ptr_null(got.status);
    uint64_t first = got.beat_ns;
    heartbeat_beat(heartbeat, 4711, 12);
    ck_assert_int_eq(read_again(), 0);
    ck_assert_uint_eq(got.instance, 4711);
    ck_assert_uint_eq(got.stuck_ns, 12);
    ck_assert_uint_ge(got.beat_ns, first);
    ck_assert_uint_gt(got.beat_wall_ns, got.beat_ns);
}
END_TEST

START_TEST(the_last_snapshot_is_read)
{
    for (unsigned i = 1; i <= 5; i++) {
        show(i);
        ck_assert_int_eq(read_again(), 0);
        ck_assert_uint_eq(got.status->workers, i);
        ck_assert_str_eq(got.status->version, "1.2.3");
    }
    /* One that is being made is not seen. */
    Dlp__StatusReply reply = reply_of(6);
    heartbeat_begin(heartbeat);
    heartbeat_add(heartbeat, &reply);
    ck_assert_int_eq(read_again(), 0);
    ck_assert_uint_eq(got.status->workers, 5);
}
END_TEST

START_TEST(parts_become_one)
{
    Dlp__FeedStatus feed = DLP__FEED_STATUS__INIT, *feeds[] = {&feed};
    feed.name = (char *)"train";
    Dlp__StatusReply first = reply_of(2), more = DLP__STATUS_REPLY__INIT;
    more.n_feeds = 1;
    more.feeds = feeds;
    heartbeat_begin(heartbeat);
    ck_assert(heartbeat_add(heartbeat, &first));
    ck_assert(heartbeat_add(heartbeat, &more));
    ck_assert(heartbeat_add(heartbeat, &more));
    heartbeat_show(heartbeat, 0);
    ck_assert_int_eq(read_again(), 0);
    ck_assert_uint_eq(got.status->workers, 2);
    ck_assert_uint_eq(got.status->n_feeds, 2);
    ck_assert_str_eq(got.status->feeds[1]->name, "train");
}
END_TEST

START_TEST(what_finds_no_room_is_left_out)
{
    Dlp__ClientStatus client = DLP__CLIENT_STATUS__INIT, *clients[] = {&client};
    char words[1000];
    memset(words, 'x', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    client.verdict = words;
    Dlp__StatusReply part = DLP__STATUS_REPLY__INIT;
    part.n_clients = 1;
    part.clients = clients;
    uint64_t left_out = 0;
    heartbeat_begin(heartbeat);
    for (int i = 0; i < 1024; i++)
        left_out += !heartbeat_add(heartbeat, &part);
    heartbeat_show(heartbeat, left_out);
    ck_assert_int_eq(read_again(), 0);
    ck_assert_uint_gt(got.status->n_clients, DLP_COUNTERS_ROOM / 1024 - 8);
    ck_assert_uint_eq(got.status->n_clients + got.left_out, 1024);
}
END_TEST

START_TEST(snapshots_take_little_time)
{
    ck_assert(heartbeat_due(heartbeat, UINT64_MAX));
    show(1);
    ck_assert(!heartbeat_due(heartbeat, 0));
    ck_assert(heartbeat_due(heartbeat, UINT64_MAX));
}
END_TEST

START_TEST(torn_ones_are_not_believed)
{
    show(1);
    spoil(DLP_COUNTERS_PAGE + DLP_COUNTERS_ROOM, "\xff", 1);
    ck_assert_int_eq(read_again(), -EAGAIN);
    ck_assert_ptr_null(got.status);
    show(2);
    ck_assert_int_eq(read_again(), 0);
    ck_assert_uint_eq(got.status->workers, 2);
}
END_TEST

START_TEST(other_files_are_not_read)
{
    static const uint32_t other = 99;
    show(1);
    spoil(offsetof(struct dlp_counters_page, version), &other, sizeof other);
    ck_assert_int_eq(read_again(), -EPROTONOSUPPORT);
    spoil(0, "nothing!", 8);
    ck_assert_int_eq(read_again(), -EPROTO);
    ck_assert_int_eq(truncate(path, 100), 0);
    ck_assert_int_eq(read_again(), -EPROTO);
    unlink(path);
    ck_assert_int_eq(read_again(), -ENOENT);
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* nobody writes to it: an open must not wait */
    ck_assert_int_eq(read_again(), -EPROTO);
    unlink(path);
    ck_assert_int_eq(symlink("/dev/zero", path), 0);
    ck_assert_int_eq(read_again(), -ELOOP);
}
END_TEST

START_TEST(a_room_beyond_the_file_is_refused)
{
    uint64_t room = UINT64_MAX / 2;
    show(1);
    spoil(offsetof(struct dlp_counters_page, room), &room, sizeof room);
    ck_assert_int_eq(read_again(), -EPROTO);
}
END_TEST

/* As with a socket of the service manager: root's, in a folder of the daemon's user. */
START_TEST(whose_file_is_believed)
{
    char folder[DLP_COUNTERS_PATH_MAX];
    if (geteuid())
        return;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    ck_assert_int_eq(chown(path, 61001, 61001), 0);
    ck_assert_int_eq(read_again(), -EPERM);
    ck_assert_int_eq(chown(folder, 61001, 61001), 0);
    ck_assert_int_eq(read_again(), 0);
    ck_assert_int_eq(chown(folder, 61002, 61002), 0);
    ck_assert_int_eq(read_again(), -EPERM);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    ck_assert_int_eq(chown(folder, 61001, 61001), 0);
    ck_assert_int_eq(read_again(), -EPERM);
}
END_TEST

START_TEST(who_may_connect_may_read)
{
    struct stat st;
    static const mode_t modes[][2] = {{0600, 0600}, {0660, 0640}, {0666, 0644}};
    for (size_t i = 0; i < 3; i++) {
        heartbeat_free(heartbeat);
        ck_assert_int_eq(chmod(socket_path, modes[i][0]), 0);
        heartbeat = heartbeat_new(socket_path, &err);
        ck_assert_ptr_nonnull(heartbeat);
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_uint_eq(st.st_mode & 0777, modes[i][1]);
        ck_assert_int_eq(st.st_size, DLP_COUNTERS_BYTES);
        ck_assert_int_ge(st.st_blocks * 512, DLP_COUNTERS_BYTES); /* reserved */
    }
}
END_TEST

START_TEST(what_a_dead_one_left_is_replaced)
{
    struct stat old, new;
    ck_assert_int_eq(stat(path, &old), 0);
    struct heartbeat *next = heartbeat_new(socket_path, &err);
    ck_assert_int_eq(stat(path, &new), 0);
    ck_assert_uint_ne(old.st_ino, new.st_ino);
    heartbeat_remove(heartbeat); /* which is not there any more */
    ck_assert_int_eq(stat(path, &new), 0);
    heartbeat_beat(heartbeat, 1, 0); /* goes nowhere */
    heartbeat_free(next);
    ck_assert_int_lt(stat(path, &new), 0);
}
END_TEST

START_TEST(what_is_no_file_is_left_alone)
{
    heartbeat_remove(heartbeat);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_ptr_null(heartbeat_new(socket_path, &err));
    ck_assert_ptr_nonnull(strstr(err.text, path));
    rmdir(path);
    ck_assert_ptr_null(heartbeat_new("/nowhere/control.sock", &err));
    ck_assert_ptr_nonnull(strstr(err.text, "cannot be made"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("heartbeat");
    TCase *tcase = tcase_create("file");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, beats_are_read);
    tcase_add_test(tcase, the_last_snapshot_is_read);
    tcase_add_test(tcase, parts_become_one);
    tcase_add_test(tcase, what_finds_no_room_is_left_out);
    tcase_add_test(tcase, snapshots_take_little_time);
    tcase_add_test(tcase, torn_ones_are_not_believed);
    tcase_add_test(tcase, other_files_are_not_read);
    tcase_add_test(tcase, a_room_beyond_the_file_is_refused);
    tcase_add_test(tcase, whose_file_is_believed);
    tcase_add_test(tcase, who_may_connect_may_read);
    tcase_add_test(tcase, what_a_dead_one_left_is_replaced);
    tcase_add_test(tcase, what_is_no_file_is_left_alone);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
