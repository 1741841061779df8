/* Watches the life of a peer's process by a pidfd: the end of a trainer is seen within a
 * millisecond even when a forked child of it keeps the socket open. The pidfd comes from
 * SO_PEERPIDFD, else pidfd_open; where neither works only the socket's end tells. Loop thread. */
#ifndef LEASE_H
#define LEASE_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

struct lease;

/* fd: the peer's socket (borrowed). ended is called once, when the process has ended; NULL when
 * there is no pidfd. */
struct lease *lease_new(uv_loop_t *loop, int fd, pid_t pid, void (*ended)(void *context),
                        void *context);
/* No call of ended after this. NULL is fine. */
void lease_free(struct lease *lease);
/* The process has ended, as far as can be seen; false for NULL. */
bool lease_over(const struct lease *lease);
/* Becomes readable at the process's end; borrowed. -1 for NULL. */
int lease_fd(const struct lease *lease);
/* What ends it besides the socket's end: "peerpidfd", "pidfd"; "eof" for NULL. */
const char *lease_kind(const struct lease *lease);

#endif
