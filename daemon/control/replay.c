#include "control/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/plural.h"
#include "control/session.h"
#include "proto/frames.h"

struct mark { /* of a rank, when it took a batch */
    uint64_t at;
    uint64_t samples; /* in those that it took before */
    uint64_t wait_ns; /* for those that it took, with this one */
};

struct replay_rank {
    struct replay *replay;
    struct group *group; /* NULL: its part is over */
    uint32_t rank, slots;
    pid_t pid;
    uint64_t spare; /* slots that batches before the place need still */
    bool leads;     /* as far as it may: it has slots for when the others have come on */
    uint64_t served, taken, samples;
    struct mark from, last; /* what is measured lies between them */
};

struct replay {
    struct replay *next, **link; /* in control->replays */
    struct session *asker;       /* NULL: nobody waits for the answer */
    uint64_t id;
    struct replay_plan plan;
    char job[DLP_NAME_MAX + 1];
    uint64_t target; /* batches for each rank; UINT64_MAX: not settled */
    uint64_t since,
        measured;         /* when it was asked for; when all ranks were warm, 0 = they are not */
    uint32_t count, left; /* ranks; those whose part is not over */
    struct replay_rank ranks[];
};

/* Some epochs may have no batch of this rank: all but the job's first have as many as each other.
 */
static struct feed_place settled(const struct group *group, struct feed_place at)
{
    for (int i = 0; i < 2 && at.step >= feed_steps(group->feed, at.epoch); i++)
        at = (struct feed_place){at.epoch + 1, 0};
    return at;
}

/* The reader fills each slot that is not out, in the order of their places. */
struct feed_place replay_earliest(const struct group *group)
{
    struct feed_place at = settled(group, group->members->expected);
    for (uint32_t slot = 0; slot < group->params.slots; slot++) {
        if (group->batches[slot].out)
            continue;
        at.step++;
        at = settled(group, at);
    }
    return at;
}

static void fill(const struct replay_rank *rank, Dlp__ReplayRank *out)
{
    dlp__replay_rank__init(out);
    uint64_t ns = rank->last.at - rank->from.at, waited = rank->last.wait_ns - rank->from.wait_ns;
    uint64_t samples = rank->last.samples - rank->from.samples;
    out->rank = rank->rank;
    out->pid = rank->pid;
    out->batches = rank->taken;
    out->samples = rank->samples;
    out->seconds = (double)ns / (double)CLOCK_SECOND;
    if (ns > waited)
        out->compute_samples_per_s = (double)samples * (double)CLOCK_SECOND / (double)(ns - waited);
}

/* Whoever asked has its answer, or has gone. */
static void dismiss(struct replay *replay)
{
    replay->asker->replays--;
    replay->asker = NULL;
}

#define RANKS_A_PART 1024 /* well under DLP_FRAME_TO_CLIENT_MAX */

static void reply_part(struct replay *replay, uint32_t first, uint32_t count)
{
    cleanup_free Dlp__ReplayRank *ranks = mem_array(count, sizeof *ranks);
    cleanup_free Dlp__ReplayRank **list = mem_array(count, sizeof *list);
    Dlp__ReplayReply reply = DLP__REPLAY_REPLY__INIT;
    reply.epoch = replay->plan.place.epoch;
    reply.step = replay->plan.place.step;
    reply.ranks = list;
    reply.n_ranks = count;
    reply.more = first + count < replay->count;
    for (uint32_t i = 0; i < count; i++) {
        fill(&replay->ranks[first + i], &ranks[i]);
        list[i] = &ranks[i];
    }
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = replay->id;
    env.body_case = DLP__ENVELOPE__BODY_REPLAY_REPLY;
    env.replay_reply = &reply;
    session_send(replay->asker, &env);
}

static void reply(struct replay *replay)
{
    for (uint32_t at = 0; at < replay->count; at += RANKS_A_PART) {
        uint32_t rest = replay->count - at;
        reply_part(replay, at, rest < RANKS_A_PART ? rest : RANKS_A_PART);
    }
    dismiss(replay);
}

static uint64_t most_served(const struct replay *replay)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < replay->count; i++)
        if (replay->ranks[i].served > most)
            most = replay->ranks[i].served;
    return most;
}

/* The part of a rank is over; what it has in its slots is let go by the next look at them. */
static void part(struct replay_rank *rank)
{
    struct group *group = rank->group;
    struct feed_stats stats;
    rank->group = NULL;
    group->replay = NULL;
    rank->replay->left--;
    feed_get_stats(group->feed, &stats);
    gauge_restart(group->members->gauge, clock_ns(),
                  &stats); /* none of it was the trainer's pace */
}

