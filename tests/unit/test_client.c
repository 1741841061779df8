/* The client library against a daemon played by the test. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/dataload.h"
#include "fake_daemon.h"
#include "proto/errors.h"
#include "proto/frames.h"

static struct fake fake;
static dataload *handle;
static dataload_options options;

static void setup(void)
{
    fake_init(&fake);
    options = (dataload_options)DATALOAD_OPTIONS_INIT;
    options.socket = fake.path;
    options.reconnect_ms = 0;
}

static void teardown(void)
{
    fake_done(&fake);
}

static void attach(void (*script)(struct fake *))
{
    fake_run(&fake, script);
    int r = dataload_attach("a-feed", &options, &handle);
    ck_assert_msg(r == 0, "%s", dataload_error(handle));
}

static dataload_batch *next(uint64_t epoch, uint64_t step)
{
    dataload_batch *batch;
    int r = dataload_next(handle, 60000, &batch);
    ck_assert_msg(r == 0, "%d: %s", r, dataload_error(handle));
    ck_assert_uint_eq(dataload_batch_epoch(batch), epoch);
    ck_assert_uint_eq(dataload_batch_step(batch), step);
    return batch;
}

static void fails(int code, const char *text)
{
    dataload_batch *batch;
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), code);
    ck_assert_ptr_null(batch);
    ck_assert_msg(strstr(dataload_error(handle), text), "%s", dataload_error(handle));
}

static void epoch_ends(void)
{
    dataload_batch *batch;
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), DATALOAD_EPOCH_END);
    ck_assert_ptr_null(batch);
}

/* Two epochs; each slot is used again once it is given back. */
static void script_epochs(struct fake *f)
{
    f->reply.n_notes = 1;
    f->reply.notes = (char *[]){"shards would be faster\x1b[2J"};
    fake_attach(f);
    uint64_t generation = 0;
    for (uint64_t i = 0; i < 2ULL * FAKE_STEPS; i++) {
        uint32_t slot = i % FAKE_SLOTS;
        int64_t *index = (int64_t *)(void *)(f->arena + slot * f->layout.slot_bytes +
                                             f->layout.tensors[4].offset);
        index[0] = (int64_t)i;
        fake_ready(f, slot, ++generation, i / FAKE_STEPS, i % FAKE_STEPS);
        Dlp__Envelope *env = fake_hear(f, DLP__ENVELOPE__BODY_TAKE);
        NEED(env->take->slot == slot && env->take->generation == generation);
        dlp_frame_free(env);
        env = fake_hear(f, DLP__ENVELOPE__BODY_RELEASE);
        NEED(env->release->slot == slot && env->release->generation == generation);
        NEED(env->release->hold_ns > 0);
        dlp_frame_free(env);
    }
    fake_detached(f);
}

START_TEST(two_epochs)
{
    attach(script_epochs);
    for (uint64_t i = 0; i < 2ULL * FAKE_STEPS; i++) {
        struct pollfd ready = {.fd = dataload_fd(handle), .events = POLLIN};
        ck_assert_int_eq(poll(&ready, 1, 5000), 1);
        if (i == FAKE_STEPS) {
            epoch_ends();
            ck_assert_int_eq(poll(&ready, 1, 5000), 1);
        }
        dataload_batch *batch = next(i / FAKE_STEPS, i % FAKE_STEPS);
        dataload_tensor index;
        ck_assert_int_eq(dataload_batch_tensor(batch, "index", &index), 0);
        ck_assert_int_eq(((int64_t *)index.data)[0], i);
        ck_assert_int_eq(dataload_release(handle, batch), 0);
    }
    epoch_ends();
    dataload_info info = {.size = sizeof info};
    ck_assert_int_eq(dataload_get_info(handle, &info), 0);
    ck_assert_uint_eq(info.epoch, 2);
    ck_assert_uint_eq(info.step, 0);
    dataload_stats stats = {.size = sizeof stats};
    ck_assert_int_eq(dataload_get_stats(handle, &stats), 0);
    ck_assert_uint_eq(stats.batches, 2 * FAKE_STEPS);
    ck_assert_uint_eq(stats.samples, 2 * FAKE_STEPS * FAKE_BATCH);
    /* floats, label, no text, valid, index */
    ck_assert_uint_eq(stats.bytes, stats.batches * FAKE_BATCH * (24 + 8 + 1 + 8));
    ck_assert_uint_gt(stats.hold_ns, 0);
    ck_assert_uint_ge(stats.elapsed_ns, stats.hold_ns + stats.wait_ns);
    ck_assert_str_eq(dataload_note(handle, 0), "shards would be faster\\x1B[2J");
    ck_assert_ptr_null(dataload_note(handle, 1));
    dataload_detach(handle);
}
END_TEST

