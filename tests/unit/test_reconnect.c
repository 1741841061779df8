/* A daemon that goes and comes back: the client library looks for it and goes on. */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
    options.reconnect_ms = 10000;
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
    ck_assert_int_eq(dataload_next(handle, DATALOAD_FOREVER, &batch), code);
    ck_assert_msg(strstr(dataload_error(handle), text), "%s", dataload_error(handle));
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void label(struct fake *f, uint32_t slot, int64_t value)
{
    uint8_t *place = f->arena + slot * f->layout.slot_bytes + f->layout.tensors[1].offset;
    *(int64_t *)(void *)place = value;
}

static int64_t label_of(const dataload_batch *batch)
{
    dataload_tensor tensor;
    ck_assert_int_eq(dataload_batch_tensor(batch, "label", &tensor), 0);
    return ((int64_t *)tensor.data)[0];
}

/* Hears a second Attach: all that the first reply said, and where to go on. */
static void hear_attach(struct fake *f, uint64_t epoch, uint64_t step)
{
    fake_hello(f);
    Dlp__Envelope *env = fake_hear(f, DLP__ENVELOPE__BODY_ATTACH);
    const Dlp__Attach *attach = env->attach;
    NEED(attach->resume && attach->resume->epoch == epoch && attach->resume->step == step);
    NEED(attach->resume->start_epoch == 2 && attach->resume->start_position == 80);
    NEED(strcmp(attach->resume->plan_id, f->reply.plan_id) == 0);
    NEED(attach->rank->value == 1 && attach->world->value == 2);
    NEED(attach->batch->value == FAKE_BATCH && attach->slots->value == FAKE_SLOTS);
    NEED(attach->seed->value == 17 && !attach->epoch);
    NEED(strcmp(attach->feed, "a-feed") == 0 && strcmp(attach->job, "mine") == 0);
    dlp_frame_free(env);
    f->reply.epoch = epoch;
    f->reply.step = step;
}

static void first_attach(struct fake *f)
{
    f->reply.start_epoch = f->reply.epoch = 2;
    f->reply.start_position = 80;
    fake_attach(f);
}

/* Dies while the first attach is under way; the next one gets it as if nothing had been. */
static void script_dies_in_the_first_attach(struct fake *f)
{
    fake_hello(f);
    fake_heard(f, DLP__ENVELOPE__BODY_ATTACH);
    fake_silence(f);
    fake_close(f);
    usleep(300000);
    fake_listen(f);
    fake_hello(f);
    Dlp__Envelope *env = fake_hear(f, DLP__ENVELOPE__BODY_ATTACH);
    NEED(!env->attach->resume && strcmp(env->attach->token, "last") == 0);
    dlp_frame_free(env);
    fake_reply(f);
    fake_detached(f);
}

START_TEST(first_attach_goes_on_with_the_next)
{
    options.resume = "last";
    attach(script_dies_in_the_first_attach);
    dataload_detach(handle);
}
END_TEST

static void script_stays_away(struct fake *f)
{
    fake_hello(f);
    fake_heard(f, DLP__ENVELOPE__BODY_ATTACH);
    fake_silence(f);
    fake_close(f);
}

/* It ends by the attach itself, each time. */
static void script_dies_by_it(struct fake *f)
{
    for (int turn = 0; turn < 2; turn++) {
        fake_hello(f);
        fake_heard(f, DLP__ENVELOPE__BODY_ATTACH);
        fake_close(f);
    }
}

START_TEST(first_attach_is_not_tried_for_ever)
{
    static const struct {
        void (*script)(struct fake *);
        int reconnect_ms;
        const char *text;
    } cases[] = {
        {script_stays_away, 0, "closed the connection during the attach"},
        {script_stays_away, 400, "did not come back within 400 ms"},
        {script_dies_by_it, 400, "did not come back within 400 ms"},
    };
    options.reconnect_ms = cases[_i].reconnect_ms;
    fake_run(&fake, cases[_i].script);
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), -ECONNRESET);
    ck_assert_msg(strstr(dataload_error(handle), cases[_i].text), "%s", dataload_error(handle));
    dataload_detach(handle);
}
END_TEST

