#include "control/jobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "control/jobs_parts.h"
#include "control/ledger.h"
#include "feed/spec.h"
#include "store/dataset.h"

#define LINGERING_MAX 1024 /* jobs without clients; the longest without goes first */

struct jobs *jobs_new(uint64_t linger_ns)
{
    struct jobs *jobs = mem_new(sizeof *jobs);
    jobs->linger_ns = linger_ns;
    return jobs;
}

static void free_job(struct job *job)
{
    dataset_unref(job->dataset);
    free(job->ranks);
    free(job->mix_note);
    spec_unref(job->spec);
    free(job);
}

void jobs_free(struct jobs *jobs)
{
    if (!jobs)
        return;
    while (jobs->first) {
        struct job *job = jobs->first;
        jobs->first = job->next;
        free_job(job);
    }
    free(jobs);
}

static bool is_meant(const struct job *job, const struct job_want *want)
{
    return (job->uid == want->uid || want->shared) && job->shared == want->shared &&
           job->probe == want->probe && strcmp(job->feed, want->feed) == 0 &&
           strcmp(job->name, want->name) == 0;
}

/* In whose place the job begins, until it has served somebody; NULL = in nobody's. */
static struct job *former_of(const struct jobs *jobs, const struct job *job)
{
    const struct job_want same = {.uid = job->uid,
                                  .shared = job->shared,
                                  .probe = job->probe,
                                  .feed = job->feed,
                                  .name = job->name};
    struct job *former = job->begun ? NULL : jobs->first;
    while (former && (!former->aside || !is_meant(former, &same)))
        former = former->next;
    return former;
}

static void remove_job(struct jobs *jobs, struct job *job)
{
    struct job *former = former_of(jobs, job);
    if (former)
        former->aside = false;
    jobs_forget(jobs, job);
    struct job **at = &jobs->first;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    free_job(job);
}

static struct job *find_job(const struct jobs *jobs, const struct job_want *want)
{
    struct job *job = jobs->first;
    while (job && (job->ended || job->aside || !is_meant(job, want)))
        job = job->next;
    return job;
}

static struct job_rank *find_rank(const struct job *job, uint32_t rank)
{
    for (uint32_t i = 0; i < job->nranks; i++)
        if (job->ranks[i].rank == rank)
            return &job->ranks[i];
    return NULL;
}

static const struct job_rank *find_claim(const struct job *job, uint32_t rank)
{
    const struct job_rank *found = find_rank(job, rank);
    return found && found->claimed ? found : NULL;
}

const char *jobs_word(bool shared)
{
    return shared ? "group" : "job";
}

/* 0, or MISMATCH with both values. */
static int compare(const struct job *job, const char *what, const struct job_optional *given,
                   uint64_t value, struct refusal *refusal)
{
    if (!given->given || given->value == value)
        return 0;
    return refuse(refusal, DLP_ERROR_MISMATCH,
                  "%s %" PRIu64 " differs from that of the running %s %s of feed %s, which is "
                  "%" PRIu64 ": give the same, leave it out, or name another %s",
                  what, given->value, jobs_word(job->shared), job->name, job->feed, value,
                  jobs_word(job->shared));
}

static int compare_start(const struct job *job, const struct job_want *want,
                         struct refusal *refusal)
{
    const struct job_start *resume = want->resume;
    if (resume->epoch != job->start.epoch || resume->position != job->start.position)
        return refuse(refusal, DLP_ERROR_RESUME,
                      "the client's %s started at epoch %" PRIu64 ", record %" PRIu64
                      ", the running %s %s of feed %s at epoch %" PRIu64 ", record %" PRIu64
                      ": it is another run",
                      jobs_word(job->shared), resume->epoch, resume->position,
                      jobs_word(job->shared), job->name, job->feed, job->start.epoch,
                      job->start.position);
    if (job->plan_id[0] && want->resume_plan && want->resume_plan[0] &&
        strcmp(job->plan_id, want->resume_plan) != 0)
        return refuse(refusal, DLP_ERROR_RESUME,
                      "the client's plan is %s, that of the running %s %s of feed %s is %s: data, "
                      "seed, shuffle, lanes or tail differ",
                      want->resume_plan, jobs_word(job->shared), job->name, job->feed,
                      job->plan_id);
    return 0;
}

