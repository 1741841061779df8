#include "control/loan.h"

#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "control/replay.h"
#include "control/session.h"
#include "control/trace_lanes.h"

/* A batch that nobody has come to waits for whoever joins, any for whoever comes back for it. */
static bool is_wanted(const struct group *group, const struct loan *it)
{
    if (it->owing || (!it->held && !group_before(it->batch.place, group->place)))
        return true;
    for (const struct session *s = group->members; s; s = s->fellow)
        if (s->comes_back && !group_before(it->batch.place, s->place))
            return true;
    return false;
}

static bool is_ready(enum loan_state state)
{
    return state == LOAN_DUE || state == LOAN_TOLD;
}

static void lend(struct session *session, uint32_t slot, enum loan_state state)
{
    int more = is_ready(state) - is_ready(session->lent[slot]);
    session->lent[slot] = state;
    if (more)
        gauge_ready(session->gauge, clock_ns(), more);
}

/* To the one member that there is. */
static void serve_again(struct group *group, struct loan *it)
{
    struct session *session = group->members;
    it->batch.generation = feed_renew(group->feed, it->batch.slot);
    it->held = it->replay = true;
    it->owing = 1;
    lend(session, it->batch.slot, LOAN_TOLD);
    session_announce(session, it);
}

static void let_go(struct group *group, struct loan *it)
{
    it->out = false;
    if (it->held)
        trace_slot(group, it->batch.slot, "held", it->since, it->batch.place.step);
    feed_release(group->feed, it->batch.slot, it->batch.generation);
}

/* While the daemon stops nothing is written any more: what a member holds is its own over the
 * restart. */
void loan_look(struct group *group)
{
    for (uint32_t slot = 0; !group->control->stopping && slot < group->params.slots; slot++) {
        struct loan *it = &group->batches[slot];
        if (!it->out || is_wanted(group, it))
            continue;
        enum replay_use use = group->replay ? replay_use(group) : REPLAY_LETS_GO;
        if (use == REPLAY_SERVES)
            serve_again(group, it);
        else if (use == REPLAY_LETS_GO)
            let_go(group, it);
    }
    group_note(group);
}

/* What is before the places of all is nobody's any more. */
static void move_up(struct group *group)
{
    const struct session *last = NULL;
    for (const struct session *s = group->members; s; s = s->fellow) {
        bool counts = s->comes_back || (s->state == SESSION_STREAMING && !s->lagging);
        if (counts && (!last || group_before(s->place, last->place)))
            last = s;
    }
    if (last && group_before(group->place, last->place))
        group->place = last->place;
}

static void give_back(struct session *session, uint32_t slot)
{
    lend(session, slot, LOAN_NONE);
    session->group->batches[slot].owing--;
}

/* The oldest batch that the member has not been told of; NULL = none. */
static struct loan *next_due(const struct session *session)
{
    struct loan *found = NULL;
    for (uint32_t slot = 0; slot < session->group->params.slots; slot++) {
        struct loan *it = &session->group->batches[slot];
        if (session->lent[slot] == LOAN_DUE &&
            (!found || it->batch.generation < found->batch.generation))
            found = it;
    }
    return found;
}

bool loan_is_told(const struct session *session)
{
    for (uint32_t slot = 0; slot < session->group->params.slots; slot++)
        if (session->lent[slot] == LOAN_TOLD)
            return true;
    return false;
}

/* Nothing is rewritten that a member was told of: one batch at a time where some may pass it by. */
static void tell(struct session *session)
{
    const struct group *group = session->group;
    bool one = group->params.spec->lag != LAG_WAIT && group->params.shared;
    for (struct loan *it; !(one && loan_is_told(session)) && (it = next_due(session));) {
        struct feed_place at = it->batch.place;
        session->skipped += group_distance(group, session->expected, at);
        session->expected = (struct feed_place){at.epoch, at.step + 1};
        lend(session, it->batch.slot, LOAN_TOLD);
        session_announce(session, it);
    }
}

static void make_due(struct session *session, uint32_t slot, struct feed_place from)
{
    struct loan *it = &session->group->batches[slot];
    if (session->lagging || !it->out || group_before(it->batch.place, from))
        return;
    lend(session, slot, LOAN_DUE);
    it->owing++;
}

