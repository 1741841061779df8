#include "control/vacancy.h"

#include "control/group.h"
#include "control/place.h"

/* The place of the rank of the job that has come furthest; false: none streams. */
static bool furthest(const struct control *control, const struct job *job, struct feed_place *out)
{
    bool found = false;
    for (const struct group *group = control->groups; group; group = group->next) {
        if (group->job != job || group->state != GROUP_STREAMING)
            continue;
        if (!found || group_before(*out, group->place))
            *out = group->place;
        found = true;
    }
    return found;
}

/* Rows of a rank from its place on to another of the same epoch. */
static uint64_t rows_until(const struct job *job, const struct feed_spec *spec, uint32_t rank,
                           struct job_place from, uint64_t step)
{
    struct steps steps = place_steps(job, spec, from.epoch);
    uint64_t own = steps_of_rank(&steps, rank);
    if (step > own)
        step = own;
    return step > from.step ? (step - from.step) * job->batch : 0;
}

/* Rows of a rank in the epochs that lie between two. The job's first one begins where the job does,
 * all others are whole, those before it too. */
static uint64_t rows_between(const struct job *job, const struct feed_spec *spec, uint32_t rank,
                             uint64_t after, uint64_t before)
{
    struct job_place first = {job->start.epoch, 0}, whole = {job->start.epoch + 1, 0};
    uint64_t epochs = before - after - 1;
    bool short_one = first.epoch > after && first.epoch < before;
    uint64_t rows = short_one ? rows_until(job, spec, rank, first, UINT64_MAX) : 0;
    return rows + (epochs - short_one) * rows_until(job, spec, rank, whole, UINT64_MAX);
}

static uint64_t lost(const struct job *job, const struct feed_spec *spec,
                     const struct job_rank *rank, struct feed_place to)
{
    struct job_place from = rank->place;
    if (from.epoch == to.epoch)
        return rows_until(job, spec, rank->rank, from, to.step);
    if (from.epoch > to.epoch)
        return 0;
    return rows_until(job, spec, rank->rank, from, UINT64_MAX) +
           rows_between(job, spec, rank->rank, from.epoch, to.epoch) +
           rows_until(job, spec, rank->rank, (struct job_place){to.epoch, 0}, to.step);
}

/* A rank that lags behind, or has died: the others may be waiting for it. */
static bool is_missed(const struct job_rank *rank, uint64_t rows)
{
    return !rank->claimed && (rows > 0 || !rank->left);
}

static void add(struct vacancy *out, const struct job *job, const struct job_rank *rank,
                uint64_t rows, uint64_t now)
{
    Dlp__VacantRank *entry = out->list[out->count] = &out->ranks[out->count];
    out->count++;
    dlp__vacant_rank__init(entry);
    entry->feed = (char *)job->feed;
    entry->job = (char *)job->name;
    entry->shared = job->shared;
    entry->uid = job->uid;
    entry->rank = rank->rank;
    entry->world = job->world;
    entry->epoch = rank->place.epoch;
    entry->step = rank->place.step;
    entry->lost = rows;
    entry->vacant_ns = now - rank->since;
}

void vacancy_list(const struct control *control, uint64_t now, struct vacancy *out)
{
    out->count = 0;
    for (const struct job *job = jobs_first(control->jobs); job; job = job->next) {
        struct feed_place to = {0};
        if (job->nclaims == job->nranks || !furthest(control, job, &to))
            continue;
        for (uint32_t i = 0; i < job->nranks && out->count < VACANCY_MAX; i++) {
            const struct job_rank *rank = &job->ranks[i];
            uint64_t rows = lost(job, job->spec, rank, to);
            if (is_missed(rank, rows))
                add(out, job, rank, rows, now);
        }
    }
}
