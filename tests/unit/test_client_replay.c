/* The client library and batches that are served again, against a daemon played by the test. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "client/dataload.h"
#include "fake_daemon.h"

static struct fake fake;
static dataload *handle;
static dataload_options options;

static void setup(void)
{
    fake_init(&fake);
    options = (dataload_options)DATALOAD_OPTIONS_INIT;
    options.socket = fake.path;
    options.reconnect_ms = 0;
    options.allow_replay = 1;
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

/* As fake_ready, of a batch handed out before. */
static void replay(struct fake *f, uint32_t slot, uint64_t generation, uint64_t step)
{
    Dlp__BatchReady ready = DLP__BATCH_READY__INIT;
    ready.slot = slot;
    ready.generation = generation;
    ready.step = step;
    ready.rows = ready.valid = FAKE_BATCH;
    ready.replay = true;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_BATCH_READY;
    env.batch_ready = &ready;
    fake_say(f, &env, NULL, 0);
}

static void heard_back(struct fake *f)
{
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_heard(f, DLP__ENVELOPE__BODY_RELEASE);
}

static void read_on(uint64_t epoch, uint64_t step, int again)
{
    dataload_batch *batch;
    int r = dataload_next(handle, 60000, &batch);
    ck_assert_msg(r == 0, "%d: %s", r, dataload_error(handle));
    ck_assert_uint_eq(dataload_batch_epoch(batch), epoch);
    ck_assert_uint_eq(dataload_batch_step(batch), step);
    ck_assert_int_eq(dataload_batch_is_replay(batch), again);
    char token[DATALOAD_TOKEN_MAX];
    r = dataload_batch_token(batch, token, sizeof token);
    if (again) {
        ck_assert_int_eq(r, -ENODATA);
        ck_assert_ptr_nonnull(strstr(dataload_error(handle), "is no step to go on after"));
    } else {
        ck_assert_int_gt(r, 0);
    }
    ck_assert_int_eq(dataload_release(handle, batch), 0);
}

static void token(char text[DATALOAD_TOKEN_MAX])
{
    ck_assert_int_gt(dataload_token(handle, text, DATALOAD_TOKEN_MAX), 0);
}

/* Two steps, three batches again, and the rest of the epoch; two again before the next one. */
static void script_replays(struct fake *f)
{
    uint64_t generation = 0;
    fake_attach(f);
    for (uint64_t step = 0; step < FAKE_STEPS; step++) {
        fake_ready(f, 0, ++generation, 0, step);
        heard_back(f);
        for (int i = 0; step == 1 && i < 3; i++) {
            replay(f, 0, ++generation, 1);
            heard_back(f);
        }
    }
    for (uint32_t slot = 0; slot < 2; slot++)
        replay(f, slot, ++generation, 3 + slot);
    fake_ready(f, 2, ++generation, 1, 0);
    for (int i = 0; i < 3; i++)
        heard_back(f);
    fake_detached(f);
}

START_TEST(they_are_no_steps)
{
    char before[DATALOAD_TOKEN_MAX], after[DATALOAD_TOKEN_MAX];
    attach(script_replays);
    read_on(0, 0, 0);
    read_on(0, 1, 0);
    token(before);
    for (int i = 0; i < 3; i++)
        read_on(0, 1, 1);
    token(after);
    ck_assert_str_eq(before, after);
    for (uint64_t step = 2; step < FAKE_STEPS; step++)
        read_on(0, step, 0);
    dataload_batch *batch;
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), DATALOAD_EPOCH_END);
    ck_assert_int_eq(dataload_set_epoch(handle, 1), 0); /* as the trainer would have it anyway */
    read_on(0, 3, 1);
    read_on(0, 4, 1);
    read_on(1, 0, 0);
    dataload_stats stats = {.size = sizeof stats};
    ck_assert_int_eq(dataload_get_stats(handle, &stats), 0);
    ck_assert_uint_eq(stats.batches, FAKE_STEPS + 1);
    ck_assert_uint_eq(stats.samples, (FAKE_STEPS + 1) * FAKE_BATCH);
    ck_assert_uint_eq(stats.replayed, 5);
    dataload_detach(handle);
}
END_TEST

/* Announced before the daemon has heard that another epoch is chosen. */
static void script_seek(struct fake *f)
{
    fake_attach(f);
    fake_ready(f, 0, 1, 0, 0);
    heard_back(f);
    replay(f, 0, 2, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_SEEK);
    replay(f, 1, 3, 0);
    fake_seek_reply(f, f->id);
    fake_ready(f, 0, 4, 3, 0);
    heard_back(f);
    fake_detached(f);
}

START_TEST(another_epoch_is_chosen)
{
    attach(script_seek);
    read_on(0, 0, 0);
    ck_assert_int_eq(dataload_set_epoch(handle, 3), 0);
    read_on(3, 0, 0);
    dataload_detach(handle);
}
END_TEST

static int allowed;

/* Of a client that has not allowed it, or of a generation that was there before. */
static void script_wrong(struct fake *f)
{
    fake_attach(f);
    fake_ready(f, 0, 5, 0, 0);
    heard_back(f);
    replay(f, 0, allowed ? 5 : 6, 0);
    fake_heard_end(f);
}

START_TEST(what_no_daemon_says)
{
    dataload_batch *batch;
    allowed = options.allow_replay = _i;
    attach(script_wrong);
    read_on(0, 0, 0);
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), -EPROTO);
    ck_assert_ptr_nonnull(
        strstr(dataload_error(handle), _i ? "its last is generation 5" : "was not allowed"));
    dataload_detach(handle);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_replay");
    TCase *test = tcase_create("client_replay");
    tcase_add_checked_fixture(test, setup, teardown);
    tcase_add_test(test, they_are_no_steps);
    tcase_add_test(test, another_epoch_is_chosen);
    tcase_add_loop_test(test, what_no_daemon_says, 0, 2);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
