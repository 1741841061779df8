/* The answer to TraceRequest: a recording of so many seconds (base/trace), then its events in
 * parts, as fast as the peer reads. One at a time in the whole daemon. Of a feed to which the peer
 * may not attach nothing is told: names of shards and steps are data. Loop thread. */
#ifndef TRACE_REPLY_H
#define TRACE_REPLY_H

#include "control/session.h"

#define TRACE_SECONDS_MIN 0.05
#define TRACE_SECONDS_MAX 60.0

struct tracer;

struct tracer *tracer_new(struct control *control);
/* After the last session has ended. */
void tracer_free(struct tracer *tracer);
/* Refusals are sent. */
void trace_reply_begin(struct session *session, uint64_t id, double seconds);
/* Sends a further part; false when there is none to send. */
bool trace_reply_continue(struct session *session);
/* The peer is gone, or nothing: the recording ends with it. */
void trace_reply_cancel(struct session *session);
bool trace_reply_is_for(const struct session *session);

#endif
