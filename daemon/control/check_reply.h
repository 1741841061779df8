/* Answers a CheckRequest: what the daemon finds when it looks around (control/findings.h), on a
 * thread of its own, since a look may hang. One of a session at a time. Loop thread. */
#ifndef CHECK_REPLY_H
#define CHECK_REPLY_H

#include <stdint.h>

#include "control/session.h"

struct check_reply;

void check_reply_begin(struct session *session, uint64_t id);
/* The peer is gone: nobody is answered; the session is reaped when the look has ended. NULL is
 * fine. */
void check_reply_cancel(struct check_reply *check);

#endif
