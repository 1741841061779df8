/* Attaching: options, refusals, time-outs, against a daemon played by the test. */
#include <check.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/dataload.h"
#include "fake_daemon.h"
#include "proto/errors.h"
#include "proto/frames.h"

static struct fake fake;
static dataload *handle;
static dataload_options options;
static _Atomic bool heard_end;

static void setup(void)
{
    fake_init(&fake);
    options = (dataload_options)DATALOAD_OPTIONS_INIT;
    options.socket = fake.path;
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

static void refused(void (*script)(struct fake *), int code, const char *text)
{
    fake_run(&fake, script);
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), code);
    ck_assert_msg(strstr(dataload_error(handle), text), "%s", dataload_error(handle));
    dataload_detach(handle);
}

static void script_options(struct fake *f)
{
    fake_accept(f);
    Dlp__Envelope *env = fake_hear(f, DLP__ENVELOPE__BODY_HELLO);
    NEED(strcmp(env->hello->program, "prog\\x0A") == 0);
    dlp_frame_free(env);
    Dlp__HelloReply hello = DLP__HELLO_REPLY__INIT;
    hello.version = 1;
    Dlp__Envelope reply = DLP__ENVELOPE__INIT;
    reply.id = f->id;
    reply.body_case = DLP__ENVELOPE__BODY_HELLO_REPLY;
    reply.hello_reply = &hello;
    fake_say(f, &reply, NULL, 0);
    env = fake_hear(f, DLP__ENVELOPE__BODY_ATTACH);
    const Dlp__Attach *attach = env->attach;
    NEED(strcmp(attach->feed, "a-feed") == 0 && strcmp(attach->job, "mine") == 0);
    NEED(attach->rank->value == 0 && attach->world->value == 2 && attach->batch->value == 4);
    NEED(attach->seed->value == 17 && attach->slots->value == 3);
    NEED(!attach->epoch && attach->probe && !attach->resume);
    dlp_frame_free(env);
    f->reply.rank = 0;
    fake_reply(f);
    fake_detached(f);
}

START_TEST(options_and_info)
{
    options.program = "prog\n";
    options.job = "mine";
    options.rank = 0;
    options.world = 2;
    options.batch = 4;
    options.seed = 17;
    options.slots = 3;
    options.probe = 1;
    attach(script_options);
    ck_assert_int_eq(dataload_steps(handle, 0), FAKE_STEPS);
    dataload_info info = {.size = sizeof info};
    ck_assert_int_eq(dataload_get_info(handle, &info), 0);
    ck_assert_str_eq(info.job, "a-job");
    ck_assert_str_eq(info.plan_id, "0123456789abcdef");
    ck_assert_str_eq(info.transform, "train");
    ck_assert_uint_eq(info.world, 2);
    ck_assert_uint_eq(info.batch, FAKE_BATCH);
    ck_assert_uint_eq(info.records, 40);
    ck_assert_uint_eq(info.slot_bytes, fake.layout.slot_bytes);
    /* A caller of an older header gets what it knows of, and no more. */
    dataload_info old = {.size = offsetof(dataload_info, rank), .rank = 99};
    ck_assert_int_eq(dataload_get_info(handle, &old), 0);
    ck_assert_str_eq(old.job, "a-job");
    ck_assert_uint_eq(old.rank, 99);
    old.size = 0;
    ck_assert_int_eq(dataload_get_info(handle, &old), -EINVAL);
    dataload_detach(handle);
}
END_TEST

static void script_none(struct fake *f)
{
    (void)f;
}

START_TEST(wrong_options)
{
    static const struct {
        int64_t rank, world, batch, slots, seed;
        const char *job, *named;
    } wrong[] = {
        {-2, -1, -1, -1, -1, NULL, "rank -2"},  {4, 4, -1, -1, -1, NULL, "rank 4"},
        {-1, 0, -1, -1, -1, NULL, "world 0"},   {-1, 65537, -1, -1, -1, NULL, "world 65537"},
        {-1, -1, 0, -1, -1, NULL, "batch 0"},   {-1, -1, -1, 1, -1, NULL, "slots 1"},
        {-1, -1, -1, 65, -1, NULL, "slots 65"}, {-1, -1, -1, -1, -9, NULL, "seed"},
        {-1, -1, -1, -1, -1, "a job", "a job"},
    };
    fake_run(&fake, script_none);
    options.rank = wrong[_i].rank;
    options.world = wrong[_i].world;
    options.batch = wrong[_i].batch;
    options.slots = wrong[_i].slots;
    options.seed = wrong[_i].seed;
    options.job = wrong[_i].job;
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), -EINVAL);
    ck_assert_msg(strstr(dataload_error(handle), wrong[_i].named), "%s", dataload_error(handle));
    dataload_batch *batch;
    ck_assert_int_eq(dataload_next(handle, -1, &batch), -EINVAL);
    ck_assert_int_eq(dataload_set_epoch(handle, 1), -EINVAL);
    dataload_detach(handle);
}
END_TEST

