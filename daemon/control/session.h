/* One peer and its attachment: what it is told, what it holds, how it ends. Knows no sockets: what
 * it says goes to a sink. Loop thread.
 *
 *   NEW -> GREETED -> ATTACHING -> STREAMING -> CLOSING -> GREETED
 *                        \-> GREETED (refused)
 *
 * session_end, in any state, gives back all: the rank at once, memory when its feed's threads end.
 */
#ifndef SESSION_H
#define SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "control/access.h"
#include "control/account.h"
#include "control/bad_reply.h"
#include "control/gauge.h"
#include "control/group.h"
#include "control/pace.h"
#include "control/page_reply.h"
#include "control/place.h"
#include "control/refusal.h"
#include "control/session_sink.h"
#include "dataload.pb-c.h"

enum session_state {
    SESSION_NEW,       /* has not said hello */
    SESSION_GREETED,   /* may ask and attach */
    SESSION_ATTACHING, /* rank claimed; data set, memory and feed in the making */
    SESSION_STREAMING,
    SESSION_CLOSING, /* detached; its feed has not ended yet */
};

struct session {
    struct session *next, **link; /* in control->sessions */
    struct control *control;
    struct session_sink sink; /* send is NULL once the peer is gone */
    struct access_peer peer;
    char program[64];
    char user[ACCESS_USER_MAX]; /* "" until looked up */
    const char *lease;          /* lease_kind() */
    int life;                   /* pidfd of its process, borrowed; -1 = none */
    enum session_state state;
    uint64_t heard; /* ns: its last message */

    const struct feed_spec *spec; /* from ATTACHING on, and what follows */
    uint32_t feed_number;
    struct group *group; /* from its claim until nothing is left that it waits for */
    struct session *fellow, **fellow_link; /* in group->members */
    char job_name[DLP_NAME_MAX + 1];
    uint32_t rank, world;
    bool probe;
    char started[PLACE_WORDS_MAX]; /* where it began and why; "" until it streams */
    uint64_t attached, evict_by;   /* ns; the latter: has to have gone then, 0 = stays */
    uint64_t number;               /* of this attachment, of all since the daemon's start */
    struct admit *admit;
    uint8_t gpu[UPLOADERS_UUID]; /* that it asks for */
    int port;                    /* of its group's feed that it has entered; -1 = none */
    bool gpu_lost;               /* no batch comes any more */

    struct feed_place place;    /* STREAMING, or coming back: of the next batch that it will take */
    uint32_t offers;            /* of a GPU's memory, in all */
    struct borrower *borrower;  /* of the last one by a handle; NULL = there was none */
    bool comes_back;            /* ATTACHING: to its group, for a batch of its own */
    struct feed_place expected; /* of the next that it will be told of, if none passes it by */
    enum loan_state lent[DLP_SLOTS_MAX];
    bool allow_replay;      /* batches may be served again to it */
    bool lagging;           /* batches pass it by */
    bool cast_off;          /* for good: detached as soon as it holds nothing */
    uint64_t skipped;       /* batches that have passed it by */
    struct gauge *gauge;    /* from its first attach on */
    struct pace_taker pace; /* since it streams, and: */
    struct account account;
    uint64_t detach_id, reload_id; /* of what is to be answered; 0 = nothing */
    struct giving *giving;         /* of a feed of its own; NULL: its version has none */
    struct inquiry *inquiry;       /* being answered */
    struct check_reply *check;     /* likewise */
    uint32_t replays;              /* that it has asked for and waits for */
    struct bad_listing listing;
    struct page_reading reading;
};

/* Takes over the peer's group list. */
struct session *session_new(struct control *control, struct access_peer *peer,
                            const struct session_sink *sink);
/* The peer is gone; why, for the log. The session is freed here or, where threads work, later. */
void session_end(struct session *session, const char *why);
/* Who it is and what it is attached to, for the log; only with a job. Returns text. */
#define SESSION_WORDS_MAX 512
char *session_words(const struct session *session, char *text, size_t size);
void session_send(struct session *session, const Dlp__Envelope *env);
/* An error in answer to request id (0: news that ends the attachment); the text is escaped. */
void session_refuse(struct session *session, uint64_t id, enum dlp_error code, const char *text);
void session_refuse_format(struct session *session, uint64_t id, enum dlp_error code,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same, counted and logged, of a request about a feed ("attach", "slices"). */
void session_deny(struct session *session, uint64_t id, const char *what, enum dlp_error code,
                  const char *text);
/* Answers to request id what it still waits for. */
void session_progress(struct session *session, uint64_t id, const char *text, uint64_t done,
                      uint64_t total);

/* What its messages ask for; the dispatcher has checked states and values. */
void session_wait(struct session *session);
void session_take(struct session *session, uint64_t id, const Dlp__Take *take);
void session_release(struct session *session, uint64_t id, const Dlp__Release *release);
void session_seek(struct session *session, uint64_t id, uint64_t epoch);
void session_detach(struct session *session, uint64_t id);

/* For admit.c and group.c. */
void session_announce(struct session *session, const struct loan *loan);
void session_unmapped(struct session *session); /* it maps nothing by a handle any more */
void session_tell_members(struct session *session);
void session_cast_off(struct session *session); /* gets no more; leaves once it holds nothing */
void session_left(struct session *session);     /* nothing is left of the group whose last it was */
/* Frees the session if the peer is gone and nothing works for it any more. */
void session_reap(struct session *session);

#endif
