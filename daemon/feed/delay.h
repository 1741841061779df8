/* Delays that a test puts into reading and decoding, from the environment: DATALOADD_TEST_DELAY =
 * "SEED:MAX_US" (random sleeps in both), or some of these with ";" between:
 *   read:MS              each read of storage takes so much longer
 *   read_rate:BYTES      storage gives each feed so many a second, in all its reads together
 *   storage_rate:BYTES   the same, all feeds together
 *   decode:US            each row takes a worker just so long, if it does not take longer anyway
 * Never set in service. */
#ifndef DELAY_H
#define DELAY_H

#include <stdatomic.h>
#include <stdint.h>

struct delay_storage {
    _Atomic uint64_t busy_until;
    _Atomic uint64_t late; /* by which the last reader woke up after that */
};

struct delay_state { /* of a feed */
    struct delay_storage storage;
    _Atomic uint64_t owed; /* to rows that took too long */
};

struct delay {
    uint64_t seed;
    uint64_t max_us; /* 0 = none, and so on */
    uint64_t read_ms;
    uint64_t read_rate;
    struct delay_storage *storage; /* with read_rate: its own, or that of all */
    uint64_t decode_us;
    struct delay_state *state;
};

struct delay delay_from_environment(void);
void delay_free(struct delay *delay);
/* Sleep; `what` names the place, so that each sleeps differently. */
void delay_read(const struct delay *delay, uint64_t what, uint64_t bytes);
void delay_decode(const struct delay *delay, uint64_t what);
/* Around the work on a row; the end sleeps. What a sleep takes too long is taken off the next. */
uint64_t delay_row_begin(const struct delay *delay);
void delay_row_end(const struct delay *delay, uint64_t begin);

#endif
