/* What each rank gets of an epoch: shards, records, bytes, steps, and how evenly. Loop thread. */
#ifndef SLICES_H
#define SLICES_H

#include <stdint.h>

#include "control/session.h"

/* Answers later with SlicesReply in parts, or with an error. */
void slices_begin(struct session *session, uint64_t id, const Dlp__SlicesRequest *message);

#endif
