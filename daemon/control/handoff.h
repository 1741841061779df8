/* Where the slots of a group lie: what its opener asks for, what the feed's setting allows, and
 * what is left where the better kind could not be had. Pure but for the texts. */
#ifndef HANDOFF_H
#define HANDOFF_H

#include <stdbool.h>
#include <stdint.h>

#include "control/refusal.h"
#include "dataload.pb-c.h"
#include "device/uploaders.h"
#include "feed/spec.h"
#include "proto/limits.h"

/* On a GPU a batch is in use, one is given back behind the trainer's work, and one is ready. */
#define HANDOFF_GPU_SLOTS_MIN 3U

struct handoff_wish { /* of an attach */
    bool gpu;
    bool only;  /* a GPU or nothing */
    bool slots; /* so many slots and no other number */
    uint8_t uuid[UPLOADERS_UUID];
};

struct handoff {
    enum dlp_memory kind;
    uint8_t uuid[UPLOADERS_UUID]; /* of a GPU */
    char why[DLP_TEXT_MAX];       /* why it is no better kind, or fewer slots; "" = as asked for */
    uint32_t slots;               /* as many as were meant, where it has fewer; else 0 */
};

/* What an attach asks for. 0, or the refusal's code. */
int handoff_read(struct handoff_wish *wish, const Dlp__Attach *message, struct refusal *refusal);
/* The first kind to try. 0, or the refusal's code where that is not a GPU and has to be. watched:
 * the end of the trainer's process will be seen. */
int handoff_choose(struct handoff *handoff, const struct handoff_wish *wish,
                   const struct feed_spec *spec, uint32_t slots, bool watched,
                   struct refusal *refusal);
/* A GPU has no room for so many slots, for a reason: may fewer be tried, and how many? Once; 0 =
 * no.
 */
uint32_t handoff_lower(struct handoff *handoff, const struct handoff_wish *wish, uint32_t slots,
                       const char *reason);
/* That kind cannot be had, for a reason: the next one, in the same way. */
int handoff_fall_back(struct handoff *handoff, const struct handoff_wish *wish,
                      const struct feed_spec *spec, const char *reason, bool watched,
                      struct refusal *refusal);
/* May a trainer of this wish read what lies there, or on another GPU? 0, or the refusal's code. */
int handoff_join(const struct handoff *handoff, const struct handoff_wish *wish, const char *group,
                 const char *feed, struct refusal *refusal);
/* Why the slots do not lie where this member wants them, or in no better way; "" = they do. */
const char *handoff_why(const struct handoff *handoff, const struct handoff_wish *wish);
/* "host", "vmm", "ipc" */
const char *handoff_name(enum dlp_memory kind);

#endif
