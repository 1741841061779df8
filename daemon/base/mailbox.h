/* News from any thread to the event loop: one list, one eventfd, the whole list taken at each
 * wake. The only way up from feed, store and device to control. */
#ifndef MAILBOX_H
#define MAILBOX_H

#include <uv.h>

/* Embedded in the sender's struct; belongs to the mailbox from post until deliver is called. */
struct mail {
    struct mail *next;
    void (*deliver)(struct mail *mail); /* on the loop thread, in order of posting */
};

struct mailbox;

struct mailbox *mailbox_new(uv_loop_t *loop);                  /* loop thread */
void mailbox_post(struct mailbox *mailbox, struct mail *mail); /* any thread */
/* Delivers what is left, then closes the handle; memory is freed by the loop. No post after this.
 */
void mailbox_free(struct mailbox *mailbox);

#endif
