#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client_parts.h"
#include "client/give.h"
#include "proto/errors.h"
#include "proto/frames.h"
#include "proto/socket_path.h"

#define DETACH_WAIT_MS 1000
#define PROGRAM_MAX 64

/* A negative number of milliseconds is no limit. */
static int64_t in_ms(int ms)
{
    return ms < 0 ? CLIENT_NEVER : handle_now() + ms * (CLIENT_SECOND / 1000);
}

int attach_start(struct dataload *handle)
{
    static const struct dlp_channel_limits limits = {DLP_FRAME_TO_CLIENT_MAX,
                                                     DLP_UNPACK_TO_CLIENT_MAX, .take_fds = true};
    /* Our daemon is looked for where it was, not a system's daemon in its place. */
    bool again = handle->attached || handle->anew_until;
    const char *chosen = again ? handle->peer : handle->options.socket;
    int fd = dlp_socket_connect(chosen, handle->error, sizeof handle->error);
    if (fd < 0)
        return fd;
    snprintf(handle->peer, sizeof handle->peer, "%.*s", (int)DLP_SOCKET_PATH_MAX, handle->error);
    handle->error[0] = '\0';
    handle->channel = dlp_channel_new(fd, &limits);
    if (!handle->channel) {
        close(fd);
        return handle_fail(handle, -ENOMEM, "out of memory");
    }
    handle->phase = PHASE_HELLO;
    request_watch(handle);
    Dlp__Hello hello = DLP__HELLO__INIT;
    hello.version_min = DLP_VERSION_MIN;
    hello.version_max = DLP_VERSION_MAX;
    hello.program = (char *)handle->options.program;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_HELLO;
    env.hello = &hello;
    handle->awaited = request_send(handle, &env);
    return 0;
}

static Dlp__Number *number(Dlp__Number *out, int64_t value)
{
    dlp__number__init(out);
    out->value = (uint64_t)value;
    return value == DATALOAD_UNSET ? NULL : out;
}

/* A reconnect asks for exactly what it had, and for the batch after the last handed out. */
static void fill_resume(struct dataload *handle, Dlp__Attach *attach, Dlp__Position *position)
{
    dlp__position__init(position);
    position->start_epoch = handle->start_epoch;
    position->start_position = handle->start_position;
    handle->asked = take_next(handle);
    position->epoch = handle->asked.epoch;
    position->step = handle->asked.step;
    position->plan_id = handle->plan_id;
    position->members = handle->members;
    attach->resume = position;
}

void attach_send(struct dataload *handle)
{
    const dataload_options *options = &handle->options;
    bool again = handle->attached;
    Dlp__Number rank, world, batch, seed, epoch, slots;
    Dlp__Position position;
    Dlp__Attach attach = DLP__ATTACH__INIT;
    attach.feed = handle->feed;
    attach.job = (char *)options->job;
    if (options->group)
        attach.group = (char *)options->group;
    attach.rank = number(&rank, again ? handle->rank : options->rank);
    attach.world = number(&world, again ? handle->world : options->world);
    attach.batch = number(&batch, again ? handle->batch : options->batch);
    attach.seed = number(&seed, again ? (int64_t)handle->seed : options->seed);
    attach.epoch = number(&epoch, again ? DATALOAD_UNSET : options->epoch);
    attach.slots = number(&slots, again ? handle->slots : options->slots);
    attach.probe = options->probe != 0;
    attach.allow_replay = options->allow_replay != 0;
    if (!again && options->resume)
        attach.token = (char *)options->resume;
    if (again)
        fill_resume(handle, &attach, &position);
    if (handle->device)
        attach.gpu = (ProtobufCBinaryData){DEVICE_UUID, handle->device->uuid};
    handle->gpu_only = handle->device && (again || options->device == DATALOAD_GPU);
    attach.gpu_only = handle->gpu_only;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_ATTACH;
    env.attach = &attach;
    handle->phase = PHASE_ATTACH;
    handle->awaited = request_send(handle, &env);
}

