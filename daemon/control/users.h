/* What each user may have of the daemon, as the configuration says, and what he has. Users are told
 * apart by the uid that the kernel says: all that have none in our user namespace are one, and root
 * is one like any other. Loop thread, but for what asks no control. */
#ifndef USERS_H
#define USERS_H

#include <stdint.h>
#include <sys/types.h>

#include "control/access.h"

struct control;

struct user_limits {
    uint64_t memory;  /* bytes of slots and staging of all his clients; 0 = no limit of its own */
    uint32_t threads; /* workers at a time; 0 = all */
    uint32_t descriptors; /* files that he may give for feeds of his own; 0 = none */
    uint32_t clients;     /* attached at once; 0 = no limit of its own */
    uint32_t weight;      /* of his share of workers and storage, 1 .. SHARES_WEIGHT_MAX */
};

#define USERS_DESCRIPTORS 4096 /* where the configuration says nothing */
#define USERS_WORDS_MAX 160

struct users {
    struct user_limits rest; /* of whom the list does not name */
    struct users_entry {
        uid_t uid;
        char *name; /* as configured */
        struct user_limits limits;
    } * list;
    uint32_t count;
};

/* A copy; of NULL the built-in defaults: nobody has limits of his own. */
void users_copy(struct users *to, const struct users *from);
void users_clear(struct users *users);
/* As the configuration would say it: "memory 64.0 MB, clients none, ..."; returns text. */
char *users_words(const struct user_limits *limits, char text[USERS_WORDS_MAX]);

/* From now on; changes are logged. What runs keeps what it has, on the terms that are now its own
 * (terms.h), of which the feeds' weights are a part. */
void users_set(struct control *control, const struct users *users);

struct user_limits users_limits(const struct control *control, uid_t uid);
uint32_t users_clients(const struct control *control, uid_t uid); /* attached or attaching */
/* Promised to the groups that count for him (terms.h), and what processes still map of those that
 * have ended. */
uint64_t users_memory(const struct control *control, uid_t uid);
/* What to call him: by the name in the configuration or of a client, else by number; returns name.
 */
char *users_name(const struct control *control, uid_t uid, char name[ACCESS_USER_MAX]);

#endif
