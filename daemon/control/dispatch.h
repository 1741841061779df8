/* A message of a peer, checked (is it allowed now, are its values within the limits), becomes a
 * call of the session. Knows no sockets. Loop thread. */
#ifndef DISPATCH_H
#define DISPATCH_H

#include <stdbool.h>

#include "control/session.h"

/* False: the peer has been told why, and its connection must be closed. */
bool dispatch_message(struct session *session, const Dlp__Envelope *env);

#endif