static void end(struct replay *replay)
{
    log_info("job %s: replay before epoch %" PRIu64 ", step %" PRIu64 " over: %" PRIu64
             " batch%s to each of %u rank%s",
             replay->job, replay->plan.place.epoch, replay->plan.place.step, replay->target,
             replay->target == 1 ? "" : "es", replay->count, plural(replay->count));
    if (replay->asker)
        reply(replay);
    *replay->link = replay->next;
    if (replay->next)
        replay->next->link = replay->link;
    free(replay);
}

/* Those that have had what is due go on, and those that had to wait for others. */
static void look(struct replay *replay)
{
    for (uint32_t i = 0; i < replay->count; i++) {
        struct replay_rank *rank = &replay->ranks[i];
        struct group *group = rank->group;
        bool over = group && rank->taken >= replay->target;
        if (over)
            part(rank);
        if (over || (group && rank->leads))
            loan_look(group);
    }
    if (!replay->left)
        end(replay);
}

static void settle(struct replay *replay)
{
    uint64_t most = most_served(replay);
    if (replay->target == UINT64_MAX || !most) /* or nothing has begun that others might do, too */
        replay->target = most;
    look(replay);
}

/* It did not go as asked; what is served of it is still served. */
static void fail(struct replay *replay, const char *why)
{
    if (!replay->asker)
        return;
    session_refuse_format(
        replay->asker, replay->id, DLP_ERROR_REPLAY,
        "the replay of job %s has ended early, after %" PRIu64 " batch%s to each rank, since %s",
        replay->job, most_served(replay), most_served(replay) == 1 ? "" : "es", why);
    dismiss(replay);
}

void replay_start(struct session *asker, uint64_t id, const struct replay_plan *plan,
                  struct group *const *groups, uint32_t count)
{
    struct control *control = asker->control;
    struct replay *replay = mem_new(sizeof *replay + count * sizeof replay->ranks[0]);
    *replay = (struct replay){.asker = asker,
                              .id = id,
                              .plan = *plan,
                              .target = plan->batches ? plan->batches : UINT64_MAX,
                              .since = clock_ns(),
                              .count = count,
                              .left = count,
                              .next = control->replays,
                              .link = &control->replays};
    snprintf(replay->job, sizeof replay->job, "%s", plan->job);
    replay->plan.job = replay->job;
    if (replay->next)
        replay->next->link = &replay->next;
    control->replays = replay;
    asker->replays++;
    for (uint32_t i = 0; i < count; i++) {
        struct group *group = groups[i];
        replay->ranks[i] = (struct replay_rank){
            .replay = replay,
            .group = group,
            .rank = group->params.rank,
            .slots = group->params.slots,
            .pid = group->members->peer.pid,
            .spare = group_distance(group, replay_earliest(group), plan->place)};
        group->replay = &replay->ranks[i];
    }
}

/* A rank that has left, or has had its part, is not waited for. */
static uint64_t least_served(const struct replay *replay)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < replay->count; i++)
        if (replay->ranks[i].group && replay->ranks[i].served < least)
            least = replay->ranks[i].served;
    return least;
}

enum replay_use replay_use(struct group *group)
{
    struct replay_rank *rank = group->replay;
    const struct replay *replay = rank->replay;
    if (rank->spare) {
        rank->spare--;
        return REPLAY_LETS_GO;
    }
    if (rank->served >= replay->target)
        return REPLAY_LETS_GO;
    if (group_before(settled(group, group->members->expected), replay->plan.place))
        return REPLAY_KEEPS;
    rank->leads =
        replay->target == UINT64_MAX && rank->served >= least_served(replay) + REPLAY_LEAD;
    if (rank->leads)
        return REPLAY_KEEPS;
    rank->served++;
    return REPLAY_SERVES;
}

/* Who keeps it from being measured; NULL: nobody. */
static const struct replay_rank *late(const struct replay *replay)
{
    for (uint32_t i = 0; i < replay->count; i++)
        if (replay->ranks[i].taken <= replay->ranks[i].slots)
            return &replay->ranks[i];
    return NULL;
}

static double measured_s(const struct replay *replay, uint64_t now)
{
    return replay->measured ? (double)(now - replay->measured) / (double)CLOCK_SECOND : 0;
}

