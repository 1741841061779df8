/* Answers a GpuRequest from what was found at the start, and lets go of a GPU: at once. Loop
 * thread. */
#ifndef GPU_REPLY_H
#define GPU_REPLY_H

#include <stdint.h>

#include "control/session.h"

void gpu_reply(struct session *session, uint64_t id, const Dlp__GpuRequest *message);

#endif
