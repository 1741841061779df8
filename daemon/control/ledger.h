/* Jobs and positions that outlive the daemon: one memfd, which the service manager keeps for the
 * next start. It is written as things happen, so that an end at any instruction leaves a whole
 * state: an entry is there from one store on and gone with one, and a place is one. Its size is
 * fixed and reserved when it is made. Entries are numbers from 1 on; 0 is none, and whatever is
 * said of none, or to a ledger that is NULL, goes nowhere. Loop thread. */
#ifndef LEDGER_H
#define LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "proto/limits.h"

#define LEDGER_JOBS 2048U
#define LEDGER_RANKS 16384U

struct ledger;

struct ledger_job { /* as in struct job; what never changes of it */
    uint64_t seed, start_epoch, start_position;
    uint32_t uid, world, batch;
    bool shared, follows, rebuilt;
    char plan_id[17];
    char feed[DLP_NAME_MAX + 1], name[DLP_NAME_MAX + 1];
};

struct ledger_rank { /* one that was served */
    uint32_t job;    /* its entry */
    uint32_t rank;
    bool rowless, left;
    uint64_t vacant; /* ns: since then; 0 = it is claimed */
    uint64_t epoch, step;
};

/* NULL with err: there can be none, which harms nothing else. */
struct ledger *ledger_new(struct error *err);
/* One of a daemon before; fd is its own in any case. All is checked, and what no daemon of this
 * version has written is dropped: a single entry, or all of it (NULL with err). */
struct ledger *ledger_adopt(int fd, struct error *err);
int ledger_fd(const struct ledger *ledger);
void ledger_free(struct ledger *ledger); /* what is in it stays in the descriptor's copies */

/* 0 where there is no room, which is logged. */
uint32_t ledger_add_job(struct ledger *ledger, const struct ledger_job *job);
void ledger_remove_job(struct ledger *ledger, uint32_t job); /* and its ranks */
void ledger_set_empty(struct ledger *ledger, uint32_t job, uint64_t since);
uint32_t ledger_add_rank(struct ledger *ledger, const struct ledger_rank *rank);
void ledger_set_vacant(struct ledger *ledger, uint32_t rank, uint64_t since, bool left);
void ledger_set_place(struct ledger *ledger, uint32_t rank, uint64_t epoch, uint64_t step);

/* False: there is no such entry. since: ns, when its last client went; 0 = it has some. */
bool ledger_get_job(const struct ledger *ledger, uint32_t entry, struct ledger_job *job,
                    uint64_t *since);
bool ledger_get_rank(const struct ledger *ledger, uint32_t entry, struct ledger_rank *rank);

#endif