/* Takes two of three batches; the daemon dies, and comes back 300 ms later. */
static void script_restart(struct fake *f)
{
    first_attach(f);
    for (uint32_t slot = 0; slot < 3; slot++) {
        label(f, slot, 100 + slot);
        fake_ready(f, slot, slot + 1, 2, slot);
    }
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_silence(f);
    fake_close(f);
    usleep(300000);
    fake_listen(f);
    hear_attach(f, 2, 2);
    fake_reply(f);
    fake_heard(f, DLP__ENVELOPE__BODY_WAIT);
    label(f, 0, 200);
    fake_ready(f, 0, 1, 2, 2); /* generations start anew in a new arena */
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    label(f, 1, 201);
    fake_ready(f, 1, 1, 2, 3);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    /* Releases of the old arena are no business of this daemon. */
    Dlp__Envelope *env = fake_hear(f, DLP__ENVELOPE__BODY_RELEASE);
    NEED(env->release->slot == 1);
    dlp_frame_free(env);
    fake_detached(f);
}

START_TEST(goes_on_after_the_last_handed_out)
{
    options.job = "mine";
    options.socket = NULL;
    setenv("DATALOADD_SOCKET", fake.path, 1);
    attach(script_restart);
    setenv("DATALOADD_SOCKET", "/nowhere/control.sock", 1); /* it comes back where it was */
    dataload_batch *old[] = {next(2, 0), next(2, 1)}, *new[2];
    usleep(100000);
    new[0] = next(2, 2);
    ck_assert_int_eq(label_of(new[0]), 200);
    /* What is held from before stays there until it is given back. */
    ck_assert_int_eq(label_of(old[0]), 100);
    ck_assert_int_eq(dataload_release(handle, old[0]), 0);
    ck_assert_int_eq(dataload_release(handle, old[0]), -EINVAL);
    ck_assert_int_eq(label_of(old[1]), 101);
    dataload_stats stats = {.size = sizeof stats};
    dataload_get_stats(handle, &stats);
    ck_assert_uint_eq(stats.reconnects, 1);
    ck_assert_uint_eq(stats.held, 2);
    ck_assert_int_eq(dataload_release(handle, old[1]), 0);
    new[1] = next(2, 3);
    ck_assert_int_eq(label_of(new[1]), 201);
    ck_assert_int_eq(dataload_release(handle, new[1]), 0);
    dataload_detach(handle);
}
END_TEST

static void script_gone(struct fake *f)
{
    fake_attach(f);
    fake_silence(f);
    fake_close(f);
}

START_TEST(gives_up_in_time)
{
    options.reconnect_ms = 400;
    attach(script_gone);
    int64_t start = now_ms();
    fails(-ECONNRESET, "dataloadd has gone and did not come back within 400 ms");
    ck_assert_int_ge(now_ms() - start, 300);
    ck_assert_int_lt(now_ms() - start, 20000);
    ck_assert_ptr_nonnull(strstr(dataload_error(handle), fake.path));
    fails(-ECONNRESET, "dataloadd has gone");
    dataload_detach(handle);
}
END_TEST