static void report_measuring(const struct replay *replay, uint64_t now)
{
    uint64_t least = UINT64_MAX, seconds = (replay->plan.ns + CLOCK_SECOND - 1) / CLOCK_SECOND;
    for (uint32_t i = 0; i < replay->count; i++)
        if (replay->ranks[i].taken < least)
            least = replay->ranks[i].taken;
    if (replay->plan.batches)
        session_progress(replay->asker, replay->id, "measuring, batches", least, replay->target);
    else
        session_progress(replay->asker, replay->id, "measuring, seconds",
                         (uint64_t)measured_s(replay, now), seconds);
}

static void report(const struct replay *replay, uint64_t now)
{
    char text[DLP_TEXT_MAX];
    const struct replay_rank *waits = late(replay);
    if (replay->measured || !waits) {
        report_measuring(replay, now);
        return;
    }
    snprintf(text, sizeof text,
             "the replay is before epoch %" PRIu64 ", step %" PRIu64
             "; waiting for rank %u (pid %d) to take batches there",
             replay->plan.place.epoch, replay->plan.place.step, waits->rank, (int)waits->pid);
    session_progress(replay->asker, replay->id, text, 0, 0);
}

/* What was done before, and the first lap through the slots, is not measured: the trainer may have
 * had work in its queues. */
static void warm_up(struct replay *replay, uint64_t now)
{
    if (late(replay))
        return;
    replay->measured = now;
    for (uint32_t i = 0; i < replay->count; i++)
        replay->ranks[i].from = replay->ranks[i].last;
    if (replay->asker)
        report(replay, now);
}

void replay_took(struct group *group, uint32_t rows, uint64_t wait_ns)
{
    struct replay_rank *rank = group->replay;
    uint64_t now = clock_ns();
    if (!rank)
        return; /* one that was not taken back when its part was over */
    struct replay *replay = rank->replay;
    rank->last = (struct mark){now, rank->samples, rank->last.wait_ns + wait_ns};
    if (!rank->taken++)
        rank->from = rank->last;
    rank->samples += rows;
    if (!replay->measured)
        warm_up(replay, now);
    bool over = replay->measured && now - replay->measured >= replay->plan.ns;
    if (over && replay->target == UINT64_MAX)
        settle(replay);
    else
        look(replay);
}

void replay_leave(struct group *group, const char *why)
{
    struct replay_rank *rank = group->replay;
    struct replay *replay = rank->replay;
    char text[DLP_TEXT_MAX];
    part(rank);
    snprintf(text, sizeof text, "rank %u (pid %d) %s", rank->rank, (int)rank->pid, why);
    fail(replay, text);
    settle(replay);
}

void replay_forget(const struct session *asker)
{
    for (struct replay *replay = asker->control->replays, *next; replay; replay = next) {
        next = replay->next;
        if (replay->asker != asker)
            continue;
        dismiss(replay);
        settle(replay);
    }
}

/* When one of its trainers was last heard of. */
static uint64_t heard(const struct replay *replay)
{
    uint64_t last = replay->since;
    for (uint32_t i = 0; i < replay->count; i++) {
        const struct group *group = replay->ranks[i].group;
        if (group && group->members->heard > last)
            last = group->members->heard;
    }
    return last;
}

void replay_tick(struct control *control, uint64_t now)
{
    for (struct replay *replay = control->replays, *next; replay; replay = next) {
        next = replay->next;
        if (!replay->asker)
            continue;
        uint64_t last = heard(replay);
        if (now > last && now - last >= REPLAY_PATIENCE) {
            fail(replay, "no trainer has taken a batch for 60 s");
            settle(replay);
        } else {
            report(replay, now);
        }
    }
}

char *replay_words(const struct group *group, char *text, size_t size)
{
    const struct replay_rank *rank = group->replay;
    const struct replay *replay = rank->replay;
    int length = snprintf(text, size,
                          "replay before epoch %" PRIu64 ", step %" PRIu64 ": %" PRIu64 " batch%s",
                          replay->plan.place.epoch, replay->plan.place.step, rank->taken,
                          rank->taken == 1 ? "" : "es");
    if (replay->target != UINT64_MAX)
        snprintf(text + length, size - (size_t)length, " of %" PRIu64, replay->target);
    else
        snprintf(text + length, size - (size_t)length, ", %.1f of %.1f s",
                 measured_s(replay, clock_ns()), (double)replay->plan.ns / (double)CLOCK_SECOND);
    length = (int)strlen(text);
    if (rank->leads)
        snprintf(text + length, size - (size_t)length, "; waits for the other ranks");
    return text;
}
