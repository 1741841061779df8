/* Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3" (SC 2011). A stream is named by (seed, purpose, epoch, lane, block); nothing else
 * enters, so any draw is found without those before it, on every machine and thread.
 *
 * Counter words: [0] draw / 4, [1] low and [2] high 32 bits of block, with lane in the upper half
 * of [2]; [3] purpose in the upper 8 bits, epoch in the lower 24. block < 2^48, lane < 2^16, epoch
 * < 2^24. */
#ifndef PHILOX_H
#define PHILOX_H

#include <stdint.h>

enum philox_purpose {
    PHILOX_RUNS = 1,  /* ties between runs of equal mean size */
    PHILOX_DEAL = 2,  /* a group of runs to the lanes' lists; block = group */
    PHILOX_REST = 3,  /* the last, incomplete group */
    PHILOX_LIST = 4,  /* order of a lane's list */
    PHILOX_LANES = 5, /* order in which the lanes are cut from S */
    PHILOX_BLOCK = 6, /* the shuffle of one block of a lane */
    PHILOX_DRAW = 7,  /* augmentation; block = sample id */
    PHILOX_PACK = 8,  /* dataload-pack: the order of writing; sample pictures, block = picture */
    PHILOX_MIX = 9,   /* which records stand for all where labels are looked at */
};

struct philox {
    uint32_t key[2];
    uint32_t counter[4];
    uint32_t out[4];
    uint32_t used; /* of out */
};

void philox_block(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
void philox_start(struct philox *stream, uint64_t seed, enum philox_purpose purpose, uint64_t epoch,
                  uint32_t lane, uint64_t block);
uint32_t philox_u32(struct philox *stream);
uint64_t philox_u64(struct philox *stream); /* first draw is the low half */
/* Uniform in [0, n), n > 0: multiply-shift with rejection (Lemire 2019). One u32 a try for n <=
 * 2^32, else one u64. */
uint64_t philox_below(struct philox *stream, uint64_t n);
double philox_unit(struct philox *stream); /* [0, 1): upper 53 bits of a u64 */
/* Fisher-Yates from the last place down: swap(i, below(i + 1)) for i = n - 1 .. 1. */
void philox_permute(struct philox *stream, uint32_t *items, uint32_t n);

#endif
