/* The answer to a BadRequest, in parts as the peer reads them. Loop thread. */
#ifndef BAD_REPLY_H
#define BAD_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "control/session.h"

/* Begins an answer of one feed, or "" for all that the peer may use: sends its first part. */
void bad_reply_begin(struct session *session, uint64_t id, const char *feed);
/* Sends the next part, once the peer has read what it was sent; false when there is none. */
bool bad_reply_continue(struct session *session);

#endif
