/* From a census whose statuses are filled to what the verdict needs to know: of a client, of all of
 * a feed. Of a mirror group the member that sets its pace counts. Loop thread. */
#ifndef APPRAISE_H
#define APPRAISE_H

#include <stdbool.h>
#include <stdint.h>

#include "control/census.h"
#include "control/verdict.h"

/* A probe takes all there is: whatever its clocks say, the input side limits it. Its figures are
 * those of its job. */
void appraise_client(const struct census *census, const struct view *view,
                     struct verdict_input *input);
/* Of its trainers, or of its probes where it has no trainer. False when there is none. */
bool appraise_feed(const struct census *census, uint32_t number, struct verdict_input *input);

#endif
