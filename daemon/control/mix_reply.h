/* How well an epoch is mixed (feed/mix_check.h), for dataloadctl mix. Loop thread. */
#ifndef MIX_REPLY_H
#define MIX_REPLY_H

#include <stdint.h>

#include "control/session.h"

/* Answers later with MixReply, or with an error. */
void mix_reply_begin(struct session *session, uint64_t id, const Dlp__MixRequest *message);

#endif
