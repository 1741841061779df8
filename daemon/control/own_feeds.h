/* Feeds that users have given themselves (control/giving.h), named ~UID/NAME: which files each user
 * has given, how many he may, and where their feeds stand among all. A feed whose name is given
 * again with another recipe or other files changes as by a reload. One that no connection, job or
 * question uses goes after a while, or at once where its place is wanted; its number is given to
 * another then. Loop thread. */
#ifndef OWN_FEEDS_H
#define OWN_FEEDS_H

#include "control/control.h"
#include "control/session.h"

#define OWN_FEEDS_MAX 256 /* of all users */
#define OWN_FEEDS_OF_USER 64
#define OWN_OPENINGS_AT_ONCE 2 /* of one user: checks of files, and data sets */
#define OWN_LINGER_S 60        /* without any use */

struct own_user {
    struct own_user *next;
    uid_t uid;
    char name[ACCESS_USER_MAX]; /* "" until looked up */
    struct files_owner *files;  /* his */
    struct errands *openings;   /* and questions: what may hang in his storage */
    struct giving *givings;     /* in the order of asking */
};

struct own_feeds *own_feeds_new(struct control *control);
void own_feeds_free(struct own_feeds *own);
struct own_user *own_feeds_user(struct own_feeds *own, uid_t uid); /* made where it is not known */
const struct own_user *own_feeds_giver(const struct own_feeds *own, const struct feed_spec *spec);
/* Where that runs which may wait for the files of a feed: with its user's openings. NULL: it is
 * configured. */
struct errands *own_feeds_lane(const struct own_feeds *own, const struct feed_spec *spec);
/* Is there room for so many more descriptors of the user, those here included, and does he give
 * any? 0, or the code of the refusal. */
int own_feeds_room(const struct own_feeds *own, struct own_user *user, uint32_t more,
                   struct refusal *refusal);
/* The feed of that name, as it is now; NULL = none. */
const struct feed_spec *own_feeds_find(const struct own_feeds *own, const char *name);
/* The spec with all its files is a feed from now on; of one that is the same already nothing
 * changes. *out: what it is, borrowed. */
int own_feeds_put(struct own_feeds *own, struct feed_spec *spec, const struct feed_spec **out,
                  struct refusal *refusal);
void own_feeds_tick(struct own_feeds *own, uint64_t now);

#endif
