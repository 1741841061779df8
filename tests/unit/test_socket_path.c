/* Where the socket is looked for, and what is said when it is not there. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "proto/socket_path.h"

static char dir[64], text[512];
static char paths[DLP_SOCKET_CANDIDATES][DLP_SOCKET_PATH_MAX + 1];

static void setup(void)
{
    strcpy(dir, "/tmp/dl_socket_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    unsetenv("DATALOADD_SOCKET");
    setenv("XDG_RUNTIME_DIR", dir, 1);
    setenv("HOME", dir, 1);
    text[0] = '\0';
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static int candidates(const char *chosen)
{
    return dlp_socket_candidates(chosen, paths, text, sizeof text);
}

/* Bound and listening; the caller closes it. */
static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    return fd;
}

/* A path of exactly this many bytes inside dir. */
static const char *path_of(size_t length)
{
    static char path[256];
    int at = snprintf(path, sizeof path, "%s/", dir);
    memset(path + at, 's', length - (size_t)at);
    path[length] = '\0';
    return path;
}

START_TEST(order)
{
    char want[128];
    ck_assert_int_eq(candidates("/a/chosen"), 1);
    ck_assert_str_eq(paths[0], "/a/chosen");
    ck_assert_int_eq(candidates(NULL), 2);
    snprintf(want, sizeof want, "%s/dataloadd/control.sock", dir);
    ck_assert_str_eq(paths[0], want);
    ck_assert_str_eq(paths[1], "/run/dataloadd/control.sock");

    setenv("DATALOADD_SOCKET", "/from/env", 1);
    ck_assert_int_eq(candidates(NULL), 1);
    ck_assert_str_eq(paths[0], "/from/env");
    ck_assert_int_eq(candidates("/a/chosen"), 1);
    ck_assert_str_eq(paths[0], "/a/chosen");
    setenv("DATALOADD_SOCKET", "", 1);
    ck_assert_int_eq(candidates(""), 2);
}
END_TEST

START_TEST(without_runtime_dir)
{
    struct utsname host;
    char want[512];
    uname(&host);
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    ck_assert_int_eq(candidates(NULL), 2);
    snprintf(want, sizeof want, "%s/.cache/dataloadd/%s/control.sock", dir, host.nodename);
    ck_assert_str_eq(paths[0], want);
    unsetenv("HOME");
    ck_assert_int_eq(candidates(NULL), 1);
    ck_assert_str_eq(paths[0], "/run/dataloadd/control.sock");
}
END_TEST

START_TEST(longest_path_works)
{
    const char *path = path_of(107);
    int fd = listen_at(path);
    int client = dlp_socket_connect(path, text, sizeof text);
    ck_assert_msg(client >= 0, "%s", text);
    ck_assert_str_eq(text, path);
    char bound[DLP_SOCKET_PATH_MAX + 1];
    ck_assert_int_eq(dlp_socket_bind_path(path, 1, bound, text, sizeof text), 0);
    ck_assert_str_eq(bound, path);
    close(client);
    close(fd);
}
END_TEST

START_TEST(longer_paths_are_refused)
{
    static const size_t lengths[] = {108, 200};
    const char *path = path_of(lengths[_i]);
    char number[16], bound[DLP_SOCKET_PATH_MAX + 1];
    snprintf(number, sizeof number, "%zu", lengths[_i]);
    ck_assert_int_eq(dlp_socket_connect(path, text, sizeof text), -ENAMETOOLONG);
    ck_assert_ptr_nonnull(strstr(text, path));
    ck_assert_ptr_nonnull(strstr(text, number));
    ck_assert_ptr_nonnull(strstr(text, "107"));
    text[0] = '\0';
    ck_assert_int_eq(dlp_socket_bind_path(path, 0, bound, text, sizeof text), -ENAMETOOLONG);
    ck_assert_ptr_nonnull(strstr(text, path));
    setenv("DATALOADD_SOCKET", path, 1);
    ck_assert_int_eq(candidates(NULL), -ENAMETOOLONG);
    unsetenv("DATALOADD_SOCKET");
    setenv("XDG_RUNTIME_DIR", path, 1);
    ck_assert_int_eq(candidates(NULL), -ENAMETOOLONG);
}
END_TEST

