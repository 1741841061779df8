/* On what terms a group's stream shares workers and storage with the others (feed/shares.h): the
 * weight and the threads of its user, the weight of its feed.
 *
 * A group counts for the user who has opened it, its memory as its terms; from when none of his is
 * among its members, for the user of the member that has been there longest. So nobody pays for a
 * stream that he no longer reads, and leaving a group to others frees what was promised to it.
 * Whoever comes to have more than he may that way keeps it, and gets nothing more. Loop thread. */
#ifndef TERMS_H
#define TERMS_H

#include "feed/shares.h"

struct group;

/* As they are now, of a group that has its job. */
struct share_terms terms_of(const struct group *group);
/* They may have changed: its feed is told, if it has one that streams. */
void terms_renew(struct group *group);
/* A member is gone; with the last nothing changes. */
void terms_pass_on(struct group *group);

#endif
