/* The way from an Attach to the first batch: rank claimed, data set opened, memory reckoned and
 * promised, feed opened; the slow parts on the helper pool. Loop thread. */
#ifndef ADMIT_H
#define ADMIT_H

#include <stdint.h>

#include "control/session.h"

struct admit;

/* The session is GREETED; it is ATTACHING afterwards, or has been told why not. */
void admit_begin(struct session *session, uint64_t id, const Dlp__Attach *message);
/* The peer is gone: ends at once or when the helper returns; then the session is reaped. */
void admit_cancel(struct admit *attach);
/* What the client has read of the memory that it was offered; the session is ATTACHING, or streams
 * since another way was found. */
void admit_check(struct session *session, uint64_t id, const Dlp__ArenaCheck *message);
/* It was offered memory that it had to check. */
bool admit_has_offered(const struct admit *attach);
/* The feed that it had opened is gone, with its memory. */
void admit_undone(struct admit *attach);
/* Memory was given back, or a session has ended: one that waits for that tries again. */
void admit_retry(struct admit *attach);
/* What it waits for, in words; "" before the first that is worth telling. names: those of shards
 * may be in it. */
const char *admit_waits_for(const struct admit *attach, bool names);
/* Once a second. */
void admit_tick(struct admit *attach, uint64_t now);

#endif
