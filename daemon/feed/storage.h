/* Turns at a storage that several users read: one for each read that has to wait for it, so that
 * its bytes are shared by weight among users and jobs. A storage is what has a device number of its
 * own; all streams of the process that read it meet here.
 *
 * As long as reads of one user only are under way, and a second after those of others, a turn
 * begins at once. Else no more of them are under way than it takes to have all that the storage
 * gives, which is tried out, and whoever has had least for his weight comes next. Each user may
 * always have his part of as many; so reads that take long, or hang, hold up those of others no
 * further than that, and after a second and eight times the usual length they do not count at all.
 */
#ifndef STORAGE_H
#define STORAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "feed/share_tree.h"

struct storage;

/* What a stream has waited for its turns at all storages. Any thread reads. */
struct storage_waits {
    _Atomic uint32_t waiting; /* reads, now */
    _Atomic uint32_t others;  /* users who read there too, as of the last wait */
    _Atomic uint64_t since, ns;
};

/* One stream at one storage. Its turns may be of several threads. */
struct storage_member {
    struct storage *storage;
    struct share share;
    struct storage_waits *waits;
    /* Turns that wait, the oldest first; with some it is itself in a list. */
    struct storage_turn *first_waiting, **last_waiting;
    struct storage_member *next, **at;
};

/* A read, on the stack of who reads. */
struct storage_turn {
    struct storage_member *member;
    uint64_t bytes, begun;
    bool runs, counts; /* counts: among those under way */
    struct storage_turn *next, **at;
    pthread_cond_t begins;
};

void storage_join(dev_t device, const struct share_terms *terms, struct storage_waits *waits,
                  struct storage_member *out);
void storage_leave(struct storage_member *member); /* it has no turn */
void storage_set_terms(struct storage_member *member, const struct share_terms *terms);
/* Blocks until it is its turn. False: interrupted, and there is nothing to end. */
bool storage_begin(struct storage_turn *turn, struct storage_member *member, uint64_t bytes,
                   const _Atomic bool *interrupted);
void storage_end(struct storage_turn *turn);
/* Others than its user read there. */
bool storage_has_others(struct storage_member *member);
/* Since the stream began: time in which reads of it waited for their turn. */
uint64_t storage_waited(const struct storage_waits *waits, uint64_t now);

#endif
