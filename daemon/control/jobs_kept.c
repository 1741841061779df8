/* Jobs that outlive the daemon. */
#include <string.h>

#include "base/mem.h"
#include "control/jobs_parts.h"
#include "control/ledger.h"
#include "feed/spec.h"

void jobs_forget(struct jobs *jobs, struct job *job)
{
    ledger_remove_job(jobs->ledger, job->kept);
    job->kept = 0;
    for (uint32_t i = 0; i < job->nranks; i++)
        job->ranks[i].kept = 0;
}

/* What was kept of it before, with another start, goes behind what takes its place. A user's own
 * feed is given by his clients only: without them there is none for its jobs. */
static void keep_job(struct jobs *jobs, struct job *job)
{
    uint32_t former = job->kept;
    if (!jobs->ledger || job->probe || job->ended || *job->feed == DLP_OWN_FEED ||
        (former && !job->moved))
        return;
    struct ledger_job entry = {.seed = job->seed,
                               .start_epoch = job->start.epoch,
                               .start_position = job->start.position,
                               .uid = job->uid,
                               .world = job->world,
                               .batch = job->batch,
                               .shared = job->shared,
                               .follows = job->follows,
                               .rebuilt = job->rebuilt};
    strcpy(entry.plan_id, job->plan_id);
    strcpy(entry.feed, job->feed);
    strcpy(entry.name, job->name);
    job->kept = ledger_add_job(jobs->ledger, &entry);
    job->moved = false;
    ledger_remove_job(jobs->ledger, former);
}

void jobs_keep(struct jobs *jobs, struct job *job, struct job_rank *rank)
{
    keep_job(jobs, job);
    ledger_set_place(jobs->ledger, rank->kept, rank->place.epoch, rank->place.step);
    if (rank->kept)
        return;
    struct ledger_rank entry = {.job = job->kept,
                                .rank = rank->rank,
                                .rowless = rank->rowless,
                                .epoch = rank->place.epoch,
                                .step = rank->place.step};
    rank->kept = ledger_add_rank(jobs->ledger, &entry);
}

static struct job *restore_job(const struct ledger_job *entry, const struct feed_spec *spec)
{
    struct job *job = mem_new(sizeof *job);
    job->uid = entry->uid;
    job->spec = spec_ref(spec);
    job->feed = spec->name;
    strcpy(job->name, entry->name);
    strcpy(job->plan_id, entry->plan_id);
    job->world = entry->world;
    job->batch = entry->batch;
    job->seed = entry->seed;
    job->start = (struct job_start){entry->start_epoch, entry->start_position};
    job->shared = entry->shared;
    job->follows = entry->follows;
    job->rebuilt = entry->rebuilt;
    job->begun = true;
    return job;
}

static void restore_rank(struct job *job, const struct ledger_rank *entry, uint32_t kept,
                         uint64_t now)
{
    job->ranks = mem_grow(job->ranks, job->nranks + 1, sizeof *job->ranks);
    job->ranks[job->nranks++] = (struct job_rank){.rank = entry->rank,
                                                  .served = true,
                                                  .rowless = entry->rowless,
                                                  .left = entry->left,
                                                  .awaited = !entry->vacant,
                                                  .kept = kept,
                                                  .since = entry->vacant ? entry->vacant : now,
                                                  .place = {entry->epoch, entry->step}};
}

uint32_t jobs_restore(struct jobs *jobs, struct ledger *ledger,
                      const struct feed_spec *(*spec_of)(void *context, const char *feed),
                      void *context, uint64_t now, uint32_t *gone)
{
    cleanup_free struct job **restored = mem_array(LEDGER_JOBS + 1, sizeof *restored);
    struct ledger_job entry;
    struct ledger_rank rank;
    uint64_t since;
    uint32_t count = 0;
    jobs->ledger = ledger;
    for (uint32_t i = 1; i <= LEDGER_JOBS; i++) {
        if (!ledger_get_job(ledger, i, &entry, &since))
            continue;
        const struct feed_spec *spec = spec_of(context, entry.feed);
        if (!spec) {
            ledger_remove_job(ledger, i);
            ++*gone;
            continue;
        }
        struct job *job = restored[i] = restore_job(&entry, spec);
        job->number = ++jobs->made;
        job->kept = i;
        job->empty_since = since && since < now ? since : now;
        job->next = jobs->first;
        jobs->first = job;
        count++;
    }
    for (uint32_t i = 1; i <= LEDGER_RANKS; i++)
        if (ledger_get_rank(ledger, i, &rank) && restored[rank.job])
            restore_rank(restored[rank.job], &rank, i, now);
    return count;
}

void jobs_let_be(struct jobs *jobs)
{
    jobs->ledger = NULL;
}
