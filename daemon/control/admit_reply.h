/* The answer to an attach that came true: layout, order, notes, and the arena's descriptor. Loop
 * thread. */
#ifndef ADMIT_REPLY_H
#define ADMIT_REPLY_H

#include <stdint.h>

#include "control/session.h"

/* A note where each rank touches more lanes than its share; "" = none. Takes some time: helper
 * thread. Returns text. */
char *admit_reply_lane_note(const struct feed_params *params, double lane_factor, char *text,
                            size_t size);
/* The feed is the group's, or will be, and the first batch of this member is that of `first`.
 * memory_why: of handoff_why; notes: more of them, the last one NULL. */
void admit_reply_send(struct session *session, uint64_t id, const struct feed *feed,
                      struct feed_place first, const char *memory_why, const char *const *notes);

#endif
