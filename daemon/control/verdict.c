#include "control/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"

#define WAITS_LITTLE 0.05 /* below this share of waiting the trainer itself is the limit */
#define WAITS_ALWAYS 0.99 /* above it nothing can be said about what it could take */
#define HELD_MUCH 0.5
#define THROTTLED_MUCH 0.05
#define SHARE_MUCH 0.1
#define WORKERS_MOST 1e6
#define ENOUGH 0.02 /* of one worker: so much less than the target is as good */
#define WHO_TEXT 64
#define HEAD_TEXT 192
#define PART_TEXT 96

static const char *const names[] = {
    [VERDICT_UNKNOWN] = "unknown", [VERDICT_STORAGE] = "storage", [VERDICT_DECODE] = "decode",
    [VERDICT_COPY] = "copy",       [VERDICT_TRAINER] = "trainer",
};

const char *verdict_stage_name(enum verdict_stage stage)
{
    return (unsigned)stage < sizeof(names) / sizeof(*names) ? names[stage] : names[0];
}

static double known(double rate)
{
    return isfinite(rate) && rate > 0 ? rate : 0;
}

static double share(double value)
{
    return fmin(known(value), 1);
}

static double percent(double value)
{
    return share(value) * 100;
}

const char *verdict_rate(double value, char text[VERDICT_RATE_MAX])
{
    char digits[VERDICT_RATE_MAX];
    size_t used = 0;
    if (value < 9.95 || value >= 1e15) {
        snprintf(text, VERDICT_RATE_MAX, value < 9.95 ? "%.1f/s" : "%.3g/s", value);
        return text;
    }
    int length = snprintf(digits, sizeof(digits), "%.0f", value);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[i];
    }
    snprintf(text + used, VERDICT_RATE_MAX - used, "/s");
    return text;
}

static double limit_of(const struct verdict_input *in, enum verdict_stage stage)
{
    switch (stage) {
    case VERDICT_STORAGE:
        return known(in->read_limit);
    case VERDICT_DECODE:
        return known(in->decode_limit);
    case VERDICT_COPY:
        return known(in->copy_limit);
    default:
        return 0;
    }
}

enum verdict_stage verdict_narrowest(const struct verdict_input *in, enum verdict_stage but,
                                     double *limit)
{
    enum verdict_stage found = VERDICT_UNKNOWN;
    *limit = 0;
    for (enum verdict_stage stage = VERDICT_STORAGE; stage < VERDICT_TRAINER; stage++) {
        double other = limit_of(in, stage);
        if (stage == but || other <= 0 || (found != VERDICT_UNKNOWN && other >= *limit))
            continue;
        found = stage;
        *limit = other;
    }
    return found;
}

double verdict_demand(double samples_per_s, double wait_share)
{
    double waits = share(wait_share);
    return waits > WAITS_ALWAYS ? 0 : known(samples_per_s) / (1 - waits);
}

uint32_t verdict_workers(const struct verdict_input *in, double target)
{
    double each = known(in->decode_per_worker), lacking = target - known(in->decode_limit);
    double more = lacking > 0 && each > 0 ? known(in->others_grow) + lacking / each : 0;
    double wanted = each > 0 ? in->workers + ceil(more - ENOUGH) : 0;
    return wanted < WORKERS_MOST ? (uint32_t)wanted : 0;
}

static enum verdict_stage stage_of_cause(const char *cause)
{
    if (cause && strcmp(cause, "throttled") == 0)
        return VERDICT_DECODE;
    for (enum verdict_stage stage = VERDICT_STORAGE; cause && stage < VERDICT_TRAINER; stage++)
        if (strcmp(cause, names[stage]) == 0)
            return stage;
    return VERDICT_UNKNOWN;
}

/* A cause that is no stage: what happens, and what would help; NULL: it is none of these. */
static const char *words_of_cause(const char *cause, const char **remedy)
{
    *remedy = "";
    if (cause && strcmp(cause, "memory_limit") == 0) {
        *remedy = "; a larger memory or a smaller shuffle would help";
        return "memory limits: the reader waits for some";
    }
    if (cause && strcmp(cause, "shuffle_fill") == 0)
        return "the shuffle buffer is being filled";
    return NULL;
}

