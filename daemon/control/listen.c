#include "control/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/limits.h"

#define LOCK_TRIES 100 /* of 20 ms: a start takes far less */
#define ACCEPTS_A_WAKE 64

struct listener {
    uv_poll_t poll;
    int fd;
    int spare;  /* given up for a moment when files run out, so that a peer can be turned away */
    char *path; /* NULL = not ours to remove */
    dev_t dev;
    ino_t ino;
    bool started;
    void (*accepted)(void *context, int fd);
    void *context;
};

static int check_path(const char *path, struct sockaddr_un *addr, struct error *err)
{
    size_t size = strlen(path);
    if (!size || size > DLP_SOCKET_PATH_MAX)
        return error_set(err, -ENAMETOOLONG,
                         "socket path %s has %zu bytes, the limit is %u: choose a shorter one",
                         path, size, DLP_SOCKET_PATH_MAX);
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(addr->sun_path, path, size);
    return 0;
}

static int make_directory(const char *path, struct error *err)
{
    cleanup_free char *copy = mem_string(path);
    const char *directory = dirname(copy);
    if (mkdir(directory, 0755) == 0 || errno == EEXIST)
        return 0;
    return error_set(err, -errno, "directory %s of the control socket cannot be made: %s",
                     directory, strerror(errno));
}

/* Descriptor of the lock file, locked; the lock ends with it. */
static int take_lock(const char *path, struct error *err)
{
    cleanup_free char *name = mem_format("%s.lock", path);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_set(err, -errno,
                         "lock file %s cannot be opened: %s; choose another path with --socket, or "
                         "run for one user with --user",
                         name, strerror(errno));
    for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; tries++) {
        if (errno != EWOULDBLOCK || tries == LOCK_TRIES) {
            int rc = error_set(err, -EADDRINUSE,
                               "%s is locked: another dataloadd is starting or stopping", name);
            close(fd);
            return rc;
        }
        usleep(20000);
    }
    return fd;
}

/* 0 = the path is free (a stale socket was removed). */
static int clear_path(const struct sockaddr_un *addr, struct error *err)
{
    const char *path = addr->sun_path;
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : error_set(err, -errno, "%s: %s", path, strerror(errno));
    if (!S_ISSOCK(st.st_mode))
        return error_set(err, -EEXIST,
                         "%s is there and is no socket: left alone; remove it or choose another "
                         "path with --socket",
                         path);
    cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(err, -errno, "socket: %s", strerror(errno));
    int refused = connect(fd, (const struct sockaddr *)addr, sizeof *addr) < 0 ? errno : 0;
    if (refused == ENOENT)
        return 0; /* its daemon has just removed it */
    if (refused == ECONNREFUSED) {
        if (unlink(path) < 0 && errno != ENOENT)
            return error_set(err, -errno, "stale socket %s cannot be removed: %s", path,
                             strerror(errno));
        log_notice("stale socket %s replaced", path);
        return 0;
    }
    struct ucred cred = {0};
    socklen_t size = sizeof cred;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size);
    return error_set(err, -EADDRINUSE,
                     "a dataloadd is running at %s (pid %d): stop it, or choose another path with "
                     "--socket",
                     path, (int)cred.pid);
}

static int bind_and_listen(int fd, const struct sockaddr_un *addr, mode_t mode, struct error *err)
{
    mode_t before = umask(0777 & ~mode);
    int rc = bind(fd, (const struct sockaddr *)addr, sizeof *addr) < 0 ? -errno : 0;
    umask(before);
    if (rc == 0 && listen(fd, SOMAXCONN) < 0)
        rc = -errno;
    if (rc)
        error_set(err, rc, "control socket %s: %s", addr->sun_path, strerror(-rc));
    return rc;
}

static struct listener *listener_new(int fd)
{
    struct listener *listener = mem_new(sizeof *listener);
    listener->fd = fd;
    listener->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return listener;
}

