/* What a stranger may say to the daemon: frames, checked and carried out by a control without
 * sockets. Two feeds exist, one of them for groups, of a source that does not. Nothing may crash or
 * hang, every answer fits its frame, and when the peer is gone nothing of it is left. */
#include <stdint.h>
#include <stdlib.h>

#include "control/bad_reply.h"
#include "control/control.h"
#include "control/dispatch.h"
#include "proto/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uv_loop_t loop;
static struct control *control;

static struct control *make_control(void)
{
    static char *suffixes[] = {"cls"}, *patterns[] = {"/nowhere/x.tar"};
    static struct feed_spec spec = {.name = "feed",
                                    .patterns = patterns,
                                    .npatterns = 1,
                                    .nfields = 1,
                                    .batch = 4,
                                    .shuffle = 16,
                                    .lanes = 4,
                                    .slots = 4};
    static struct feed_spec mirror;
    static struct feed_spec *feeds[] = {&spec, &mirror};
    spec.fields[0] =
        (struct field_spec){.name = "label", .from = suffixes, .nfrom = 1, .kind = FIELD_INT};
    mirror = spec;
    mirror.name = "mirror";
    mirror.share = SHARE_MIRROR;
    mirror.lag = LAG_SKIP;
    uv_loop_init(&loop);
    struct budget *budget = budget_new(64 << 20, 1 << 20);
    struct control_options options = {.loop = &loop,
                                      .mailbox = mailbox_new(&loop),
                                      .budget = budget,
                                      .orphans = orphans_new(budget),
                                      .uploaders = uploaders_new(&uploader_times),
                                      .workers = workers_new(1, NULL, budget),
                                      .feeds = feeds,
                                      .nfeeds = 2,
                                      .client_memory = 16 << 20,
                                      .clients = 4,
                                      .job_linger = 60,
                                      .threads = 1,
                                      .socket_path = "/run/x.sock",
                                      .gpus = gpus_new()};
    struct control *made = control_new(&options);
    struct bad_report report = {.cls = BAD_TRUNC, .shard = "s", .key = "k", .reason = "r"};
    badlist_add(made->badlist, "feed", &report);
    return made;
}

static void on_send(void *context, const Dlp__Envelope *env, const int *fds, size_t nfds)
{
    (void)context;
    (void)fds;
    if (nfds || dlp_frame_size(env) > 4 + DLP_FRAME_TO_CLIENT_MAX)
        abort();
}

static void say(struct session *session, const uint8_t *data, size_t size)
{
    while (size) {
        long frame = dlp_frame_peek(data, size, DLP_FRAME_TO_DAEMON_MAX);
        if (frame <= 0)
            return;
        Dlp__Envelope *env = dlp_frame_unpack(data, (size_t)frame, DLP_UNPACK_TO_DAEMON_MAX);
        if (!env)
            return;
        bool goes_on = dispatch_message(session, env);
        dlp_frame_free(env);
        while (bad_reply_continue(session) || page_reply_continue(session))
            ;
        if (!goes_on)
            return;
        uv_run(&loop, UV_RUN_NOWAIT);
        data += frame;
        size -= (size_t)frame;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!control)
        control = make_control();
    struct access_peer peer = {.pid = 1, .uid = 1000, .gid = 1000};
    struct session *session = session_new(control, &peer, &(struct session_sink){.send = on_send});
    say(session, data, size);
    session_end(session, "gone");
    while (control->sessions)
        uv_run(&loop, UV_RUN_ONCE);
    if (control->nattached || control->promised || jobs_first(control->jobs))
        abort();
    return 0;
}