/* "the trainer limits"; of a group, which of its trainers. */
static const char *who_limits(const struct verdict_input *in, char text[WHO_TEXT])
{
    if (in->slow_pid)
        snprintf(text, WHO_TEXT, "the trainer with pid %d limits its group", in->slow_pid);
    else
        snprintf(text, WHO_TEXT, "the trainer limits");
    return text;
}

static enum verdict_stage nothing_moves(const struct verdict_input *in, char *text, size_t size)
{
    const char *remedy;
    char who[WHO_TEXT];
    bool held = in->cause && strcmp(in->cause, "slots_held") == 0;
    if (share(in->wait_share) < HELD_MUCH || in->slow_pid) {
        snprintf(text, size, "%s: it took no batch in the last %.1f s", who_limits(in, who),
                 in->window_s);
        return VERDICT_TRAINER;
    }
    enum verdict_stage stage = held ? VERDICT_TRAINER : stage_of_cause(in->cause);
    const char *words = words_of_cause(in->cause, &remedy);
    if (held)
        words = "the trainer limits: it holds all its slots";
    if (words)
        snprintf(text, size, "%s: no batch came in the last %.1f s while the trainer waited%s",
                 words, in->window_s, remedy);
    else if (stage == VERDICT_UNKNOWN)
        snprintf(text, size, "no batch came in the last %.1f s while the trainer waited",
                 in->window_s);
    else
        snprintf(text, size, "%s limits: no batch came in the last %.1f s while the trainer waited",
                 names[stage], in->window_s);
    return stage;
}

/* The trainer waits though the stages could deliver more: for what, where the daemon knows it. */
static enum verdict_stage cause_limits(const struct verdict_input *in, const char *words,
                                       const char *remedy, char *text, size_t size)
{
    char rate[VERDICT_RATE_MAX], could[VERDICT_RATE_MAX];
    double limit;
    verdict_narrowest(in, VERDICT_UNKNOWN, &limit);
    snprintf(text, size,
             "%s: the trainer waits %.0f %% of its time and takes %s, input could deliver %s%s",
             words, percent(in->wait_share), verdict_rate(known(in->samples_per_s), rate),
             verdict_rate(limit, could), remedy);
    return VERDICT_UNKNOWN;
}

static enum verdict_stage trainer_limits(const struct verdict_input *in, char *text, size_t size)
{
    char takes[VERDICT_RATE_MAX], could[VERDICT_RATE_MAX], who[WHO_TEXT], holds[PART_TEXT] = "";
    double taken = known(in->samples_per_s), limit;
    bool waits = share(in->wait_share) >= WAITS_LITTLE && !in->slow_pid;
    enum verdict_stage next = verdict_narrowest(in, VERDICT_UNKNOWN, &limit);
    verdict_rate(taken, takes);
    verdict_rate(limit, could);
    who_limits(in, who);
    if (waits && share(in->slots_held_share) >= HELD_MUCH)
        snprintf(holds, sizeof(holds), " and holds all its slots %.0f %% of the time",
                 percent(in->slots_held_share));
    if (next == VERDICT_UNKNOWN)
        snprintf(text, size, "%s: it takes %s and waits %.0f %% of its time", who, takes,
                 percent(in->wait_share));
    else if (limit < taken * VERDICT_CLOSE)
        snprintf(text, size, "%s: it takes %s%s, close to the %s of %s", who, takes, holds, could,
                 names[next]);
    else
        snprintf(text, size, "%s: it takes %s%s, input could deliver %s%s", who, takes, holds,
                 could, waits ? "; more slots would even it out" : "");
    return VERDICT_TRAINER;
}

static bool user_has_all(const struct verdict_input *in, double limit)
{
    return in->user_threads && in->user_threads < in->workers &&
           limit * VERDICT_CLOSE > known(in->decode_per_worker) * in->user_threads;
}

bool verdict_user_has_all(const struct verdict_input *in)
{
    return user_has_all(in, known(in->decode_limit));
}

