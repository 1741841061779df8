/* Who a peer is, by the kernel's word alone (SO_PEERCRED, SO_PEERGROUPS), and whether a feed's
 * lists of users and groups let it in. Loop thread. */
#ifndef ACCESS_H
#define ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "feed/spec.h"

struct access_peer {
    pid_t pid; /* 0: not visible from our pid namespace */
    uid_t uid;
    gid_t gid;
    gid_t *groups; /* supplementary ones */
    size_t ngroups;
};

/* Reads them from a connected Unix socket; access_peer_clear frees. */
int access_peer_read(int fd, struct access_peer *peer, struct error *err);
void access_peer_clear(struct access_peer *peer);

/* Root or the daemon's own user: who may do what concerns others. */
bool access_admin(const struct access_peer *peer);
/* True when both lists are empty, the uid is in users, or a group is in groups. The overflow ids
 * (what the kernel shows for ids that have no name in our user namespace) match no list: they stand
 * for anybody. */
bool access_allowed(const struct feed_spec *spec, const struct access_peer *peer);
/* May the viewer be told what stands in the feed's data: names of shards and keys, what is wrong
 * with them, how its labels mix? Whom it lets in, and who is an admin. NULL stands for everybody
 * there may be, and is told nothing. Figures, names of feeds and jobs, and who trains are for all
 * who can connect. */
bool access_tells(const struct feed_spec *spec, const struct access_peer *viewer);
/* False: its uid is the overflow uid. */
bool access_known(const struct access_peer *peer);
/* The name of a user, or his number. Blocks. Returns text. */
#define ACCESS_USER_MAX 33
char *access_user_name(uid_t uid, char text[ACCESS_USER_MAX]);
/* May it act on what is this user's? The user himself, root and the daemon's own user may. */
bool access_owns(const struct access_peer *peer, uid_t uid);

#endif