void loan_begin(struct session *session, struct feed_place place)
{
    session->place = session->expected = place;
    session->comes_back = session->lagging = session->cast_off = false;
    session->skipped = 0;
    for (uint32_t slot = 0; slot < session->group->params.slots; slot++)
        make_due(session, slot, place);
    tell(session);
    move_up(session->group);
    loan_look(session->group);
}

/* The batch that a member names; NULL where it was not told of it. */
static struct loan *named(const struct session *session, uint32_t slot, uint64_t generation)
{
    struct group *group = session->group;
    if (slot >= group->params.slots || session->lent[slot] < LOAN_TOLD ||
        group->batches[slot].batch.generation != generation)
        return NULL;
    return &group->batches[slot];
}

/* The member has come to the place after this batch. */
static void pass(struct session *session, struct feed_place at)
{
    struct group *group = session->group;
    session->place = (struct feed_place){at.epoch, at.step + 1};
    if (group_before(group->place, session->place))
        group->place = session->place;
}

void loan_pass_by(struct session *session)
{
    struct group *group = session->group;
    session->lagging = true;
    if (group->replay)
        replay_leave(group, "gets no batches any more");
    for (uint32_t slot = 0; slot < group->params.slots; slot++)
        if (session->lent[slot] == LOAN_DUE)
            give_back(session, slot);
    move_up(group);
    loan_look(group);
}

/* It is heard of again: it goes on with what is here still. What others hold counts, or they and it
 * might wait for each other. */
static void come_on(struct session *session)
{
    if (session->cast_off)
        return;
    bool lagged = session->lagging;
    session->lagging = false;
    for (uint32_t slot = 0; lagged && slot < session->group->params.slots; slot++)
        if (!session->lent[slot])
            make_due(session, slot, session->place);
    tell(session);
}

void loan_ready(struct group *group, const struct feed_batch *batch, const char *failure)
{
    struct loan *it = &group->batches[batch->slot];
    free(it->failure);
    *it = (struct loan){.batch = *batch, .out = true};
    it->since = trace_slot(group, batch->slot, "filling", batch->begun, batch->place.step);
    it->failure = failure ? mem_string(failure) : NULL;
    for (struct session *s = group->members; s; s = s->fellow) {
        if (s->state != SESSION_STREAMING)
            continue;
        make_due(s, batch->slot, s->place);
        tell(s);
    }
    loan_look(group);
}

void loan_end(struct session *session)
{
    struct group *group = session->group;
    for (uint32_t slot = 0; slot < group->params.slots; slot++)
        if (session->lent[slot])
            give_back(session, slot);
    move_up(group);
    loan_look(group);
}

int loan_take(struct session *session, uint32_t slot, uint64_t generation)
{
    struct loan *it = named(session, slot, generation);
    if (!it || session->lent[slot] != LOAN_TOLD)
        return -EINVAL;
    if (!it->held) {
        feed_hold(session->group->feed, slot, generation);
        it->since = trace_slot(session->group, slot, "ready", it->since, it->batch.place.step);
    }
    it->held = true;
    lend(session, slot, it->replay ? LOAN_KEPT : LOAN_HELD);
    if (!it->replay)
        pass(session, it->batch.place);
    loan_look(session->group);
    come_on(session);
    return 0;
}

int loan_release(struct session *session, uint32_t slot, uint64_t generation)
{
    struct loan *it = named(session, slot, generation);
    if (!it)
        return -EINVAL;
    bool taken = session->lent[slot] != LOAN_TOLD;
    if (!taken && !it->replay)
        pass(session, it->batch.place);
    give_back(session, slot);
    if (!taken && it->replay)
        replay_took(session->group, it->batch.rows, 0);
    loan_look(session->group);
    come_on(session);
    return 0;
}

uint32_t loan_seek(struct session *session, uint64_t epoch)
{
    struct group *group = session->group;
    if (group->replay)
        replay_leave(group, "has chosen another epoch");
    group->place = session->place = session->expected = (struct feed_place){epoch, 0};
    session->lagging = session->cast_off;
    for (uint32_t slot = 0; slot < group->params.slots; slot++) {
        struct loan *it = &group->batches[slot];
        if (session->lent[slot] == LOAN_HELD)
            lend(session, slot, LOAN_KEPT);
        else if (is_ready(session->lent[slot]))
            give_back(session, slot);
        it->out &= it->held; /* else the feed drops it */
    }
    uint32_t dropped = feed_seek(group->feed, epoch);
    loan_look(group); /* those that members who have left had taken */
    return dropped;
}