START_TEST(missing_tries_the_next)
{
    int r = dlp_socket_connect(NULL, text, sizeof text);
    if (access("/run/dataloadd/control.sock", F_OK) == 0)
        return; /* a real daemon of this machine */
    ck_assert_int_eq(r, -ECONNREFUSED);
    ck_assert_ptr_nonnull(strstr(text, dir));
    ck_assert_ptr_nonnull(strstr(text, "/run/dataloadd/control.sock"));
}
END_TEST

START_TEST(dead_is_an_error)
{
    ck_assert_int_eq(dlp_socket_bind_path(NULL, 1, paths[0], text, sizeof text), 0);
    close(listen_at(paths[0]));
    ck_assert_int_eq(dlp_socket_connect(NULL, text, sizeof text), -ECONNREFUSED);
    ck_assert_ptr_nonnull(strstr(text, paths[0]));
}
END_TEST

START_TEST(another_file_is_no_socket)
{
    ck_assert_int_eq(dlp_socket_connect("/etc/passwd", text, sizeof text), -ENOTSOCK);
    ck_assert_msg(strstr(text, "/etc/passwd is no socket"), "%s", text);
    ck_assert_int_eq(dlp_socket_connect("/tmp", text, sizeof text), -ENOTSOCK);
}
END_TEST

START_TEST(full_queue_is_an_error)
{
    const char *path = path_of(60);
    int fd = listen_at(path), clients[16], count = 0;
    while (count < 16 && (clients[count] = dlp_socket_connect(path, text, sizeof text)) >= 0)
        count++;
    ck_assert_int_lt(count, 16);
    ck_assert_int_eq(clients[count], -EAGAIN);
    while (count)
        close(clients[--count]);
    close(fd);
}
END_TEST

START_TEST(directory_is_private)
{
    struct stat st;
    char parent[128];
    setenv("XDG_RUNTIME_DIR", "", 1);
    ck_assert_int_eq(dlp_socket_bind_path(NULL, 1, paths[0], text, sizeof text), 0);
    strcpy(parent, paths[0]);
    *strrchr(parent, '/') = '\0';
    ck_assert_int_eq(stat(parent, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0700);
    chmod(parent, 0777);
    ck_assert_int_eq(dlp_socket_bind_path(NULL, 1, paths[0], text, sizeof text), -EACCES);
    ck_assert_ptr_nonnull(strstr(text, parent));
    unsetenv("HOME");
    ck_assert_int_eq(dlp_socket_bind_path(NULL, 1, paths[0], text, sizeof text), -ENOENT);
    ck_assert_int_eq(dlp_socket_bind_path(NULL, 0, paths[0], text, sizeof text), 0);
    ck_assert_str_eq(paths[0], "/run/dataloadd/control.sock");
}
END_TEST

START_TEST(directory_cannot_be_made)
{
    char path[128];
    snprintf(path, sizeof path, "%s/file", dir);
    fclose(fopen(path, "w"));
    strcat(path, "/below/control.sock");
    ck_assert_int_eq(dlp_socket_bind_path(path, 1, paths[0], text, sizeof text), -ENOTDIR);
    ck_assert_ptr_nonnull(strstr(text, "file/below"));
    ck_assert_int_eq(dlp_socket_connect(path, text, sizeof text), -ECONNREFUSED);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("socket_path");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, order);
    tcase_add_test(tc, without_runtime_dir);
    tcase_add_test(tc, longest_path_works);
    tcase_add_loop_test(tc, longer_paths_are_refused, 0, 2);
    tcase_add_test(tc, missing_tries_the_next);
    tcase_add_test(tc, dead_is_an_error);
    tcase_add_test(tc, another_file_is_no_socket);
    tcase_add_test(tc, full_queue_is_an_error);
    tcase_add_test(tc, directory_is_private);
    tcase_add_test(tc, directory_cannot_be_made);
    Suite *suite = suite_create("socket_path");
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