/* Whose the others are. */
static void say_whose(const struct verdict_input *in, double limit, char *text, size_t size)
{
    double by_weight = known(in->decode_per_worker) * in->workers * share(in->share);
    if (user_has_all(in, limit))
        snprintf(text, size, "are all that its user may have");
    else if (by_weight * VERDICT_CLOSE > limit)
        snprintf(text, size, "are its share, %.0f %%", percent(in->share));
    else
        snprintf(text, size, "are left to it");
}

static void say_workers(const struct verdict_input *in, double limit, char *text, size_t size)
{
    char one[VERDICT_RATE_MAX], all[VERDICT_RATE_MAX], left[VERDICT_RATE_MAX], why[PART_TEXT] = "";
    char whose[WHO_TEXT];
    double each = known(in->decode_per_worker), total = each * in->workers;
    verdict_rate(limit, left);
    say_whose(in, limit, whose, sizeof(whose));
    if (share(in->throttled_share) >= THROTTLED_MUCH)
        snprintf(why, sizeof(why), "throttled %.0f %% of the time by the CPU limit of its cgroup, ",
                 percent(in->throttled_share));
    if (total <= 0)
        snprintf(text, size, "decode limits: %s%s", why, left);
    else if (limit < total / VERDICT_CLOSE)
        snprintf(text, size, "decode limits: %s%s of %u worker%s x %s %s", why, left, in->workers,
                 plural(in->workers), verdict_rate(each, one), whose);
    else
        snprintf(text, size, "decode limits: %s%u worker%s x %s = %s", why, in->workers,
                 plural(in->workers), verdict_rate(each, one), verdict_rate(total, all));
}

static void say_head(const struct verdict_input *in, enum verdict_stage stage, double limit,
                     char *text, size_t size)
{
    char number[VERDICT_RATE_MAX];
    if (stage == VERDICT_DECODE)
        say_workers(in, limit, text, size);
    else if (stage == VERDICT_STORAGE && known(in->read_bytes_per_s) > 0)
        snprintf(text, size, "storage limits: %.0f MB/s read%s, %s", in->read_bytes_per_s / 1e6,
                 share(in->share_wait_share) >= SHARE_MUCH ? ", its share beside other users" : "",
                 verdict_rate(limit, number));
    else
        snprintf(text, size, "%s limits: %s", names[stage], verdict_rate(limit, number));
}

/* As far as can be seen there is no end to what more of them would bring. */
static void say_all_cpus(const struct verdict_input *in, char *text, size_t size)
{
    if (in->workers >= in->cpus)
        snprintf(text, size, "; this node gives no more than %u CPU%s", in->cpus, plural(in->cpus));
    else
        snprintf(text, size, "; more workers would help, this node gives %u CPU%s", in->cpus,
                 plural(in->cpus));
}

/* More workers help up to what the next stage or the trainer can take. */
static void say_more_workers(const struct verdict_input *in, double demand, char *text, size_t size)
{
    char reach[PART_TEXT] = "", number[VERDICT_RATE_MAX];
    double next_limit, target = demand;
    enum verdict_stage next = verdict_narrowest(in, VERDICT_DECODE, &next_limit);
    bool capped = next != VERDICT_UNKNOWN && (demand <= 0 || next_limit < demand);
    if (capped) {
        target = next_limit;
        snprintf(reach, sizeof(reach), "reach the %s of %s", verdict_rate(target, number),
                 names[next]);
    }
    uint32_t wanted = target > 0 ? verdict_workers(in, target) : 0;
    bool beyond = in->cpus && wanted > in->cpus;
    if ((!wanted || (beyond && demand <= 0)) && in->cpus)
        say_all_cpus(in, text, size);
    else if (!wanted)
        snprintf(text, size, "; more workers would help");
    else if (wanted <= in->workers)
        snprintf(text, size, "; more workers buy nothing");
    else if (beyond)
        snprintf(text, size, "; %u workers would %s, but this node gives %u CPU%s", wanted,
                 capped ? reach : "do", in->cpus, plural(in->cpus));
    else
        snprintf(text, size, "; %u workers would %s, more buy nothing", wanted,
                 capped ? reach : "do");
}

/* Far less is delivered than the narrowest stage could do: it stands still now and then, as while
 * much is read at once and no filled slot is left. */
