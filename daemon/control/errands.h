/* Work that takes long and that no trainer waits for, as questions about a plan: each errand on a
 * thread of its own, of low priority, so that it slows neither decoding nor attaches. So
 * many at once as bounds what they take; the others wait in the order of asking. Also the openings
 * of a user's own files, so that no storage of his holds up others. Loop thread, but for run. */
#ifndef ERRANDS_H
#define ERRANDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mailbox.h"

#define ERRANDS_AT_ONCE 4

struct errands;

struct errand {                         /* embedded in whoever has one */
    void (*run)(struct errand *errand); /* its thread */
    /* After run. With err.code there was no thread to be had, and run was not called. */
    void (*ran)(struct errand *errand);
    struct error err;

    struct errands *errands; /* what follows is theirs */
    struct errand *next;
    uint64_t begun; /* ns; 0 = it waits */
    struct mail mail;
    pthread_t thread;
};

struct errands *errands_new(struct mailbox *mailbox, uint32_t at_once);
void errands_free(struct errands *errands); /* all errands have ended */
/* run and ran are called later, never from inside. */
void errands_add(struct errands *errands, struct errand *errand);
/* Gives the errand's place to the next one: from ran on, when its result is gone too. */
void errands_end(struct errand *errand);
/* Takes back one that has not begun; false: it has. */
bool errands_leave(struct errand *errand);
/* How many were asked for before it and have not ended; 0: it has begun. */
uint32_t errands_before(const struct errand *errand);
/* It gives signs of life; those that wait behind it may take heart. */
void errands_go_on(const struct errand *errand, uint64_t now);
/* ns: when it began; or, of one that waits, when one of those before it began, ended or gave a sign
 * of life last. */
uint64_t errands_moved(const struct errand *errand);

#endif
