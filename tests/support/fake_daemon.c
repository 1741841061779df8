#include "fake_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/frames.h"

#define PATIENCE_MS 60000
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define PLAN "0123456789abcdef"

static Dlp__Tensor tensors[DLP_TENSORS_MAX], *tensor_list[DLP_TENSORS_MAX];

/* A float image of 2 x 3, a label, a ragged member, and the two columns of every layout. */
static void make_layout(struct fake *fake)
{
    const uint64_t dims[] = {2, 3};
    fake->layout = (struct dlp_layout){.batch = FAKE_BATCH};
    dlp_layout_add(&fake->layout, "image", DLP_DTYPE_F32, dims, 2);
    dlp_layout_add(&fake->layout, "label", DLP_DTYPE_I64, NULL, 0);
    dlp_layout_add_ragged(&fake->layout, "text", 100);
    dlp_layout_add(&fake->layout, "valid", DLP_DTYPE_U8, NULL, 0);
    dlp_layout_add(&fake->layout, "index", DLP_DTYPE_I64, NULL, 0);
    dlp_layout_seal(&fake->layout);
    for (uint32_t i = 0; i < fake->layout.ntensors; i++) {
        struct dlp_tensor *from = &fake->layout.tensors[i];
        Dlp__Tensor *to = tensor_list[i] = &tensors[i];
        dlp__tensor__init(to);
        to->name = from->name;
        to->dtype = from->dtype;
        to->n_shape = from->ndim;
        to->shape = from->shape;
        to->offset = from->offset;
        to->size = from->size;
        to->ragged = from->ragged;
        to->data_offset = from->data_offset;
        to->data_size = from->data_size;
    }
}

static void make_reply(struct fake *fake)
{
    dlp__attach_reply__init(&fake->reply);
    fake->reply.job = "a-job";
    fake->reply.rank = 1;
    fake->reply.world = 2;
    fake->reply.batch = FAKE_BATCH;
    fake->reply.seed = 17;
    fake->reply.steps = fake->reply.first_steps = FAKE_STEPS;
    fake->reply.token = "{\"epoch\":#,\"next\":#}";
    fake->reply.started = "from the start";
    fake->reply.slots = FAKE_SLOTS;
    fake->reply.slot_bytes = fake->layout.slot_bytes;
    fake->reply.n_tensors = fake->layout.ntensors;
    fake->reply.tensors = tensor_list;
    fake->reply.plan_id = PLAN;
    fake->reply.fingerprint = PLAN PLAN;
    fake->reply.records = 40;
    fake->reply.transform = "train";
}

void fake_listen(struct fake *fake)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    unlink(fake->path);
    strcpy(address.sun_path, fake->path);
    fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    NEED(bind(fake->listener, (struct sockaddr *)&address, sizeof address) == 0);
    NEED(listen(fake->listener, 4) == 0);
}

void fake_silence(struct fake *fake)
{
    close(fake->listener);
    fake->listener = -1;
}

void fake_init(struct fake *fake)
{
    *fake = (struct fake){.seals = SEALS, .fds = 1, .version = DLP_VERSION_MAX};
    snprintf(fake->path, sizeof fake->path, "/tmp/dl_fake_%d.sock", (int)getpid());
    make_layout(fake);
    make_reply(fake);
    fake->memory = (off_t)(FAKE_SLOTS * fake->layout.slot_bytes);
    fake_listen(fake);
}

static void *run_script(void *context)
{
    struct fake *fake = context;
    fake->script(fake);
    return NULL;
}

void fake_run(struct fake *fake, void (*script)(struct fake *))
{
    fake->script = script;
    pthread_create(&fake->thread, NULL, run_script, fake);
}

void fake_done(struct fake *fake)
{
    pthread_join(fake->thread, NULL);
    fake_close(fake);
    if (fake->listener >= 0)
        close(fake->listener);
    unlink(fake->path);
    if (fake->arena)
        munmap(fake->arena, (size_t)fake->memory);
}