static bool is_uneven(const struct verdict_input *in, double limit, double demand)
{
    double could = demand > 0 && demand < limit ? demand : limit;
    return known(in->samples_per_s) * VERDICT_CLOSE < could;
}

static void say_remedy(const struct verdict_input *in, enum verdict_stage stage, bool uneven,
                       double demand, char *text, size_t size)
{
    if (stage == VERDICT_STORAGE)
        snprintf(text, size, "; %s%s local copy would help", uneven ? "more slots, " : "",
                 in->packed ? uneven ? "or a" : "a" : "packing into shards or a");
    else if (stage == VERDICT_COPY)
        snprintf(text, size, "; a larger batch would help");
    else if (share(in->throttled_share) >= THROTTLED_MUCH)
        snprintf(text, size, "; a higher limit would help");
    else if (verdict_user_has_all(in))
        snprintf(text, size, "; more threads for its user would help");
    else
        say_more_workers(in, demand, text, size);
}

/* The trainer's place in the sentence: what it could take, or that this is as near as can be. */
static void say_trainer(double limit, double demand, char *text, size_t size)
{
    char number[VERDICT_RATE_MAX];
    if (demand > 0 && demand < limit * VERDICT_CLOSE)
        snprintf(text, size, ", close to the %s that the trainer could take",
                 verdict_rate(demand, number));
    else if (demand > 0)
        snprintf(text, size, ", the trainer could take %s", verdict_rate(demand, number));
}

static enum verdict_stage stage_limits(const struct verdict_input *in, enum verdict_stage stage,
                                       double limit, char *text, size_t size)
{
    char head[HEAD_TEXT], could[PART_TEXT] = "", near[PART_TEXT] = "", remedy[PART_TEXT] = "";
    char gap[PART_TEXT] = "";
    char number[VERDICT_RATE_MAX];
    double demand = known(in->demand), next_limit;
    enum verdict_stage next = verdict_narrowest(in, stage, &next_limit);

    say_head(in, stage, limit, head, sizeof(head));
    say_trainer(limit, demand, could, sizeof(could));
    if (next != VERDICT_UNKNOWN && next_limit < limit * VERDICT_CLOSE)
        snprintf(near, sizeof(near), ", close to the %s of %s", verdict_rate(next_limit, number),
                 names[next]);
    bool uneven = is_uneven(in, limit, demand);
    if (uneven)
        snprintf(gap, sizeof(gap), ", of which %s come through",
                 verdict_rate(known(in->samples_per_s), number));
    say_remedy(in, stage, uneven, demand, remedy, sizeof(remedy));
    snprintf(text, size, "%s%s%s%s%s", head, gap, could, near, remedy);
    return stage;
}

static enum verdict_stage moving(const struct verdict_input *in, char *text, size_t size)
{
    const char *remedy, *words = words_of_cause(in->cause, &remedy);
    double limit, demand = known(in->demand);
    enum verdict_stage stage = verdict_narrowest(in, VERDICT_UNKNOWN, &limit);
    if (share(in->wait_share) < WAITS_LITTLE || share(in->slots_held_share) >= HELD_MUCH)
        return trainer_limits(in, text, size);
    if (stage == VERDICT_UNKNOWN) {
        snprintf(text, size, "the trainer waits %.0f %% of its time; no stage has figures yet",
                 percent(in->wait_share));
        return VERDICT_UNKNOWN;
    }
    if (words && limit > known(in->samples_per_s) * VERDICT_CLOSE)
        return cause_limits(in, words, remedy, text, size);
    if (demand > 0 && limit >= demand)
        return trainer_limits(in, text, size);
    return stage_limits(in, stage, limit, text, size);
}

enum verdict_stage verdict(const struct verdict_input *in, char *text, size_t size)
{
    if (!in) {
        snprintf(text, size, "no trainer is attached");
        return VERDICT_UNKNOWN;
    }
    if (!(in->window_s >= VERDICT_WINDOW)) {
        snprintf(text, size, "measuring: %.1f s of the %.0f s needed", known(in->window_s),
                 VERDICT_WINDOW);
        return VERDICT_UNKNOWN;
    }
    return known(in->samples_per_s) > 0 ? moving(in, text, size) : nothing_moves(in, text, size);
}
