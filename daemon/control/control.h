/* The root of the control side: what all connections share. Loop thread only; nothing here blocks:
 * files and memory are opened on the helper pool (uv_queue_work), what takes long and may
 * wait is an errand. */
#ifndef CONTROL_H
#define CONTROL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/budget.h"
#include "base/mailbox.h"
#include "control/badlist.h"
#include "control/control_options.h"
#include "control/datasets.h"
#include "control/errands.h"
#include "control/jobs.h"
#include "control/stages.h"
#include "control/takings.h"
#include "control/users.h"
#include "device/gpus.h"
#include "device/orphans.h"
#include "device/uploaders.h"
#include "feed/feed_stats.h"
#include "feed/workers.h"
#include "proto/errors.h"

struct control_totals { /* of a feed: what its past clients have counted */
    bool removed;       /* it is no longer configured: only its running jobs are served */
    uint64_t bad, damaged, skipped, lag_detached;
    uint64_t marks_used, marks_wrong, marks_kept;
    struct feed_work work;
    struct takings takings;
    uint64_t told_ns[STAGES]; /* busy, with what its streams have added */
    uint64_t bad_limit_stops;
};

#define CONTROL_NOTES_MAX 8

struct control {
    struct control_options options; /* as they are now */
    struct feed_spec **feeds;      /* of options: those that there have ever been, our references */
    struct control_totals *totals; /* one a feed */
    struct users users;            /* what each may have */
    uint64_t client_memory;        /* as configured; 0 = a share of the limit */
    uint64_t memory_wanted;        /* less than the limit, for later (settings.h); 0 = as it is */
    char *notes[CONTROL_NOTES_MAX]; /* about the configuration, for status */
    uint32_t nnotes;
    struct datasets *datasets;
    struct jobs *jobs;
    struct badlist *badlist;
    struct errands *errands;
    struct pages *pages;
    struct http *http; /* NULL: none is wanted, or we stop */
    struct mix_watch *mix_watch;
    struct reclaim *reclaim;
    struct autoscale *autoscale;
    struct tracer *tracer;
    struct session *sessions; /* also those that wait for their group's end */
    struct group *groups;
    struct replay *replays;
    struct conn *conns;
    uint32_t nconns;
    uint64_t deserted;  /* ns; when nconns last became 0 */
    uint32_t nattached; /* clients that have a rank or share one */
    uint32_t nclosing;  /* feeds that give their memory back */
    uint32_t gpu_opens; /* attaches that wait for a GPU's driver on a helper thread */
    uint64_t promised;  /* bytes that the groups will take */
    uint64_t instance;  /* differs for every start */
    uint64_t started;   /* ns */
    uint64_t ticked;    /* ns: the last tick */
    uint64_t draining;  /* ns: since then no new job is let in; 0 = new ones are */
    uint64_t malformed, refused;
    uint64_t attachments;               /* ever */
    uint64_t refusals[DLP_ERROR_CODES]; /* of those refused */
    uv_timer_t tick;
    uv_timer_t gpu_look;  /* while an attach waits for the list of GPUs */
    uv_prepare_t flush;   /* before the loop waits, while there are: */
    struct conn *talking; /* connections with frames queued since it waited last */
    int handles;          /* open; the last one closed frees */
    uv_work_t save;       /* the bad list on its way to its file */
    char *save_text, *save_path;
    size_t save_size;
    uint64_t saved_at;
    bool saving;
    bool stopping;
    void (*stopped)(void *context);
    void *context;
};

struct control *control_new(const struct control_options *options);
/* A new connection; the control owns fd. */
void control_accept(struct control *control, int fd);
/* Ends all connections and feeds; stopped is called once when nothing is left that runs. */
void control_stop(struct control *control, void (*stopped)(void *context), void *context);
/* After stopped; the loop must run once more to close the timer. */
void control_free(struct control *control);

/* For the modules of control. */
int control_find_feed(const struct control *control, const char *name); /* -1 = none */
int control_find_any(const struct control *control, const char *name);  /* also removed ones */
void control_add_feed(struct control *control, struct feed_spec *spec); /* settings.c */
/* A feed has given its memory back, or a session has ended. */
void control_settled(struct control *control);

#endif
