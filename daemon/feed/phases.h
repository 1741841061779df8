/* What a thread is at, and how long it has been at each thing in all. One thread enters phases, any
 * thread reads; what it reads fits together. */
#ifndef PHASES_H
#define PHASES_H

#include <stdatomic.h>
#include <stdint.h>

#define PHASES_MAX 8

struct phases {
    _Atomic uint32_t turn; /* odd while it is being changed */
    _Atomic uint32_t at;
    _Atomic uint64_t since; /* clock_ns() */
    _Atomic(const char *) what;
    _Atomic uint64_t ns[PHASES_MAX]; /* of those that are over */
};

struct phases_now {
    uint32_t at;
    uint64_t since;
    const char *what;
    uint64_t ns[PHASES_MAX]; /* the one that lasts included */
};

/* The time before it is not counted. */
void phases_begin(struct phases *phases, uint32_t phase);
/* what: may be NULL; lives as long as the phases. */
void phases_enter(struct phases *phases, uint32_t phase, const char *what);
/* By the thread that enters them: of those that are over. */
uint64_t phases_past(const struct phases *phases, uint32_t phase);
void phases_read(const struct phases *phases, uint64_t now, struct phases_now *out);

#endif
