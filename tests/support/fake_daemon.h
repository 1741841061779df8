/* A daemon played by the test: one thread runs a script of what it hears and says. A step that does
 * not come as the script expects aborts the test. */
#ifndef FAKE_DAEMON_H
#define FAKE_DAEMON_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "proto/channel.h"
#include "proto/slot.h"

#define FAKE_BATCH 4U
#define FAKE_SLOTS 3U
#define FAKE_STEPS 5U
#define FAKE_OWN "~17/own" /* what it calls a feed that it is given */

/* In the script's thread, where a check of the test library cannot fail. */
#define NEED(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: fake daemon: %s\n", __FILE__, __LINE__, #what);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct fake {
    char path[64];
    int listener;
    struct dlp_channel *channel;
    pthread_t thread;
    void (*script)(struct fake *fake);
    uint64_t id;            /* of the last message heard */
    int waits;              /* heard */
    int heard[DLP_FDS_MAX]; /* descriptors of the last message; closed at the next */
    size_t nheard;
    uint8_t *arena;
    struct dlp_layout layout;
    /* What its AttachReply says; a test changes it before the script runs. */
    Dlp__AttachReply reply;
    int seals;
    off_t memory;     /* bytes of the memfd */
    int fds;          /* sent with the reply */
    uint32_t version; /* of HelloReply */
};

void fake_init(struct fake *fake); /* listens */
void fake_run(struct fake *fake, void (*script)(struct fake *fake));
void fake_done(struct fake *fake); /* after the script has ended */

void fake_accept(struct fake *fake);
void fake_close(struct fake *fake); /* the connection */
void fake_listen(struct fake *fake);
void fake_silence(struct fake *fake); /* nobody listens any more */
/* The next message, which has to be of this kind; Wait comes or not as time will have it, and is
 * passed over where it is not asked for. */
Dlp__Envelope *fake_hear(struct fake *fake, Dlp__Envelope__BodyCase kind);
void fake_heard(struct fake *fake, Dlp__Envelope__BodyCase kind); /* same, not looked at */
void fake_heard_end(struct fake *fake);                           /* the client has closed */
void fake_say(struct fake *fake, Dlp__Envelope *env, const int *fds, size_t nfds);
void fake_hello(struct fake *fake);                       /* accept, Hello, its reply */
void fake_attach(struct fake *fake);                      /* accept, Hello, Attach, their replies */
void fake_feed_named(struct fake *fake);                  /* GiveFeedReply */
void fake_files_taken(struct fake *fake, uint32_t files); /* GiveFilesReply */
void fake_reply(struct fake *fake);                       /* AttachReply with memory */
void fake_error(struct fake *fake, uint64_t id, unsigned code, const char *text);
void fake_ready(struct fake *fake, uint32_t slot, uint64_t generation, uint64_t epoch,
                uint64_t step);
void fake_failed(struct fake *fake, uint32_t slot, uint64_t generation, uint64_t epoch,
                 uint64_t step, const char *text);
void fake_seek_reply(struct fake *fake, uint64_t id);
void fake_progress(struct fake *fake, const char *text);
/* Hears Detach, answers it, and the end. */
void fake_detached(struct fake *fake);

#endif
