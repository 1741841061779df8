/* A daemon that drains lets no new job in; those that run go on until they end by themselves, with
 * all their ranks, reconnects included. It ends with the daemon, or by undrain. Loop thread. */
#ifndef DRAIN_H
#define DRAIN_H

#include <stdint.h>

#include "control/session.h"

/* Changes it where that is asked for (NOT_PERMITTED: not root nor the daemon's user), and answers
 * how it stands. */
void drain_reply(struct session *session, uint64_t id, const Dlp__DrainRequest *message);
/* For how long it has drained; 0 = it does not. */
uint64_t drain_ns(const struct control *control, uint64_t now);

#endif
