/* Nanoseconds of CLOCK_MONOTONIC. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_SECOND 1000000000ULL
#define CLOCK_MS 1000000ULL
#define CLOCK_US 1000ULL

/* Of any clock; 0: there is no such clock, or not any more. */
static inline uint64_t clock_read(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now))
        return 0;
    return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_ns(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

#endif
