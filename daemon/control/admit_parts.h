/* The inside of an attach, for the files admit*.c alone.
 *
 * admit.c: its life, and how it joins a group; admit_open.c: how it opens the group's feed;
 * admit_gpu.c: when a GPU's driver is asked for memory; admit_port.c: the GPUs of a group;
 * admit_check.c: what memory of a GPU is offered, and whether the client can read it. */
#ifndef ADMIT_PARTS_H
#define ADMIT_PARTS_H

#include "base/clock.h"
#include "control/admit.h"
#include "control/group.h"
#include "control/mix_watch.h"
#include "control/place.h"
#include "feed/batch.h"

enum admit_stage {
    ADMIT_DATASET, /* waits for the data set */
    ADMIT_GROUP,   /* waits for another attach that opens the group's feed */
    ADMIT_GATHER,  /* waits for other members that come back */
    ADMIT_NAME,    /* helper: who the user is */
    ADMIT_RECKON,  /* helper: that, and how much memory */
    ADMIT_MEMORY,  /* waits for memory that is being given back */
    ADMIT_GPU,     /* waits until the driver of a GPU may be asked */
    ADMIT_OPEN,    /* helper: the feed */
    ADMIT_PORT,    /* helper: memory for the group's batches on another GPU */
    ADMIT_CHECK,   /* waits for what the client reads of the memory offered */
    ADMIT_UNDO,    /* waits for the end of a feed whose memory it could not read */
};

struct admit {
    struct session *session;
    struct group *group; /* NULL before the claim; of the opener it outlives us */
    uint64_t id;
    enum admit_stage stage;
    bool opens; /* the group's feed */
    bool cancelled;
    bool offered; /* memory of a GPU */
    struct place place;
    struct handoff_wish wish;
    struct feed_place first; /* of the opener: where it begins */
    struct datasets_waiter waiter;
    uv_work_t work;
    char user[ACCESS_USER_MAX]; /* of the helper, and what follows */
    struct feed *feed;          /* opened, and not the group's yet; of PORT: the group's */
    struct admit_ports {        /* of PORT: one; of OPEN: of members that wait for the group */
        uint32_t count, done;   /* the first `done` are numbers of ports */
        uint8_t gpus[FERRY_PORTS_MAX][UPLOADERS_UUID];
        uint32_t ports[FERRY_PORTS_MAX];
    } ports;
    struct error err;
    char reason[DLP_TEXT_MAX]; /* of UNDO: why the memory offered is not taken */
    uint64_t waits_since;      /* for memory, for other members, for the check */
    uint64_t gpu_since;        /* it waits for others that ask drivers of GPUs; 0 = it did not */
    bool presses;              /* on the budget */
    char waits_for[DLP_TEXT_MAX];
    struct mix_task *mix; /* of the helper; NULL = nothing to look at */
};

/* Tells the peer why not, and is over. */
void admit_fail(struct admit *admit, enum dlp_error code, const char *text);
void admit_drop(struct admit *admit); /* the peer has gone */
void admit_free(struct admit *admit);
void admit_progress(void *admit, const char *text, uint64_t done, uint64_t total);
void admit_run(struct admit *admit, enum admit_stage stage, uv_work_cb run, uv_after_work_cb then);
void admit_look_up_user(struct admit *admit); /* helper thread */
/* The group's feed is open: the member begins here, and is told so. It is over. */
void admit_stream(struct admit *admit, struct feed_place first);
/* The same, but it has been told. */
void admit_begin_stream(struct admit *admit, struct feed_place first);
/* The data set is open, and the group's feed is, or will be. */
void admit_go_on(struct admit *admit);

void admit_open(struct admit *admit); /* opens the feed of its group */
void admit_gather(struct admit *admit, uint64_t now);
void admit_wait_on(struct admit *admit, uint64_t now); /* for memory */
void admit_take_memory(struct admit *admit, uint64_t now);
/* True: a GPU's driver cannot be asked now. It waits, or has begun to try another way. */
bool admit_wait_for_gpu(struct admit *admit, uint64_t now);
bool admit_may_ask(const struct admit *admit); /* no driver holds too many helper threads */
/* Until it may: false once that has taken too long, text says for whom. */
bool admit_wait_for_others(struct admit *admit, uint64_t now, char text[DLP_TEXT_MAX]);
void admit_ask_gpu(struct admit *admit); /* it is asked from now on, until gpu_opens counts down */
/* The feed is the group's, for good. */
void admit_have_feed(struct admit *admit);
/* The kind of memory cannot be had: another one, or the end. */
void admit_fall_back(struct admit *admit, const char *reason);

/* Joins the group, whose batches lie on GPUs. */
void admit_join_port(struct admit *admit);
/* Of a new feed: those of members that wait for it get their batches from the first on. Noted
 * before it opens, made when it is open (helper thread), expected before it starts. */
void admit_note_ports(struct admit *admit);
void admit_make_ports(struct admit *admit);
void admit_expect_ports(const struct admit *admit);
/* Helper thread. -ENODEV, why in err. */
int admit_find_gpu(const struct admit *admit, const uint8_t *uuid, struct uploader **out,
                   struct error *err);

/* Tells the client of a feed's memory and order. */
void admit_offer(struct admit *admit, const struct feed *feed, struct feed_place first);
/* The same of memory of a GPU: the member begins once the client has read it. */
void admit_wait_for_check(struct admit *admit, struct feed *feed, struct feed_place first);
void admit_check_tick(struct admit *admit, uint64_t now);

#endif
