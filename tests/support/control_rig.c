#include "control_rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/dispatch.h"
#include "proto/frames.h"
#include "tar_maker.h"

static char folder[64];
static char *suffixes[] = {"cls"};
static char *small_patterns[1], *gone_patterns[] = {"/nowhere/x-{0..3}.tar"};
static uint32_t nobody_else[] = {4242};
struct feed_spec rig_small;
static struct feed_spec secret, gone;
static struct feed_spec *feeds[] = {&rig_small, &secret, &gone};
static uv_loop_t loop;
struct budget *rig_budget;
struct orphans *rig_orphans;
static struct uploaders *uploaders;
static struct workers *workers;
static struct mailbox *mailbox;
static struct gpus *gpus;
struct control *rig_control;
struct uploader_times rig_times;
bool rig_kept;
uint64_t rig_kept_bytes;

static void make_shard(void)
{
    struct tarm *tar = tarm_new();
    char name[32], text[16], path[96];
    for (int i = 0; i < RIG_RECORDS; i++) {
        snprintf(name, sizeof name, "%04d.cls", i);
        snprintf(text, sizeof text, "%d", i);
        tarm_text(tar, name, text);
    }
    tarm_end(tar);
    snprintf(path, sizeof path, "%s/a.tar", folder);
    ck_assert_int_eq(tarm_write(tar, path), 0);
    tarm_free(tar);
    small_patterns[0] = strdup(path);
}

static struct feed_spec make_feed(const char *name, char **patterns)
{
    struct feed_spec spec = {.name = (char *)name, .patterns = patterns, .npatterns = 1};
    spec.fields[0] =
        (struct field_spec){.name = "label", .from = suffixes, .nfrom = 1, .kind = FIELD_INT};
    spec.nfields = 1;
    spec.batch = RIG_BATCH;
    spec.shuffle = 16;
    spec.lanes = 4;
    spec.slots = 3;
    spec.weight = 1;
    spec.bad_limit = UINT64_MAX;
    return spec;
}

void rig_start(uint64_t memory, uint64_t client_memory, unsigned clients)
{
    uv_loop_init(&loop);
    rig_budget = budget_new(memory, 1 << 20);
    rig_orphans = orphans_new(rig_budget);
    uploaders = uploaders_new(&rig_times);
    workers = workers_new(2, NULL, rig_budget);
    mailbox = mailbox_new(&loop);
    gpus = gpus_new();
    struct control_options options = {.loop = &loop,
                                      .mailbox = mailbox,
                                      .budget = rig_budget,
                                      .orphans = rig_orphans,
                                      .uploaders = uploaders,
                                      .workers = workers,
                                      .feeds = feeds,
                                      .nfeeds = 3,
                                      .client_memory = client_memory,
                                      .clients = clients,
                                      .job_linger = 60,
                                      .threads = 1,
                                      .socket_path = "/run/x.sock",
                                      .gpus = gpus};
    rig_control = control_new(&options);
}

static void on_stopped(void *context)
{
    *(bool *)context = true;
}

void rig_stop(void)
{
    bool stopped = false;
    control_stop(rig_control, on_stopped, &stopped);
    while (!stopped)
        uv_run(&loop, UV_RUN_ONCE);
    control_free(rig_control);
    mailbox_free(mailbox);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    workers_free(workers);
    ck_assert(gpus_free(gpus, UINT64_MAX));
    orphans_poll(rig_orphans);
    ck_assert_uint_eq(budget_used(rig_budget, BUDGET_USES), rig_kept_bytes);
    orphans_free(rig_orphans);
    ck_assert(uploaders_free(uploaders, UINT64_MAX) == !rig_kept);
    budget_free(rig_budget);
}

void rig_abandon(void)
{
    gpus_abandon(gpus);
    _exit(0);
}

