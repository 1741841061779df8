/* How many reads at a time it takes to have all that a storage gives. Tried out: the number is
 * changed for a period, and kept so where more give more, or fewer give as much. So it comes down
 * to where who waits for a turn waits here and not in the storage's own queue, where nobody's share
 * is kept; and up where each read takes its time and many are served at once.
 *
 * Pure; its owner's lock. */
#ifndef READ_DEPTH_H
#define READ_DEPTH_H

#include <stdbool.h>
#include <stdint.h>

#define READ_DEPTH_LEAST 4

enum read_depth_trial { READ_DEPTH_RESTS, READ_DEPTH_MORE, READ_DEPTH_FEWER, READ_DEPTH_TRIALS };

struct read_depth {
    uint32_t reads, before; /* now, before the trial */
    enum read_depth_trial trial, last;
    uint32_t rested[READ_DEPTH_TRIALS]; /* periods since it was no good, or the other was */
    double rate;                        /* without the trial, bytes/s */
    bool settled;                       /* what was under way when it began has ended */
    /* Of this period: */
    uint64_t since, bytes, ended;
    uint32_t most; /* at a time */
    bool waited;   /* for their turn: some did */
};

void read_depth_init(struct read_depth *depth, uint64_t now);
/* Nobody's share has to be kept: what is read does not count. */
void read_depth_pause(struct read_depth *depth, uint64_t now);
void read_depth_began(struct read_depth *depth, uint32_t reading);
/* A read has ended; wait: some wait for their turn. */
void read_depth_ended(struct read_depth *depth, uint64_t bytes, bool wait, uint64_t now);

#endif
