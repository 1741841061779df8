/* A question about the plan of a feed (slices, token, mix, batch, find): waits for the data set, is
 * reckoned as an errand (of a feed of a user's own, as one of his), answered in parts as fast as
 * the peer reads; one that stops reading loses its answer. One of a session at a time. Loop thread
 * but for reckon. */
#ifndef INQUIRY_H
#define INQUIRY_H

#include "control/datasets.h"
#include "control/errands.h"
#include "control/session.h"
#include "store/plan.h"
#include "store/steps.h"

struct inquiry;

struct inquiry_kind {
    const char *name; /* in words, for refusals */
    /* Thread of the errand: sets inquiry->result, or inquiry->err (-EINVAL: the asker's fault).
     * Stops early once inquiry->cancel is true. NULL: there is nothing to reckon. */
    void (*reckon)(struct inquiry *inquiry);
    /* Sends one part; false after the last one. */
    bool (*send)(struct inquiry *inquiry);
    void (*free)(void *result); /* NULL is fine */
};

enum inquiry_stage { INQUIRY_DATASET, INQUIRY_ERRAND, INQUIRY_ANSWER };

struct inquiry {
    const struct inquiry_kind *kind;
    struct session *session;
    uint64_t id;
    const struct feed_spec *spec;
    bool has_token, has_epoch;
    struct token token;
    void *want; /* of the kind; freed with free() */

    struct dataset *dataset; /* our own reference; known, like what follows, from reckon on */
    struct plan_settings order;
    struct job_start start; /* of the job asked about */
    uint64_t epoch;
    struct steps steps; /* of that epoch */
    char plan[17];      /* plan id */
    void *result;       /* of the kind */
    uint64_t sent;      /* of the kind: how far its parts have come */
    struct error err;
    _Atomic bool cancel;
    _Atomic uint64_t done, total; /* of reckon, for progress reports; total 0 = not known */

    enum inquiry_stage stage;
    struct datasets_waiter waiter;
    struct errand errand;
    uint64_t seen;   /* sent, at the last tick */
    uint32_t unread; /* ticks since the peer took the last part */
};

/* Checks that the peer may ask (attach rights on the feed) and asks for the data set; want is taken
 * in any case. Values are within the limits of proto/limits.h. Refusals are sent. */
void inquiry_begin(struct session *session, uint64_t id, const struct inquiry_kind *kind,
                   const Dlp__Question *question, void *want);
/* Steps of another epoch of the same job. */
struct steps inquiry_steps(const struct inquiry *inquiry, uint64_t epoch);
/* The resume token of the place before a step of the epoch, which has as many or one less. Returns
 * text. */
char *inquiry_token(const struct inquiry *inquiry, uint64_t step, char text[DLP_TOKEN_MAX]);
/* Sends a further part of an answer; false when there is none to send. */
bool inquiry_continue(struct session *session);
/* Each second: reports progress, or gives up a peer that does not read its answer. */
void inquiry_tick(struct inquiry *inquiry);
/* The peer is gone: nobody is answered; the session is reaped when the errand has ended. NULL is
 * fine. */
void inquiry_cancel(struct inquiry *inquiry);

#endif
