#include "control/strip.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"

void strip_begin(struct strip *strip, uint64_t now)
{
    memset(strip, 0, sizeof *strip);
    strip->at = now;
}

/* Counters only grow, but for a wait that was overestimated. */
static double grown(uint64_t from, uint64_t to)
{
    return to > from ? (double)(to - from) : 0;
}

static void push(struct strip *strip, double share, double rate)
{
    uint32_t place = (strip->first + strip->count) % STRIP_POINTS;
    strip->waits[place] = share < 1 ? (uint8_t)lround(share * 100) : 100;
    strip->rates[place] = (float)rate;
    if (strip->count < STRIP_POINTS)
        strip->count++;
    else
        strip->first = (strip->first + 1) % STRIP_POINTS;
}

void strip_add(struct strip *strip, uint64_t now, uint64_t waited_ns, uint64_t samples)
{
    double elapsed = grown(strip->at, now);
    uint64_t seconds = (uint64_t)(elapsed / (double)CLOCK_SECOND + 0.5);
    if (!seconds) /* too soon after the last */
        return;
    double share = grown(strip->waited, waited_ns) / elapsed;
    double rate = grown(strip->samples, samples) * (double)CLOCK_SECOND / elapsed;
    for (uint64_t i = 0; i < seconds && i < STRIP_POINTS; i++)
        push(strip, share, rate);
    strip->at = now;
    strip->waited = waited_ns;
    strip->samples = samples;
}

struct strip_point strip_point(const struct strip *strip, uint32_t number)
{
    uint32_t place = (strip->first + number) % STRIP_POINTS;
    return (struct strip_point){.wait_share = strip->waits[place] / 100.0,
                                .samples_per_s = (double)strip->rates[place]};
}