/* A token's goes before the option. */
static struct job_optional seed_of(const struct job_want *want)
{
    return want->token ? (struct job_optional){true, want->token->seed} : want->seed;
}

static int compare_all(const struct job *job, const struct job_want *want, struct refusal *refusal)
{
    struct job_optional seed = seed_of(want);
    int code = compare(job, "world", &want->world, job->world, refusal);
    if (!code)
        code = compare(job, "batch", &want->batch, job->batch, refusal);
    if (!code)
        code = compare(job, "seed", &seed, job->seed, refusal);
    if (!code && want->resume)
        code = compare_start(job, want, refusal);
    else if (!code && !want->token && !want->last)
        code = compare(job, "epoch", &want->epoch, job->start.epoch, refusal);
    return code;
}

static struct job *make_job(const struct job_want *want)
{
    struct job *job = mem_new(sizeof *job);
    struct job_optional seed = seed_of(want);
    job->uid = want->uid;
    job->spec = spec_ref(want->spec);
    job->feed = want->feed;
    snprintf(job->name, sizeof job->name, "%s", want->name);
    job->probe = want->probe;
    job->shared = want->shared;
    job->world = want->world.given ? (uint32_t)want->world.value : 1;
    job->batch = want->batch.given ? (uint32_t)want->batch.value : want->feed_batch;
    job->seed = seed.given ? seed.value : want->feed_seed;
    job->rebuilt = want->resume;
    if (want->resume)
        job->start = *want->resume;
    else if (want->token)
        job->start = (struct job_start){want->token->epoch, want->token->next};
    else if (want->epoch.given)
        job->start.epoch = want->epoch.value;
    return job;
}

static int refuse_taken(const struct job *job, const struct job_rank *claim, uint64_t now,
                        struct refusal *refusal)
{
    const char *advice = strcmp(job->name, "default") == 0
                             ? "; a second run beside it must name its job"
                             : "; each trainer of a job needs a rank of its own";
    return refuse(refusal, DLP_ERROR_RANK_TAKEN,
                  "rank %u of job %s of feed %s is taken by pid %d, for %.1f s%s", claim->rank,
                  job->name, job->feed, (int)claim->pid,
                  (double)(now - claim->since) / (double)CLOCK_SECOND, advice);
}

static uint32_t lowest_free(const struct job *job)
{
    uint32_t rank = 0;
    while (rank < job->world && find_claim(job, rank))
        rank++;
    return rank;
}

static int choose_rank(const struct job *job, const struct job_want *want, uint64_t now,
                       uint32_t *rank, struct refusal *refusal)
{
    if (!want->rank.given && want->world.given)
        return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                      "world %u without a rank: give the rank too, or leave out both", job->world);
    if (!want->rank.given && job->shared && job->world > 1)
        return refuse(
            refusal, DLP_ERROR_BAD_REQUEST,
            "no rank is given, and group %s of feed %s has world %u: give one of 0 to %u, "
            "or name another group",
            job->name, job->feed, job->world, job->world - 1);
    uint64_t wanted = want->rank.given ? want->rank.value : job->shared ? 0 : lowest_free(job);
    if (!want->rank.given && wanted == job->world)
        return refuse(
            refusal, DLP_ERROR_RANK_TAKEN,
            "all ranks of job %s of feed %s are taken (its world is %u), rank 0 by pid %d",
            job->name, job->feed, job->world, (int)find_claim(job, 0)->pid);
    if (wanted >= job->world)
        return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                      "rank %" PRIu64 " is out of range: %s %s of feed %s has world %u, so ranks "
                      "0 to %u",
                      wanted, jobs_word(job->shared), job->name, job->feed, job->world,
                      job->world - 1);
    *rank = (uint32_t)wanted;
    const struct job_rank *claim = find_claim(job, *rank);
    return claim && !job->shared ? refuse_taken(job, claim, now, refusal) : 0;
}

