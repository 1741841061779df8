/* One non-blocking end of a control socket: frames and descriptors in and out.
 *
 * Owner: one thread. No event loop inside: the owner polls the descriptor and calls send/receive
 * when it is ready. Descriptors ride on the first byte of their frame, one such frame a sendmsg. */
#ifndef DLP_CHANNEL_H
#define DLP_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataload.pb-c.h"
#include "proto/limits.h"

struct dlp_channel;

struct dlp_channel_limits {
    size_t receive_max; /* bytes of one incoming frame */
    size_t unpack_max;  /* bytes allocated to unpack it */
    bool take_fds; /* false: no control buffer, descriptors sent to us are closed by the kernel */
};

/* Takes over descriptors that are not wanted. */
typedef void dlp_channel_drop(void *context, const int *fds, size_t count);

/* Takes fd over (made non-blocking and close-on-exec). NULL without memory. */
struct dlp_channel *dlp_channel_new(int fd, const struct dlp_channel_limits *limits);
/* Closes the socket and descriptors not sent or not taken. NULL is fine. */
void dlp_channel_free(struct dlp_channel *channel);
int dlp_channel_fd(const struct dlp_channel *channel);
/* From now on descriptors are received. Those that dlp_channel_next does not hand out go to drop:
 * to close a stranger's file may block. */
void dlp_channel_take_fds(struct dlp_channel *channel, dlp_channel_drop *drop, void *context);

/* Queues one frame; fds (nfds <= DLP_FDS_MAX) are duplicated. 0, or -errno when memory is short. */
int dlp_channel_queue(struct dlp_channel *channel, const Dlp__Envelope *env, const int *fds,
                      size_t nfds);
/* The same; then sends what the socket takes. 0, or -errno, -EPIPE when the peer is gone. */
int dlp_channel_send(struct dlp_channel *channel, const Dlp__Envelope *env, const int *fds,
                     size_t nfds);
/* Sends what is queued, many frames at a time. 0 = all or some sent (see dlp_channel_unsent),
 * -errno = peer gone. */
int dlp_channel_flush(struct dlp_channel *channel);
size_t dlp_channel_unsent(const struct dlp_channel *channel);

/* Reads once from the socket; take all frames with dlp_channel_next before the next read, else
 * -ENOBUFS when the largest frame has filled the buffer. Number of bytes read, 0 at the peer's end,
 * -EAGAIN when nothing was there, -errno otherwise; -EMFILE: descriptors were cut off by the limit
 * of open files, or more than DLP_FDS_MAX came at a time (MSG_CTRUNC); -EPROTO: more came with the
 * rest of a frame. Both end the channel. */
long dlp_channel_receive(struct dlp_channel *channel);
/* The next whole frame of what was read, NULL when there is none; *err = 0, or -EPROTO,
 * -EMSGSIZE for a malformed one (the channel is then dead). An unknown body is no error:
 * DLP__ENVELOPE__BODY__NOT_SET. fds received with this frame go to fds
 * (room for DLP_FDS_MAX) and are the caller's from then on. Free with dlp_frame_free. */
Dlp__Envelope *dlp_channel_next(struct dlp_channel *channel, int *fds, size_t *nfds, int *err);

#endif
