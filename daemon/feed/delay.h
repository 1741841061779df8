/* Delays that a test puts into reading and decoding, from the environment: DATALOADD_TEST_DELAY =
 * "SEED:MAX_US" (random sleeps in both) or "read:MS" (each read of storage takes so much longer).
 * Never set in service. */
#ifndef DELAY_H
#define DELAY_H

#include <stdint.h>

struct delay {
    uint64_t seed;
    uint64_t max_us;  /* 0 = none */
    uint64_t read_ms; /* 0 = none */
};

struct delay delay_from_environment(void);
/* Sleep; `what` names the place, so that each sleeps differently. */
void delay_read(const struct delay *delay, uint64_t what);
void delay_decode(const struct delay *delay, uint64_t what);

#endif
