#include "control/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WAITS_LITTLE 0.05 /* below this share of waiting the trainer itself is the limit */
#define WAITS_ALWAYS 0.99 /* above it nothing can be said about what it could take */
#define HELD_MUCH 0.5
#define CLOSE 1.1 /* two capacities nearer than this factor are a close call */
#define RATE_TEXT 32
#define WHO_TEXT 64

/* The stages of the input side and their capacities; 0 = not known. */
struct capacities {
    double of[VERDICT_TRAINER];
};

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

static const char *rate(double value, char text[RATE_TEXT])
{
    snprintf(text, RATE_TEXT, value < 9.95 ? "%.1f/s" : "%.0f/s", value);
    return text;
}

/* The narrowest stage other than `but`; VERDICT_UNKNOWN when no capacity is known. */
static enum verdict_stage narrowest(const struct capacities *caps, enum verdict_stage but)
{
    enum verdict_stage found = VERDICT_UNKNOWN;
    for (int stage = VERDICT_STORAGE; stage < VERDICT_TRAINER; stage++) {
        if (stage == (int)but || caps->of[stage] <= 0)
            continue;
        if (found == VERDICT_UNKNOWN || caps->of[stage] < caps->of[found])
            found = (enum verdict_stage)stage;
    }
    return found;
}

static enum verdict_stage stage_of_cause(const char *cause)
{
    for (int stage = VERDICT_STORAGE; cause && stage < VERDICT_TRAINER; stage++)
        if (strcmp(cause, names[stage]) == 0)
            return (enum verdict_stage)stage;
    return VERDICT_UNKNOWN;
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
    if (share(in->wait_share) < HELD_MUCH || in->slow_pid) {
        char who[WHO_TEXT];
        snprintf(text, size, "%s: it took no batch in the last %.1f s", who_limits(in, who),
                 in->window_s);
        return VERDICT_TRAINER;
    }
    enum verdict_stage stage = stage_of_cause(in->cause);
    if (stage == VERDICT_UNKNOWN)
        snprintf(text, size, "no batch came in the last %.1f s while the trainer waited",
                 in->window_s);
    else
        snprintf(text, size, "%s limits: no batch came in the last %.1f s while the trainer waited",
                 names[stage], in->window_s);
    return stage;
}

static enum verdict_stage trainer_limits(const struct verdict_input *in,
                                         const struct capacities *caps, char *text, size_t size)
{
    char takes[RATE_TEXT], could[RATE_TEXT], who[WHO_TEXT];
    double taken = known(in->samples_per_s);
    enum verdict_stage next = narrowest(caps, VERDICT_UNKNOWN);
    rate(taken, takes);
    rate(caps->of[next], could);
    who_limits(in, who);
    if (next == VERDICT_UNKNOWN)
        snprintf(text, size, "%s: it takes %s and waits %.0f %% of its time", who, takes,
                 share(in->wait_share) * 100);
    else if (caps->of[next] < taken * CLOSE)
        snprintf(text, size, "%s: it takes %s, close to the %s of %s", who, takes, could,
                 names[next]);
    else
        snprintf(text, size, "%s: it takes %s, input could deliver %s%s", who, takes, could,
                 share(in->wait_share) < WAITS_LITTLE || in->slow_pid
                     ? ""
                     : "; more slots would even it out");
    return VERDICT_TRAINER;
}

/* What the trainer could take; 0 = without limit as far as can be seen. */
static double demand_of(const struct verdict_input *in)
{
    double waits = share(in->wait_share);
    return waits > WAITS_ALWAYS ? 0 : known(in->samples_per_s) / (1 - waits);
}

static void say_workers(const struct verdict_input *in, double limit, char *text, size_t size)
{
    char one[RATE_TEXT], all[RATE_TEXT], left[RATE_TEXT];
    double each = known(in->decode_per_worker), total = each * in->workers;
    rate(limit, left);
    if (total <= 0)
        snprintf(text, size, "decode limits: %s", left);
    else if (limit < total / CLOSE)
        snprintf(text, size, "decode limits: %s of %u worker%s x %s are left to it", left,
                 in->workers, in->workers == 1 ? "" : "s", rate(each, one));
    else
        snprintf(text, size, "decode limits: %u worker%s x %s = %s", in->workers,
                 in->workers == 1 ? "" : "s", rate(each, one), rate(total, all));
}

static void say_remedy(const struct verdict_input *in, enum verdict_stage stage, double demand,
                       double next_limit, char *text, size_t size)
{
    double each = known(in->decode_per_worker);
    double wanted = each > 0 ? ceil(demand / each) : 0;
    if (stage == VERDICT_STORAGE)
        snprintf(text, size, "; packing into shards or a local copy would help");
    else if (stage == VERDICT_COPY)
        snprintf(text, size, "; a larger batch would help");
    else if (wanted > in->workers && wanted < 1e6 && (next_limit <= 0 || next_limit >= demand))
        snprintf(text, size, "; %.0f workers would do", wanted);
    else
        snprintf(text, size, "; more workers would help");
}

static void stage_limits(const struct verdict_input *in, const struct capacities *caps,
                         enum verdict_stage stage, char *text, size_t size)
{
    char head[128], could[64] = "", near[64] = "", remedy[64], number[RATE_TEXT];
    double limit = caps->of[stage], demand = demand_of(in);
    enum verdict_stage next = narrowest(caps, stage);

    if (stage == VERDICT_DECODE)
        say_workers(in, limit, head, sizeof(head));
    else if (stage == VERDICT_STORAGE && known(in->read_bytes_per_s) > 0)
        snprintf(head, sizeof(head), "storage limits: %.0f MB/s read, %s",
                 in->read_bytes_per_s / 1e6, rate(limit, number));
    else
        snprintf(head, sizeof(head), "%s limits: %s", names[stage], rate(limit, number));
    if (demand > 0)
        snprintf(could, sizeof(could), ", the trainer could take %s", rate(demand, number));
    if (next != VERDICT_UNKNOWN && caps->of[next] < limit * CLOSE)
        snprintf(near, sizeof(near), ", close to the %s of %s", rate(caps->of[next], number),
                 names[next]);
    say_remedy(in, stage, demand, caps->of[next], remedy, sizeof(remedy));
    snprintf(text, size, "%s%s%s%s", head, could, near, remedy);
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
    if (known(in->samples_per_s) <= 0)
        return nothing_moves(in, text, size);

    const struct capacities caps = {{[VERDICT_STORAGE] = known(in->read_limit),
                                     [VERDICT_DECODE] = known(in->decode_limit),
                                     [VERDICT_COPY] = known(in->copy_limit)}};
    enum verdict_stage stage = narrowest(&caps, VERDICT_UNKNOWN);
    double demand = demand_of(in);
    if (share(in->wait_share) < WAITS_LITTLE || share(in->slots_held_share) >= HELD_MUCH)
        return trainer_limits(in, &caps, text, size);
    if (stage == VERDICT_UNKNOWN) {
        snprintf(text, size, "the trainer waits %.0f %% of its time; no stage has figures yet",
                 share(in->wait_share) * 100);
        return VERDICT_UNKNOWN;
    }
    if (demand > 0 && caps.of[stage] >= demand)
        return trainer_limits(in, &caps, text, size);
    stage_limits(in, &caps, stage, text, size);
    return stage;
}
