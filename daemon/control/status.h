/* Answers to those who look: status, ping. Made from counters already at hand, so that
 * they come at once however busy the daemon is. Loop thread. */
#ifndef STATUS_H
#define STATUS_H

#include <stdint.h>

#include "control/session.h"

/* StatusReply in parts: all clients that are attached, attaching or giving memory back; all feeds.
 */
void status_reply(struct session *session, uint64_t id);
/* What a reply would say now, into the counters file, when it is time for it. */
void status_keep(const struct control *control);
void status_pong(struct session *session, uint64_t id);

#endif
