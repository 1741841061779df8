/* control/listen.c: stale, living and foreign files at the path, its length, mode, races. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/listen.h"

static char folder[64], path[108];
static struct error err;
static struct listener *listener;

static void setup(void)
{
    strcpy(folder, "/tmp/listen-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/control.sock", folder);
    listener = NULL;
    memset(&err, 0, sizeof err);
}

static void teardown(void)
{
    char command[128];
    listen_close(listener);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static int connect_to(const char *to)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    strcpy(addr.sun_path, to);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0 ? -errno : 0;
    close(fd);
    return rc;
}

static int open_at(const char *to)
{
    return listen_open(to, 0660, &listener, &err);
}

START_TEST(opens_with_its_mode_and_closes_without_trace)
{
    struct stat st;
    mode_t before = umask(022);
    ck_assert_int_eq(open_at(path), 0);
    ck_assert_uint_eq(umask(before), 022); /* put back */
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert(S_ISSOCK(st.st_mode));
    ck_assert_uint_eq(st.st_mode & 0777, 0660);
    ck_assert_int_eq(connect_to(path), 0);
    listen_close(listener);
    listener = NULL;
    ck_assert_int_eq(lstat(path, &st), -1);
    ck_assert_int_eq(listen_open(path, 0600, &listener, &err), 0);
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
}
END_TEST

START_TEST(stale_socket_is_replaced)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    strcpy(addr.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    close(fd); /* as a killed daemon leaves it */
    ck_assert_int_eq(connect_to(path), -ECONNREFUSED);
    ck_assert_int_eq(open_at(path), 0);
    ck_assert_int_eq(connect_to(path), 0);
}
END_TEST

START_TEST(living_daemon_keeps_its_socket)
{
    char pid[32];
    struct listener *second = NULL;
    ck_assert_int_eq(open_at(path), 0);
    ck_assert_int_eq(listen_open(path, 0660, &second, &err), -EADDRINUSE);
    snprintf(pid, sizeof pid, "pid %d", (int)getpid());
    ck_assert_msg(strstr(err.text, "running") && strstr(err.text, pid), "%s", err.text);
    ck_assert_ptr_null(second);
    ck_assert_int_eq(connect_to(path), 0);
}
END_TEST

START_TEST(other_files_are_left_alone)
{
    struct stat before, after;
    close(open(path, O_CREAT | O_WRONLY, 0600));
    ck_assert_int_eq(lstat(path, &before), 0);
    ck_assert_int_eq(open_at(path), -EEXIST);
    ck_assert_msg(strstr(err.text, path) && strstr(err.text, "no socket"), "%s", err.text);
    ck_assert_int_eq(lstat(path, &after), 0);
    ck_assert_uint_eq(before.st_ino, after.st_ino);
    unlink(path);
    ck_assert_int_eq(symlink("/nowhere", path), 0);
    ck_assert_int_eq(open_at(path), -EEXIST);
    ck_assert_int_eq(lstat(path, &after), 0);
    ck_assert(S_ISLNK(after.st_mode));
}
END_TEST

START_TEST(length_of_the_path)
{
    char longer[300];
    size_t used = strlen(folder);
    memset(longer, 'x', sizeof longer);
    memcpy(longer, folder, used);
    longer[used] = '/';
    longer[107] = '\0';
    ck_assert_int_eq(open_at(longer), 0);
    ck_assert_int_eq(connect_to(longer), 0);
    listen_close(listener);
    listener = NULL;
    for (size_t size = 108; size <= 200; size += 92) {
        memset(longer + 107, 'x', sizeof longer - 107);
        longer[size] = '\0';
        char limit[32];
        snprintf(limit, sizeof limit, "has %zu bytes", size);
        ck_assert_int_eq(open_at(longer), -ENAMETOOLONG);
        ck_assert_msg(strstr(err.text, longer) && strstr(err.text, limit) &&
                          strstr(err.text, "107"),
                      "%s", err.text);
    }
    ck_assert_int_eq(open_at(""), -ENAMETOOLONG);
}
END_TEST

START_TEST(missing_directory_is_made)
{
    char deep[300];
    snprintf(deep, sizeof deep, "%s/run/c.sock", folder);
    ck_assert_int_eq(open_at(deep), 0);
    listen_close(listener);
    listener = NULL;
    snprintf(deep, sizeof deep, "%s/a/b/c.sock", folder);
    ck_assert_int_eq(open_at(deep), -ENOENT);
    ck_assert_msg(strstr(err.text, "/a/b"), "%s", err.text);
}
END_TEST

START_TEST(a_later_socket_is_not_removed)
{
    ck_assert_int_eq(open_at(path), 0);
    unlink(path);
    struct listener *second = NULL;
    ck_assert_int_eq(listen_open(path, 0660, &second, &err), 0);
    listen_close(listener);
    listener = second;
    ck_assert_int_eq(connect_to(path), 0);
}
END_TEST