START_TEST(wrong_feed_or_struct)
{
    fake_run(&fake, script_none);
    ck_assert_int_eq(dataload_attach("a feed", &options, &handle), -EINVAL);
    dataload_detach(handle);
    ck_assert_int_eq(dataload_attach(NULL, &options, &handle), -EINVAL);
    dataload_detach(handle);
    options.reconnect_ms = -1;
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), -EINVAL);
    dataload_detach(handle);
    options.size = sizeof options + 8;
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), -EINVAL);
    dataload_detach(handle);
    options.size = 0;
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), -EINVAL);
    dataload_detach(handle);
    dataload_detach(NULL);
    ck_assert_int_eq(dataload_fd(NULL), -EINVAL);
    ck_assert_str_ne(dataload_error(NULL), "");
}
END_TEST

static void script_refuse(struct fake *f)
{
    fake_hello(f);
    fake_heard(f, DLP__ENVELOPE__BODY_ATTACH);
    fake_error(f, f->id, DLP_ERROR_NO_SUCH_FEED, "no feed a-feed, there are: b, c\n");
    fake_heard_end(f);
}

START_TEST(attach_refused)
{
    refused(script_refuse, -ENOENT, "no feed a-feed, there are: b, c\\x0A");
}
END_TEST

static void script_turn_away(struct fake *f)
{
    fake_accept(f);
    fake_error(f, 0, DLP_ERROR_TOO_MANY, "");
    fake_close(f);
}

START_TEST(turned_away_before_hello)
{
    refused(script_turn_away, -EUSERS, "too many clients");
}
END_TEST

static void script_hang_up(struct fake *f)
{
    fake_hello(f);
    fake_close(f);
}

START_TEST(closed_during_attach)
{
    options.reconnect_ms = 0;
    refused(script_hang_up, -ECONNRESET, "closed the connection");
}
END_TEST

START_TEST(no_daemon)
{
    fake_silence(&fake);
    refused(script_none, -ECONNREFUSED, fake.path);
}
END_TEST

START_TEST(no_socket)
{
    options.socket = "/nowhere/at/all.sock";
    refused(script_none, -ECONNREFUSED, "there is no socket at /nowhere/at/all.sock");
}
END_TEST

static int reports;

static void count_report(void *context, const char *text, uint64_t done, uint64_t total)
{
    ck_assert_ptr_eq(context, &reports);
    ck_assert_str_eq(text, "indexing\\x07");
    ck_assert_uint_eq(done, 3);
    ck_assert_uint_eq(total, 7);
    reports++;
}

static void script_slow(struct fake *f)
{
    fake_hello(f);
    fake_heard(f, DLP__ENVELOPE__BODY_ATTACH);
    for (int i = 0; i < 6; i++) {
        usleep(250000);
        fake_progress(f, "indexing\a");
    }
    usleep(250000);
    if (f->fds) {
        fake_reply(f);
        fake_detached(f);
    } else {
        fake_heard_end(f);
        atomic_store(&heard_end, true);
    }
}

/* 1.75 s, with a time-out of 1 s since the last report. */
START_TEST(progress_extends_the_timeout)
{
    reports = 0;
    options.timeout_ms = 1000;
    options.progress = count_report;
    options.context = &reports;
    attach(script_slow);
    ck_assert_int_eq(reports, 6);
    dataload_detach(handle);
}
END_TEST

START_TEST(attach_times_out)
{
    options.timeout_ms = 1000;
    fake.fds = 0; /* no reply */
    refused(script_slow, -ETIMEDOUT, "indexing\\x07");
}
END_TEST

/* The daemon may go on with the attach: its rank is free again before the handle is freed. */
START_TEST(a_failed_attach_leaves_no_connection)
{
    options.timeout_ms = 1000;
    fake.fds = 0;
    fake_run(&fake, script_slow);
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), -ETIMEDOUT);
    for (int i = 0; i < 60000 && !atomic_load(&heard_end); i++)
        usleep(1000);
    ck_assert(atomic_load(&heard_end));
    ck_assert_int_eq(dataload_next(handle, 0, &(dataload_batch *){NULL}), -ETIMEDOUT);
    dataload_detach(handle);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("attach");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, options_and_info);
    tcase_add_loop_test(tc, wrong_options, 0, 9);
    tcase_add_test(tc, wrong_feed_or_struct);
    tcase_add_test(tc, attach_refused);
    tcase_add_test(tc, turned_away_before_hello);
    tcase_add_test(tc, closed_during_attach);
    tcase_add_test(tc, no_daemon);
    tcase_add_test(tc, no_socket);
    tcase_add_test(tc, progress_extends_the_timeout);
    tcase_add_test(tc, attach_times_out);
    tcase_add_test(tc, a_failed_attach_leaves_no_connection);
    Suite *suite = suite_create("attach");
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
