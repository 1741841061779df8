#include "control/claim.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/plural.h"
#include "control/control.h"
#include "control/feeds.h"
#include "control/giving.h"

static struct job_optional optional(const Dlp__Number *number)
{
    return number ? (struct job_optional){true, number->value} : (struct job_optional){false, 0};
}

static int check_pin(const struct feed_spec *spec, uint32_t pin, const char *what,
                     const Dlp__Number *given, uint64_t value, struct refusal *refusal)
{
    if (!(spec->pinned & pin) || !given || given->value == value)
        return 0;
    return refuse(refusal, DLP_ERROR_MISMATCH,
                  "%s %" PRIu64 ": feed %s is pinned to %" PRIu64 " by its configuration", what,
                  given->value, spec->name, value);
}

static int check_pins(const struct feed_spec *spec, const Dlp__Attach *message,
                      const struct place *place, struct refusal *refusal)
{
    if (message->probe) /* trains nothing, and shows as many images as are asked for */
        return 0;
    Dlp__Number seed = DLP__NUMBER__INIT;
    seed.value = place->token.seed;
    int code = check_pin(spec, PIN_BATCH, "batch", message->batch, spec->batch, refusal);
    if (!code)
        code = check_pin(spec, PIN_SEED, "seed", place->has_token ? &seed : message->seed,
                         spec->seed, refusal);
    if (!code)
        code = check_pin(spec, PIN_SLOTS, "slots", message->slots, spec->slots, refusal);
    return code;
}

/* As the job is that the message means, if it runs: by the name of its job, or of its group. */
static const struct feed_spec *running_spec(const struct session *session,
                                            const Dlp__Attach *message, const struct place *place)
{
    const struct jobs *jobs = session->control->jobs;
    struct job_want want = {.uid = session->peer.uid,
                            .feed = message->feed,
                            .name = session->job_name,
                            .probe = message->probe,
                            .rank = optional(message->rank),
                            .world = optional(message->world),
                            .batch = optional(message->batch),
                            .resume = place->reconnects ? &place->start : NULL,
                            .token = place->has_token ? &place->token : NULL,
                            .last = place->last};
    const struct feed_spec *spec = jobs_spec(jobs, &want);
    if (spec || message->probe)
        return spec;
    want.shared = true;
    want.name = *message->group ? message->group : "default";
    return jobs_spec(jobs, &want);
}

/* A feed that the configuration no longer has is there for its running jobs. */
static int find_feed(struct session *session, const Dlp__Attach *message,
                     const struct feed_spec *running, struct refusal *refusal)
{
    struct control *control = session->control;
    int number = feeds_check(control, &session->peer, message->feed, refusal);
    if (number < 0 && refusal->code == DLP_ERROR_NO_SUCH_FEED && running &&
        access_allowed(running, &session->peer))
        number = control_find_any(control, message->feed);
    return number;
}

static int check_user(const struct session *session, struct refusal *refusal)
{
    const struct control *control = session->control;
    uid_t uid = session->peer.uid;
    uint32_t most = users_limits(control, uid).clients, clients = users_clients(control, uid);
    char name[ACCESS_USER_MAX];
    if (!most || clients < most)
        return 0;
    return refuse(refusal, DLP_ERROR_TOO_MANY,
                  "user %s has %u client%s attached, and may have %u (users in the configuration): "
                  "detach one, or set its clients to %u",
                  users_name(control, uid, name), clients, plural(clients), most, clients + 1);
}

static int check_entry(struct session *session, const Dlp__Attach *message,
                       const struct place *place, struct refusal *refusal)
{
    struct control *control = session->control;
    const struct feed_spec *running = running_spec(session, message, place);
    int number = find_feed(session, message, running, refusal);
    if (number < 0)
        return (int)refusal->code;
    session->feed_number = (uint32_t)number;
    spec_unref(session->spec);
    const struct feed_spec *given = giving_given(session->giving, message->feed);
    const struct feed_spec *now = given ? given : control->options.feeds[number];
    session->spec = spec_ref(running ? running : now);
    if (control->nattached >= control->options.clients)
        return refuse(
            refusal, DLP_ERROR_TOO_MANY,
            "as many clients are attached as the setting clients allows, %u: detach one, or "
            "raise it",
            control->nattached);
    int code = check_user(session, refusal);
    return code ? code : check_pins(session->spec, message, place, refusal);
}

