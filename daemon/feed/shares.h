/* On what terms a stream has its part of the workers and of storage: shared by weight among users,
 * and of each user's part among his jobs. */
#ifndef SHARES_H
#define SHARES_H

#include <stdint.h>
#include <sys/types.h>

#define SHARES_WEIGHT_MAX 1000U

struct share_terms {
    uid_t uid;
    uint32_t user_weight; /* 1 .. SHARES_WEIGHT_MAX; of all streams of the user alike */
    uint32_t threads;     /* workers that the user may have at a time; 0 = all */
    uint64_t job;         /* number of its job, since the daemon's start */
    uint32_t job_weight;  /* likewise, among the user's jobs */
};

#endif
