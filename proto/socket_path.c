#include "proto/socket_path.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#define SYSTEM_PATH "/run/dataloadd/control.sock"

/* Longer than any path that fits, so that the full one can be named when it does not. */
#define LONG_PATH 4096

/* connect() waits this long for a daemon whose queue of new connections is full. */
#define CONNECT_WAIT_S 1

/* Value of an environment variable, NULL when it is not set or empty. */
static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* The user's own path; false when the environment names no place for it. */
static bool user_path(char path[LONG_PATH])
{
    const char *runtime = env("XDG_RUNTIME_DIR");
    const char *home = env("HOME");
    if (runtime && *runtime == '/') {
        snprintf(path, LONG_PATH, "%s/dataloadd/control.sock", runtime);
        return true;
    }
    if (!home || *home != '/')
        return false;
    struct utsname host;
    if (uname(&host) < 0 || !*host.nodename || *host.nodename == '.' || strchr(host.nodename, '/'))
        strcpy(host.nodename, "localhost");
    snprintf(path, LONG_PATH, "%s/.cache/dataloadd/%s/control.sock", home, host.nodename);
    return true;
}

static int put(char out[DLP_SOCKET_PATH_MAX + 1], const char *path, char *text, size_t size)
{
    size_t length = strlen(path);
    if (length > DLP_SOCKET_PATH_MAX) {
        snprintf(text, size,
                 "socket path of %zu bytes, the limit is %u: choose a shorter one with --socket or "
                 "DATALOADD_SOCKET: %s",
                 length, DLP_SOCKET_PATH_MAX, path);
        return -ENAMETOOLONG;
    }
    memcpy(out, path, length + 1);
    return 0;
}

int dlp_socket_candidates(const char *chosen,
                          char paths[DLP_SOCKET_CANDIDATES][DLP_SOCKET_PATH_MAX + 1], char *text,
                          size_t size)
{
    chosen = chosen && *chosen ? chosen : env("DATALOADD_SOCKET");
    if (chosen) {
        int r = put(paths[0], chosen, text, size);
        return r < 0 ? r : 1;
    }
    int count = 0;
    char user[LONG_PATH];
    if (user_path(user)) {
        int r = put(paths[count++], user, text, size);
        if (r < 0)
            return r;
    }
    strcpy(paths[count++], SYSTEM_PATH);
    return count;
}

static int refuse(int err, const char *what, const char *path, char *text, size_t size)
{
    snprintf(text, size, "%s %s: %s; choose another path with --socket or DATALOADD_SOCKET", what,
             path, strerror(err));
    return -err;
}

/* Makes the directory of a path and those above it, as far as they are missing. */
static int make_directory(const char *path, char *text, size_t size)
{
    char directory[DLP_SOCKET_PATH_MAX + 1];
    strcpy(directory, path);
    for (char *slash = strchr(directory + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(directory, 0700) < 0 && errno != EEXIST)
            return refuse(errno, "cannot make the directory", directory, text, size);
        *slash = '/';
    }
    return 0;
}

/* Somebody else's directory would let him put his own socket in the place of ours. */
static int check_owner(const char *path, char *text, size_t size)
{
    char directory[DLP_SOCKET_PATH_MAX + 1];
    strcpy(directory, path);
    *strrchr(directory, '/') = '\0';
    struct stat st;
    if (stat(directory, &st) < 0)
        return refuse(errno, "cannot look at the directory", directory, text, size);
    if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH))) {
        snprintf(text, size,
                 "the directory %s must belong to user %u and be writable by nobody else: mode "
                 "%03o, owner %u",
                 directory, (unsigned)geteuid(), (unsigned)st.st_mode & 0777U, (unsigned)st.st_uid);
        return -EACCES;
    }
    return 0;
}

int dlp_socket_bind_path(const char *chosen, int user, char path[DLP_SOCKET_PATH_MAX + 1],
                         char *text, size_t size)
{
    chosen = chosen && *chosen ? chosen : env("DATALOADD_SOCKET");
    char own[LONG_PATH];
    if (!chosen && user) {
        if (!user_path(own)) {
            snprintf(text, size,
                     "no place for the socket: neither XDG_RUNTIME_DIR nor HOME is set; choose one "
                     "with --socket or DATALOADD_SOCKET");
            return -ENOENT;
        }
    }
    int r = put(path, chosen ? chosen : user ? own : SYSTEM_PATH, text, size);
    if (r == 0 && user)
        r = make_directory(path, text, size);
    if (r == 0 && user && !chosen)
        r = check_owner(path, text, size);
    return r;
}

/* connect() refuses a file of another kind as it does a socket that nobody serves. */
static bool is_no_socket(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISSOCK(st.st_mode);
}

/* Connected socket, or -errno of connect(); -ENOTSOCK: another kind of file. */
static int connect_to(const char *path)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    struct timeval wait = {.tv_sec = CONNECT_WAIT_S};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        int err = errno;
        close(fd);
        return err == ECONNREFUSED && is_no_socket(path) ? -ENOTSOCK : -err;
    }
    return fd;
}

/* Whom the socket is for; "" where that cannot be seen either. */
static void explain_denied(const char *path, char *text, size_t size)
{
    struct stat found;
    struct group group, *named = NULL;
    char memory[4096];
    *text = '\0';
    if (stat(path, &found))
        return;
    if (!(found.st_mode & S_IWGRP)) {
        snprintf(text, size, ": it is for uid %u alone", (unsigned)found.st_uid);
        return;
    }
    getgrgid_r(found.st_gid, &group, memory, sizeof memory, &named);
    snprintf(text, size,
             ": it is for members of the group %s (gid %u): ask to become one, then log in anew",
             named ? named->gr_name : "without a name", (unsigned)found.st_gid);
}

static void explain(int err, const char *path, char *text, size_t size)
{
    if (err == ENOTSOCK)
        snprintf(text, size,
                 "%s is no socket: give the path of dataloadd's with --socket or DATALOADD_SOCKET",
                 path);
    else if (err == ECONNREFUSED)
        snprintf(text, size,
                 "no dataloadd listens at %s (it has ended and left its socket): start it again",
                 path);
    else if (err == EAGAIN)
        snprintf(text, size, "dataloadd at %s accepts no connections: it is overloaded or stopped",
                 path);
    else {
        char whom[200] = "";
        if (err == EACCES)
            explain_denied(path, whom, sizeof whom);
        snprintf(text, size, "cannot connect to dataloadd at %s: %s%s", path, strerror(err), whom);
    }
}

int dlp_socket_connect(const char *chosen, char *text, size_t size)
{
    char paths[DLP_SOCKET_CANDIDATES][DLP_SOCKET_PATH_MAX + 1];
    int count = dlp_socket_candidates(chosen, paths, text, size);
    if (count < 0)
        return count;
    for (int i = 0; i < count; i++) {
        int fd = connect_to(paths[i]);
        if (fd >= 0) {
            snprintf(text, size, "%s", paths[i]);
            return fd;
        }
        if (fd != -ENOENT && fd != -ENOTDIR) {
            explain(-fd, paths[i], text, size);
            return fd;
        }
    }
    snprintf(text, size, "no dataloadd is running: there is no socket at %s%s%s", paths[0],
             count > 1 ? " or " : "", count > 1 ? paths[1] : "");
    return -ECONNREFUSED;
}
