/* What top remembers of each client: the share of time that it waited, over the last minute. Pure:
 * the clock is given. One thread. */
#ifndef CTL_HISTORY_H
#define CTL_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataload.pb-c.h"

#define HISTORY_BINS 12
#define HISTORY_BIN_S 5

struct history_bin {
    uint64_t number; /* seconds / HISTORY_BIN_S */
    double sum;
    uint32_t count;
};

struct history_client {
    uint64_t key;
    bool seen; /* in the last report */
    struct history_bin bins[HISTORY_BINS];
};

struct history {
    int32_t daemon; /* its pid; another one numbers its clients anew */
    struct history_client *clients;
    size_t count;
};

/* Those who have gone are forgotten. */
void history_add(struct history *history, const Dlp__StatusReply *status, double seconds);
/* Oldest first; -1: not known. */
void history_get(const struct history *history, const Dlp__ClientStatus *client, double seconds,
                 double shares[HISTORY_BINS]);
void history_free(struct history *history);

#endif
