#include "proto/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/frames.h"

#define PREFIX 4U
#define FIRST_ROOM 4096U
#define FRAMES_AT_ONCE 16U

/* A frame on its way out. */
struct frame {
    struct frame *next;
    size_t size, sent;
    int fds[DLP_FDS_MAX];
    size_t nfds; /* not sent yet */
    uint8_t bytes[];
};

struct dlp_channel {
    int fd;
    struct dlp_channel_limits limits;
    int dead; /* -errno of the malformed frame that ended it */
    uint8_t *in;
    size_t start, end, room; /* in[start .. end) is read and not taken */
    int fds[DLP_FDS_MAX];
    size_t nfds;
    size_t fds_at;          /* in `in`: the last byte of the read that brought the descriptors */
    dlp_channel_drop *drop; /* NULL: they are closed */
    void *drop_context;
    struct frame *first, **last;
    size_t unsent;
};

struct dlp_channel *dlp_channel_new(int fd, const struct dlp_channel_limits *limits)
{
    struct dlp_channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return NULL;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    channel->fd = fd;
    channel->limits = *limits;
    channel->last = &channel->first;
    return channel;
}

static void close_all(int *fds, size_t *nfds)
{
    while (*nfds)
        close(fds[--*nfds]);
}

/* Received ones. */
static void drop_fds(struct dlp_channel *channel, int *fds, size_t *nfds)
{
    if (!channel->drop)
        close_all(fds, nfds);
    else if (*nfds)
        channel->drop(channel->drop_context, fds, *nfds);
    *nfds = 0;
}

static void drop_first(struct dlp_channel *channel)
{
    struct frame *frame = channel->first;
    channel->first = frame->next;
    if (!channel->first)
        channel->last = &channel->first;
    channel->unsent -= frame->size - frame->sent;
    close_all(frame->fds, &frame->nfds);
    free(frame);
}

void dlp_channel_free(struct dlp_channel *channel)
{
    if (!channel)
        return;
    while (channel->first)
        drop_first(channel);
    drop_fds(channel, channel->fds, &channel->nfds);
    close(channel->fd);
    free(channel->in);
    free(channel);
}

int dlp_channel_fd(const struct dlp_channel *channel)
{
    return channel->fd;
}

void dlp_channel_take_fds(struct dlp_channel *channel, dlp_channel_drop *drop, void *context)
{
    channel->limits.take_fds = true;
    channel->drop = drop;
    channel->drop_context = context;
}

static int duplicate(struct frame *frame, const int *fds, size_t nfds)
{
    for (; frame->nfds < nfds; frame->nfds++) {
        int fd = fcntl(fds[frame->nfds], F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            return -errno;
        frame->fds[frame->nfds] = fd;
    }
    return 0;
}

int dlp_channel_queue(struct dlp_channel *channel, const Dlp__Envelope *env, const int *fds,
                      size_t nfds)
{
    if (nfds > DLP_FDS_MAX)
        return -EINVAL;
    size_t size = dlp_frame_size(env);
    struct frame *frame = malloc(sizeof *frame + size);
    if (!frame)
        return -ENOMEM;
    *frame = (struct frame){.size = size};
    int r = duplicate(frame, fds, nfds);
    if (r < 0) {
        close_all(frame->fds, &frame->nfds);
        free(frame);
        return r;
    }
    dlp_frame_pack(env, frame->bytes);
    *channel->last = frame;
    channel->last = &frame->next;
    channel->unsent += size;
    return 0;
}

int dlp_channel_send(struct dlp_channel *channel, const Dlp__Envelope *env, const int *fds,
                     size_t nfds)
{
    int r = dlp_channel_queue(channel, env, fds, nfds);
    return r < 0 ? r : dlp_channel_flush(channel);
}

/* The frames that go out together: one with descriptors goes alone. */
static size_t gather(const struct frame *first, struct iovec *parts)
{
    size_t count = 0;
    for (const struct frame *frame = first; frame && count < FRAMES_AT_ONCE; frame = frame->next) {
        if (count && (first->nfds || frame->nfds))
            break;
        parts[count++] =
            (struct iovec){(uint8_t *)frame->bytes + frame->sent, frame->size - frame->sent};
    }
    return count;
}

/* Bytes sent of a frame and its successors, or -errno. */
static ssize_t send_some(int socket, const struct frame *frame)
{
    struct iovec parts[FRAMES_AT_ONCE];
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = gather(frame, parts)};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof frame->fds)] = {0};
    if (frame->nfds) {
        size_t bytes = frame->nfds * sizeof *frame->fds;
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(header), frame->fds, bytes);
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

