/* What would help a feed, best first, each with what it would bring and what it costs: from figures
 * at hand and from ratios that docs/performance.md has measured. Pure; any thread. */
#ifndef ADVICE_H
#define ADVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "control/verdict.h"
#include "feed/spec.h"

#define ADVICE_MAX 8
#define ADVICE_TEXT_MAX 320

struct advice_input {
    struct verdict_input figures;
    enum verdict_stage stage;          /* that limits */
    const struct transform *transform; /* of its pictures; NULL: it has none */
    bool marks;                        /* are kept */
    uint64_t record_bytes, data_bytes; /* of a record, the mean; of them all; 0 = not known */
    uint64_t shuffle;                  /* records */
    uint64_t memory;                   /* bytes that the daemon may use */
    uint32_t slots;                    /* of one of its trainers; 0 = it has none */
    uint64_t slot_bytes;
};

struct remedy {
    double gain; /* times what comes now */
    char text[ADVICE_TEXT_MAX];
};

/* Only what applies; returns how many. */
uint32_t advice(const struct advice_input *input, struct remedy list[ADVICE_MAX]);

#endif
