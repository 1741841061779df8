/* The listening socket: taken safely, accepted from, given back. Loop thread. */
#ifndef LISTEN_H
#define LISTEN_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"
#include "proto/limits.h"

struct listener;

/* Binds path with the given mode. A socket file left by a dead daemon is replaced (only where
 * connect says ECONNREFUSED); -EADDRINUSE with the pid where one is running; -EEXIST for a file
 * that is no socket, which is left alone; -ENAMETOOLONG by name and limit. Two starts cannot race:
 * a lock file beside the socket (PATH.lock) is held meanwhile. The last directory of path is made
 * where it is missing. */
int listen_open(const char *path, mode_t mode, struct listener **out, struct error *err);
/* Takes over a listening socket that the service manager has opened; its file is not ours. */
struct listener *listen_adopt(int fd);
/* The same of one of a daemon before, which has opened it at this path. NULL: the path does not
 * lead to it any more, and it is closed. As long as it listens nobody else can have bound the path.
 */
struct listener *listen_adopt_kept(int fd, const char *path);
/* Its file stays when it is closed: the service manager keeps the socket for the next start. */
void listen_leave(struct listener *listener);
int listen_fd(const struct listener *listener);

/* Path of the socket, also of one that the service manager has opened; false: it has none. */
bool listen_path(const struct listener *listener, char path[DLP_SOCKET_PATH_MAX + 1]);

/* accepted gets each new socket (close-on-exec, non-blocking) and owns it. */
int listen_start(struct listener *listener, uv_loop_t *loop,
                 void (*accepted)(void *context, int fd), void *context, struct error *err);
/* Nobody new gets in: whoever has connected until now is accepted within this call, others are
 * refused from then on. A socket of the service manager's keeps those for the next start. */
void listen_shut(struct listener *listener);
/* Stops, closes, and removes the file if it is still the one that was bound. Memory is freed by the
 * loop when it was started. NULL is fine. */
void listen_close(struct listener *listener);

#endif