static void add_claim(struct jobs *jobs, struct job *job, uint32_t rank, pid_t pid, uint64_t now)
{
    struct job_rank *claim = find_rank(job, rank);
    if (!claim) {
        job->ranks = mem_grow(job->ranks, job->nranks + 1, sizeof *job->ranks);
        claim = &job->ranks[job->nranks++];
        *claim = (struct job_rank){.rank = rank};
    }
    claim->claimed = true;
    claim->left = claim->awaited = false;
    claim->pid = pid;
    claim->since = now;
    job->nclaims++;
    job->empty_since = 0;
    ledger_set_vacant(jobs->ledger, claim->kept, 0, false);
    ledger_set_empty(jobs->ledger, job->kept, 0);
}

static bool before(struct job_place a, struct job_place b)
{
    return a.epoch != b.epoch ? a.epoch < b.epoch : a.step < b.step;
}

/* The place after what every rank has released. One that was never served has released nothing. */
static struct job_place released(const struct job *job)
{
    struct job_place least = {job->start.epoch, 0};
    bool found = false;
    for (uint32_t i = 0; job->nranks == job->world && i < job->nranks; i++) {
        const struct job_rank *rank = &job->ranks[i];
        if (rank->rowless || (found && !before(rank->place, least)))
            continue;
        least = rank->place;
        found = true;
    }
    return least;
}

static bool awaits_any(const struct job *job)
{
    for (uint32_t i = 0; i < job->nranks; i++)
        if (job->ranks[i].awaited)
            return true;
    return false;
}

/* Nobody is there: all go on from one place. Its start stays where it is as long as trainers may
 * come back that know it. */
static void begin_after_released(struct jobs *jobs, struct job *job)
{
    struct job_place place = released(job);
    if (awaits_any(job)) {
        for (uint32_t i = 0; i < job->nranks; i++)
            jobs_stands(jobs, job, job->ranks[i].rank, place);
        return;
    }
    uint64_t origin = place.epoch == job->start.epoch ? job->start.position : 0;
    job->start.epoch = place.epoch;
    job->start.position = origin + place.step * job->world * job->batch;
    job->follows = job->moved = true;
    job->nranks = 0;
}

static bool fits(struct job_optional given, uint64_t value)
{
    return !given.given || given.value == value;
}

/* A rank with a token of this very run, while others of it may still come back by themselves: had
 * the daemon not ended, it would have found them running. */
static bool comes_back(const struct job *job, const struct job_want *want)
{
    const struct token *token = want->token;
    struct job_place stood;
    if (!token || job->shared || !awaits_any(job) || strcmp(token->plan_id, job->plan_id) != 0 ||
        !fits(want->world, job->world) || !fits(want->batch, job->batch) || !want->rank.given ||
        want->rank.value >= job->world || !jobs_stood(job, (uint32_t)want->rank.value, &stood))
        return false;
    uint64_t origin = token->epoch == job->start.epoch ? job->start.position : 0;
    return token->epoch >= job->start.epoch && token->next >= origin &&
           (token->next - origin) % ((uint64_t)job->world * job->batch) == 0;
}

/* One that comes back by itself to a job of before: a daemon that keeps none has served another of
 * this name since. */
static bool is_of_later(const struct job *job, const struct job_want *want)
{
    const char *plan = want->resume_plan ? want->resume_plan : "";
    return awaits_any(job) &&
           (want->resume->epoch != job->start.epoch ||
            want->resume->position != job->start.position ||
            (*plan && strcmp(plan, job->plan_id) != 0) || !fits(want->world, job->world) ||
            !fits(want->batch, job->batch) || !fits(want->seed, job->seed));
}

static bool begins_anew(const struct job *job, const struct job_want *want)
{
    if (!job->empty_since || want->last)
        return false;
    return want->resume ? is_of_later(job, want) : !comes_back(job, want);
}

const struct feed_spec *jobs_spec(const struct jobs *jobs, const struct job_want *want)
{
    const struct job *job = find_job(jobs, want);
    return job && !begins_anew(job, want) ? job->spec : NULL;
}

/* Of those that run, also the last of a reconnect, or one that goes on. */
static int check_running(const struct job *job, const struct job_want *want,
                         struct refusal *refusal)
{
    if (!want->running_only || want->resume || (job && !begins_anew(job, want)))
        return 0;
    return refuse(refusal, DLP_ERROR_DRAINING,
                  "this node drains: it serves the jobs that run until they end, and %s %s of feed "
                  "%s is none of them: run it elsewhere, or try again when the daemon is started "
                  "anew or dataloadctl undrain has been said",
                  jobs_word(want->shared), want->name, want->feed);
}

