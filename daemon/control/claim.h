/* The first step of an attach: may this peer, and which rank of which job does it get? Loop thread.
 */
#ifndef CLAIM_H
#define CLAIM_H

#include "control/place.h"
#include "control/session.h"

/* Sets the session's feed, rank and group; group_leave undoes it. 0, or the refusal's code. */
int claim_rank(struct session *session, const Dlp__Attach *message, const struct place *place,
               struct refusal *refusal);

#endif
