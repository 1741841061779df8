#include "feed/read_depth.h"

#include "base/clock.h"

#define FIRST 16
/* Of a period: readers work in rounds of reads, which are to be in it several times. */
#define PERIOD (300 * CLOCK_MS)
#define PERIOD_TIMES 2 /* so often each place has been taken */
#define REST_MORE 3    /* periods */
#define REST_FEWER 8
/* How much more is more, and how much less is not as much. */
#define GAIN 1.07
#define LOSS 0.95

static void begin_period(struct read_depth *depth, uint64_t now)
{
    depth->since = now;
    depth->bytes = depth->ended = depth->most = 0;
    depth->waited = false;
}

void read_depth_init(struct read_depth *depth, uint64_t now)
{
    *depth = (struct read_depth){.reads = FIRST, .last = READ_DEPTH_FEWER};
    depth->rested[READ_DEPTH_MORE] = REST_MORE;
    depth->rested[READ_DEPTH_FEWER] = REST_FEWER;
    begin_period(depth, now);
}

void read_depth_pause(struct read_depth *depth, uint64_t now)
{
    if (depth->trial != READ_DEPTH_RESTS)
        depth->reads = depth->before;
    depth->trial = READ_DEPTH_RESTS;
    depth->rate = 0;
    depth->settled = false;
    begin_period(depth, now);
}

void read_depth_began(struct read_depth *depth, uint32_t reading)
{
    if (reading > depth->most)
        depth->most = reading;
}

static void begin_trial(struct read_depth *depth, enum read_depth_trial trial)
{
    uint32_t used = depth->most < depth->reads ? depth->most : depth->reads;
    depth->before = depth->reads;
    depth->trial = depth->last = trial;
    depth->reads = trial == READ_DEPTH_MORE ? depth->reads + depth->reads / 2 : used * 3 / 4;
    if (depth->reads < READ_DEPTH_LEAST)
        depth->reads = READ_DEPTH_LEAST;
}

/* Whichever has not been tried for longer than the other has to rest. Fewer of them cost something
 * where all are needed, more of them are of use only where some wait. */
static enum read_depth_trial next_trial(const struct read_depth *depth)
{
    bool more = depth->waited && depth->rested[READ_DEPTH_MORE] >= REST_MORE;
    bool fewer = depth->reads > READ_DEPTH_LEAST && depth->rested[READ_DEPTH_FEWER] >= REST_FEWER;
    if (more && (!fewer || depth->last == READ_DEPTH_FEWER))
        return READ_DEPTH_MORE;
    return fewer ? READ_DEPTH_FEWER : READ_DEPTH_RESTS;
}

static void rest(struct read_depth *depth, double rate)
{
    if (!depth->settled) {
        depth->settled = true;
        return;
    }
    depth->rate = depth->rate > 0 ? (depth->rate + rate) / 2 : rate;
    depth->rested[READ_DEPTH_MORE]++;
    depth->rested[READ_DEPTH_FEWER]++;
    enum read_depth_trial trial = next_trial(depth);
    if (trial != READ_DEPTH_RESTS)
        begin_trial(depth, trial);
}

/* What was good is tried again at once. */
static void end_trial(struct read_depth *depth, double rate)
{
    enum read_depth_trial trial = depth->trial;
    bool more = trial == READ_DEPTH_MORE;
    depth->trial = READ_DEPTH_RESTS;
    if (rate < depth->rate * (more ? GAIN : LOSS)) {
        depth->reads = depth->before;
        depth->rested[trial] = 0;
        return;
    }
    depth->rate = rate;
    depth->rested[more ? READ_DEPTH_FEWER : READ_DEPTH_MORE] = 0;
    if (more ? depth->waited : depth->reads > READ_DEPTH_LEAST)
        begin_trial(depth, trial);
}

void read_depth_ended(struct read_depth *depth, uint64_t bytes, bool wait, uint64_t now)
{
    depth->bytes += bytes;
    depth->ended++;
    depth->waited |= wait;
    if (now - depth->since < PERIOD || depth->ended < (uint64_t)PERIOD_TIMES * depth->reads)
        return;
    double rate = (double)depth->bytes * (double)CLOCK_SECOND / (double)(now - depth->since);
    if (depth->trial == READ_DEPTH_RESTS)
        rest(depth, rate);
    else
        end_trial(depth, rate);
    begin_period(depth, now);
}