int listen_open(const char *path, mode_t mode, struct listener **out, struct error *err)
{
    struct sockaddr_un addr;
    int rc = check_path(path, &addr, err);
    if (!rc)
        rc = make_directory(path, err);
    if (rc)
        return rc;
    cleanup_close int lock = take_lock(path, err);
    if (lock < 0)
        return lock;
    rc = clear_path(&addr, err);
    if (rc)
        return rc;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(err, -errno, "socket: %s", strerror(errno));
    rc = bind_and_listen(fd, &addr, mode, err);
    if (rc) {
        close(fd);
        return rc;
    }
    struct stat st = {0};
    lstat(path, &st);
    *out = listener_new(fd);
    (*out)->path = mem_string(path);
    (*out)->dev = st.st_dev;
    (*out)->ino = st.st_ino;
    return 0;
}

struct listener *listen_adopt(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return listener_new(fd);
}

bool listen_path(const struct listener *listener, char path[DLP_SOCKET_PATH_MAX + 1])
{
    struct sockaddr_un addr = {0};
    socklen_t size = sizeof addr;
    if (getsockname(listener->fd, (struct sockaddr *)&addr, &size) < 0 || !*addr.sun_path)
        return false;
    snprintf(path, DLP_SOCKET_PATH_MAX + 1, "%.*s", (int)DLP_SOCKET_PATH_MAX, addr.sun_path);
    return true;
}

struct listener *listen_adopt_kept(int fd, const char *path)
{
    struct stat st;
    char bound[DLP_SOCKET_PATH_MAX + 1];
    struct listener *listener = listen_adopt(fd);
    if (listen_path(listener, bound) && strcmp(bound, path) == 0 && lstat(path, &st) == 0 &&
        S_ISSOCK(st.st_mode))
        return listener;
    listen_close(listener);
    return NULL;
}

void listen_leave(struct listener *listener)
{
    free(listener->path);
    listener->path = NULL;
}

int listen_fd(const struct listener *listener)
{
    return listener->fd;
}

/* No descriptor is left: the peer in front would stay in the queue and wake us for ever. */
static void turn_away(struct listener *listener)
{
    if (listener->spare < 0)
        return;
    close(listener->spare);
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        close(fd);
    listener->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    log_event(LOG_WARNING, log_about(LOG_NO_DESCRIPTORS),
              "a client was turned away: the limit of open files is reached (raise ulimit -n)");
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;
    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_A_WAKE; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            listener->accepted(listener->context, fd);
        else if (errno == EMFILE || errno == ENFILE)
            turn_away(listener);
        else if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

int listen_start(struct listener *listener, uv_loop_t *loop,
                 void (*accepted)(void *context, int fd), void *context, struct error *err)
{
    int rc = uv_poll_init(loop, &listener->poll, listener->fd);
    if (rc)
        return error_set(err, rc, "the control socket cannot be polled: %s", uv_strerror(rc));
    listener->poll.data = listener;
    listener->accepted = accepted;
    listener->context = context;
    listener->started = true;
    return uv_poll_start(&listener->poll, UV_READABLE, on_readable);
}

void listen_shut(struct listener *listener)
{
    if (listener->path)
        shutdown(listener->fd, SHUT_RD);
    on_readable(&listener->poll, 0, UV_READABLE);
}

static void release(struct listener *listener)
{
    close(listener->fd);
    if (listener->spare >= 0)
        close(listener->spare);
    free(listener->path);
    free(listener);
}

static void on_closed(uv_handle_t *handle)
{
    release(handle->data);
}

static void remove_file(const struct listener *listener)
{
    struct stat st;
    if (!listener->path || lstat(listener->path, &st) < 0)
        return;
    if (st.st_dev == listener->dev && st.st_ino == listener->ino)
        unlink(listener->path);
}

void listen_close(struct listener *listener)
{
    if (!listener)
        return;
    remove_file(listener);
    if (listener->started)
        uv_close((uv_handle_t *)&listener->poll, on_closed);
    else
        release(listener);
}
