/* The counters file: what a daemon has said of itself last, for those to whom it does not answer
 * any more. It lies beside the control socket (PATH.counters), and whoever may connect may read it.
 *
 *   page, buffer 0, buffer 1
 *
 * The page has the heartbeat of the daemon's loop. Snapshot n (from 1 on) is a packed StatusReply
 * in buffer n % 2, made while the one before stays whole in the other; `turn` is the number of the
 * last whole one. Both ends are on one machine: numbers are as it stores them. The daemon maps the
 * file, readers copy it and believe nothing that they have not checked. */
#ifndef DLP_COUNTERS_H
#define DLP_COUNTERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "dataload.pb-c.h"
#include "proto/limits.h"

#define DLP_COUNTERS_MAGIC 0x73726e756f436c44ULL
#define DLP_COUNTERS_VERSION 1U
#define DLP_COUNTERS_PAGE 512U
#define DLP_COUNTERS_ROOM (256U * 1024U) /* of one buffer */
#define DLP_COUNTERS_BYTES (DLP_COUNTERS_PAGE + 2 * DLP_COUNTERS_ROOM)
#define DLP_COUNTERS_PATH_MAX (DLP_SOCKET_PATH_MAX + sizeof ".counters")

struct dlp_counters_buffer {
    uint64_t size, sum;
    uint64_t taken_ns; /* CLOCK_MONOTONIC */
    uint64_t left_out; /* clients that found no room */
};

struct dlp_counters_page {
    _Atomic uint64_t magic; /* written last */
    uint32_t version, pid;
    uint64_t room;
    uint64_t instance;             /* as in HelloReply; 0: it has not begun yet */
    _Atomic uint64_t beat_ns;      /* CLOCK_MONOTONIC */
    _Atomic uint64_t beat_wall_ns; /* the same moment by CLOCK_REALTIME */
    _Atomic uint64_t stuck_ns;     /* then: for how long a worker has been at one row, at most */
    _Atomic uint64_t turn;
    struct dlp_counters_buffer buffers[2];
};

struct dlp_counters { /* as read */
    uint32_t pid;
    uint64_t instance, beat_ns, beat_wall_ns, stuck_ns, taken_ns, left_out;
    Dlp__StatusReply *status; /* NULL: there is no snapshot yet */
};

/* Path of the file; returns out. */
char *dlp_counters_path(const char *socket_path, char out[DLP_COUNTERS_PATH_MAX]);
/* Of a snapshot's bytes. */
uint64_t dlp_counters_sum(const uint8_t *bytes, size_t size);
/* From a copy of the file. 0; -EPROTO: it is no such file; -EPROTONOSUPPORT: of another version;
 * -EAGAIN: it was written meanwhile. Free with dlp_counters_free. */
int dlp_counters_parse(const uint8_t *copy, size_t size, struct dlp_counters *out);
/* Of the daemon whose socket has this path. 0, -errno of the file, or as above; -EPERM: the file
 * belongs neither to the socket's owner nor to that of its folder. Never waits. */
int dlp_counters_read(const char *socket_path, struct dlp_counters *out);
void dlp_counters_free(struct dlp_counters *counters);

#endif