void attach_hello(struct dataload *handle, const Dlp__HelloReply *reply)
{
    if (reply->version < DLP_VERSION_MIN || reply->version > DLP_VERSION_MAX)
        handle_protocol(handle, "it chose protocol version %u of %u to %u", reply->version,
                        DLP_VERSION_MIN, DLP_VERSION_MAX);
    else if (handle->giving)
        give_begin(handle, reply->version);
    else
        attach_send(handle);
}

void attach_alive(struct dataload *handle)
{
    int64_t deadline = in_ms(handle->options.timeout_ms);
    if (!handle->attached || deadline > handle->deadline)
        handle->deadline = deadline;
}

void attach_report(struct dataload *handle, const char *text, uint64_t done, uint64_t total)
{
    const dataload_options *options = &handle->options;
    dlp_printable(text, handle->report, sizeof handle->report);
    attach_alive(handle);
    /* During a reconnect the caller's context may be gone. */
    if (options->progress && !handle->attached)
        options->progress(options->context, handle->report, done, total);
}

/* The attachment has begun, or goes on. */
static void begin(struct dataload *handle, const Dlp__AttachReply *reply, struct mapping *mapping)
{
    bool renewed = handle->renewed;
    mapping->handle = handle;
    handle->mapping = mapping;
    handle->memory = mapping->memory;
    handle->offer = mapping->device ? handle->awaited : 0;
    handle->awaited = 0;
    handle->wait_sent = handle->renewed = false;
    handle->deadline = CLIENT_NEVER;
    handle->phase = PHASE_STREAM;
    if (handle->device)
        dlp_printable(reply->memory_why, handle->memory_why, sizeof handle->memory_why);
    if (!mapping->device) {
        device_close(handle->device);
        handle->device = NULL;
    }
    if (renewed && handle->seek.awaited) /* which the daemon has passed over */
        seek_send(handle, handle->seek.from, handle->seek.begun);
    else if (handle->attached && !renewed)
        reconnect_check(handle, reply);
    else if (!handle->attached && !reply_keep(handle, reply))
        handle_end(handle, -ENOMEM, "out of memory");
}

void attach_reply(struct dataload *handle, const Dlp__AttachReply *reply, const int *fds,
                  size_t nfds)
{
    struct dlp_layout layout;
    struct mapping *mapping;
    const char *wrong = reply_check(reply, &layout);
    if (wrong)
        handle_protocol(handle, "AttachReply: %s", wrong);
    else if (offer_take(handle, reply, &layout, fds, nfds, &mapping))
        begin(handle, reply, mapping);
}

void attach_reply_again(struct dataload *handle, const Dlp__AttachReply *reply, const int *fds,
                        size_t nfds)
{
    mapping_free(handle->mapping);
    handle->mapping = NULL;
    handle->awaited = handle->offer;
    handle->phase = PHASE_ATTACH;
    handle->renewed = true;
    handle->deadline = in_ms(handle->options.timeout_ms);
    attach_reply(handle, reply, fds, nfds);
}

void attach_refused(struct dataload *handle, unsigned code, const char *text)
{
    if (handle->attached && !handle->renewed)
        reconnect_refused(handle, code, text);
    else
        handle_end(handle, -dlp_error_errno(code), "%s", text);
}

void attach_overdue(struct dataload *handle)
{
    if (handle->attached || handle->deadline == handle->anew_until) {
        reconnect_give_up(handle);
        return;
    }
    bool reported = handle->report[0];
    handle_end(
        handle, -ETIMEDOUT, "attach to %s: no answer from dataloadd at %s within %d ms; %s%s",
        handle->feed, handle->peer, handle->options.timeout_ms,
        reported ? "its last report: " : "it hangs or is stopped: see its log", handle->report);
}

static bool number_fits(int64_t value, int64_t least, int64_t most)
{
    return value == DATALOAD_UNSET || (value >= least && value <= most);
}

