#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_table.h"
#include "proto/errors.h"
#include "proto/frames.h"
#include "proto/socket_path.h"

int ctl_fail(const struct ctl *ctl, int code, const char *format, ...)
{
    char text[DLP_TEXT_MAX + 256], safe[2 * sizeof(text)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    ctl_progress(ctl, "%s", "");
    fprintf(ctl->err, "dataloadctl: %s\n", dlp_printable(text, safe, sizeof(safe)));
    return code;
}

void ctl_print(const struct ctl *ctl, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    char *safe = ctl_text_escaped(ctl_must(text));
    fprintf(ctl->out, "%s\n", safe);
    free(safe);
    free(text);
}

void ctl_progress(const struct ctl *ctl, const char *format, ...)
{
    char text[256], safe[2 * sizeof(text)];
    if (!isatty(fileno(ctl->err)))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(ctl->err, "\r\033[K%s", dlp_printable(text, safe, sizeof(safe)));
    fflush(ctl->err);
}

void ctl_report(const struct ctl *ctl, const char *text, uint64_t done, uint64_t total)
{
    if (total > 0)
        ctl_progress(ctl, "%s: %ju of %ju", text, (uintmax_t)done, (uintmax_t)total);
    else
        ctl_progress(ctl, "%s", text);
}

int ctl_exit_of_wire(unsigned code)
{
    switch (code) {
    case DLP_ERROR_NO_SUCH_FEED:
    case DLP_ERROR_NO_SUCH_JOB:
    case DLP_ERROR_NOT_ATTACHED:
        return CTL_NOT_FOUND;
    case DLP_ERROR_NOT_PERMITTED:
        return CTL_PERMISSION;
    case DLP_ERROR_CONFIG:
        return CTL_CONFIG;
    case DLP_ERROR_BAD_REQUEST:
    case DLP_ERROR_MISMATCH:
    case DLP_ERROR_RESUME:
        return CTL_USAGE;
    default:
        return CTL_UNAVAILABLE;
    }
}

int ctl_exit_of_errno(int error)
{
    switch (error) {
    case ENOENT:
        return CTL_NOT_FOUND;
    case EACCES:
    case EPERM:
        return CTL_PERMISSION;
    case EINVAL:
        return CTL_USAGE;
    case ECONNREFUSED:
        return CTL_NOT_RUNNING;
    case ENAMETOOLONG:
    case ENOTSOCK:
        return CTL_CONFIG;
    default:
        return CTL_UNAVAILABLE;
    }
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits for the socket and moves bytes both ways; 0 or -errno. */
static int exchange(struct ctl_link *link, int64_t deadline)
{
    short wanted = POLLIN | (dlp_channel_unsent(link->channel) ? POLLOUT : 0);
    struct pollfd ready = {.fd = dlp_channel_fd(link->channel), .events = wanted};
    int64_t left = deadline - now_ms();
    if (left <= 0)
        return -ETIMEDOUT;
    if (poll(&ready, 1, (int)left) < 0 && errno != EINTR)
        return -errno;
    int sent = (ready.revents & POLLOUT) ? dlp_channel_flush(link->channel) : 0;
    if (sent < 0 && sent != -EPIPE)
        return sent;
    if (!(ready.revents & (POLLIN | POLLHUP | POLLERR)))
        return 0;
    long got = dlp_channel_receive(link->channel);
    if (got == 0)
        return -ECONNRESET;
    return got < 0 && got != -EAGAIN ? (int)got : 0;
}

static int receive(struct ctl_link *link, int64_t deadline, Dlp__Envelope **env)
{
    for (;;) {
        int fds[DLP_FDS_MAX], err = 0;
        size_t nfds = 0;
        *env = dlp_channel_next(link->channel, fds, &nfds, &err);
        while (nfds > 0)
            close(fds[--nfds]);
        if (*env || err)
            return err;
        err = exchange(link, deadline);
        if (err)
            return err;
    }
}

static int lost(const struct ctl_link *link, int err, int deadline_ms)
{
    if (err == -ETIMEDOUT && link->patience_ms)
        return CTL_LATE;
    if (err == -ETIMEDOUT)
        return ctl_fail(link->ctl, CTL_UNAVAILABLE,
                        "the daemon did not answer within %g s: it hangs or is overloaded; see its "
                        "log",
                        deadline_ms / 1e3);
    if (err == -ECONNRESET || err == -EPIPE)
        return ctl_fail(link->ctl, CTL_UNAVAILABLE,
                        "the daemon closed the connection before it answered; see its log");
    return ctl_fail(link->ctl, CTL_UNAVAILABLE, "the daemon's answer cannot be read: %s",
                    strerror(-err));
}

/* The next frame that answers request `id`; errors are printed. */
static int answer(struct ctl_link *link, uint64_t id, Dlp__Envelope__BodyCase wanted,
                  int deadline_ms, Dlp__Envelope **env)
{
    int64_t deadline = now_ms() + deadline_ms;
    for (;;) {
        int err = receive(link, deadline, env);
        if (err)
            return lost(link, err, deadline_ms);
        const Dlp__Envelope *got = *env;
        bool ours = got->id == id;
        if (ours && got->body_case == wanted)
            return CTL_OK;
        int code = CTL_OK;
        if (got->body_case == DLP__ENVELOPE__BODY_ERROR && (ours || got->id == 0))
            code = ctl_fail(link->ctl, ctl_exit_of_wire(got->error->code), "%s", got->error->text);
        else if (ours && got->body_case == DLP__ENVELOPE__BODY_ATTACH_PROGRESS) {
            deadline = link->fixed ? deadline : now_ms() + deadline_ms;
            ctl_report(link->ctl, got->attach_progress->text, got->attach_progress->done,
                       got->attach_progress->total);
            if (link->progress)
                link->progress(link->context, got->attach_progress->done,
                               got->attach_progress->total);
        }
        dlp_frame_free(*env);
        *env = NULL;
        if (code)
            return code;
    }
}

/* A daemon that has closed may have left its reason in our receive queue: reading finds both. */
static int send_request(struct ctl_link *link, Dlp__Envelope *request)
{
    request->id = ++link->last_id;
    int err = dlp_channel_send(link->channel, request, NULL, 0);
    return err && err != -EPIPE ? lost(link, err, CTL_DEADLINE_MS) : CTL_OK;
}

static int greet(struct ctl_link *link, const char *program)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT, *got = NULL;
    Dlp__Hello hello = DLP__HELLO__INIT;
    hello.version_min = DLP_VERSION_MIN;
    hello.version_max = DLP_VERSION_MAX;
    hello.program = (char *)program;
    env.body_case = DLP__ENVELOPE__BODY_HELLO;
    env.hello = &hello;
    int code = send_request(link, &env);
    if (code == CTL_OK)
        code = answer(link, env.id, DLP__ENVELOPE__BODY_HELLO_REPLY,
                      link->patience_ms ? link->patience_ms : CTL_DEADLINE_MS, &got);
    if (code)
        return code;
    dlp_printable(got->hello_reply->daemon_version, link->peer, sizeof(link->peer));
    dlp_frame_free(got);
    return CTL_OK;
}

int ctl_link_try(const struct ctl *ctl, const char *program, int patience_ms, struct ctl_link *link)
{
    static const struct dlp_channel_limits limits = {.receive_max = DLP_FRAME_TO_CLIENT_MAX,
                                                     .unpack_max = DLP_UNPACK_TO_CLIENT_MAX};
    *link = (struct ctl_link){.ctl = ctl, .patience_ms = patience_ms};
    int fd = dlp_socket_connect(ctl->socket, link->text, sizeof(link->text));
    if (fd == -EAGAIN && patience_ms)
        return CTL_LATE;
    if (fd == -ECONNREFUSED && patience_ms)
        return CTL_NOT_RUNNING;
    if (fd < 0)
        return ctl_fail(ctl, ctl_exit_of_errno(-fd), "%s", link->text);
    link->channel = ctl_must(dlp_channel_new(fd, &limits));
    int code = greet(link, program);
    if (code && code != CTL_LATE)
        ctl_link_close(link);
    return code;
}

int ctl_link_open(const struct ctl *ctl, const char *program, struct ctl_link *link)
{
    return ctl_link_try(ctl, program, 0, link);
}

void ctl_link_close(struct ctl_link *link)
{
    dlp_channel_free(link->channel);
    link->channel = NULL;
}

int ctl_link_ask(struct ctl_link *link, Dlp__Envelope *request, Dlp__Envelope__BodyCase wanted,
                 int deadline_ms, struct ctl_reply *reply)
{
    *reply = (struct ctl_reply){0};
    int code = send_request(link, request);
    if (code)
        return code;
    reply->parts = ctl_must(calloc(DLP_PARTS_MAX, sizeof(*reply->parts)));
    do {
        Dlp__Envelope *part = NULL;
        code = reply->nparts == DLP_PARTS_MAX
                   ? ctl_fail(link->ctl, CTL_UNAVAILABLE, "the daemon's answer has no end")
                   : answer(link, request->id, wanted, deadline_ms, &part);
        if (code) {
            ctl_reply_free(reply);
            return code;
        }
        reply->parts[reply->nparts++] = part;
    } while (ctl_reply_more(reply->parts[reply->nparts - 1]));
    ctl_progress(link->ctl, "%s", "");
    if (reply->nparts > 1)
        ctl_reply_join(reply);
    return CTL_OK;
}
