#include "control/drain.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/plural.h"
#include "control/control.h"

uint64_t drain_ns(const struct control *control, uint64_t now)
{
    return control->draining ? now - control->draining : 0;
}

static void set(struct control *control, bool drain)
{
    if (drain == (control->draining != 0))
        return;
    control->draining = drain ? clock_ns() : 0;
    if (drain)
        log_event(LOG_NOTICE, log_about(LOG_DRAIN),
                  "draining: no new job is let in; %u client%s left", control->nattached,
                  control->nattached == 1 ? " is" : "s are");
    else
        log_event(LOG_NOTICE, log_about(LOG_DRAIN),
                  "draining has ended: new jobs are let in again");
}

void drain_reply(struct session *session, uint64_t id, const Dlp__DrainRequest *message)
{
    struct control *control = session->control;
    bool change = message->drain || message->undrain;
    if (change && !access_admin(&session->peer)) {
        session_deny(session, id, message->drain ? "drain" : "undrain", DLP_ERROR_NOT_PERMITTED,
                     "only root and the daemon's own user may drain it");
        return;
    }
    if (change)
        set(control, message->drain);
    Dlp__DrainReply reply = DLP__DRAIN_REPLY__INIT;
    reply.draining = control->draining != 0;
    reply.draining_ns = drain_ns(control, clock_ns());
    reply.clients = control->nattached;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_DRAIN_REPLY;
    env.drain_reply = &reply;
    session_send(session, &env);
}
