/* What a look at the daemon's surroundings finds: limits, memory, cache directory, driver, workers.
 * No state of its own; it may block in storage, so it runs on an errand's thread. */
#ifndef FINDINGS_H
#define FINDINGS_H

#include <stdint.h>

#include "device/gpus.h"

#define FINDINGS_MAX 12
#define FINDINGS_TEXT_MAX 400

enum finding_level { FINDING_OK, FINDING_WARNING, FINDING_CRITICAL };

struct finding {
    enum finding_level level;
    const char *check; /* what was looked at: "files", "memory", "cache", ... */
    char text[FINDINGS_TEXT_MAX];
    char remedy[FINDINGS_TEXT_MAX]; /* "" = none is needed */
};

struct findings {
    uint32_t count;
    struct finding list[FINDINGS_MAX];
};

/* Of the daemon at the time of asking. What is pointed to outlives the look. */
struct findings_facts {
    uint64_t memory_limit, memory_used; /* of the budget */
    const char *cache_dir;              /* NULL = nothing is kept */
    const struct gpus *gpus;
    uint64_t asked_gpus_ns; /* for so long the driver has been asked */
    uint64_t draining_ns;
    char note[FINDINGS_TEXT_MAX]; /* about the configuration; "" = it is in force */
    uint64_t stuck_ns;            /* for so long a worker has been at one row */
};

void findings_look(const struct findings_facts *facts, struct findings *out);

/* Parts of it, with what they would read given. */
void findings_files(struct findings *out, uint64_t allowed, uint64_t open);
void findings_memory(struct findings *out, const struct findings_facts *facts, uint64_t free);
void findings_cache(struct findings *out, const char *folder);

#endif
