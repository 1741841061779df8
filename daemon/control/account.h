/* What the log says of a trainer: who it is, and at the end of its attachment, one record of what
 * it has had, for accounting by job. What a mirror group's stream costs is shared out among those
 * who stream at the time. Loop thread. */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <stdint.h>

#include "base/log.h"

struct session;

struct account { /* of one attachment; of a group, what has been shared out of its stream */
    uint64_t cpu_ns, read_bytes;
    uint64_t bad; /* not shared: every member's batches have them */
};

/* Borrows what the session has. */
struct log_about account_who(const struct session *session, enum log_id id);
/* Before it streams: what its group has done until now is that of the others. */
void account_begin(struct session *session);
/* Before a session that streams leaves its group; why, in words. */
void account_end(struct session *session, const char *why);

#endif
