/* What status says of users: what each has of the daemon, and may have. Of those who have clients.
 * Loop thread. */
#ifndef USER_STATUS_H
#define USER_STATUS_H

#include "control/census.h"

struct user_list {
    Dlp__UserStatus **list; /* by uid */
    size_t count;
    struct user_view *views;
};

void user_list_take(struct user_list *users, const struct census *census);
void user_list_free(struct user_list *users);

#endif