void fake_accept(struct fake *fake)
{
    static const struct dlp_channel_limits limits = {DLP_FRAME_TO_DAEMON_MAX,
                                                     DLP_UNPACK_TO_DAEMON_MAX, .take_fds = true};
    struct pollfd ready = {.fd = fake->listener, .events = POLLIN};
    NEED(poll(&ready, 1, PATIENCE_MS) == 1);
    fake->channel = dlp_channel_new(accept(fake->listener, NULL, NULL), &limits);
}

static void close_heard(struct fake *fake)
{
    while (fake->nheard)
        close(fake->heard[--fake->nheard]);
}

void fake_close(struct fake *fake)
{
    close_heard(fake);
    dlp_channel_free(fake->channel);
    fake->channel = NULL;
}

/* Reads once; false at the end. */
static bool read_some(struct fake *fake)
{
    struct pollfd ready = {.fd = dlp_channel_fd(fake->channel), .events = POLLIN};
    NEED(poll(&ready, 1, PATIENCE_MS) == 1);
    return dlp_channel_receive(fake->channel) > 0;
}

static Dlp__Envelope *hear_any(struct fake *fake)
{
    for (;;) {
        int err;
        close_heard(fake);
        Dlp__Envelope *env = dlp_channel_next(fake->channel, fake->heard, &fake->nheard, &err);
        NEED(err == 0);
        if (!env) {
            NEED(read_some(fake));
            continue;
        }
        NEED(env->id > fake->id);
        fake->id = env->id;
        fake->waits += env->body_case == DLP__ENVELOPE__BODY_WAIT;
        return env;
    }
}

Dlp__Envelope *fake_hear(struct fake *fake, Dlp__Envelope__BodyCase kind)
{
    Dlp__Envelope *env = hear_any(fake);
    while (env->body_case == DLP__ENVELOPE__BODY_WAIT && kind != DLP__ENVELOPE__BODY_WAIT) {
        dlp_frame_free(env);
        env = hear_any(fake);
    }
    if (env->body_case != kind)
        fprintf(stderr, "message %d instead of %d\n", (int)env->body_case, (int)kind);
    NEED(env->body_case == kind);
    return env;
}

void fake_heard(struct fake *fake, Dlp__Envelope__BodyCase kind)
{
    dlp_frame_free(fake_hear(fake, kind));
}

void fake_heard_end(struct fake *fake)
{
    do {
        int err;
        close_heard(fake);
        Dlp__Envelope *env = dlp_channel_next(fake->channel, fake->heard, &fake->nheard, &err);
        NEED(!err && (!env || env->body_case == DLP__ENVELOPE__BODY_WAIT));
        dlp_frame_free(env);
    } while (read_some(fake));
}

void fake_say(struct fake *fake, Dlp__Envelope *env, const int *fds, size_t nfds)
{
    NEED(dlp_channel_send(fake->channel, env, fds, nfds) == 0);
    while (dlp_channel_unsent(fake->channel)) {
        struct pollfd ready = {.fd = dlp_channel_fd(fake->channel), .events = POLLOUT};
        NEED(poll(&ready, 1, PATIENCE_MS) == 1);
        NEED(dlp_channel_flush(fake->channel) == 0);
    }
}

void fake_hello(struct fake *fake)
{
    fake->id = 0;
    fake_accept(fake);
    fake_heard(fake, DLP__ENVELOPE__BODY_HELLO);
    Dlp__HelloReply reply = DLP__HELLO_REPLY__INIT;
    reply.version = fake->version;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = fake->id;
    env.body_case = DLP__ENVELOPE__BODY_HELLO_REPLY;
    env.hello_reply = &reply;
    fake_say(fake, &env, NULL, 0);
}

void fake_feed_named(struct fake *fake)
{
    Dlp__GiveFeedReply reply = DLP__GIVE_FEED_REPLY__INIT;
    reply.feed = FAKE_OWN;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = fake->id;
    env.body_case = DLP__ENVELOPE__BODY_GIVE_FEED_REPLY;
    env.give_feed_reply = &reply;
    fake_say(fake, &env, NULL, 0);
}

