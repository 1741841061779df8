#include "control/pace.h"

#include "base/clock.h"

#define NEW_LOOKS 1               /* in which a stream is new whatever is known */
#define UNKNOWN_LOOKS 10          /* and while it is not known what its trainer could take */
#define PAUSE (30 * CLOCK_SECOND) /* a trainer that takes nothing for so long asks for nothing */
#define BRIEF_NS CLOCK_US         /* time that a trainer takes at least */

/* Items a second of busy time, half of it that of the looks before. */
static double blend(double before, uint64_t items, uint64_t ns)
{
    if (!items || !ns)
        return before;
    double last = (double)items * (double)CLOCK_SECOND / (double)ns;
    return before > 0 ? (before + last) / 2 : last;
}

void pace_look_stream(struct pace_stream *pace, const struct feed_stats *stats,
                      struct governor_stream *out)
{
    const struct feed_work *a = &pace->work, *b = &stats->work;
    pace->rate = blend(pace->rate, b->decoded - a->decoded,
                       b->decode_ns + b->finish_ns - a->decode_ns - a->finish_ns);
    pace->supply = blend(pace->supply, b->reads.samples - a->reads.samples,
                         b->reads.busy_ns - a->reads.busy_ns);
    pace->rows = (double)(b->decoded - a->decoded);
    pace->work = *b;
    pace->looks++;
    *out = (struct governor_stream){.fresh = pace->looks <= NEW_LOOKS,
                                    .demand = PACE_ALL,
                                    .supply = pace->supply > 0 ? pace->supply : PACE_ALL,
                                    .rate = pace->rate,
                                    .wait_share = 1};
}

/* Between two batches taken the time that is not waiting is the trainer's own. */
static void look_at_steps(struct pace_taker *pace, const struct gauge *gauge)
{
    uint64_t compute_ns = gauge->last_take - gauge->begun - gauge->wait_ns;
    if (pace->begun && gauge->samples > pace->samples) {
        uint64_t ns = compute_ns > pace->compute_ns ? compute_ns - pace->compute_ns : 0;
        pace->demand = (double)(gauge->samples - pace->samples) * (double)CLOCK_SECOND /
                       (double)(ns > BRIEF_NS ? ns : BRIEF_NS);
    }
    pace->begun = gauge->samples > 0;
    pace->samples = gauge->samples;
    pace->compute_ns = compute_ns;
}

void pace_look_taker(struct pace_taker *pace, const struct pace_stream *stream,
                     const struct gauge *gauge, uint64_t now, struct governor_stream *out)
{
    uint64_t waited = gauge_waited(gauge, now);
    double share = pace->at && now > pace->at && waited > pace->waited_ns
                       ? (double)(waited - pace->waited_ns) / (double)(now - pace->at)
                       : 0;
    pace->at = now;
    pace->waited_ns = waited;
    look_at_steps(pace, gauge);
    bool waits = gauge_waiting(gauge, now) > 0;
    double demand = pace->demand;
    if (!waits && now - gauge->last_take > PAUSE)
        demand = 0;
    else if (demand <= 0 && waits)
        demand = PACE_ALL;
    else if (demand <= 0)
        out->fresh |= stream->looks <= UNKNOWN_LOOKS;
    out->demand = demand < out->demand ? demand : out->demand;
    out->wait_share = share < out->wait_share ? share : out->wait_share;
}