static void script_one_batch(struct fake *f)
{
    fake_attach(f);
    fake_heard(f, DLP__ENVELOPE__BODY_WAIT);
    usleep(1000000);
    fake_ready(f, 2, 5, 0, 0);
    Dlp__Envelope *env = fake_hear(f, DLP__ENVELOPE__BODY_TAKE);
    NEED(env->take->wait_ns >= 300000000);
    dlp_frame_free(env);
    fake_heard(f, DLP__ENVELOPE__BODY_WAIT);
    fake_detached(f);
    NEED(f->waits == 2);
}

/* One Wait for one batch, however often the caller asks. */
START_TEST(timeouts_and_wait)
{
    attach(script_one_batch);
    dataload_batch *batch;
    ck_assert_int_eq(dataload_next(handle, 0, &batch), -ETIMEDOUT);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(dataload_next(handle, 10, &batch), -ETIMEDOUT);
    ck_assert_ptr_null(batch);
    next(0, 0);
    ck_assert_int_eq(dataload_next(handle, 1, &batch), -ETIMEDOUT);
    dataload_stats stats = {.size = sizeof stats};
    dataload_get_stats(handle, &stats);
    ck_assert_uint_eq(stats.stalls, 1);
    ck_assert_uint_ge(stats.longest_stall_ns, 300000000);
    ck_assert_uint_ge(stats.wait_ns, stats.longest_stall_ns);
    ck_assert_uint_eq(stats.held, 1);
    dataload_detach(handle);
}
END_TEST

