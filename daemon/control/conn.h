/* One connection: bytes and readiness. Frames go to the dispatcher; what the session says goes out.
 * Ends at the socket's end, at the end of the peer's process, at a malformed frame (told why,
 * counted), or when nothing is said for CONN_HELLO_MS after it was made. A peer with more than
 * DLP_UNSENT_MAX unsent is not read from. Loop thread. */
#ifndef CONN_H
#define CONN_H

#include "control/control.h"

#define CONN_HELLO_MS 10000

struct conn;

/* Takes fd over; closes it where the peer cannot be told apart (logged). */
void conn_new(struct control *control, int fd);
uid_t conn_user(int fd); /* of the peer; (uid_t)-1: not known */
uint32_t conn_count(const struct control *control, uid_t uid);
/* All places are taken, or all that this user may have, and he wants one: closes the oldest
 * connection that does nothing, his own if there is one, or no other. False: all are at work. */
bool conn_make_room(struct control *control, uid_t uid, bool only_own);
/* Tells a peer why it is not served, and closes. */
void conn_turn_away(struct control *control, int fd, enum dlp_error code, const char *text);
/* Ends the connection and its session; why, for the log ("the daemon stops"). Memory is freed by
 * the loop. */
void conn_close(struct conn *conn, const char *why);

#endif