/* The rank is still that of our own dead connection, then memory is short: both pass. */
static void script_refusals(struct fake *f)
{
    first_attach(f);
    fake_close(f);
    hear_attach(f, 2, 0);
    fake_error(f, f->id, DLP_ERROR_RANK_TAKEN, "rank 1 is taken by process 7");
    fake_heard_end(f);
    fake_close(f);
    hear_attach(f, 2, 0);
    fake_error(f, f->id, DLP_ERROR_NO_MEMORY, "no memory");
    fake_heard_end(f);
    fake_close(f);
    hear_attach(f, 2, 0);
    fake_close(f); /* dies again during the attach */
    hear_attach(f, 2, 0);
    fake_reply(f);
    fake_heard(f, DLP__ENVELOPE__BODY_WAIT);
    fake_ready(f, 0, 1, 2, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

START_TEST(refusals_that_pass)
{
    options.job = "mine";
    attach(script_refusals);
    next(2, 0);
    dataload_detach(handle);
}
END_TEST

static void script_refused_to_the_end(struct fake *f)
{
    first_attach(f);
    fake_close(f);
    hear_attach(f, 2, 0);
    fake_error(f, f->id, DLP_ERROR_NO_MEMORY, "no memory for slots");
    fake_heard_end(f);
    fake_close(f);
    hear_attach(f, 2, 0); /* and no answer */
    fake_heard_end(f);
}

/* Whoever has to give up knows why. */
START_TEST(last_refusal_is_told)
{
    options.reconnect_ms = 3000;
    options.job = "mine";
    attach(script_refused_to_the_end);
    fails(-ECONNRESET, "did not come back within 3000 ms");
    ck_assert_ptr_nonnull(strstr(dataload_error(handle), "no memory for slots"));
    dataload_detach(handle);
}
END_TEST

static void script_final(struct fake *f)
{
    fake_attach(f);
    fake_close(f);
    fake_hello(f);
    fake_heard(f, DLP__ENVELOPE__BODY_ATTACH);
    fake_error(f, f->id, DLP_ERROR_NO_SUCH_FEED, "no feed a-feed");
    fake_heard_end(f);
}

START_TEST(refusals_that_stay)
{
    attach(script_final);
    fails(-ENOENT, "dataloadd has come back, but: no feed a-feed");
    dataload_detach(handle);
}
END_TEST

static int variant;

static void script_other(struct fake *f)
{
    fake_attach(f);
    fake_close(f);
    fake_hello(f);
    fake_heard(f, DLP__ENVELOPE__BODY_ATTACH);
    if (variant == 0)
        f->reply.plan_id = "fedcba9876543210";
    if (variant == 1)
        f->reply.rank = 0;
    if (variant == 2)
        f->reply.steps = ++f->reply.first_steps;
    if (variant == 3)
        f->reply.step = 1;
    fake_reply(f);
    fake_heard_end(f);
}

START_TEST(another_plan_or_place)
{
    variant = _i;
    attach(script_other);
    fails(-ESTALE, _i == 3 ? "another position" : "another plan");
    dataload_detach(handle);
}
END_TEST

static void script_silent(struct fake *f)
{
    fake_attach(f);
    fake_close(f);
    fake_hello(f);
    fake_heard(f, DLP__ENVELOPE__BODY_ATTACH);
    fake_heard_end(f);
}

START_TEST(attach_without_an_answer)
{
    options.reconnect_ms = 1500;
    attach(script_silent);
    fails(-ECONNRESET, "no answer to the attach");
    dataload_detach(handle);
}
END_TEST

static void script_indexing(struct fake *f)
{
    first_attach(f);
    fake_close(f);
    hear_attach(f, 2, 0);
    for (int i = 0; i < 7; i++) {
        usleep(300000);
        fake_progress(f, "indexing");
    }
    fake_reply(f);
    fake_heard(f, DLP__ENVELOPE__BODY_WAIT);
    fake_ready(f, 0, 1, 2, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

/* 2.1 s of work with reports, of the 1.5 s in which the daemon is looked for. */
START_TEST(progress_extends_the_time)
{
    options.job = "mine";
    options.reconnect_ms = 1500;
    options.timeout_ms = 1500;
    attach(script_indexing);
    next(2, 0);
    dataload_detach(handle);
}
END_TEST

static void script_poll(struct fake *f)
{
    first_attach(f);
    fake_silence(f);
    fake_close(f);
    usleep(250000);
    fake_listen(f);
    hear_attach(f, 2, 0);
    fake_reply(f);
    fake_ready(f, 0, 1, 2, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

/* A poll loop is woken for each try, and does not spin. */
START_TEST(from_a_poll_loop)
{
    options.job = "mine";
    attach(script_poll);
    dataload_batch *batch;
    int wakes = 0, r;
    while ((r = dataload_next(handle, 0, &batch)) == -ETIMEDOUT) {
        struct pollfd ready = {.fd = dataload_fd(handle), .events = POLLIN};
        ck_assert_int_eq(poll(&ready, 1, 20000), 1);
        wakes++;
    }
    ck_assert_msg(r == 0, "%s", dataload_error(handle));
    ck_assert_int_ge(wakes, 3);
    ck_assert_int_lt(wakes, 20);
    dataload_detach(handle);
}
END_TEST

static void script_epoch_end(struct fake *f)
{
    first_attach(f);
    for (uint32_t step = 0; step < FAKE_STEPS; step++) {
        fake_ready(f, 0, step + 1, 2, step);
        fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
        fake_heard(f, DLP__ENVELOPE__BODY_RELEASE);
    }
    fake_close(f);
    hear_attach(f, 3, 0);
    fake_reply(f);
    fake_ready(f, 0, 1, 3, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

START_TEST(end_of_epoch_is_not_lost)
{
    options.job = "mine";
    attach(script_epoch_end);
    struct pollfd ready = {.fd = dataload_fd(handle), .events = POLLIN};
    for (uint32_t step = 0; step < FAKE_STEPS; step++) {
        ck_assert_int_eq(poll(&ready, 1, 20000), 1);
        ck_assert_int_eq(dataload_release(handle, next(2, step)), 0);
    }
    usleep(100000);
    dataload_batch *batch;
    ck_assert_int_eq(dataload_next(handle, 0, &batch), DATALOAD_EPOCH_END);
    while (dataload_next(handle, 0, &batch) == -ETIMEDOUT)
        poll(&ready, 1, 20000);
    ck_assert_ptr_nonnull(batch);
    ck_assert_uint_eq(dataload_batch_epoch(batch), 3);
    dataload_detach(handle);
}
END_TEST

static void script_epoch(struct fake *f)
{
    first_attach(f);
    fake_silence(f);
    fake_close(f);
    usleep(1500000);
    fake_listen(f);
    hear_attach(f, 11, 0);
    fake_reply(f);
    fake_heard(f, DLP__ENVELOPE__BODY_WAIT);
    fake_ready(f, 0, 1, 11, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

START_TEST(another_epoch_while_it_is_gone)
{
    options.job = "mine";
    attach(script_epoch);
    usleep(100000);
    ck_assert_int_eq(dataload_set_epoch(handle, 11), 0);
    next(11, 0);
    dataload_detach(handle);
}
END_TEST

static void script_epoch_late(struct fake *f)
{
    first_attach(f);
    fake_close(f);
    hear_attach(f, 2, 0);
    usleep(2000000); /* meanwhile the caller chooses another epoch */
    fake_reply(f);
    fake_ready(f, 0, 1, 2, 0);
    Dlp__Envelope *env = fake_hear(f, DLP__ENVELOPE__BODY_SEEK);
    NEED(env->seek->epoch == 11);
    dlp_frame_free(env);
    fake_seek_reply(f, f->id);
    fake_ready(f, 0, 2, 11, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

START_TEST(another_epoch_during_the_attach)
{
    options.job = "mine";
    attach(script_epoch_late);
    dataload_batch *batch;
    usleep(50000);
    ck_assert_int_eq(dataload_next(handle, 100, &batch), -ETIMEDOUT);
    ck_assert_int_eq(dataload_set_epoch(handle, 11), 0);
    next(11, 0);
    dataload_detach(handle);
}
END_TEST

static void script_detach(struct fake *f)
{
    fake_attach(f);
    fake_close(f);
}

START_TEST(detach_while_it_is_gone)
{
    attach(script_detach);
    dataload_batch *batch;
    usleep(50000);
    ck_assert_int_eq(dataload_next(handle, 0, &batch), -ETIMEDOUT);
    int64_t start = now_ms();
    dataload_detach(handle);
    ck_assert_int_lt(now_ms() - start, 5000);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("reconnect");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, first_attach_goes_on_with_the_next);
    tcase_add_loop_test(tc, first_attach_is_not_tried_for_ever, 0, 3);
    tcase_add_test(tc, goes_on_after_the_last_handed_out);
    tcase_add_test(tc, gives_up_in_time);
    tcase_add_test(tc, refusals_that_pass);
    tcase_add_test(tc, refusals_that_stay);
    tcase_add_test(tc, last_refusal_is_told);
    tcase_add_loop_test(tc, another_plan_or_place, 0, 4);
    tcase_add_test(tc, attach_without_an_answer);
    tcase_add_test(tc, progress_extends_the_time);
    tcase_add_test(tc, from_a_poll_loop);
    tcase_add_test(tc, end_of_epoch_is_not_lost);
    tcase_add_test(tc, another_epoch_while_it_is_gone);
    tcase_add_test(tc, another_epoch_during_the_attach);
    tcase_add_test(tc, detach_while_it_is_gone);
    Suite *suite = suite_create("reconnect");
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
