/* Status reports for `dataloadctl top`, one after another, without ever waiting for the daemon: it
 * may hang, end and come again. One thread; the owner polls. */
#ifndef CTL_TOP_LINK_H
#define CTL_TOP_LINK_H

#include <stdint.h>

#include "client/ctl/ctl.h"

#define TOP_SILENCE_NS 2000000000U /* after which a question without an answer is said */
#define TOP_RETRY_NS 1000000000U   /* between two attempts to connect */

enum top_link_state { TOP_LINK_DOWN, TOP_LINK_GREETS, TOP_LINK_RESTS, TOP_LINK_ASKS };

struct top_link {
    const struct ctl *ctl;
    enum top_link_state state;
    struct dlp_channel *channel; /* NULL: down */
    uint64_t last_id;
    uint64_t since; /* ns: of the question, or of the last attempt to connect */
    char why[512];  /* it is down */
    struct ctl_reply coming;
    struct ctl_reply report; /* the last whole one, of nparts 0: none yet */
};

void top_link_init(struct top_link *link, const struct ctl *ctl);
void top_link_close(struct top_link *link);
/* Connects where it is time, and asks where nothing is under way. */
void top_link_ask(struct top_link *link, uint64_t now);
/* Its socket, -1: none, and what to poll it for. */
int top_link_poll(const struct top_link *link, short *events);
/* The socket is ready. True: there is a new report. */
bool top_link_ready(struct top_link *link, uint64_t now);
/* What is wrong, "" for nothing. */
void top_link_trouble(const struct top_link *link, uint64_t now, char *text, size_t size);

#endif
