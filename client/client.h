/* What the modules of the client library share: the handle.
 *
 * One handle is used by one thread at a time; nothing here is global. A handle moves through the
 * phases below by request_pump() alone, which never blocks; whatever blocks is a loop around
 * request_pump() and request_wait(). So a first attach, a reconnect and a poll loop of the caller
 * are the same code. Times are nanoseconds of CLOCK_MONOTONIC. */
#ifndef DLC_CLIENT_H
#define DLC_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/dataload.h"
#include "client/mapping.h"
#include "client/meter.h"
#include "proto/channel.h"

#define CLIENT_NEVER INT64_MAX
#define CLIENT_SECOND 1000000000LL
#define CLIENT_QUEUE_MAX (DLP_SLOTS_MAX + 1) /* a turn takes up a slot, but for the final one */
#define CLIENT_NOTES_MAX 64U

/* What the daemon has announced and dataload_next has not handed out: a batch, or an error in its
 * place, or the end of the attachment. */
struct turn {
    struct dataload_batch *batch; /* NULL: the final one */
    struct position at;
    bool final;
    int code;   /* negative errno, 0 = a batch */
    char *text; /* owned */
};

enum phase {
    PHASE_LOST,   /* no connection; the next try is at retry_at, the last one at deadline */
    PHASE_HELLO,  /* the reply to Hello is awaited, until deadline */
    PHASE_GIVE,   /* the reply to GiveFeed or GiveFiles is awaited, until deadline */
    PHASE_ATTACH, /* the reply to Attach is awaited, until deadline */
    PHASE_STREAM, /* batches come */
    PHASE_ENDED   /* for good, with end_code and end_text */
};

struct dataload {
    pid_t owner;
    char error[DLP_TEXT_MAX + 1];
    enum phase phase;
    int end_code;
    char end_text[DLP_TEXT_MAX + 1];

    /* As the caller gave them; the strings are ours. */
    dataload_options options;
    char *feed;
    struct giving *giving; /* NULL: the feed is the daemon's */
    struct device *device; /* NULL: batches lie in the host's memory */
    bool gpu_only;         /* was said in Attach */

    struct dlp_channel *channel;
    char peer[DLP_SOCKET_PATH_MAX + 1]; /* path of the socket */
    int epoll, timer; /* what dataload_fd shows: the socket, and the next thing to do by time */
    uint32_t epoll_events;
    int64_t timer_at;
    bool polled; /* dataload_fd was asked for: it is kept true from then on */
    uint64_t last_id;
    uint64_t
        offer; /* id of the Attach by which memory of a GPU was taken, until a batch is in it */
    uint64_t awaited; /* id of the request that has no reply yet, else 0 */
    int64_t deadline, retry_at;
    int64_t anew_until; /* the first attach has met the daemon's end, and is tried anew; 0 = not */
    char report[DLP_TEXT_MAX + 1]; /* last AttachProgress, or refusal that may pass */

    /* From the first AttachReply on. */
    bool attached, detaching;
    bool renewed; /* the AttachReply awaited is another one, of an attachment that has begun */
    enum dlp_memory memory;            /* of its arena, or of the last one */
    char memory_why[DLP_TEXT_MAX + 1]; /* why its memory is none of the better kinds */
    bool dismissed; /* ended by the daemon's word: others may wait for what is given back */
    char job[DLP_NAME_MAX + 1], plan_id[17], fingerprint[DLP_NAME_MAX + 1];
    uint32_t rank, world, batch, slots;
    uint64_t seed, records, steps, first_steps; /* of an epoch; of start_epoch */
    uint64_t start_epoch, start_position;
    bool skips;                                           /* batches may be left out */
    uint32_t members;                                     /* that read its stream */
    char started[DLP_TEXT_MAX + 1], token[DLP_TOKEN_MAX]; /* with two '#' to fill in */
    char *transform, *notes[CLIENT_NOTES_MAX];
    uint32_t nnotes;

    struct position next;     /* to hand out; after its epoch's last step the end comes first */
    struct position arriving; /* of the batch that the daemon announces next */
    struct position asked;    /* where a reconnect asked to go on */
    bool begun;               /* since the attach a batch was handed out or an epoch chosen */
    struct {                  /* of Seek */
        bool awaited;   /* what comes until its reply is of the old order, and not handed out */
        uint64_t epoch; /* that is asked for */
        struct position from; /* where it goes on when that is refused, and what `begun` was */
        bool begun;
        int refused; /* -errno of a refusal not told yet, with its text in report */
    } seek;
    bool wait_sent;
    int64_t waiting_since;               /* 0 = no call of next is unanswered */
    struct mapping *mapping, *old;       /* the current arena, NULL without one; older ones */
    struct turn queue[CLIENT_QUEUE_MAX]; /* a ring */
    uint32_t given; /* batches given back behind work of a GPU, of all arenas */
    uint32_t queue_at, queued;
    struct meter meter;
};

#endif
