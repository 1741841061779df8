/* The answer to a BadRequest, in parts as the peer reads them. Loop thread. */
#ifndef BAD_REPLY_H
#define BAD_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"

struct session;

struct bad_listing { /* of which more parts follow */
    bool active;
    uint64_t id;
    char feed[DLP_NAME_MAX + 1];
    uint32_t next;
    uint64_t total;
};

/* Begins an answer of one feed, or "" for all that the peer may use: sends its first part. */
void bad_reply_begin(struct session *session, uint64_t id, const char *feed);
/* Sends the next part, once the peer has read what it was sent; false when there is none. */
bool bad_reply_continue(struct session *session);

#endif
