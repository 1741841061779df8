/* A stream of batches and the trainers that read it: one, or in a mirror feed the members of a
 * group. It owns the feed. Each batch is told to every member that streams; its slot is free again
 * when no member owes it any more. Loop thread.
 *
 *   OPENING -> STREAMING -> CLOSING
 *        \------------------/
 *
 * It is made with the claim of its rank and gone when its last member has left and all threads and
 * memory of its feed have ended; that member's session waits for it. */
#ifndef GROUP_H
#define GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "control/account.h"
#include "control/control.h"
#include "control/handoff.h"
#include "control/lag.h"
#include "control/loan.h"
#include "control/pace.h"
#include "control/refusal.h"
#include "control/replay.h"
#include "feed/feed.h"
#include "proto/limits.h"

struct session;

enum group_state { GROUP_OPENING, GROUP_STREAMING, GROUP_CLOSING };

struct group {
    struct group *next, **link; /* in control->groups */
    struct control *control;
    enum group_state state;
    uint32_t feed_number;
    struct job *job; /* NULL once the rank is given back */
    struct session *members, *leaver;
    uint32_t nmembers;         /* those that stream and those that are attaching */
    uint32_t told;             /* nmembers, as those that stream know it */
    uid_t owner;               /* for whom it counts (terms.h) */
    struct session *opener;    /* whose attach opens the feed; NULL = nobody's */
    struct feed_params params; /* of the feed; the data set is our own reference */
    struct handoff handoff;    /* set by the opener, and what follows */
    struct feed_memory memory;
    char lane_note[DLP_TEXT_MAX];
    uint64_t promised;       /* bytes of control->promised */
    struct feed *feed;       /* STREAMING, CLOSING */
    struct refusal stop;     /* why no batch will follow; code 0: there are more */
    struct feed_place place; /* current: after the last that any member has taken */
    struct feed_place noted; /* after the last that all have released, as the job knows it */
    struct feed_place end;   /* of an epoch asked for last: each release asks; 0: none was */
    struct lag lag;
    struct pace_stream pace;
    struct account shared_out;
    struct replay_rank *replay; /* its part in one; NULL = none */
    struct loan batches[DLP_SLOTS_MAX];
};

/* The stream of a claimed rank, not yet opened; slots as asked for, else the feed's. */
struct group *group_new(struct control *control, uint32_t feed_number, struct job *job,
                        uint32_t rank, uint32_t slots);
/* NULL: nobody has the rank, or those who had it have left. */
struct group *group_find(const struct control *control, const struct job *job, uint32_t rank);
/* An attaching session becomes a member; it is told of nothing before loan_begin. */
void group_add(struct group *group, struct session *session);
/* The member owes nothing any more. The last one gives the rank back, with its place; while
 * something is left of the group the session keeps its pointer to it. True: others are left. */
bool group_leave(struct session *session);

uint64_t group_host_bytes(const struct group *group); /* of its slots, or of staging */
void group_promise(struct group *group);              /* these */
void group_give_memory(struct group *group);
/* Nobody opens it any more: gives back what is promised; frees a group without members. */
void group_opening_over(struct group *group);
/* The opener has opened the feed, and gives it up: ends in admit_undone. */
void group_undo(struct group *group, struct feed *feed);
/* The opener has opened the feed. True: there are members; without any it closes. */
bool group_stream(struct group *group, struct feed *feed);
/* The attaching member comes back for the batch of this place: what it lacks from there on, and is
 * here, waits for it. */
void group_expect(struct session *session, struct feed_place place);
/* Tells the job what all members have released, in this pass. */
void group_note(struct group *group);
/* GPUs that no member uses get no batches any more; not while one is on its way to its own. */
void group_close_ports(struct group *group);
/* Once a second: how many there are, for those who come back after our end to wait for. */
void group_tell_members(struct group *group);
/* Where a member that joins now begins; past the last step lies the next epoch. */
struct feed_place group_current(const struct group *group);
/* The same of any place. */
struct feed_place group_settled(const struct group *group, struct feed_place at);
/* No batch from this place on has passed. */
bool group_keeps_from(const struct group *group, struct feed_place place);
/* Batches from one place to a later one; 0 where it is none. */
uint64_t group_distance(const struct group *group, struct feed_place from, struct feed_place to);
bool group_before(struct feed_place a, struct feed_place b);

#endif
