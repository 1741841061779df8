#include "control/trace_lanes.h"

#include <stdio.h>

#include "base/trace.h"
#include "control/control.h"
#include "control/session.h"

#define LANE_MAX 320

static const char *trainer(const struct session *session, char lane[LANE_MAX])
{
    snprintf(lane, LANE_MAX, "%s rank %u of %u, pid %d", session->job_name, session->rank,
             session->world, (int)session->peer.pid);
    return lane;
}

static void add(const struct session *session, const char *name, uint64_t begin, uint64_t end,
                uint64_t step)
{
    char lane[LANE_MAX];
    trace_lane(TRACE_TRAINERS, trainer(session, lane), name, session->spec->name, begin, end, step);
}

void trace_take(const struct session *session, uint64_t now, uint64_t before, uint64_t wait_ns,
                uint64_t step)
{
    if (!trace_on())
        return;
    uint64_t begun = wait_ns < now - before ? now - wait_ns : before;
    add(session, "compute", before, begun, step);
    add(session, "wait", begun, now, step);
}

uint64_t trace_slot(const struct group *group, uint32_t slot, const char *state, uint64_t since,
                    uint64_t step)
{
    uint64_t now = trace_now();
    char lane[LANE_MAX];
    if (!now)
        return 0;
    const struct feed_params *params = &group->params;
    const char *job = group->job ? group->job->name : "";
    snprintf(lane, sizeof lane, "%s %s rank %u: slot %u", params->spec->name, job, params->rank,
             slot);
    trace_lane(TRACE_SLOTS, lane, state, params->spec->name, since, now, step);
    return now;
}

void trace_waits(const struct control *control)
{
    uint64_t now = clock_ns();
    for (const struct session *s = control->sessions; s; s = s->next) {
        uint64_t waiting = s->state == SESSION_STREAMING ? gauge_waiting(s->gauge, now) : 0;
        if (waiting)
            trace_take(s, now, s->gauge->last_take, waiting, s->place.step);
    }
}
