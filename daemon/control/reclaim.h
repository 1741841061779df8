/* Looks for orphaned memory (device/orphans.h) that nobody maps any more, on a helper; attaches
 * that wait for memory try again when some came back. Loop thread only. */
#ifndef RECLAIM_H
#define RECLAIM_H

#include "control/control.h"

struct reclaim;

struct reclaim *reclaim_new(struct control *control);
/* Begins to look where there is something to look for; true while a look is under way. */
bool reclaim_look(struct reclaim *reclaim);
bool reclaim_stop(struct reclaim *reclaim); /* true while its helper runs */
void reclaim_free(struct reclaim *reclaim);

#endif
