/* What the control side tells a recording (base/trace): the waits of trainers and the lives of
 * batches. Nothing while there is none. Loop thread. */
#ifndef TRACE_LANES_H
#define TRACE_LANES_H

#include <stdint.h>

struct group;
struct session;
struct control;

/* Now the trainer takes the batch of this step: it has waited for so long, and computed since it
 * took the one before, at `before` (ns). */
void trace_take(const struct session *session, uint64_t now, uint64_t before, uint64_t wait_ns,
                uint64_t step);
/* The batch of a slot has been filling, ready or held until now. Returns now; 0 without a
 * recording. */
uint64_t trace_slot(const struct group *group, uint32_t slot, const char *state, uint64_t since,
                    uint64_t step);
/* At the end of a recording: waits that last. */
void trace_waits(const struct control *control);

#endif
