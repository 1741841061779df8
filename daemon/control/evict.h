/* Jobs ended from outside, as by an epilog after its job is over. Loop thread. */
#ifndef EVICT_H
#define EVICT_H

#include <stdint.h>

#include "control/session.h"

/* Tells the clients of the jobs meant, by whom, ends the jobs, and answers; each client then has a
 * few seconds to give back what it holds. Refused: NO_SUCH_JOB, naming those there are;
 * NOT_PERMITTED where all meant are another user's. */
void evict_reply(struct session *session, uint64_t id, const Dlp__EvictRequest *message);
/* Each second: who has not gone in time is cut off. */
void evict_tick(struct session *session, uint64_t now);

#endif
