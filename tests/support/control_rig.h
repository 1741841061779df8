/* A control without sockets for tests: two workers, three feeds (small: one shard of labels 0, 1,
 * ...; secret: the same, for another user; gone: of files that are not there), and peers whose
 * replies are kept as their bytes would arrive. One rig at a time. */
#ifndef CONTROL_RIG_H
#define CONTROL_RIG_H

#include <stdbool.h>

#include "control/control.h"
#include "control/session.h"
#include "dataload.pb-c.h"
#include "device/uploader.h"

#define RIG_RECORDS 26
#define RIG_BATCH 4
#define RIG_REPLIES_MAX 512

struct rig_peer {
    struct session *session;
    Dlp__Envelope *replies[RIG_REPLIES_MAX];
    uint32_t count, seen;
    int fd; /* that came with the last AttachReply; -1 = none */
};

extern struct control *rig_control;
extern struct budget *rig_budget;
extern struct orphans *rig_orphans;
extern struct feed_spec rig_small;
extern struct uploader_times rig_times; /* else the daemon's */
extern bool rig_kept;           /* by the end something of a GPU is kept for trainers that map it */
extern uint64_t rig_kept_bytes; /* of the budget: a GPU was lost */

void rig_setup(void); /* a folder with the shard, and a control of 256 MiB and 8 clients */
void rig_teardown(void);
void rig_start(uint64_t memory, uint64_t client_memory, unsigned clients);
void rig_stop(void);            /* all peers are freed; checks that all memory came back */
void rig_abandon(void);         /* the driver hangs: the process ends */
void rig_turn(void);            /* of the loop */
void rig_wait_until_free(void); /* checks that nothing is left of any peer */

struct rig_peer *rig_peer_new(pid_t pid);
struct rig_peer *rig_greeted(pid_t pid);
struct rig_peer *rig_attached(pid_t pid, Dlp__Attach message);
void rig_peer_free(struct rig_peer *peer); /* it vanishes */

bool rig_say_bytes(struct rig_peer *peer, const uint8_t *bytes, size_t size);
bool rig_say(struct rig_peer *peer, Dlp__Envelope env);
#define SAY(peer, number, CASE, member, message)                                                   \
    rig_say((peer), (Dlp__Envelope){.base = PROTOBUF_C_MESSAGE_INIT(&dlp__envelope__descriptor),   \
                                    .id = (number),                                                \
                                    .body_case = DLP__ENVELOPE__BODY_##CASE,                       \
                                    .member = (message)})
bool rig_hello(struct rig_peer *peer, uint32_t min, uint32_t max);
void rig_take(struct rig_peer *peer, const Dlp__BatchReady *ready, uint64_t id);
void rig_release(struct rig_peer *peer, uint32_t slot, uint64_t generation, uint64_t id);

/* The next reply of this kind; others before it are passed over, but not an error. */
const Dlp__Envelope *rig_await(struct rig_peer *peer, int body_case);
const char *rig_await_error(struct rig_peer *peer, uint64_t id, enum dlp_error code);
const Dlp__BatchReady *rig_next_ready(struct rig_peer *peer);
void rig_expect_text(const char *text, const char *first, const char *second);

Dlp__Number *rig_number(uint64_t value);  /* good for the next 8 calls */
Dlp__Attach rig_attach(const char *feed); /* job j */
Dlp__Attach rig_attach_as(const char *feed, uint64_t rank, uint64_t world);

#endif