void fake_files_taken(struct fake *fake, uint32_t files)
{
    Dlp__GiveFilesReply reply = DLP__GIVE_FILES_REPLY__INIT;
    reply.taken = files;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = fake->id;
    env.body_case = DLP__ENVELOPE__BODY_GIVE_FILES_REPLY;
    env.give_files_reply = &reply;
    fake_say(fake, &env, NULL, 0);
}

void fake_reply(struct fake *fake)
{
    int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    NEED(fd >= 0 && ftruncate(fd, fake->memory) == 0);
    if (fake->arena)
        munmap(fake->arena, (size_t)fake->memory);
    fake->arena = mmap(NULL, (size_t)fake->memory, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    NEED(fake->arena != MAP_FAILED);
    NEED(fcntl(fd, F_ADD_SEALS, fake->seals) == 0);
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = fake->id;
    env.body_case = DLP__ENVELOPE__BODY_ATTACH_REPLY;
    env.attach_reply = &fake->reply;
    fake_say(fake, &env, (int[]){fd, fd}, (size_t)fake->fds);
    close(fd);
}

void fake_attach(struct fake *fake)
{
    fake_hello(fake);
    fake_heard(fake, DLP__ENVELOPE__BODY_ATTACH);
    fake_reply(fake);
}

void fake_error(struct fake *fake, uint64_t id, unsigned code, const char *text)
{
    Dlp__Error error = DLP__ERROR__INIT;
    error.code = code;
    error.text = (char *)text;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_ERROR;
    env.error = &error;
    fake_say(fake, &env, NULL, 0);
}

void fake_ready(struct fake *fake, uint32_t slot, uint64_t generation, uint64_t epoch,
                uint64_t step)
{
    Dlp__BatchReady ready = DLP__BATCH_READY__INIT;
    ready.slot = slot;
    ready.generation = generation;
    ready.epoch = epoch;
    ready.step = step;
    ready.rows = FAKE_BATCH;
    ready.valid = FAKE_BATCH;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_BATCH_READY;
    env.batch_ready = &ready;
    fake_say(fake, &env, NULL, 0);
}

void fake_failed(struct fake *fake, uint32_t slot, uint64_t generation, uint64_t epoch,
                 uint64_t step, const char *text)
{
    Dlp__BatchFailed failed = DLP__BATCH_FAILED__INIT;
    failed.slot = slot;
    failed.generation = generation;
    failed.epoch = epoch;
    failed.step = step;
    failed.code = 12;
    failed.text = (char *)text;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_BATCH_FAILED;
    env.batch_failed = &failed;
    fake_say(fake, &env, NULL, 0);
}

void fake_seek_reply(struct fake *fake, uint64_t id)
{
    Dlp__SeekReply reply = DLP__SEEK_REPLY__INIT;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_SEEK_REPLY;
    env.seek_reply = &reply;
    fake_say(fake, &env, NULL, 0);
}

void fake_progress(struct fake *fake, const char *text)
{
    Dlp__AttachProgress progress = DLP__ATTACH_PROGRESS__INIT;
    progress.text = (char *)text;
    progress.done = 3;
    progress.total = 7;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = fake->id;
    env.body_case = DLP__ENVELOPE__BODY_ATTACH_PROGRESS;
    env.attach_progress = &progress;
    fake_say(fake, &env, NULL, 0);
}

void fake_detached(struct fake *fake)
{
    fake_heard(fake, DLP__ENVELOPE__BODY_DETACH);
    Dlp__DetachReply reply = DLP__DETACH_REPLY__INIT;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = fake->id;
    env.body_case = DLP__ENVELOPE__BODY_DETACH_REPLY;
    env.detach_reply = &reply;
    fake_say(fake, &env, NULL, 0);
    fake_heard_end(fake);
}
