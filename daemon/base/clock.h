/* Nanoseconds of CLOCK_MONOTONIC. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_SECOND 1000000000ULL
#define CLOCK_MS 1000000ULL
#define CLOCK_US 1000ULL

static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

#endif