void rig_setup(void)
{
    strcpy(folder, "/tmp/dispatch-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    make_shard();
    rig_small = make_feed("small", small_patterns);
    secret = make_feed("secret", small_patterns);
    secret.users = nobody_else;
    secret.nusers = 1;
    gone = make_feed("gone", gone_patterns);
    if (!rig_times.copy_ns)
        rig_times = uploader_times;
    rig_start(256 << 20, 64 << 20, 8);
}

void rig_teardown(void)
{
    rig_stop();
    unlink(small_patterns[0]);
    free(small_patterns[0]);
    rmdir(folder);
}

/* A reply is kept as its bytes would arrive. */
static void on_send(void *context, const Dlp__Envelope *env, const int *fds, size_t nfds)
{
    struct rig_peer *peer = context;
    if (env->body_case == DLP__ENVELOPE__BODY_MEMBERS)
        return; /* comes when a second is over, whatever is asked */
    size_t size = dlp_frame_size(env);
    ck_assert_uint_le(size, 4 + DLP_FRAME_TO_CLIENT_MAX);
    ck_assert_uint_lt(peer->count, RIG_REPLIES_MAX);
    uint8_t *bytes = malloc(size);
    dlp_frame_pack(env, bytes);
    peer->replies[peer->count++] = dlp_frame_unpack(bytes, size, DLP_UNPACK_TO_CLIENT_MAX);
    ck_assert_ptr_nonnull(peer->replies[peer->count - 1]);
    if (env->body_case == DLP__ENVELOPE__BODY_ATTACH_REPLY) {
        if (peer->fd >= 0)
            close(peer->fd);
        peer->fd = nfds ? dup(fds[0]) : -1;
    }
    free(bytes);
}

struct rig_peer *rig_peer_new(pid_t pid)
{
    struct rig_peer *peer = calloc(1, sizeof *peer);
    struct access_peer who = {.pid = pid, .uid = 1000, .gid = 1000};
    peer->fd = -1;
    peer->session =
        session_new(rig_control, &who, &(struct session_sink){.send = on_send, .context = peer});
    return peer;
}

void rig_peer_free(struct rig_peer *peer)
{
    session_end(peer->session, "connection closed");
    for (uint32_t i = 0; i < peer->count; i++)
        dlp_frame_free(peer->replies[i]);
    if (peer->fd >= 0)
        close(peer->fd);
    free(peer);
}

/* As a connection does it: whole frames out of bytes. */
bool rig_say_bytes(struct rig_peer *peer, const uint8_t *bytes, size_t size)
{
    while (size) {
        long frame = dlp_frame_peek(bytes, size, DLP_FRAME_TO_DAEMON_MAX);
        ck_assert_int_gt(frame, 0);
        Dlp__Envelope *env = dlp_frame_unpack(bytes, (size_t)frame, DLP_UNPACK_TO_DAEMON_MAX);
        ck_assert_ptr_nonnull(env);
        bool goes_on = dispatch_message(peer->session, env);
        dlp_frame_free(env);
        if (!goes_on)
            return false;
        bytes += frame;
        size -= (size_t)frame;
    }
    return true;
}

bool rig_say(struct rig_peer *peer, Dlp__Envelope env)
{
    size_t size = dlp_frame_size(&env);
    uint8_t *bytes = malloc(size);
    dlp_frame_pack(&env, bytes);
    bool goes_on = rig_say_bytes(peer, bytes, size);
    free(bytes);
    return goes_on;
}

bool rig_hello(struct rig_peer *peer, uint32_t min, uint32_t max)
{
    Dlp__Hello message = DLP__HELLO__INIT;
    message.version_min = min;
    message.version_max = max;
    message.program = "a\ntest";
    return SAY(peer, 1, HELLO, hello, &message);
}

struct rig_peer *rig_greeted(pid_t pid)
{
    struct rig_peer *peer = rig_peer_new(pid);
    ck_assert(rig_hello(peer, 1, 1));
    peer->seen = peer->count;
    return peer;
}

void rig_turn(void)
{
    if (!uv_run(&loop, UV_RUN_NOWAIT))
        return;
    usleep(200);
}

/* The next reply of this kind; others before it are passed over. */
const Dlp__Envelope *rig_await(struct rig_peer *peer, int body_case)
{
    uint64_t end = clock_ns() + 60 * CLOCK_SECOND;
    while (clock_ns() < end) {
        while (peer->seen < peer->count) {
            const Dlp__Envelope *env = peer->replies[peer->seen++];
            if ((int)env->body_case == body_case)
                return env;
            if (env->body_case == DLP__ENVELOPE__BODY_ERROR)
                ck_abort_msg("error %u: %s", env->error->code, env->error->text);
        }
        rig_turn();
    }
    ck_abort_msg("no reply of kind %d", body_case);
}

const char *rig_await_error(struct rig_peer *peer, uint64_t id, enum dlp_error code)
{
    const Dlp__Envelope *env = rig_await(peer, DLP__ENVELOPE__BODY_ERROR);
    ck_assert_msg(env->error->code == code, "%s: %s", dlp_error_text(env->error->code),
                  env->error->text);
    ck_assert_uint_eq(env->id, id);
    return env->error->text;
}

void rig_expect_text(const char *text, const char *first, const char *second)
{
    ck_assert_msg(strstr(text, first) && strstr(text, second), "%s", text);
}

static Dlp__Number numbers[8];
static unsigned nnumbers;

Dlp__Number *rig_number(uint64_t value)
{
    Dlp__Number *out = &numbers[nnumbers++ % 8];
    dlp__number__init(out);
    out->value = value;
    return out;
}

Dlp__Attach rig_attach(const char *feed)
{
    Dlp__Attach message = DLP__ATTACH__INIT;
    message.feed = (char *)feed;
    message.job = "j";
    return message;
}

Dlp__Attach rig_attach_as(const char *feed, uint64_t rank, uint64_t world)
{
    Dlp__Attach message = rig_attach(feed);
    message.rank = rig_number(rank);
    message.world = rig_number(world);
    return message;
}

struct rig_peer *rig_attached(pid_t pid, Dlp__Attach message)
{
    struct rig_peer *peer = rig_greeted(pid);
    SAY(peer, 2, ATTACH, attach, &message);
    rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_REPLY);
    return peer;
}

void rig_wait_until_free(void)
{
    uint64_t end = clock_ns() + 60 * CLOCK_SECOND;
    while (rig_control->sessions && clock_ns() < end)
        rig_turn();
    ck_assert_ptr_null(rig_control->sessions);
    ck_assert_uint_eq(rig_control->nattached, 0);
    ck_assert_uint_eq(rig_control->nclosing, 0);
    ck_assert_uint_eq(rig_control->promised, 0);
    ck_assert_uint_eq(budget_used(rig_budget, BUDGET_SLOTS), 0);
    ck_assert_uint_eq(budget_used(rig_budget, BUDGET_SHUFFLE), 0);
}

void rig_take(struct rig_peer *peer, const Dlp__BatchReady *ready, uint64_t id)
{
    Dlp__Take message = DLP__TAKE__INIT;
    message.slot = ready->slot;
    message.generation = ready->generation;
    SAY(peer, id, TAKE, take, &message);
}

void rig_release(struct rig_peer *peer, uint32_t slot, uint64_t generation, uint64_t id)
{
    Dlp__Release message = DLP__RELEASE__INIT;
    message.slot = slot;
    message.generation = generation;
    SAY(peer, id, RELEASE, release, &message);
}

const Dlp__BatchReady *rig_next_ready(struct rig_peer *peer)
{
    return rig_await(peer, DLP__ENVELOPE__BODY_BATCH_READY)->batch_ready;
}
