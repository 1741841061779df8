#include "control/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "control/group.h"
#include "store/plan.h"

int place_read(struct place *place, const Dlp__Attach *message, struct refusal *refusal)
{
    const Dlp__Position *position = message->resume;
    if (position) {
        place->reconnects = true;
        place->at = (struct feed_place){position->epoch, position->step};
        place->start = (struct job_start){position->start_epoch, position->start_position};
        place->members = position->members;
        snprintf(place->plan_id, sizeof place->plan_id, "%s", position->plan_id);
        return 0;
    }
    place->last = strcmp(message->token, "last") == 0;
    place->has_token = *message->token && !place->last;
    return place->has_token ? token_parse(message->token, &place->token, refusal) : 0;
}

static uint64_t origin_of(const struct job *job, uint64_t epoch)
{
    return epoch == job->start.epoch ? job->start.position : 0;
}

struct steps place_steps(const struct job *job, const struct feed_spec *spec, uint64_t epoch)
{
    return (struct steps){.records = dataset_records(job->dataset),
                          .start = origin_of(job, epoch),
                          .lanes = spec->shuffle ? spec->lanes : 1,
                          .world = job->world,
                          .batch = job->batch,
                          .tail = spec->tail};
}

int place_check_epoch(uint64_t epoch, struct refusal *refusal)
{
    if (epoch <= DLP_EPOCH_MAX)
        return 0;
    return refuse(refusal, DLP_ERROR_RESUME, "epoch %" PRIu64 " does not exist: %u is the last one",
                  epoch, DLP_EPOCH_MAX);
}

struct job_start place_settled(struct job_start start, struct steps steps)
{
    steps.start = start.position;
    if (start.position > 0 && steps_total(&steps) == 0)
        return (struct job_start){start.epoch + 1, 0};
    return start;
}

static int settle_start(struct job *job, const struct feed_spec *spec, struct refusal *refusal)
{
    struct error err;
    struct steps steps = place_steps(job, spec, job->start.epoch);
    if (steps_check(&steps, &err))
        return refuse(refusal, DLP_ERROR_BAD_REQUEST, "%s", err.text);
    job->start = place_settled(job->start, steps);
    steps.start = 0;
    return steps_check(&steps, &err) ? refuse(refusal, DLP_ERROR_BAD_REQUEST, "%s", err.text) : 0;
}

static int check_token(struct place *place, const struct job *job, const struct feed_spec *spec,
                       struct refusal *refusal)
{
    struct token ours;
    token_make(&ours, spec, dataset_fingerprint(job->dataset), job->seed);
    int code =
        token_compare(&place->token, &ours, dataset_records(job->dataset), spec->name, refusal);
    if (code)
        return code;
    if (*place->token.transform && strcmp(place->token.transform, ours.transform) != 0)
        snprintf(place->note, sizeof place->note,
                 "the transform has changed since the resume token was made (digest %.16s, now "
                 "%s): the records go on as before, their pixels do not",
                 place->token.transform, ours.transform);
    return 0;
}

static int check_plan(const struct place *place, struct job *job, const struct feed_spec *spec,
                      struct refusal *refusal)
{
    struct plan_settings settings = {
        .seed = job->seed, .shuffle = spec->shuffle, .lanes = spec->lanes};
    char plan[17];
    plan_id(dataset_fingerprint(job->dataset), &settings, tail_name(spec->tail), plan);
    if (place->plan_id[0] && strcmp(place->plan_id, plan) != 0)
        return refuse(refusal, DLP_ERROR_RESUME,
                      "the client's plan is %s, that of feed %s is now %s: data, seed, shuffle, "
                      "lanes or tail have changed",
                      place->plan_id, spec->name, plan);
    if (job->plan_id[0] && strcmp(job->plan_id, plan) != 0) /* the daemon was started anew */
        return refuse(refusal, DLP_ERROR_RESUME,
                      "%s %s of feed %s had plan %s before the daemon was started anew, and it is "
                      "now %s: data, seed, shuffle, lanes or tail have changed; attach without "
                      "resume to begin anew",
                      jobs_word(job->shared), job->name, spec->name, job->plan_id, plan);
    strcpy(job->plan_id, plan);
    return 0;
}

