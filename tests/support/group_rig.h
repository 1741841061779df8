/* Members of one mirror group, on the rig of control_rig.h. Steps are counted over epochs. */
#ifndef GROUP_RIG_H
#define GROUP_RIG_H

#include "control_rig.h"

#define SLOTS 3 /* of the rig's feed */
#define STEPS 7 /* of its epochs: 26 records in batches of 4 */

extern struct rig_peer *peers[8];

void group_rig_setup(void);
void join_all(int count); /* pids 100, 101, ... */
void leave_all(int count);
/* Takes the next batch, which must be of this step. */
const Dlp__BatchReady *take(struct rig_peer *peer, uint64_t step);
void give(struct rig_peer *peer, const Dlp__BatchReady *ready);
void read_on(struct rig_peer *peer, uint64_t step); /* both */
bool has_news(const struct rig_peer *peer);
void settle(void); /* long enough for a batch to be made, if one could be */
/* Attaches and is refused. */
void refused(Dlp__Attach message, enum dlp_error code, const char *first, const char *second);
const struct group *group_of(const struct rig_peer *peer);

#endif
