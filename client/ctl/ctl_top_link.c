#include "client/ctl/ctl_top_link.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "proto/frames.h"
#include "proto/socket_path.h"

void top_link_init(struct top_link *link, const struct ctl *ctl)
{
    *link = (struct top_link){.ctl = ctl};
}

static void go_down(struct top_link *link, uint64_t now, const char *why)
{
    dlp_channel_free(link->channel);
    link->channel = NULL;
    ctl_reply_free(&link->coming);
    link->state = TOP_LINK_DOWN;
    link->since = now;
    snprintf(link->why, sizeof(link->why), "%s", why);
}

void top_link_close(struct top_link *link)
{
    go_down(link, 0, "");
    ctl_reply_free(&link->report);
}

static void send_request(struct top_link *link, Dlp__Envelope *env, uint64_t now,
                         enum top_link_state state)
{
    env->id = ++link->last_id;
    link->state = state;
    link->since = now;
    int err = dlp_channel_send(link->channel, env, NULL, 0);
    if (err)
        go_down(link, now, "the daemon has closed the connection");
}

static void connect_and_greet(struct top_link *link, uint64_t now)
{
    static const struct dlp_channel_limits limits = {.receive_max = DLP_FRAME_TO_CLIENT_MAX,
                                                     .unpack_max = DLP_UNPACK_TO_CLIENT_MAX};
    char text[512] = "";
    int fd = dlp_socket_connect(link->ctl->socket, text, sizeof(text));
    if (fd < 0) {
        go_down(link, now, text);
        return;
    }
    link->channel = ctl_must(dlp_channel_new(fd, &limits));
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__Hello hello = DLP__HELLO__INIT;
    hello.version_min = DLP_VERSION_MIN;
    hello.version_max = DLP_VERSION_MAX;
    hello.program = (char *)"dataloadctl top";
    env.body_case = DLP__ENVELOPE__BODY_HELLO;
    env.hello = &hello;
    send_request(link, &env, now, TOP_LINK_GREETS);
}

static void ask(struct top_link *link, uint64_t now)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__StatusRequest request = DLP__STATUS_REQUEST__INIT;
    env.body_case = DLP__ENVELOPE__BODY_STATUS_REQUEST;
    env.status_request = &request;
    link->coming.parts = ctl_must(calloc(DLP_PARTS_MAX, sizeof(*link->coming.parts)));
    send_request(link, &env, now, TOP_LINK_ASKS);
}

void top_link_ask(struct top_link *link, uint64_t now)
{
    if (link->state == TOP_LINK_DOWN && (!link->since || now - link->since >= TOP_RETRY_NS))
        connect_and_greet(link, now);
    else if (link->state == TOP_LINK_RESTS)
        ask(link, now);
}

int top_link_poll(const struct top_link *link, short *events)
{
    if (!link->channel)
        return -1;
    *events = POLLIN;
    if (dlp_channel_unsent(link->channel))
        *events |= POLLOUT;
    return dlp_channel_fd(link->channel);
}

/* Takes the part; true after the last one. */
static bool add_part(struct top_link *link, Dlp__Envelope *env, uint64_t now)
{
    struct ctl_reply *coming = &link->coming;
    coming->parts[coming->nparts++] = env;
    link->since = now;
    if (ctl_reply_more(env)) {
        if (coming->nparts == DLP_PARTS_MAX)
            go_down(link, now, "the daemon's answer has no end");
        return false;
    }
    if (coming->nparts > 1)
        ctl_reply_join(coming);
    ctl_reply_free(&link->report);
    link->report = *coming;
    *coming = (struct ctl_reply){0};
    link->state = TOP_LINK_RESTS;
    return true;
}

static bool take(struct top_link *link, Dlp__Envelope *env, uint64_t now)
{
    if (link->state == TOP_LINK_ASKS && env->body_case == DLP__ENVELOPE__BODY_STATUS_REPLY &&
        env->id == link->last_id)
        return add_part(link, env, now);
    if (env->body_case == DLP__ENVELOPE__BODY_ERROR) {
        go_down(link, now, env->error->text);
    } else if (link->state == TOP_LINK_GREETS &&
               env->body_case == DLP__ENVELOPE__BODY_HELLO_REPLY) {
        link->state = TOP_LINK_RESTS;
        ask(link, now);
    }
    dlp_frame_free(env);
    return false;
}

static bool take_all(struct top_link *link, uint64_t now)
{
    bool whole = false;
    while (link->channel) {
        int fds[DLP_FDS_MAX], err = 0;
        size_t nfds = 0;
        Dlp__Envelope *env = dlp_channel_next(link->channel, fds, &nfds, &err);
        while (nfds > 0)
            close(fds[--nfds]);
        if (err)
            go_down(link, now, "the daemon's answer cannot be read");
        if (!env)
            break;
        whole = take(link, env, now) || whole;
    }
    return whole;
}

bool top_link_ready(struct top_link *link, uint64_t now)
{
    long got = dlp_channel_receive(link->channel);
    bool whole = got > 0 && take_all(link, now);
    bool ended = got == 0 || (got < 0 && got != -EAGAIN);
    if (link->channel && (ended || dlp_channel_flush(link->channel) < 0))
        go_down(link, now, "the daemon has closed the connection");
    return whole;
}

void top_link_trouble(const struct top_link *link, uint64_t now, char *text, size_t size)
{
    uint64_t silence = now - link->since;
    *text = '\0';
    if (link->state == TOP_LINK_DOWN)
        snprintf(text, size, "trying again: %s", link->why);
    else if (link->state != TOP_LINK_RESTS && silence >= TOP_SILENCE_NS)
        snprintf(text, size, "the daemon does not answer for %ju s: it hangs or is overloaded",
                 (uintmax_t)(silence / 1000000000U));
}