static int check_name(struct dataload *handle, const char *what, const char *name)
{
    if (dlp_name_valid(name))
        return 0;
    return handle_fail(handle, -EINVAL,
                       "%s: a name has 1 to %u characters of A-Za-z0-9._:/- (not %.200s)", what,
                       DLP_NAME_MAX, name);
}

static int check_names(struct dataload *handle, const char *feed, const dataload_options *options)
{
    bool fits = options->recipe || (feed && dlp_feed_name_valid(feed));
    int r = fits ? 0 : check_name(handle, "feed", feed ? feed : "");
    if (r == 0 && options->job)
        r = check_name(handle, "job", options->job);
    if (r == 0 && options->group)
        r = check_name(handle, "group", options->group);
    return r;
}

static int check_options(struct dataload *handle, const dataload_options *options)
{
    if (!number_fits(options->world, 1, DLP_WORLD_MAX))
        return handle_fail(handle, -EINVAL, "world %lld is not within 1 .. %u",
                           (long long)options->world, DLP_WORLD_MAX);
    int64_t world = options->world == DATALOAD_UNSET ? DLP_WORLD_MAX : options->world;
    if (!number_fits(options->rank, 0, world - 1))
        return handle_fail(handle, -EINVAL, "rank %lld is not within 0 .. world - 1 = %lld",
                           (long long)options->rank, (long long)world - 1);
    if (!number_fits(options->batch, 1, DLP_BATCH_MAX))
        return handle_fail(handle, -EINVAL, "batch %lld is not within 1 .. %u",
                           (long long)options->batch, DLP_BATCH_MAX);
    if (!number_fits(options->slots, DLP_SLOTS_MIN, DLP_SLOTS_MAX))
        return handle_fail(handle, -EINVAL, "slots %lld is not within %u .. %u",
                           (long long)options->slots, DLP_SLOTS_MIN, DLP_SLOTS_MAX);
    if (!number_fits(options->epoch, 0, DLP_EPOCH_MAX))
        return handle_fail(handle, -EINVAL, "epoch %lld is not within 0 .. %u",
                           (long long)options->epoch, DLP_EPOCH_MAX);
    if (!number_fits(options->seed, 0, INT64_MAX))
        return handle_fail(handle, -EINVAL, "seed cannot be negative");
    if (options->device < DATALOAD_HOST || options->device > DATALOAD_AUTO)
        return handle_fail(handle, -EINVAL, "device %d is none of DATALOAD_HOST, _GPU and _AUTO",
                           options->device);
    if (options->reconnect_ms < 0)
        return handle_fail(handle, -EINVAL, "reconnect_ms cannot be negative");
    if (options->resume && (!*options->resume || strlen(options->resume) >= DLP_TOKEN_MAX))
        return handle_fail(handle, -EINVAL,
                           "resume: a token has 1 to %u characters, this one %zu; or say \"last\"",
                           DLP_TOKEN_MAX - 1, strlen(options->resume));
    return 0;
}

/* Copies what outlives the call. */
static int keep_strings(struct dataload *handle, const char *feed, const dataload_options *options)
{
    char job[DLP_NAME_MAX + 1], program[PROGRAM_MAX];
    if (!options->job)
        job_default(options->world, job);
    dlp_escape(options->program ? options->program : program_invocation_short_name, program,
               sizeof program);
    handle->options = *options;
    handle->feed = strdup(feed ? feed : GIVE_NAMELESS);
    handle->options.job = strdup(options->job ? options->job : job);
    handle->options.program = strdup(program);
    handle->options.socket = options->socket ? strdup(options->socket) : NULL;
    handle->options.group = options->group ? strdup(options->group) : NULL;
    if (!handle->feed || !handle->options.job || !handle->options.program ||
        (options->socket && !handle->options.socket) || (options->group && !handle->options.group))
        return handle_fail(handle, -ENOMEM, "out of memory");
    return 0;
}