static void count_sent(struct dlp_channel *channel, size_t sent)
{
    close_all(channel->first->fds, &channel->first->nfds);
    while (sent) {
        struct frame *frame = channel->first;
        size_t part = frame->size - frame->sent < sent ? frame->size - frame->sent : sent;
        sent -= part;
        frame->sent += part;
        channel->unsent -= part;
        if (frame->sent == frame->size)
            drop_first(channel);
    }
}

int dlp_channel_flush(struct dlp_channel *channel)
{
    while (channel->first) {
        ssize_t sent = send_some(channel->fd, channel->first);
        /* Descriptors on their way are limited for all processes of a user together. */
        if (sent == -EAGAIN || sent == -ETOOMANYREFS)
            return 0;
        if (sent < 0)
            return sent == -ECONNRESET ? -EPIPE : (int)sent;
        count_sent(channel, (size_t)sent);
    }
    return 0;
}

size_t dlp_channel_unsent(const struct dlp_channel *channel)
{
    return channel->unsent;
}

static long die(struct dlp_channel *channel, int why)
{
    drop_fds(channel, channel->fds, &channel->nfds);
    channel->dead = why;
    return why;
}

/* Moves what is left to the front and sees that there is room for more. */
static int make_room(struct dlp_channel *channel)
{
    if (channel->start) {
        channel->end -= channel->start;
        memmove(channel->in, channel->in + channel->start, channel->end);
        channel->fds_at -= channel->start;
        channel->start = 0;
    }
    if (channel->end < channel->room)
        return 0;
    size_t most = PREFIX + channel->limits.receive_max;
    if (channel->room >= most)
        return -ENOBUFS;
    size_t room = channel->room ? 2 * channel->room : FIRST_ROOM;
    room = room < most ? room : most;
    uint8_t *in = realloc(channel->in, room);
    if (!in)
        return -ENOMEM;
    channel->in = in;
    channel->room = room;
    return 0;
}

/* Takes the descriptors of one recvmsg. The kernel ends a read inside the sendmsg that carried
 * descriptors, so they belong to the frame of the last byte read. */
static int keep_fds(struct dlp_channel *channel, struct msghdr *message)
{
    int fds[DLP_FDS_MAX];
    size_t nfds = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t bytes = header->cmsg_len - CMSG_LEN(0);
        memcpy(fds, CMSG_DATA(header), bytes);
        nfds = bytes / sizeof *fds;
    }
    bool cut = message->msg_flags & MSG_CTRUNC;
    if (cut || (nfds && channel->nfds)) {
        drop_fds(channel, fds, &nfds);
        return cut ? -EMFILE : -EPROTO;
    }
    if (nfds) {
        memcpy(channel->fds, fds, nfds * sizeof *fds);
        channel->nfds = nfds;
        channel->fds_at = channel->end - 1;
    }
    return 0;
}

long dlp_channel_receive(struct dlp_channel *channel)
{
    if (channel->dead)
        return channel->dead;
    int r = make_room(channel);
    if (r < 0)
        return r;
    struct iovec part = {channel->in + channel->end, channel->room - channel->end};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof channel->fds)];
    if (channel->limits.take_fds) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
    }
    ssize_t size;
    do
        size = recvmsg(channel->fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (size < 0 && errno == EINTR);
    if (size <= 0)
        return size < 0 ? -errno : 0;
    channel->end += (size_t)size;
    if (channel->limits.take_fds)
        r = keep_fds(channel, &message);
    return r < 0 ? die(channel, r) : size;
}

/* Hands over the descriptors that came with the frame that ends at `end`. */
static size_t take_fds(struct dlp_channel *channel, size_t end, int *fds)
{
    if (!channel->nfds || channel->fds_at >= end)
        return 0;
    size_t nfds = channel->nfds;
    memcpy(fds, channel->fds, nfds * sizeof *fds);
    channel->nfds = 0;
    return nfds;
}

Dlp__Envelope *dlp_channel_next(struct dlp_channel *channel, int *fds, size_t *nfds, int *err)
{
    *nfds = 0;
    *err = channel->dead;
    if (channel->dead || channel->start == channel->end)
        return NULL;
    const uint8_t *bytes = channel->in + channel->start;
    long size = dlp_frame_peek(bytes, channel->end - channel->start, channel->limits.receive_max);
    if (size == 0)
        return NULL;
    Dlp__Envelope *env = NULL;
    if (size > 0) {
        env = dlp_frame_unpack(bytes, (size_t)size, channel->limits.unpack_max);
        size = env ? size : -EPROTO;
    }
    if (!env) {
        *err = (int)die(channel, (int)size);
        return NULL;
    }
    channel->start += (size_t)size;
    *nfds = take_fds(channel, channel->start, fds);
    return env;
}