/* A token of the job's start, or of a step of it for a rank that has left the running job. */
static int place_token(const struct place *place, const struct job *job,
                       const struct feed_spec *spec, uint32_t rank, struct feed_place *out,
                       struct refusal *refusal)
{
    struct job_start want = {place->token.epoch, place->token.next};
    want = place_settled(want, place_steps(job, spec, want.epoch));
    uint64_t origin = origin_of(job, want.epoch), rows = (uint64_t)job->world * job->batch;
    struct job_place stood;
    *out = (struct feed_place){want.epoch, 0};
    if (want.epoch == job->start.epoch && want.position == job->start.position)
        return 0;
    if (!job->rebuilt && !jobs_stood(job, rank, &stood))
        return refuse(refusal, DLP_ERROR_RESUME,
                      "rank %" PRIu32 " would start at epoch %" PRIu64 ", record %" PRIu64
                      ", but job %s of feed %s has started at epoch %" PRIu64 ", record %" PRIu64
                      ": all ranks start from one token; name another job for another run",
                      rank, want.epoch, want.position, job->name, job->feed, job->start.epoch,
                      job->start.position);
    if (want.position < origin || (want.position - origin) % rows != 0)
        return refuse(refusal, DLP_ERROR_RESUME,
                      "the resume token says record %" PRIu64 " of epoch %" PRIu64
                      ", which is between two steps of the running job %s of feed %s: it started "
                      "at epoch %" PRIu64 ", record %" PRIu64 ", and a step has %" PRIu64
                      " record%s",
                      want.position, want.epoch, job->name, job->feed, job->start.epoch,
                      job->start.position, rows, plural(rows));
    out->step = (want.position - origin) / rows;
    return 0;
}

/* The job's start: again, for a rank that was there before and says nothing. */
static void say_start(struct place *place, const struct job *job, bool again)
{
    const char *why = job->follows && place->last ? "after the job's last released"
                      : again                     ? "again from the start"
                                                  : "from the start";
    char where[64] = "";
    if (job->start.position > 0)
        snprintf(where, sizeof where, ": epoch %" PRIu64 ", record %" PRIu64, job->start.epoch,
                 job->start.position);
    else if (job->start.epoch > 0 || job->follows)
        snprintf(where, sizeof where, ": epoch %" PRIu64, job->start.epoch);
    snprintf(place->words, sizeof place->words, "%s%s", why, where);
    if (place->last && !job->follows)
        snprintf(place->note, sizeof place->note,
                 "resume last: nothing is known of what rank and job had released before, so it "
                 "begins at epoch %" PRIu64 ", record %" PRIu64,
                 job->start.epoch, job->start.position);
}

static void say_reconnected(struct place *place)
{
    snprintf(place->words, sizeof place->words, "reconnected: epoch %" PRIu64 ", step %" PRIu64,
             place->at.epoch, place->at.step);
}

static int choose(struct place *place, const struct job *job, const struct feed_params *params,
                  struct feed_place *out, struct refusal *refusal)
{
    struct job_place stood;
    bool before = jobs_stood(job, params->rank, &stood);
    *out = (struct feed_place){job->start.epoch, 0};
    if (place->reconnects) {
        *out = place->at;
        say_reconnected(place);
    } else if (place->has_token) {
        snprintf(place->words, sizeof place->words,
                 "resumed from token: epoch %" PRIu64 ", record %" PRIu64, place->token.epoch,
                 place->token.next);
        return place_token(place, job, params->spec, params->rank, out, refusal);
    } else if (place->last && before) {
        *out = (struct feed_place){stood.epoch, stood.step};
        snprintf(place->words, sizeof place->words,
                 "after its last released: epoch %" PRIu64 ", step %" PRIu64, out->epoch,
                 out->step);
    } else {
        say_start(place, job, before);
    }
    return 0;
}

