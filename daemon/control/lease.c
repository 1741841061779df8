#include "control/lease.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

struct lease {
    uv_poll_t poll;
    int fd;
    const char *kind;
    void (*ended)(void *context);
    void *context;
};

static int open_pidfd(int fd, pid_t pid, const char **kind)
{
    int pidfd = -1;
    socklen_t size = sizeof pidfd;
    *kind = "peerpidfd";
    if (!getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size))
        return pidfd;
    *kind = "pidfd";
    return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct lease *lease = poll->data;
    (void)status;
    (void)events;
    uv_poll_stop(poll);
    lease->ended(lease->context);
}

struct lease *lease_new(uv_loop_t *loop, int fd, pid_t pid, void (*ended)(void *context),
                        void *context)
{
    const char *kind;
    int pidfd = open_pidfd(fd, pid, &kind);
    if (pidfd < 0)
        return NULL;
    struct lease *lease = mem_new(sizeof *lease);
    *lease = (struct lease){.fd = pidfd, .kind = kind, .ended = ended, .context = context};
    if (uv_poll_init(loop, &lease->poll, pidfd)) {
        close(pidfd);
        free(lease);
        return NULL;
    }
    lease->poll.data = lease;
    uv_poll_start(&lease->poll, UV_READABLE, on_event);
    return lease;
}

static void on_closed(uv_handle_t *handle)
{
    struct lease *lease = handle->data;
    close(lease->fd);
    free(lease);
}

void lease_free(struct lease *lease)
{
    if (lease)
        uv_close((uv_handle_t *)&lease->poll, on_closed);
}

bool lease_over(const struct lease *lease)
{
    struct pollfd state = {.fd = lease ? lease->fd : -1, .events = POLLIN};
    return poll(&state, 1, 0) == 1;
}

int lease_fd(const struct lease *lease)
{
    return lease ? lease->fd : -1;
}

const char *lease_kind(const struct lease *lease)
{
    return lease ? lease->kind : "eof";
}
