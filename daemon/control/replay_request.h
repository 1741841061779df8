/* May this peer have a replay of that job, and before which place? Loop thread. */
#ifndef REPLAY_REQUEST_H
#define REPLAY_REQUEST_H

#include "control/session.h"

#define REPLAY_SECONDS_MIN 0.05
#define REPLAY_SECONDS_MAX 3600.0
#define REPLAY_BATCHES_MAX 1000000U

/* The dispatcher has checked the values. Begins it, or says why not. */
void replay_begin(struct session *session, uint64_t id, const Dlp__ReplayRequest *message);

#endif
