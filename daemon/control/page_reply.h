/* The answer to a PageRequest, in parts as the peer reads them. Loop thread. */
#ifndef PAGE_REPLY_H
#define PAGE_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;

struct page_reading {  /* of which more parts follow */
    struct page *page; /* NULL: nothing is read */
    uint64_t id;
    size_t sent, seen; /* bytes; at the last tick */
    uint32_t unread;   /* ticks since the peer took the last part */
};

/* Begins an answer: sends its first part, or an error. */
void page_reply_begin(struct session *session, uint64_t id, const char *name);
/* Sends the next part, once the peer has read what it was sent; false when there is none. */
bool page_reply_continue(struct session *session);
/* Each second: a peer that does not read loses the rest. */
void page_reply_tick(struct session *session);
void page_reply_cancel(struct session *session); /* the peer is gone */

#endif