int jobs_claim(struct jobs *jobs, const struct job_want *want, uint64_t now, struct job **out,
               uint32_t *rank, struct refusal *refusal)
{
    jobs_expire(jobs, now);
    struct job *job = find_job(jobs, want);
    if (check_running(job, want, refusal))
        return (int)refusal->code;
    struct job *former = NULL, *made = NULL;
    if (job && begins_anew(job, want)) {
        former = job;
        job = NULL;
    }
    if (!job) {
        job = made = make_job(want);
        if (!job->batch) {
            free_job(job);
            return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                          "feed %s has no batch: give one with the attach or among its settings",
                          want->feed);
        }
    }
    int code = compare_all(job, want, refusal);
    if (!code)
        code = choose_rank(job, want, now, rank, refusal);
    if (code) {
        if (made)
            free_job(made);
        return code;
    }
    if (former)
        former->aside = true;
    if (made) {
        made->number = ++jobs->made;
        made->next = jobs->first;
        jobs->first = made;
    } else if (job->empty_since && want->last) {
        begin_after_released(jobs, job);
    }
    if (!find_claim(job, *rank))
        add_claim(jobs, job, *rank, want->pid, now);
    *out = job;
    return 0;
}

static void limit_lingering(struct jobs *jobs)
{
    struct job *oldest = NULL;
    uint32_t count = 0;
    for (struct job *job = jobs->first; job; job = job->next) {
        if (!job->empty_since)
            continue;
        count++;
        if (!oldest || job->empty_since < oldest->empty_since)
            oldest = job;
    }
    if (count > LINGERING_MAX)
        remove_job(jobs, oldest);
}

void jobs_release(struct jobs *jobs, struct job *job, uint32_t rank, uint64_t now)
{
    struct job_rank *claim = find_rank(job, rank);
    claim->claimed = false;
    claim->since = now;
    ledger_set_vacant(jobs->ledger, claim->kept, now, claim->left);
    if (!claim->served)
        *claim = job->ranks[--job->nranks];
    if (--job->nclaims)
        return;
    job->empty_since = now;
    ledger_set_empty(jobs->ledger, job->kept, now);
    if (!job->begun || job->probe || job->ended)
        remove_job(jobs, job);
    else
        limit_lingering(jobs);
}

void jobs_left(struct job *job, uint32_t rank)
{
    find_rank(job, rank)->left = true;
}

void jobs_served(struct jobs *jobs, struct job *job, uint32_t rank, struct job_place place,
                 bool rowless)
{
    struct job_rank *found = find_rank(job, rank);
    struct job *former = former_of(jobs, job);
    job->begun = found->served = true;
    found->rowless = rowless;
    found->place = place;
    jobs_keep(jobs, job, found);
    if (former)
        remove_job(jobs, former);
}

void jobs_stands(struct jobs *jobs, struct job *job, uint32_t rank, struct job_place place)
{
    struct job_rank *found = find_rank(job, rank);
    found->place = place;
    ledger_set_place(jobs->ledger, found->kept, place.epoch, place.step);
}

bool jobs_stood(const struct job *job, uint32_t rank, struct job_place *place)
{
    const struct job_rank *found = find_rank(job, rank);
    if (!found || !found->served)
        return false;
    *place = found->place;
    return true;
}

uint32_t jobs_end(struct jobs *jobs, bool (*which)(void *context, const struct job *job),
                  void *context)
{
    uint32_t count = 0;
    for (struct job *job = jobs->first, *next; job; job = next) {
        next = job->next;
        if (job->ended || !which(context, job))
            continue;
        count++;
        job->ended = true;
        jobs_forget(jobs, job);
        if (!job->nclaims)
            remove_job(jobs, job);
    }
    return count;
}

void jobs_expire(struct jobs *jobs, uint64_t now)
{
    for (struct job *job = jobs->first, *next; job; job = next) {
        next = job->next;
        if (job->empty_since && now - job->empty_since >= jobs->linger_ns)
            remove_job(jobs, job);
    }
}

void jobs_set_linger(struct jobs *jobs, uint64_t linger_ns)
{
    jobs->linger_ns = linger_ns;
}

const struct job *jobs_first(const struct jobs *jobs)
{
    return jobs->first;
}
