/* The client library chooses epochs, against a daemon played by the test. */
#include <check.h>
#include <errno.h>
#include <string.h>
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

static void epoch_ends(void)
{
    dataload_batch *batch;
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), DATALOAD_EPOCH_END);
}

static void script_seek(struct fake *f)
{
    fake_attach(f);
    fake_ready(f, 0, 1, 0, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_ready(f, 1, 2, 0, 1);
    Dlp__Envelope *env = fake_hear(f, DLP__ENVELOPE__BODY_SEEK);
    NEED(env->seek->epoch == 7);
    uint64_t id = env->id;
    dlp_frame_free(env);
    /* Still on its way when the daemon read Seek; the slots are used again after its reply. */
    fake_failed(f, 2, 3, 0, 2, "void");
    fake_seek_reply(f, id);
    fake_ready(f, 1, 4, 7, 0);
    fake_ready(f, 2, 5, 7, 1);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_heard(f, DLP__ENVELOPE__BODY_RELEASE);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

START_TEST(another_epoch)
{
    attach(script_seek);
    ck_assert_int_eq(dataload_set_epoch(handle, 1 << 24), -EINVAL); /* nothing happens */
    ck_assert_int_eq(dataload_set_epoch(handle, 0), 0); /* is there already: says nothing */
    dataload_batch *batch = next(0, 0);
    usleep(50000);
    ck_assert_int_eq(dataload_set_epoch(handle, 7), 0);
    ck_assert_int_eq(dataload_set_epoch(handle, 7), 0);
    next(7, 0);
    ck_assert_int_eq(dataload_release(handle, batch), 0); /* held over the change */
    next(7, 1);
    dataload_detach(handle);
}
END_TEST

static void script_next_epoch(struct fake *f)
{
    f->reply.steps = f->reply.first_steps = 1;
    fake_attach(f);
    fake_ready(f, 0, 1, 0, 0);
    fake_ready(f, 1, 2, 1, 0);
    fake_ready(f, 2, 3, 2, 0);
    for (int i = 0; i < 3; i++)
        fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

/* A pass that stops before the end of the epoch is told of goes on without a seek. */
START_TEST(the_following_epoch_is_no_seek)
{
    attach(script_next_epoch);
    next(0, 0);
    ck_assert_int_eq(dataload_set_epoch(handle, 1), 0);
    next(1, 0);
    epoch_ends();
    ck_assert_int_eq(dataload_set_epoch(handle, 2), 0);
    next(2, 0);
    dataload_detach(handle);
}
END_TEST

static void script_seek_refused(struct fake *f)
{
    fake_attach(f);
    fake_ready(f, 0, 1, 0, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_ready(f, 1, 2, 0, 1);
    fake_heard(f, DLP__ENVELOPE__BODY_SEEK);
    uint64_t id = f->id;
    fake_ready(f, 2, 3, 0, 2);
    fake_error(f, id, DLP_ERROR_SHARED, "others read with you");
    for (int i = 0; i < 2; i++)
        fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

/* The handle goes on as if nothing had been asked. */
START_TEST(seek_refused)
{
    char before[DATALOAD_TOKEN_MAX], after[DATALOAD_TOKEN_MAX];
    attach(script_seek_refused);
    next(0, 0);
    ck_assert_int_gt(dataload_token(handle, before, sizeof before), 0);
    ck_assert_int_eq(dataload_set_epoch(handle, 9), -EBUSY);
    ck_assert_str_eq(dataload_error(handle), "others read with you");
    ck_assert_int_gt(dataload_token(handle, after, sizeof after), 0);
    ck_assert_str_eq(after, before);
    next(0, 1);
    next(0, 2);
    dataload_detach(handle);
}
END_TEST

static void script_seek_refused_late(struct fake *f)
{
    fake_attach(f);
    fake_ready(f, 0, 1, 0, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_SEEK);
    uint64_t id = f->id;
    fake_heard(f, DLP__ENVELOPE__BODY_WAIT);
    fake_error(f, id, DLP_ERROR_SHARED, "others read with you");
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

/* Nobody waits for the answer any more: the next call tells it. */
START_TEST(seek_refused_late)
{
    dataload_batch *batch;
    options.timeout_ms = 1000; /* of the attach too */
    attach(script_seek_refused_late);
    ck_assert_int_eq(dataload_set_epoch(handle, 9), -ETIMEDOUT);
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), -EBUSY);
    ck_assert_str_eq(dataload_error(handle), "others read with you");
    next(0, 0);
    dataload_detach(handle);
}
END_TEST

static void script_seek_again(struct fake *f)
{
    fake_attach(f);
    fake_heard(f, DLP__ENVELOPE__BODY_SEEK);
    uint64_t id = f->id;
    fake_heard(f, DLP__ENVELOPE__BODY_WAIT);
    fake_seek_reply(f, id);
    fake_ready(f, 0, 1, 9, 0); /* before it has read the second one */
    Dlp__Envelope *env = fake_hear(f, DLP__ENVELOPE__BODY_SEEK);
    NEED(env->seek->epoch == 4);
    dlp_frame_free(env);
    fake_seek_reply(f, f->id);
    fake_ready(f, 0, 2, 4, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

/* Another epoch is chosen before the answer to the first choice. */
START_TEST(seek_changed_while_it_is_asked_for)
{
    options.timeout_ms = 1000; /* of the attach too */
    attach(script_seek_again);
    ck_assert_int_eq(dataload_set_epoch(handle, 9), -ETIMEDOUT);
    ck_assert_int_eq(dataload_set_epoch(handle, 4), -ETIMEDOUT);
    next(4, 0);
    dataload_detach(handle);
}
END_TEST

static void script_seek_late(struct fake *f)
{
    fake_attach(f);
    fake_heard(f, DLP__ENVELOPE__BODY_SEEK);
    uint64_t id = f->id;
    fake_heard(f, DLP__ENVELOPE__BODY_WAIT);
    fake_seek_reply(f, id);
    fake_ready(f, 0, 1, 9, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

START_TEST(seek_times_out_and_holds)
{
    options.timeout_ms = 1000; /* of the attach too */
    attach(script_seek_late);
    ck_assert_int_eq(dataload_set_epoch(handle, 9), -ETIMEDOUT);
    next(9, 0);
    dataload_detach(handle);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_seek");
    TCase *tc = tcase_create("client_seek");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, another_epoch);
    tcase_add_test(tc, the_following_epoch_is_no_seek);
    tcase_add_test(tc, seek_refused);
    tcase_add_test(tc, seek_refused_late);
    tcase_add_test(tc, seek_changed_while_it_is_asked_for);
    tcase_add_test(tc, seek_times_out_and_holds);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