START_TEST(lock_of_another_start_is_waited_for)
{
    char name[128];
    snprintf(name, sizeof name, "%s.lock", path);
    int fd = open(name, O_CREAT | O_RDWR, 0600);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    ck_assert_int_eq(open_at(path), -EADDRINUSE);
    ck_assert_msg(strstr(err.text, name), "%s", err.text);
    close(fd);
    ck_assert_int_eq(open_at(path), 0);
}
END_TEST

/* Of many starts at once exactly one gets the socket, although a stale one lies there. */
START_TEST(starts_race_for_one_socket)
{
    enum { STARTS = 8 };
    int go[2], done[2], winners = 0;
    ck_assert_int_eq(open_at(path), 0);
    ck_assert_int_eq(pipe(go), 0);
    ck_assert_int_eq(pipe(done), 0);
    /* Close it without removing the file: its inode is another now. */
    char kept[128];
    snprintf(kept, sizeof kept, "%s/kept", folder);
    ck_assert_int_eq(rename(path, kept), 0);
    listen_close(listener);
    listener = NULL;
    ck_assert_int_eq(rename(kept, path), 0);
    pid_t pids[STARTS];
    for (int i = 0; i < STARTS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            char byte;
            close(go[1]);
            close(done[1]);
            if (read(go[0], &byte, 1) != 0)
                _exit(3);
            int rc = open_at(path);
            if (rc == 0 && read(done[0], &byte, 1) != 0) /* listens until all have tried */
                _exit(3);
            _exit(rc == 0 ? 0 : rc == -EADDRINUSE ? 1 : 2);
        }
    }
    close(go[1]);
    for (int i = 0, status; i < STARTS - 1; i++) {
        ck_assert_int_gt(wait(&status), 0);
        ck_assert(WIFEXITED(status));
        ck_assert_int_eq(WEXITSTATUS(status), 1);
    }
    close(done[1]);
    int status;
    ck_assert_int_gt(wait(&status), 0);
    winners += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    ck_assert_int_eq(winners, 1);
}
END_TEST

static int accepted_fd = -1;

static void on_accepted(void *context, int fd)
{
    accepted_fd = fd;
    if (context)
        uv_stop(context);
}

START_TEST(accepts_on_the_loop)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    ck_assert_int_eq(open_at(path), 0);
    ck_assert_int_eq(listen_start(listener, &loop, on_accepted, &loop, &err), 0);
    ck_assert_int_eq(connect_to(path), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_ge(accepted_fd, 0);
    ck_assert_int_ne(fcntl(accepted_fd, F_GETFD) & FD_CLOEXEC, 0);
    close(accepted_fd);
    listen_close(listener);
    listener = NULL;
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

static int waiting_connection(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    strcpy(addr.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    return fd;
}

START_TEST(shut_takes_who_is_there_and_nobody_else)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    ck_assert_int_eq(open_at(path), 0);
    accepted_fd = -1;
    ck_assert_int_eq(listen_start(listener, &loop, on_accepted, NULL, &err), 0);
    int fd = waiting_connection();
    listen_shut(listener);
    ck_assert_int_ge(accepted_fd, 0);
    ck_assert_int_eq(connect_to(path), -ECONNREFUSED);
    close(fd);
    close(accepted_fd);
    listen_close(listener);
    listener = NULL;
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

START_TEST(shut_leaves_an_adopted_socket_open)
{
    uv_loop_t loop;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    strcpy(addr.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    uv_loop_init(&loop);
    listener = listen_adopt(fd);
    accepted_fd = -1;
    ck_assert_int_eq(listen_start(listener, &loop, on_accepted, NULL, &err), 0);
    int peer = waiting_connection();
    listen_shut(listener);
    ck_assert_int_ge(accepted_fd, 0);
    ck_assert_int_eq(connect_to(path), 0);
    close(peer);
    close(accepted_fd);
    listen_close(listener);
    listener = NULL;
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("listen");
    TCase *test = tcase_create("listen");
    tcase_add_checked_fixture(test, setup, teardown);
    tcase_add_test(test, opens_with_its_mode_and_closes_without_trace);
    tcase_add_test(test, stale_socket_is_replaced);
    tcase_add_test(test, living_daemon_keeps_its_socket);
    tcase_add_test(test, other_files_are_left_alone);
    tcase_add_test(test, length_of_the_path);
    tcase_add_test(test, missing_directory_is_made);
    tcase_add_test(test, a_later_socket_is_not_removed);
    tcase_add_test(test, lock_of_another_start_is_waited_for);
    tcase_add_test(test, starts_race_for_one_socket);
    tcase_add_test(test, accepts_on_the_loop);
    tcase_add_test(test, shut_takes_who_is_there_and_nobody_else);
    tcase_add_test(test, shut_leaves_an_adopted_socket_open);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
