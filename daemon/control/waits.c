#include "control/waits.h"

#include <math.h>

#define FINE (1ULL << WAITS_FINE_BITS)
#define BUCKETS (1 + WAITS_DOUBLINGS * WAITS_PARTS)

static const uint64_t bounds[] = {
#define BOUND(ns) ns,
    DLP_WAIT_BOUNDS(BOUND)
#undef BOUND
};
_Static_assert(sizeof bounds / sizeof *bounds + 1 == DLP_WAIT_CLASSES,
               "a class for what is longer");

static uint32_t class_of(uint64_t ns)
{
    uint32_t number = 0;
    while (number < DLP_WAIT_CLASSES - 1 && ns > bounds[number])
        number++;
    return number;
}

static uint32_t bucket_of(uint64_t ns)
{
    if (ns < FINE)
        return 0;
    uint32_t doubling = 63 - (uint32_t)__builtin_clzll(ns) - WAITS_FINE_BITS;
    if (doubling >= WAITS_DOUBLINGS)
        return BUCKETS - 1;
    uint64_t part = ((ns >> doubling) - FINE) / (FINE / WAITS_PARTS);
    return 1 + doubling * WAITS_PARTS + (uint32_t)part;
}

static uint64_t middle_of(uint32_t bucket)
{
    if (bucket == 0)
        return FINE / 2;
    uint32_t doubling = (bucket - 1) / WAITS_PARTS, part = (bucket - 1) % WAITS_PARTS;
    uint64_t width = FINE / WAITS_PARTS;
    return (FINE + part * width + width / 2) << doubling;
}

void waits_add(struct waits *waits, uint64_t ns)
{
    waits->count++;
    waits->classes[class_of(ns)]++;
    waits->fine[bucket_of(ns)]++;
    if (ns > waits->max_ns)
        waits->max_ns = ns;
}

uint64_t waits_quantile(const struct waits *waits, double share)
{
    uint64_t wanted = (uint64_t)ceil(share * (double)waits->count), seen = 0;
    if (waits->count == 0)
        return 0;
    uint32_t bucket = 0;
    while (bucket < BUCKETS - 1 && (seen += waits->fine[bucket]) < wanted)
        bucket++;
    uint64_t found = middle_of(bucket);
    return found < waits->max_ns ? found : waits->max_ns;
}