static int configure(struct dataload *handle, const char *feed, const dataload_options *given)
{
    dataload_options options = DATALOAD_OPTIONS_INIT;
    if (given && (given->size < sizeof given->size || given->size > sizeof options))
        return handle_fail(handle, -EINVAL,
                           "dataload_options of %zu bytes, this library (%s) knows %zu: initialise "
                           "them with DATALOAD_OPTIONS_INIT of its own header",
                           given->size, DATALOADD_VERSION, sizeof options);
    if (given)
        memcpy(&options, given, given->size);
    int r = check_names(handle, feed, &options);
    if (r == 0)
        r = check_options(handle, &options);
    if (r == 0)
        r = give_keep(handle, feed, &options);
    return r < 0 ? r : keep_strings(handle, feed, &options);
}

/* Finds the GPU that batches are asked for on, where they are. */
static int find_device(struct dataload *handle)
{
    int device = handle->options.device;
    if (device == DATALOAD_HOST)
        return 0;
    if (device_open(&handle->device, handle->memory_why, sizeof handle->memory_why) == 0 ||
        device == DATALOAD_AUTO)
        return 0;
    return handle_fail(handle, -ENODEV, "batches on a GPU: %.900s", handle->memory_why);
}

/* A signal costs one turn, since profilers send many, or ends the attach where the caller says so.
 */
static void wait_for_answer(struct dataload *handle)
{
    const dataload_options *options = &handle->options;
    int r = request_wait(handle, CLIENT_NEVER);
    if (r == -EINTR && options->interrupted && options->interrupted(options->context))
        handle_end(handle, -EINTR, "attach to %s: interrupted by a signal", handle->feed);
}

static bool is_under_way(const struct dataload *handle)
{
    return handle->phase == PHASE_LOST ? !handle->attached : handle->phase <= PHASE_ATTACH;
}

static void drive_attach(struct dataload *handle)
{
    handle->deadline = in_ms(handle->options.timeout_ms);
    int r = attach_start(handle);
    if (r < 0)
        handle_end(handle, r, "%s", handle->error);
    request_pump(handle);
    while (is_under_way(handle)) {
        wait_for_answer(handle);
        request_pump(handle);
    }
}

int dataload_attach(const char *feed, const dataload_options *options, dataload **out)
{
    struct dataload *handle = handle_new();
    *out = handle;
    if (!handle)
        return -ENOMEM;
    if (handle->end_text[0])
        return handle_ended(handle);
    int r = configure(handle, feed, options);
    if (r == 0)
        r = find_device(handle);
    if (r < 0) {
        handle_end(handle, r, "%s", handle->error);
        return r;
    }
    drive_attach(handle);
    handle->options.resume = NULL; /* the caller's; from here on our own place counts */
    /* A batch may already have come, and even an end after it: dataload_next says so. */
    if (handle->attached)
        return 0;
    /* Whatever the daemon makes of the request: a dead handle takes no rank and no memory. */
    if (handle->channel)
        request_close(handle);
    return handle_ended(handle);
}

/* An attachment that has ended by an error is left by closing the connection. But memory that was
 * passed on by a handle the daemon frees only on our word that it is unmapped. */
static bool is_to_detach(const struct dataload *handle)
{
    bool ended = handle->phase == PHASE_ENDED && handle->memory == DLP_MEMORY_IPC;
    return handle->channel && (handle->phase == PHASE_STREAM || ended);
}

static void say_detach(struct dataload *handle)
{
    Dlp__Detach detach = DLP__DETACH__INIT;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_DETACH;
    env.detach = &detach;
    take_drop(handle);
    handle->detaching = true;
    handle->offer = 0;
    if (!handle_unmap(handle))
        return; /* as the daemon hears no more of us, it waits for the end of our process */
    handle->awaited = request_send(handle, &env);
    /* The rank is free once the daemon has answered. */
    int64_t deadline = in_ms(DETACH_WAIT_MS);
    while (request_reply(handle, deadline) == -EINTR)
        ;
}

void dataload_detach(dataload *handle)
{
    if (!handle)
        return;
    /* In a forked child the connection is the parent's: nothing is said on it. */
    if (handle_enter(handle) == 0 && is_to_detach(handle))
        say_detach(handle);
    handle_free(handle);
}
