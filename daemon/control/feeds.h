/* The configured feeds as peers see them. Loop thread. */
#ifndef FEEDS_H
#define FEEDS_H

#include <stdint.h>

#include "control/control.h"
#include "control/session.h"

/* Number of the feed of that name which the peer may use; -1 with NO_SUCH_FEED (naming those there
 * are) or NOT_PERMITTED. */
int feeds_check(const struct control *control, const struct access_peer *peer, const char *name,
                struct refusal *refusal);
/* Answers a FeedsRequest; of feeds that the peer may not use only the name is told. */
void feeds_reply(struct session *session, uint64_t id);

#endif
