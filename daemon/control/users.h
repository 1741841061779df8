/* What each user may have of the daemon, as the configuration says. Loop thread. */
#ifndef USERS_H
#define USERS_H

#include <stdint.h>
#include <sys/types.h>

struct control;

struct user_limits {
    uint64_t memory;  /* bytes of slots and staging of all his clients; 0 = no limit of its own */
    uint32_t threads; /* workers at a time; 0 = all */
    uint32_t descriptors; /* files that he may give for feeds of his own; 0 = none */
    uint32_t clients;     /* attached at once; 0 = no limit of its own */
    uint32_t weight;      /* of his share of workers and storage, 1 .. 1000 */
};

#define USERS_DESCRIPTORS 4096 /* where the configuration says nothing */

struct user_limits users_limits(const struct control *control, uid_t uid);

#endif
