/* Where the control socket is: --socket, else $DATALOADD_SOCKET, else
 * $XDG_RUNTIME_DIR/dataloadd/control.sock (without that variable ~/.cache/dataloadd/HOST/), else
 * /run/dataloadd/control.sock. */
#ifndef DLP_SOCKET_PATH_H
#define DLP_SOCKET_PATH_H

#include <stddef.h>

#include "proto/limits.h"

#define DLP_SOCKET_CANDIDATES 3

/* Candidate paths in the order in which a client tries them; chosen (an option, may be NULL) and
 * the environment variable are exclusive. Returns their number, or -ENAMETOOLONG naming the path in
 * text (size >= 256). */
int dlp_socket_candidates(const char *chosen,
                          char paths[DLP_SOCKET_CANDIDATES][DLP_SOCKET_PATH_MAX + 1], char *text,
                          size_t size);
/* The path that a daemon binds; user: that of a daemon without root. The directory is made (0700)
 * for user daemons. 0 or -errno with text. */
int dlp_socket_bind_path(const char *chosen, int user, char path[DLP_SOCKET_PATH_MAX + 1],
                         char *text, size_t size);
/* Connected, close-on-exec stream socket to the first candidate that answers; text is its path. Or
 * -errno: -ECONNREFUSED no candidate exists, or nobody listens at it, -ENOTSOCK one is another kind
 * of file, -EACCES; text says which. */
int dlp_socket_connect(const char *chosen, char *text, size_t size);

#endif
