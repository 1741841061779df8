/* What stands in a handle that another process opens: whose descriptor it is. The opener goes
 * through the exporter's /proc entry, so nothing is left behind by a process that is killed, and a
 * handle means nothing in another PID namespace. */
#ifndef STANDIN_PEER_H
#define STANDIN_PEER_H

#include "standin.h"

struct si_peer_handle {
    char magic[8];
    int pid, fd;
    uint64_t started; /* of the process, so that a number used again is found out */
    uint64_t inode;
    char uuid[16];
    uint64_t unused[2];
};
_Static_assert(sizeof(struct si_peer_handle) == sizeof(dlp_cu_ipc_memory), "handles have 64 bytes");

struct si_peer_handle si_peer_handle(const char magic[8], int fd, const struct si_context *context);
/* A new opening of that descriptor; -1 with the code when that cannot be. */
int si_peer_open(const struct si_peer_handle *handle, const char magic[8], dlp_cu_result *code);

#endif
