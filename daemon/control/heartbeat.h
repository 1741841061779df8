/* The daemon's side of the counters file (proto/counters.h): made at the start, written while the
 * loop turns, removed at a clean end. Loop thread. */
#ifndef HEARTBEAT_H
#define HEARTBEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataload.pb-c.h"

struct heartbeat;

/* Takes the place of what a dead daemon has left. All of its bytes are reserved, so that a full
 * disk cannot end us later. NULL with err: there is none, which harms nothing else. */
struct heartbeat *heartbeat_new(const char *socket_path, struct error *err);
/* The file goes, if it is still ours; beats go nowhere then. NULL is fine. */
void heartbeat_remove(struct heartbeat *heartbeat);
void heartbeat_free(struct heartbeat *heartbeat); /* removes it too; NULL is fine */

void heartbeat_beat(struct heartbeat *heartbeat, uint64_t instance, uint64_t stuck_ns);

/* Is it time for a snapshot? Making them takes a small share of the time, however many clients. */
bool heartbeat_due(const struct heartbeat *heartbeat, uint64_t now);
/* A snapshot: begun, parts of a reply added while there is room, shown. */
void heartbeat_begin(struct heartbeat *heartbeat);
bool heartbeat_add(struct heartbeat *heartbeat, const Dlp__StatusReply *part);
void heartbeat_show(struct heartbeat *heartbeat, uint64_t left_out);

#endif
