/* The last ten minutes of one client, a point a second: the share that it waited and the rate at
 * which it took samples. A ring of fixed size in its gauge. Loop thread. */
#ifndef STRIP_H
#define STRIP_H

#include <stdint.h>

#define STRIP_POINTS 600

struct strip {
    uint64_t at, waited, samples; /* as given last */
    uint32_t first, count;        /* of the ring */
    float rates[STRIP_POINTS];    /* samples/s */
    uint8_t waits[STRIP_POINTS];  /* hundredths of the second */
};

void strip_begin(struct strip *strip, uint64_t now); /* of counters that are 0 */
/* About once a second, with counters since the beginning; a gap fills as many points as it has
 * seconds. */
void strip_add(struct strip *strip, uint64_t now, uint64_t waited_ns, uint64_t samples);

struct strip_point {
    double wait_share, samples_per_s;
};

struct strip_point strip_point(const struct strip *strip, uint32_t number); /* 0: the oldest */

#endif
