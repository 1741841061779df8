/* The root object: makes everything in order, runs the loop, ends everything in the reverse order.
 */
#ifndef SERVER_H
#define SERVER_H

#include <stdbool.h>

#include "base/error.h"
#include "config.h"

struct server_options {
    const struct config *config;
    const char *socket_path; /* to bind, where no listen_fd is given */
    bool user;               /* a daemon of one user: its socket is for that user alone */
    int listen_fd;           /* a socket that listens already; -1 = bind socket_path */
    uint32_t idle_exit;      /* seconds without a connection after which it ends; 0 = never */
};

/* Runs until SIGTERM or SIGINT, or idle_exit: 0, or why it could not start (-EADDRINUSE: one is
 * running). Clients see the end of their connections. Within 5 s of the first signal, or at once at
 * a second one, the process ends even where threads hang in storage: with _exit(0), since they
 * could not be joined.
 */
int server_run(const struct server_options *options, struct error *err);

#endif
