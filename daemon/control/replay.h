/* A replay: the trainers of a job are served batches again, to measure what they take when they
 * never wait. Loop thread.
 *
 * All ranks have it before one place of the order. From the request on a slot that is given back is
 * free again only as long as batches before the place need it, so that none has a batch from there
 * on; all others are lent again as they are given back: the job's own data, in memory already, in
 * slots that the trainer may hold as ever. Such a batch is no progress: no place, count or token
 * moves. Each rank gets the same number, since ranks that train together move together: where a
 * time is asked for, it is settled when that is over, as the highest served so far; until then none
 * is served REPLAY_LEAD more than another, however far apart they come to the place. After them the
 * slots are free, and the epoch goes on.
 *
 * Whatever happens settles the number, if it is not: a member that leaves, chooses an epoch or gets
 * no batches any more; whoever asked has gone; nobody takes anything for REPLAY_PATIENCE. Whoever
 * asked is told why, and the ranks go on by themselves. */
#ifndef REPLAY_H
#define REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "feed/feed.h"

#define REPLAY_PATIENCE (60 * CLOCK_SECOND)
#define REPLAY_LEAD 64 /* batches that a rank is served more than the last of the others */

struct control;
struct group;
struct replay_rank; /* the part of a group */
struct session;

struct replay_plan {
    struct feed_place place;
    uint64_t batches; /* for each rank; 0: as many as are taken in */
    uint64_t ns;
    const char *job; /* for texts; copied */
};

/* The first place that the group, of one streaming member, can have a replay before. */
struct feed_place replay_earliest(const struct group *group);
/* Begins one of these groups, which have none; the place is not before the earliest of any. Request
 * id is answered when it is over. */
void replay_start(struct session *asker, uint64_t id, const struct replay_plan *plan,
                  struct group *const *groups, uint32_t count);

enum replay_use { REPLAY_LETS_GO, REPLAY_KEEPS, REPLAY_SERVES };
/* What becomes of a slot that nobody owes: it is free, it is not yet, or it has to be lent again.
 */
enum replay_use replay_use(struct group *group);
/* The trainer has taken a batch that was served again. */
void replay_took(struct group *group, uint32_t rows, uint64_t wait_ns);
/* The group has no part in it any more; why, as in "rank 1 (pid 100) has left". */
void replay_leave(struct group *group, const char *why);
/* The session has gone: maybe one that asked. */
void replay_forget(const struct session *asker);
void replay_tick(struct control *control, uint64_t now); /* once a second */
/* How far it has come, for the status of one of its members; returns text. */
char *replay_words(const struct group *group, char *text, size_t size);

#endif
