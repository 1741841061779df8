#include "control/governor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WAITS 0.05        /* of a trainer's time: it would take more */
#define SATURATED 0.85    /* of the workers are busy */
#define SPARE 1.1         /* so many times what is needed is too much */
#define PLENTY 1.33       /* and so many times clearly so */
#define CLOSE 0.02        /* of a worker more is none */
#define WAITS_AT_ROWS 0.1 /* of a CPU a worker: it does not need one */
#define CROWDED 0.3       /* of their time without a CPU: others have taken them */
#define TRIAL_SECONDS 3   /* until it is seen what more workers bring */
#define TRIAL_STEP 1.25   /* times as many, fewer cannot be judged */
#define TRIAL_GAIN 0.3    /* of what they should bring is enough */
#define CAP_SECONDS 60    /* then it is tried again, twice as late after each failure */
#define CAP_SECONDS_MOST 960
#define CHANGED 0.25     /* of what is asked for: things are no more as they were */
#define PATIENCE 2       /* seconds, where it has plenty */
#define PATIENCE_SPARE 5 /* times as many where it has not */
#define PATIENCE_MOST 64 /* seconds */
#define PATIENCE_NONE 10 /* seconds without a client */
#define RELAPSE 30       /* seconds; it went down too soon */
#define CALM 120         /* seconds, after which there is less patience */

/* What the streams need together. */
struct need {
    double workers, rows;
    bool waits;   /* a trainer does */
    bool hungry;  /* one that does could get more rows than it takes */
    bool fresh;   /* there is one of whom nothing is known */
    bool storage; /* some could take more than is read for them */
};

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

static unsigned at_least_one(double workers)
{
    return workers > 1 ? (unsigned)workers : 1;
}

static unsigned whole(double workers)
{
    return at_least_one(ceil(workers - CLOSE));
}

static struct need add_up(const struct governor_input *in)
{
    struct need need = {0};
    for (uint32_t i = 0; i < in->nstreams; i++) {
        const struct governor_stream *stream = &in->streams[i];
        need.fresh |= stream->fresh;
        if (stream->rate <= 0)
            continue;
        double rows = lesser(stream->demand, stream->supply);
        need.rows += rows;
        need.workers += rows / stream->rate;
        need.waits |= stream->wait_share > WAITS && rows > 0;
        bool read_limits = stream->supply < stream->demand;
        need.hungry |= stream->wait_share > WAITS && rows > 0 && !read_limits;
        need.storage |= stream->wait_share > WAITS && read_limits;
    }
    return need;
}

