#include "feed/delay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct delay delay_from_environment(void)
{
    struct delay delay = {0};
    const char *text = getenv("DATALOADD_TEST_DELAY");
    if (text && sscanf(text, "read:%" SCNu64, &delay.read_ms) != 1)
        sscanf(text, "%" SCNu64 ":%" SCNu64, &delay.seed, &delay.max_us);
    return delay;
}

static void sleep_us(uint64_t us)
{
    struct timespec left = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    while (nanosleep(&left, &left) < 0)
        continue;
}

/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static void sleep_random(const struct delay *delay, uint64_t what)
{
    if (delay->max_us)
        sleep_us(mix(delay->seed + mix(what)) % delay->max_us);
}

void delay_read(const struct delay *delay, uint64_t what)
{
    if (delay->read_ms)
        sleep_us(delay->read_ms * 1000);
    sleep_random(delay, ~what);
}

void delay_decode(const struct delay *delay, uint64_t what)
{
    sleep_random(delay, what);
}
