/* What the control side works with and by: parts of the daemon that outlive it, and settings. */
#ifndef CONTROL_OPTIONS_H
#define CONTROL_OPTIONS_H

#include <stdint.h>
#include <uv.h>

#include "base/budget.h"
#include "base/mailbox.h"
#include "control/http_address.h"
#include "device/gpus.h"
#include "device/orphans.h"
#include "device/uploaders.h"
#include "feed/workers.h"

struct heartbeat;
struct users;

/* All borrowed; they outlive the control. */
struct control_options {
    uv_loop_t *loop;
    struct mailbox *mailbox;
    struct budget *budget;
    struct orphans *orphans;
    struct uploaders *uploaders;
    struct workers *workers;
    bool workers_auto;    /* they set their number themselves, */
    unsigned workers_max; /* up to so many; 0 = as there are CPUs */
    struct feed_spec *const *feeds;
    uint32_t nfeeds;
    /* Taken over by a copy; NULL: nobody has limits of his own. */
    const struct users *users;
    uint64_t client_memory; /* bytes of one client */
    unsigned clients;       /* attached at once, at most */
    unsigned job_linger;    /* seconds */
    const char *cache_dir;  /* NULL = nothing is kept */
    uint64_t cache_bytes;
    bool cache_marks; /* of JPEGs are kept */
    unsigned threads; /* for indexing */
    const char *socket_path;
    const char *worker_cpus; /* to which workers are pinned, for status; empty: to none */
    const struct gpus *gpus;
    struct http_address metrics;   /* of the HTTP port; size 0 = none */
    void (*reload)(void *context); /* reads the configuration again; NULL = cannot */
    void *reload_context;
    struct heartbeat *heartbeat; /* NULL: no counters file is kept */
};

#endif