static void script_fill(struct fake *f)
{
    fake_attach(f);
    for (uint32_t slot = 0; slot < FAKE_SLOTS; slot++)
        fake_ready(f, slot, slot + 1, 0, slot);
    for (uint32_t slot = 0; slot < FAKE_SLOTS; slot++)
        fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_heard(f, DLP__ENVELOPE__BODY_RELEASE);
    fake_ready(f, 1, 10, 0, 3);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

START_TEST(all_slots_held)
{
    attach(script_fill);
    dataload_batch *held[FAKE_SLOTS];
    for (uint32_t i = 0; i < FAKE_SLOTS; i++) {
        held[i] = next(0, i);
        usleep(2000);
    }
    fails(-EDEADLK, "all 3 slots");
    fails(-EDEADLK, "(epoch 0, step 0) for 0.");
    ck_assert_int_eq(dataload_release(handle, held[1]), 0);
    /* Given back twice, or never lent: an error, and nothing else happens. */
    ck_assert_int_eq(dataload_release(handle, held[1]), -EINVAL);
    ck_assert_int_eq(dataload_release(handle, (dataload_batch *)&fake), -EINVAL);
    ck_assert_int_eq(dataload_release(handle, NULL), -EINVAL);
    next(0, 3);
    dataload_detach(handle);
}
END_TEST

/* A failure takes up a slot until it is handed out: Take and Release give it back. */
static void fail_at(struct fake *f, uint32_t slot, uint64_t generation, uint64_t step,
                    const char *text)
{
    fake_failed(f, slot, generation, 0, step, text);
    Dlp__Envelope *env = fake_hear(f, DLP__ENVELOPE__BODY_TAKE);
    NEED(env->take->slot == slot && env->take->generation == generation);
    dlp_frame_free(env);
    env = fake_hear(f, DLP__ENVELOPE__BODY_RELEASE);
    NEED(env->release->slot == slot && env->release->generation == generation);
    dlp_frame_free(env);
}

static void script_failed(struct fake *f)
{
    fake_attach(f);
    fail_at(f, 0, 1, 0, "shard a.tar, key 7: BAD-TRUNC\n");
    fake_ready(f, 0, 2, 0, 1);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    for (uint64_t step = 2; step < FAKE_STEPS; step++)
        fail_at(f, 1, step, step, "");
    fake_ready(f, 1, FAKE_STEPS, 1, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

START_TEST(failed_batches_in_their_turn)
{
    attach(script_failed);
    fails(-EBADMSG, "shard a.tar, key 7: BAD-TRUNC\\x0A");
    next(0, 1);
    for (uint64_t step = 2; step < FAKE_STEPS; step++)
        fails(-EBADMSG, "a sample is bad");
    dataload_stats stats = {.size = sizeof stats};
    dataload_get_stats(handle, &stats);
    ck_assert_uint_eq(stats.batches, 1);
    ck_assert_uint_eq(stats.ready, 0);
    epoch_ends();
    next(1, 0);
    dataload_detach(handle);
}
END_TEST

static void script_bad_limit(struct fake *f)
{
    fake_attach(f);
    fake_ready(f, 0, 1, 0, 0);
    fake_error(f, 0, DLP_ERROR_BAD_LIMIT, "3 bad samples: a, b, c");
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_heard(f, DLP__ENVELOPE__BODY_RELEASE); /* others may wait for it */
    fake_heard_end(f);
}

START_TEST(bad_limit_ends_after_what_came_before)
{
    attach(script_bad_limit);
    usleep(50000);
    dataload_batch *batch = next(0, 0);
    fails(-ECANCELED, "3 bad samples: a, b, c");
    fails(-ECANCELED, "3 bad samples: a, b, c");
    ck_assert_int_eq(dataload_set_epoch(handle, 4), -ECANCELED);
    ck_assert_int_eq(dataload_release(handle, batch), 0);
    dataload_detach(handle);
}
END_TEST

static void script_gone(struct fake *f)
{
    fake_attach(f);
    fake_ready(f, 0, 1, 0, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_close(f);
}

START_TEST(gone_without_reconnect)
{
    attach(script_gone);
    dataload_batch *batch = next(0, 0);
    fails(-ECONNRESET, "dataloadd has gone");
    fails(-ECONNRESET, "dataloadd has gone");
    ck_assert_int_eq(dataload_set_epoch(handle, 1), -ECONNRESET);
    ck_assert_int_eq(dataload_release(handle, batch), 0);
    dataload_detach(handle);
}
END_TEST

static void script_no_steps(struct fake *f)
{
    f->reply.steps = f->reply.first_steps = 0;
    fake_attach(f);
    fake_detached(f);
}

static uint64_t next_epoch(void)
{
    dataload_info info = {.size = sizeof info};
    ck_assert_int_eq(dataload_get_info(handle, &info), 0);
    return info.epoch;
}

/* tail: partial, and this rank has no row in the only step. */
START_TEST(rank_without_steps)
{
    attach(script_no_steps);
    ck_assert_int_eq(dataload_steps(handle, 0), 0);
    for (int i = 0; i < 3; i++) {
        struct pollfd ready = {.fd = dataload_fd(handle), .events = POLLIN};
        ck_assert_int_eq(poll(&ready, 1, 1000), 1);
        ck_assert_uint_eq(next_epoch(), (uint64_t)i);
        epoch_ends();
    }
    ck_assert_int_eq(dataload_set_epoch(handle, 50), 0);
    ck_assert_uint_eq(next_epoch(), 50);
    epoch_ends();
    ck_assert_uint_eq(next_epoch(), 51);
    dataload_detach(handle);
}
END_TEST

static void script_tensors(struct fake *f)
{
    fake_attach(f);
    uint8_t *slot = f->arena + f->layout.slot_bytes; /* slot 1 */
    const struct dlp_tensor *text = &f->layout.tensors[2];
    uint64_t *offsets = (uint64_t *)(void *)(slot + text->offset);
    memcpy(offsets, (uint64_t[]){0, 3, 3, 7, 0}, 5 * sizeof *offsets);
    memcpy(slot + text->data_offset, "onethre", 7);
    Dlp__BatchReady ready = DLP__BATCH_READY__INIT;
    ready.slot = 1;
    ready.generation = 1;
    ready.rows = 3; /* the last batch of tail: partial */
    ready.valid = 2;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_BATCH_READY;
    env.batch_ready = &ready;
    fake_say(f, &env, NULL, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    offsets += f->layout.slot_bytes / sizeof *offsets; /* of slot 2 */
    memcpy(offsets, (uint64_t[]){0, 300, 3, 7, 0}, 5 * sizeof *offsets);
    ready.slot = 2;
    ready.step = 1;
    fake_say(f, &env, NULL, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_heard(f, DLP__ENVELOPE__BODY_RELEASE);
    fake_detached(f);
}

START_TEST(tensors)
{
    attach(script_tensors);
    dataload_batch *batch = next(0, 0);
    dataload_tensor image, text;
    ck_assert_uint_eq(dataload_batch_rows(batch), 3);
    ck_assert_uint_eq(dataload_batch_valid(batch), 2);
    ck_assert_int_eq(dataload_batch_tensor(batch, "image", &image), 0);
    ck_assert_int_eq(image.dtype, DATALOAD_FLOAT32);
    ck_assert_uint_eq(image.ndim, 3);
    ck_assert_uint_eq(image.shape[0], 3);
    ck_assert_uint_eq(image.shape[1], 2);
    ck_assert_uint_eq(image.shape[2], 3);
    ck_assert_uint_eq(image.bytes, 3 * 2 * 3 * 4);
    ck_assert_ptr_null(image.offsets);
    ((float *)image.data)[0] = 1; /* a batch is the trainer's own: it may write */
    ck_assert_int_eq(dataload_batch_tensor(batch, "text", &text), 0);
    ck_assert_uint_eq(text.bytes, 7);
    ck_assert_uint_eq(text.shape[0], 3);
    ck_assert_uint_eq(text.offsets[3], 7);
    ck_assert_mem_eq(text.data, "onethre", 7);
    uint32_t number = 0;
    while (dataload_batch_tensor_at(batch, number, &image) == 0)
        number++;
    ck_assert_uint_eq(number, 5);
    ck_assert_int_eq(dataload_batch_tensor_at(batch, number, &image), -ENOENT);
    ck_assert_int_eq(dataload_batch_tensor(batch, "mask", &image), -ENOENT);
    ck_assert_int_eq(dataload_batch_tensor(next(0, 1), "text", &text), -EPROTO);
    dataload_release(handle, batch);
    ck_assert_int_eq(dataload_batch_tensor(batch, "image", &image), -EINVAL);
    dataload_detach(handle);
}
END_TEST

static void on_alarm(int signal)
{
    (void)signal;
}

static void script_silent(struct fake *f)
{
    fake_attach(f);
    fake_heard(f, DLP__ENVELOPE__BODY_WAIT);
    fake_detached(f);
}

START_TEST(interrupted_by_a_signal)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval soon = {.it_value.tv_usec = 50000};
    /* Only this thread takes the signal. */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    attach(script_silent);
    sigaction(SIGALRM, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    dataload_batch *batch;
    ck_assert_int_eq(dataload_next(handle, DATALOAD_FOREVER, &batch), -EINTR);
    dataload_detach(handle);
}
END_TEST

static void script_fork(struct fake *f)
{
    fake_attach(f);
    fake_ready(f, 0, 1, 0, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_ready(f, 1, 2, 0, 1);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE); /* nothing of the child's in between */
    fake_detached(f);
}

/* Number of the first check that fails in a forked child, 0 for none. */
static int child_is_refused(dataload_batch *batch, pid_t parent)
{
    char opened_by[64];
    dataload_batch *other;
    dataload_tensor tensor;
    dataload_info info = {.size = sizeof info};
    snprintf(opened_by, sizeof opened_by, "opened by process %d", (int)parent);
    if (dataload_next(handle, 0, &other) != -ENOLCK)
        return 1;
    if (!strstr(dataload_error(handle), opened_by))
        return 2;
    if (dataload_release(handle, batch) != -ENOLCK || dataload_set_epoch(handle, 3) != -ENOLCK)
        return 3;
    if (dataload_fd(handle) != -ENOLCK || dataload_get_info(handle, &info) != -ENOLCK)
        return 4;
    if (dataload_batch_tensor(batch, "image", &tensor) != -ENOLCK)
        return 5;
    dataload_detach(handle); /* says nothing to the daemon */
    return 0;
}

START_TEST(forked_child_is_refused)
{
    attach(script_fork);
    dataload_batch *batch = next(0, 0);
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        _exit(child_is_refused(batch, parent));
    int status;
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    next(0, 1);
    dataload_detach(handle);
}
END_TEST

static void add_tests(TCase *tc)
{
    tcase_add_test(tc, two_epochs);
    tcase_add_test(tc, timeouts_and_wait);
    tcase_add_test(tc, all_slots_held);
    tcase_add_test(tc, failed_batches_in_their_turn);
    tcase_add_test(tc, bad_limit_ends_after_what_came_before);
    tcase_add_test(tc, gone_without_reconnect);
    tcase_add_test(tc, rank_without_steps);
    tcase_add_test(tc, tensors);
    tcase_add_test(tc, interrupted_by_a_signal);
    tcase_add_test(tc, forked_child_is_refused);
}

int main(void)
{
    TCase *tc = tcase_create("client");
    tcase_add_checked_fixture(tc, setup, teardown);
    add_tests(tc);
    Suite *suite = suite_create("client");
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