/* The group that the message means; "" = none. */
static const char *group_name(const struct feed_spec *spec, const Dlp__Attach *message)
{
    if (spec->share != SHARE_MIRROR || message->probe)
        return "";
    return *message->group ? message->group : "default";
}

/* What a feed whose laggards are not waited for cannot have. */
static int check_lag(const struct feed_spec *spec, const Dlp__Attach *message,
                     struct refusal *refusal)
{
    const char *lag = spec_lag_name(spec->lag);
    if (spec->lag != LAG_WAIT && message->slots && message->slots->value < SPEC_LAG_SLOTS_MIN)
        return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                      "slots %" PRIu64 ": feed %s has lag: %s, which needs at least %u",
                      message->slots->value, spec->name, lag, SPEC_LAG_SLOTS_MIN);
    if (spec->lag == LAG_SKIP && message->world && message->world->value > 1)
        return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                      "world %" PRIu64 ": feed %s has lag: %s, which would set the ranks of a "
                      "world apart: leave world out, or set lag to wait or detach",
                      message->world->value, spec->name, lag);
    return 0;
}

static int check_group(const struct feed_spec *spec, const Dlp__Attach *message,
                       struct refusal *refusal)
{
    if (*group_name(spec, message))
        return check_lag(spec, message, refusal);
    if (!*message->group)
        return 0;
    if (message->probe)
        return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                      "group %s: a probe joins no group, it has a stream of its own",
                      message->group);
    return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                  "group %s: feed %s is split among its trainers, only a feed with share: mirror "
                  "has groups; name a job instead",
                  message->group, spec->name);
}

/* The session joins the group of its rank, or a new one of this many slots. */
static int enter_group(struct session *session, struct job *job, const Dlp__Number *slots,
                       struct refusal *refusal)
{
    struct group *group = group_find(session->control, job, session->rank);
    uint64_t wanted = slots ? slots->value : session->spec->slots;
    if (group && slots && wanted != group->params.slots)
        return refuse(refusal, DLP_ERROR_MISMATCH,
                      "slots %" PRIu64 " differs from that of the running group %s of feed %s, "
                      "which is %u: give the same, leave it out, or name another group",
                      wanted, job->name, job->feed, group->params.slots);
    if (!group)
        group =
            group_new(session->control, session->feed_number, job, session->rank, (uint32_t)wanted);
    group_add(group, session);
    return 0;
}

int claim_rank(struct session *session, const Dlp__Attach *message, const struct place *place,
               struct refusal *refusal)
{
    if (*message->job)
        snprintf(session->job_name, sizeof session->job_name, "%s", message->job);
    else
        snprintf(session->job_name, sizeof session->job_name, "pid-%d", (int)session->peer.pid);
    int code = check_entry(session, message, place, refusal);
    if (!code)
        code = check_group(session->spec, message, refusal);
    if (code)
        return code;
    const char *group = group_name(session->spec, message);
    struct job_want want = {.uid = session->peer.uid,
                            .pid = session->peer.pid,
                            .spec = session->spec,
                            .feed = session->spec->name,
                            .name = *group ? group : session->job_name,
                            .probe = message->probe,
                            .shared = *group,
                            .rank = optional(message->rank),
                            .world = optional(message->world),
                            .batch = optional(message->batch),
                            .seed = optional(message->seed),
                            .epoch = optional(message->epoch),
                            .feed_batch = session->spec->batch,
                            .feed_seed = session->spec->seed,
                            .resume = place->reconnects ? &place->start : NULL,
                            .resume_plan = place->plan_id,
                            .token = place->has_token ? &place->token : NULL,
                            .last = place->last,
                            .running_only = session->control->draining};
    struct job *job;
    code = jobs_claim(session->control->jobs, &want, clock_ns(), &job, &session->rank, refusal);
    if (code)
        return code;
    session->world = job->world;
    session->probe = message->probe;
    return enter_group(session, job, message->slots, refusal);
}
