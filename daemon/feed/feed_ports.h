/* The ports of a feed on GPUs: one for each GPU that its batches are copied to. Port 0, of the GPU
 * in feed_params, is there from the start. A port whose GPU is lost gets nothing any more: its loss
 * is told by feed_events, and with the last open one the feed stops. Loop thread where not said
 * otherwise. */
#ifndef FEED_PORTS_H
#define FEED_PORTS_H

#include "feed/feed.h"

/* feed_add_port blocks (helper thread; -ENODEV with the reason). The feed may be closed meanwhile:
 * from the announcement until it is withdrawn, on any thread, it is not freed. */
void feed_announce_port(struct feed *feed);
void feed_withdraw_port(struct feed *feed);
int feed_add_port(struct feed *feed, struct uploader *uploader, uint32_t *port, struct error *err);

/* One more client reads there, or one less. Returns the first place from which on all batches go
 * there; its step may lie past the end of its epoch. */
struct feed_place feed_enter_port(struct feed *feed, uint32_t port);
void feed_expect_port(struct feed *feed, uint32_t port); /* a client will enter */
void feed_leave_port(struct feed *feed, uint32_t port);
/* Ports without clients get no batches any more, as long as others have some. */
void feed_close_ports(struct feed *feed);
/* Any thread; and why. */
bool feed_has_lost(const struct feed *feed, uint32_t port, struct error *err);

#endif
