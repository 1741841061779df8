/* How a client gives a feed of its own: its recipe, then its shards as descriptors, which are
 * looked at on a thread of the user's. Those of his that give a feed of one name do so one after
 * the other, so that ranks of a job which give the same meet in one, and hold its files once.
 * Belongs to its session. Loop thread. */
#ifndef GIVING_H
#define GIVING_H

#include "control/session.h"

#define GIVING_SILENCE_S 30   /* of the client: then what it gives is given up */
#define GIVING_PATIENCE_S 120 /* with the storage of its files, or of what is before them */

struct giving;

/* Of a peer that speaks a version with GiveFeed; others have none. */
struct giving *giving_new(struct session *session);
/* A GiveFeed, and a GiveFiles with what came along. */
void giving_begin(struct session *session, uint64_t id, const Dlp__GiveFeed *message);
void giving_go_on(struct session *session, uint64_t id, const Dlp__GiveFiles *message);
/* Takes over the descriptors that came with the message that is dispatched next. */
void giving_receive(struct session *session, const int *fds, size_t count);
/* Of a message that takes none: refused, and what was being given is given up. */
void giving_refuse_rest(struct session *session, uint64_t id);
void giving_tick(struct session *session, uint64_t now);
/* The feed of that name as this connection has given it last, whatever others of its user have
 * given since; NULL: it has not. giving may be NULL. */
const struct feed_spec *giving_given(const struct giving *giving, const char *name);
bool giving_is_at_work(const struct giving *giving);
/* The peer is gone. Where a thread is still at its files, the session is reaped after it. */
void giving_cancel(struct giving *giving);
void giving_free(struct giving *giving); /* not at work; NULL is fine */

#endif
