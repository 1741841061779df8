#include "control/lag.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/session.h"

bool lag_idle(const struct session *session)
{
    for (uint32_t slot = 0; slot < session->group->params.slots; slot++)
        if (session->lent[slot] == LOAN_DUE || session->lent[slot] == LOAN_TOLD)
            return false;
    return session->state == SESSION_STREAMING && !session->lagging;
}

/* Batches pass it by already, or it has taken all there is: then none can. */
static bool is_passed(const struct session *session)
{
    bool skip = session->group->params.spec->lag == LAG_SKIP;
    return session->lagging || (skip && lag_idle(session));
}

static struct session *debtor(const struct group *group, uint32_t slot, bool passed)
{
    struct session *s = group->members;
    while (s && (!s->lent[slot] || is_passed(s) != passed))
        s = s->fellow;
    return s;
}

/* The oldest batch that members of this kind owe; NULL = none. */
static const struct loan *oldest_owed(const struct group *group, bool passed)
{
    const struct loan *oldest = NULL;
    for (uint32_t slot = 0; slot < group->params.slots; slot++) {
        const struct loan *it = &group->batches[slot];
        if (debtor(group, slot, passed) &&
            (!oldest || it->batch.generation < oldest->batch.generation))
            oldest = it;
    }
    return oldest;
}

static bool all_owed(const struct group *group)
{
    for (uint32_t slot = 0; slot < group->params.slots; slot++)
        if (!group->batches[slot].out || !group->batches[slot].owing)
            return false;
    return true;
}

/* Whom none can pass by any more is waited for only where nobody else is. */
static const struct loan *awaited(const struct group *group, bool *passed)
{
    if (!all_owed(group))
        return NULL;
    const struct loan *it = oldest_owed(group, *passed = false);
    if (!it)
        it = oldest_owed(group, *passed = true);
    for (const struct session *s = group->members; it && s; s = s->fellow)
        if (lag_idle(s) && !s->lent[it->batch.slot])
            return it;
    return NULL;
}

const struct session *lag_holder(const struct group *group)
{
    bool passed;
    const struct loan *it = awaited(group, &passed);
    return it ? debtor(group, it->batch.slot, passed) : NULL;
}

static void cast_off(struct session *session, const struct feed_batch *batch)
{
    const struct group *group = session->group;
    session->cast_off = true;
    group->control->totals[group->feed_number].lag_detached++;
    session_refuse_format(session, 0, DLP_ERROR_LAGGED,
                          "group %s of feed %s has waited %u s for this trainer to give back epoch "
                          "%" PRIu64 ", step %" PRIu64 ", and goes on without it (lag: detach): "
                          "attach anew to join where it is",
                          group->job->name, session->spec->name, group->params.spec->lag_bound,
                          batch->place.epoch, batch->place.step);
}

/* The members that owe this batch are not waited for any more. */
static void go_on_without(struct group *group, const struct loan *it)
{
    const struct feed_spec *spec = group->params.spec;
    for (struct session *s; (s = debtor(group, it->batch.slot, false));) {
        char who[SESSION_WORDS_MAX];
        struct log_about about = account_who(s, LOG_LAGGED);
        log_event(LOG_NOTICE, &about,
                  "%s: has not given back epoch %" PRIu64 ", step %" PRIu64 " for %u s: lag: %s",
                  session_words(s, who, sizeof who), it->batch.place.epoch, it->batch.place.step,
                  spec->lag_bound, spec_lag_name(spec->lag));
        loan_pass_by(s);
        if (spec->lag == LAG_DETACH)
            cast_off(s, &it->batch);
    }
}

void lag_tick(struct group *group, uint64_t now)
{
    bool passed;
    const struct feed_spec *spec = group->params.spec;
    const struct loan *it = awaited(group, &passed);
    uint64_t generation = it ? it->batch.generation : 0;
    if (generation != group->lag.generation)
        group->lag = (struct lag){generation, now};
    bool over = now - group->lag.since >= spec->lag_bound * CLOCK_SECOND;
    if (it && !passed && over && spec->lag != LAG_WAIT)
        go_on_without(group, it);
}