/* Past the last step lies the next epoch. A rank without a row in it has one end before. */
static int settle_first(const struct job *job, const struct feed_spec *spec,
                        struct feed_place *first, struct refusal *refusal)
{
    struct steps steps = place_steps(job, spec, first->epoch);
    uint64_t total = steps_total(&steps);
    if (first->step > total)
        return refuse(refusal, DLP_ERROR_RESUME,
                      "step %" PRIu64 " of epoch %" PRIu64 " does not exist: there are %" PRIu64
                      " step%s in it",
                      first->step, first->epoch, total, plural(total));
    if (first->step == total && total > 0)
        *first = (struct feed_place){first->epoch + 1, 0};
    return place_check_epoch(first->epoch, refusal);
}

int place_find(struct place *place, struct job *job, struct feed_params *params,
               struct refusal *refusal)
{
    const struct feed_spec *spec = params->spec;
    int code = check_plan(place, job, spec, refusal);
    if (!code && place->has_token)
        code = check_token(place, job, spec, refusal);
    if (!code)
        code = settle_start(job, spec, refusal);
    params->start_epoch = job->start.epoch;
    params->start_position = job->start.position;
    if (!code)
        code = choose(place, job, params, &params->first, refusal);
    return code ? code : settle_first(job, spec, &params->first, refusal);
}

int place_wanted(const struct place *place, const struct job *job, const struct feed_spec *spec,
                 struct feed_place *out, struct refusal *refusal)
{
    *out = place->at;
    return settle_first(job, spec, out, refusal);
}

/* A token of exactly the place where the group is. */
static int check_there(struct place *place, const struct group *group, struct feed_place at,
                       struct refusal *refusal)
{
    const struct job *job = group->job;
    const struct feed_spec *spec = group->params.spec;
    int code = check_token(place, job, spec, refusal);
    if (code)
        return code;
    struct job_start want = {place->token.epoch, place->token.next};
    want = place_settled(want, place_steps(job, spec, want.epoch));
    uint64_t position = origin_of(job, at.epoch) + at.step * job->world * job->batch;
    if (want.epoch == at.epoch && want.position == position)
        return 0;
    return refuse(refusal, DLP_ERROR_RESUME,
                  "the resume token says epoch %" PRIu64 ", record %" PRIu64
                  ", the running group %s of feed %s is at epoch %" PRIu64 ", record %" PRIu64
                  " (step %" PRIu64 "): leave out the token to join there, or name another group",
                  want.epoch, want.position, job->name, job->feed, at.epoch, position, at.step);
}

/* Its next batch and all that follow are still to come, or are still here. */
static int rejoin(struct place *place, const struct group *group, struct feed_place at,
                  struct feed_place from, struct feed_place *first, struct refusal *refusal)
{
    const struct job *job = group->job;
    int code = check_plan(place, group->job, group->params.spec, refusal);
    if (!code)
        code = place_wanted(place, job, group->params.spec, first, refusal);
    say_reconnected(place);
    bool there = !group_before(*first, from), skips = group->params.spec->lag == LAG_SKIP;
    if (skips && !there)
        *first = from;
    if (code || skips || (there && group_keeps_from(group, *first)))
        return code;
    return refuse(refusal, DLP_ERROR_RESUME,
                  "the client comes back for epoch %" PRIu64 ", step %" PRIu64
                  ", but group %s of feed %s has gone on to epoch %" PRIu64 ", step %" PRIu64
                  " without it: attach anew to join there",
                  first->epoch, first->step, job->name, job->feed, at.epoch, at.step);
}

int place_join(struct place *place, const struct group *group, struct feed_place from,
               struct feed_place *first, struct refusal *refusal)
{
    struct feed_place at = group_current(group), start = group->params.first;
    from = group_settled(group, from);
    if (group_before(at, from))
        at = from;
    if (place->reconnects)
        return rejoin(place, group, at, from, first, refusal);
    *first = at;
    int code = place->has_token ? check_there(place, group, at, refusal) : 0;
    if (code)
        return code;
    snprintf(place->words, sizeof place->words,
             "joined its group: epoch %" PRIu64 ", step %" PRIu64, at.epoch, at.step);
    if (!*place->note && (at.epoch != start.epoch || at.step != start.step))
        snprintf(place->note, sizeof place->note,
                 "joined group %s at epoch %" PRIu64 ", step %" PRIu64, group->job->name, at.epoch,
                 at.step);
    return 0;
}