/* "1,200/s" */
static const char *rate(double value, char text[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%.0f", lesser(value, 1e15));
    char *to = text;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    memcpy(to, "/s", 3);
    return text;
}

/* What all workers do and what is asked of them; `more` follows. */
static void explain(struct governor *governor, const struct need *need, unsigned workers,
                    const char *more)
{
    char asked[32], each[32], all[32];
    double one = need->workers > 0 ? need->rows / need->workers : 0;
    if (one <= 0) {
        snprintf(governor->why, sizeof governor->why, "no rows are asked for%s", more);
        return;
    }
    snprintf(governor->why, sizeof governor->why,
             "the trainers could take %s%s, %u worker%s x %s = %s%s", rate(need->rows, asked),
             need->storage ? " of what is read" : "", workers, workers == 1 ? "" : "s",
             rate(one, each), rate(one * workers, all), more);
}

static unsigned change(struct governor *governor, const struct governor_input *in, unsigned to)
{
    if (to == in->active)
        return to;
    governor->spare.seconds = governor->plenty.seconds = 0;
    governor->calm = 0;
    if (to < in->active) {
        governor->since_down = 0;
        governor->down_from = in->active;
    }
    return to;
}

/* It needs again what it has given up, and no more is asked of it than then. */
static void mind_relapse(struct governor *governor, const struct need *need, unsigned to)
{
    if (governor->since_down >= RELAPSE || to > governor->down_from ||
        need->rows > governor->down_rows * (1 + CHANGED))
        return;
    unsigned doubled = governor->patience * 2;
    governor->patience = doubled < PATIENCE_MOST ? doubled : PATIENCE_MOST;
    governor->since_down = RELAPSE;
}

/* Those that may be whoever else wants the CPUs, and as many more as find one. */
static unsigned within_cpus(const struct governor_input *in)
{
    if (in->as_said || in->cpu_each < WAITS_AT_ROWS)
        return in->ceiling;
    double half = ceil(in->ceiling / 2.0);
    double room = floor(in->active + in->free_cpus / in->cpu_each + 0.5);
    return at_least_one(lesser(in->ceiling, room > half ? room : half));
}

static bool cap_holds(const struct governor *governor, const struct governor_input *in,
                      const struct need *need)
{
    return governor->cap && governor->cap_seconds < governor->cap_hold &&
           in->nstreams == governor->cap_streams && in->ceiling == governor->cap_ceiling &&
           in->free_cpus < governor->cap_free + 1 &&
           fabs(need->rows - governor->cap_need) <= CHANGED * governor->cap_need;
}

static void set_cap(struct governor *governor, const struct governor_input *in,
                    const struct need *need, unsigned cap)
{
    governor->cap = cap;
    governor->cap_need = need->rows;
    governor->cap_free = governor->trial_free;
    governor->cap_streams = in->nstreams;
    governor->cap_ceiling = in->ceiling;
    governor->cap_seconds = 0;
    unsigned twice = governor->cap_hold * 2;
    governor->cap_hold = !twice ? CAP_SECONDS : twice < CAP_SECONDS_MOST ? twice : CAP_SECONDS_MOST;
}

/* Whether the workers added have brought next to nothing though they are busy. */
static bool has_failed(const struct governor *governor, const struct governor_input *in)
{
    if (!governor->trial_from || governor->calm < TRIAL_SECONDS)
        return false;
    double times = (double)in->active / governor->trial_from;
    return times >= TRIAL_STEP && in->rows < governor->trial_rows * (1 + TRIAL_GAIN * (times - 1));
}

static unsigned take_back(struct governor *governor, const struct governor_input *in,
                          const struct need *need)
{
    char before[32], now[32];
    /* At the rate that each had before. */
    unsigned to = whole(in->rows * governor->trial_from / governor->trial_rows);
    to = to < governor->trial_from ? governor->trial_from : to;
    set_cap(governor, in, need, to);
    snprintf(governor->why, sizeof governor->why,
             "%u workers brought %s after %s with %u, next to nothing", in->active,
             rate(in->rows, now), rate(governor->trial_rows, before), governor->trial_from);
    governor->trial_from = 0;
    return change(governor, in, to);
}

static unsigned grow(struct governor *governor, const struct governor_input *in,
                     const struct need *need)
{
    unsigned wanted = whole(need->workers);
    if (wanted <= in->active) /* a little more than was reckoned, once that is certain */
        wanted = in->active + (need->hungry && governor->calm >= TRIAL_SECONDS);
    unsigned most = within_cpus(in);
    const char *limit = most < in->ceiling ? "; no CPU is free for more"
                        : in->as_said      ? "; workers_max allows no more"
                                           : "; there are no more CPUs";
    if (cap_holds(governor, in, need) && governor->cap < most) {
        most = governor->cap;
        limit = "; more have brought nothing";
    }
    unsigned to = wanted < most ? wanted : most;
    explain(governor, need, in->active, wanted > most ? limit : "");
    if (to <= in->active)
        return change(governor, in, in->active);
    if (!governor->trial_from) {
        governor->trial_from = in->active;
        governor->trial_rows = in->rows;
        governor->trial_free = in->free_cpus;
    }
    mind_relapse(governor, need, to);
    return change(governor, in, to);
}

/* Whether so many would have been enough, and more, for so many seconds in a row. */
static bool is_low(struct governor_low *low, double need, unsigned active, unsigned seconds)
{
    if (need >= active) {
        low->seconds = 0;
        return false;
    }
    if (!low->seconds++ || need > low->need)
        low->need = need;
    return low->seconds >= seconds;
}

static unsigned shrink(struct governor *governor, const struct governor_input *in,
                       const struct need *need)
{
    unsigned patience = in->nstreams ? governor->patience : PATIENCE_NONE;
    bool plenty = is_low(&governor->plenty, need->workers * PLENTY, in->active, patience);
    bool spare =
        is_low(&governor->spare, need->workers * SPARE, in->active, patience * PATIENCE_SPARE);
    explain(governor, need, in->active, "");
    unsigned to = in->active;
    if (plenty)
        to = whole(governor->plenty.need / PLENTY);
    else if (spare)
        to = whole(governor->spare.need / SPARE);
    if (to >= in->active)
        return in->active;
    change(governor, in, to);
    governor->down_rows = need->rows;
    /* A step down in the middle of a second goes on in the next. */
    is_low(&governor->plenty, need->workers * PLENTY, to, patience);
    return to;
}

/* Others have taken the CPUs that workers above their half had. */
static bool is_crowded(const struct governor_input *in, bool saturated)
{
    return saturated && !in->as_said && in->queued > CROWDED && in->free_cpus < 0.5 &&
           in->active > ceil(in->ceiling / 2.0);
}

static unsigned yield_cpus(struct governor *governor, const struct governor_input *in)
{
    unsigned half = at_least_one(ceil(in->ceiling / 2.0));
    unsigned to = whole(in->busy * (1 - in->queued));
    to = to > half ? to : half;
    if (++governor->crowded_seconds < governor->patience || to >= in->active)
        return in->active;
    snprintf(
        governor->why, sizeof governor->why,
        "others use the CPUs: workers had none for %.0f %% of the time in which they could run",
        100 * in->queued);
    return change(governor, in, to);
}

static void age(struct governor *governor)
{
    if (!governor->patience) {
        governor->patience = PATIENCE;
        governor->since_down = RELAPSE;
    }
    governor->calm++;
    governor->since_down++;
    governor->cap_seconds++;
    if (governor->calm % CALM == 0 && governor->patience > PATIENCE)
        governor->patience /= 2;
}

unsigned governor_welcome(struct governor *governor, const struct governor_input *in)
{
    unsigned most = within_cpus(in);
    governor->trial_from = 0;
    governor->since_down = RELAPSE;
    snprintf(governor->why, sizeof governor->why, "what a new client needs is not known yet");
    return change(governor, in, most > in->active ? most : in->active);
}

static unsigned decide(struct governor *governor, const struct governor_input *in)
{
    struct need need = add_up(in);
    bool saturated = in->busy >= SATURATED * in->active;
    if (need.fresh)
        return governor_welcome(governor, in);
    if (is_crowded(in, saturated))
        return yield_cpus(governor, in);
    governor->crowded_seconds = 0;
    if (!need.waits || !saturated) {
        governor->trial_from = 0;
        return shrink(governor, in, &need);
    }
    governor->spare.seconds = governor->plenty.seconds = 0;
    if (has_failed(governor, in))
        return take_back(governor, in, &need);
    if (governor->trial_from && governor->calm >= TRIAL_SECONDS &&
        in->active >= TRIAL_STEP * governor->trial_from)
        governor->trial_from = governor->cap_hold = 0;
    return grow(governor, in, &need);
}

unsigned governor_decide(struct governor *governor, const struct governor_input *in)
{
    age(governor);
    if (in->active <= in->ceiling)
        return decide(governor, in);
    snprintf(governor->why, sizeof governor->why, "no more than %u may be now", in->ceiling);
    return change(governor, in, in->ceiling);
}
