/* dataloadctl: what its verbs share. One thread; errors are one line on `err`; functions that can
 * fail return an exit code. Text from the daemon is escaped before it is printed. */
#ifndef CTL_H
#define CTL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/channel.h"

enum ctl_exit {
    CTL_OK = 0,
    CTL_LATE = 1,        /* inside: no answer in time */
    CTL_NOT_RUNNING = 3, /* nobody listens */
    CTL_NOT_FOUND = 4,   /* no such feed or client */
    CTL_USAGE = 64,
    CTL_UNAVAILABLE = 69, /* no answer, refused, or a file that cannot be written */
    CTL_PERMISSION = 77,
    CTL_CONFIG = 78 /* a socket path that cannot be used */
};

/* The command line and where output goes. Negative numbers: not given. */
struct ctl {
    FILE *out, *err;
    const char *socket;     /* NULL: looked for */
    const char *feed, *job; /* the verb's argument, or --feed; may be NULL */
    const char *file;       /* --out, --textfile */
    const char *key;        /* the second argument of find */
    const char *token;      /* --token */
    const char *gpu;        /* --release */
    bool json, headers, wait, nagios;
    int64_t world, rank, batch, seed, epoch, epochs, step, batches, count;
    double watch, seconds;
};

int ctl_status(const struct ctl *ctl);
int ctl_top(const struct ctl *ctl);
int ctl_trace(const struct ctl *ctl);
int ctl_advise(const struct ctl *ctl);
int ctl_bench(const struct ctl *ctl);
int ctl_show(const struct ctl *ctl);
int ctl_ping(const struct ctl *ctl);
int ctl_feeds(const struct ctl *ctl);
int ctl_slices(const struct ctl *ctl);
int ctl_token(const struct ctl *ctl);
int ctl_bad(const struct ctl *ctl);
int ctl_mix(const struct ctl *ctl);
int ctl_batch(const struct ctl *ctl);
int ctl_find(const struct ctl *ctl);
int ctl_gpu(const struct ctl *ctl);

#define CTL_FORMAT(text, first) __attribute__((format(printf, text, first)))
/* Prints "dataloadctl: <text>" escaped to err and returns code. */
int ctl_fail(const struct ctl *ctl, int code, const char *format, ...) CTL_FORMAT(3, 4);
/* One escaped line of output. */
void ctl_print(const struct ctl *ctl, const char *format, ...) CTL_FORMAT(2, 3);
int ctl_exit_of_wire(unsigned code); /* of proto/errors.h */
int ctl_exit_of_errno(int error);    /* positive; of the client library, once a daemon answered */
/* One line that is overwritten, only where err is a terminal; "" clears it. */
void ctl_progress(const struct ctl *ctl, const char *format, ...) CTL_FORMAT(2, 3);
/* The same, of what the daemon says that it does meanwhile; total 0: not known. */
void ctl_report(const struct ctl *ctl, const char *text, uint64_t done, uint64_t total);

struct ctl_link { /* one connection to the daemon */
    const struct ctl *ctl;
    struct dlp_channel *channel;
    uint64_t last_id;
    bool fixed; /* an answer's deadline is not put off by reports of progress */
    void (*progress)(void *context, uint64_t done, uint64_t total); /* or NULL: hears of it, too */
    void *context;
    char peer[32];   /* version of the daemon */
    char text[512];  /* path of the socket, or why there is none */
    int patience_ms; /* of ctl_link_try */
};

/* A whole answer: its parts joined into one message of the same type. Lists are those of all
 * parts, single values those of the first. */
struct ctl_reply {
    Dlp__Envelope **parts;
    size_t nparts;
    ProtobufCMessage *joined; /* NULL for one part */
};
#define CTL_DEADLINE_MS 5000 /* for an answer; starts anew with each part and progress report */
#define CTL_OPENING_DEADLINE_MS 60000 /* where the daemon may have to index a data set first */
int ctl_link_open(const struct ctl *ctl, const char *program, struct ctl_link *link);
/* Waits so long for answers: then CTL_LATE, which is not printed, nor is CTL_NOT_RUNNING. */
int ctl_link_try(const struct ctl *ctl, const char *program, int patience_ms,
                 struct ctl_link *link);
void ctl_link_close(struct ctl_link *link); /* fine when open failed */
/* Sends request (its id is set here) and waits for the whole answer of kind `wanted`. */
int ctl_link_ask(struct ctl_link *link, Dlp__Envelope *request, Dlp__Envelope__BodyCase wanted,
                 int deadline_ms, struct ctl_reply *reply);
/* Connects, asks, closes. */
int ctl_ask_once(const struct ctl *ctl, const char *program, Dlp__Envelope *request,
                 Dlp__Envelope__BodyCase wanted, int deadline_ms, struct ctl_reply *reply);
bool ctl_reply_more(const Dlp__Envelope *part); /* another part follows this one */
void ctl_reply_join(struct ctl_reply *reply);   /* after the last of several parts */
/* The message asked for; valid until ctl_reply_free. */
const void *ctl_reply_body(const struct ctl_reply *reply);
void ctl_reply_free(struct ctl_reply *reply);

int ctl_status_ask(struct ctl_link *link, struct ctl_reply *reply);
void ctl_status_table(const struct ctl *ctl, const Dlp__StatusReply *status);

/* An allocation of a program that ends without memory. */
static inline void *ctl_must(void *memory)
{
    if (!memory) {
        fputs("dataloadctl: out of memory\n", stderr);
        exit(CTL_UNAVAILABLE);
    }
    return memory;
}

#endif
