/* The client library against a daemon that lies. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/dataload.h"
#include "fake_daemon.h"
#include "proto/frames.h"

static struct fake fake;
static dataload *handle;
static dataload_options options;
static int variant;

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

static int open_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 100; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static const char *spoil_reply(struct fake *f)
{
    Dlp__AttachReply *reply = &f->reply;
    Dlp__Tensor *image = reply->tensors[0], *text = reply->tensors[2];
    switch (variant) {
    case 0:
        image->offset = 1ULL << 40;
        return "do not fit";
    case 1:
        image->size = UINT64_MAX;
        return "do not fit";
    case 2:
        text->data_offset = 0; /* over the image */
        return "do not fit";
    case 3:
        image->n_shape = 9;
        return "wrong name, type or shape";
    case 4:
        image->dtype = 1000;
        return "wrong name, type or shape";
    case 5:
        image->name = "image\n";
        return "wrong name, type or shape";
    case 6:
        reply->n_tensors = 3; /* no "valid" */
        return "\"valid\" and \"index\"";
    case 7:
        reply->slots = 1;
        return "number of slots";
    case 8:
        reply->slots = 65;
        return "number of slots";
    case 9:
        reply->slot_bytes = 1ULL << 62;
        return "larger than any file";
    case 10:
        reply->slots = 4; /* the file holds 3 */
        return "bytes, not";
    case 11:
        f->seals &= ~F_SEAL_SHRINK;
        return "not sealed";
    case 12:
        f->seals = 0;
        return "not sealed";
    case 13:
        f->fds = 0;
        return "0 descriptors, not 1";
    case 14:
        f->fds = 2;
        return "2 descriptors, not 1";
    case 15:
        reply->batch = 0;
        return "batch out of range";
    case 16:
        reply->rank = 2;
        return "rank or world";
    case 17:
        reply->plan_id = "0123456789ABCDEF";
        return "is no name";
    case 18:
        reply->job = "";
        return "is no name";
    case 19:
        reply->step = FAKE_STEPS + 1;
        return "step out of range";
    case 20:
        reply->steps = 1ULL << 63;
        return "step out of range";
    case 21:
        reply->batch = FAKE_BATCH + 1;
        return "do not fit";
    case 22:
        reply->shared = true; /* and others could write */
        return "not sealed";
    default:
        abort();
    }
}

static void script_reply(struct fake *f)
{
    fake_hello(f);
    fake_heard(f, DLP__ENVELOPE__BODY_ATTACH);
    fake_reply(f);
    fake_heard_end(f);
}

static void script_end(struct fake *f)
{
    (void)f;
}

START_TEST(hostile_reply)
{
    variant = _i;
    int before = open_fds();
    const char *reason = spoil_reply(&fake);
    fake_run(&fake, script_reply);
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), -EPROTO);
    ck_assert_msg(strstr(dataload_error(handle), reason), "%s", dataload_error(handle));
    dataload_detach(handle);
    pthread_join(fake.thread, NULL);
    fake_run(&fake, script_end);
    ck_assert_int_eq(open_fds(), before + 1); /* the script's end of the connection */
}
END_TEST

/* What the client says of each lie. */
static const char *lies[] = {
    "BatchReady for slot 3, there are 3",
    "BatchReady for slot 4294967295",
    "BatchReady for slot 0, generation 9: not given back",
    "BatchReady for slot 1, generation 0",
    "step 2 instead of epoch 0, step 1",
    "epoch 1, step 1 instead of epoch 0, step 1",
    "BatchReady with 5 rows",
    "BatchReady with 0 rows",
    "BatchReady with 2 rows, 4 of them valid",
    "message 26 was not asked for",
    "AttachReply was not asked for",
    "BatchFailed for slot 0, generation 10: not given back",
};

/* Says one thing that no daemon says, after one good batch in slot 0. */
static void lie(struct fake *f)
{
    Dlp__BatchReady ready = DLP__BATCH_READY__INIT;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__Pong pong = DLP__PONG__INIT;
    Dlp__BatchFailed failed = DLP__BATCH_FAILED__INIT;
    ready.slot = 1;
    ready.generation = 9;
    ready.step = 1;
    ready.rows = ready.valid = FAKE_BATCH;
    env.body_case = DLP__ENVELOPE__BODY_BATCH_READY;
    env.batch_ready = &ready;
    switch (variant) {
    case 0:
        ready.slot = FAKE_SLOTS;
        break;
    case 1:
        ready.slot = UINT32_MAX;
        break;
    case 2:
        ready.slot = 0; /* not given back */
        break;
    case 3:
        ready.generation = 0;
        break;
    case 4:
        ready.step = 2;
        break;
    case 5:
        ready.epoch = 1;
        break;
    case 6:
        ready.rows = FAKE_BATCH + 1;
        break;
    case 7:
        ready.rows = 0;
        break;
    case 8:
        ready.rows = 2;
        break;
    case 9:
        env.body_case = DLP__ENVELOPE__BODY_PONG;
        env.pong = &pong;
        break;
    case 10:
        env.body_case = DLP__ENVELOPE__BODY_ATTACH_REPLY;
        env.attach_reply = &f->reply;
        break;
    case 11:
        failed.generation = 10;
        failed.step = 1;
        env.body_case = DLP__ENVELOPE__BODY_BATCH_FAILED;
        env.batch_failed = &failed;
        break;
    default:
        abort();
    }
    fake_say(f, &env, NULL, 0);
}

static void script_lie(struct fake *f)
{
    fake_attach(f);
    fake_ready(f, 0, 9, 0, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    lie(f);
    fake_heard_end(f);
}

/* Named, final, and not taken for a daemon that has gone. */
START_TEST(hostile_batch)
{
    variant = _i;
    fake_run(&fake, script_lie);
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), 0);
    dataload_batch *batch, *other;
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(dataload_next(handle, 60000, &other), -EPROTO);
        ck_assert_msg(strstr(dataload_error(handle), lies[_i]), "%s", dataload_error(handle));
        ck_assert_ptr_nonnull(strstr(dataload_error(handle), "broke the protocol"));
    }
    /* What is lent stays there. */
    dataload_tensor tensor;
    ck_assert_int_eq(dataload_batch_tensor(batch, "label", &tensor), 0);
    ck_assert_int_eq(((int64_t *)tensor.data)[0], 0);
    ck_assert_int_eq(dataload_release(handle, batch), 0);
    dataload_detach(handle);
}
END_TEST

static void script_reused(struct fake *f)
{
    fake_attach(f);
    fake_ready(f, 0, 9, 0, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_heard(f, DLP__ENVELOPE__BODY_RELEASE);
    fake_ready(f, 0, 9, 0, 1); /* an old generation */
    fake_heard_end(f);
}

START_TEST(old_generation)
{
    fake_run(&fake, script_reused);
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), 0);
    dataload_batch *batch;
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), 0);
    ck_assert_int_eq(dataload_release(handle, batch), 0);
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), -EPROTO);
    ck_assert_ptr_nonnull(strstr(dataload_error(handle), "generation 9"));
    dataload_detach(handle);
}
END_TEST

static void script_garbage(struct fake *f)
{
    static const uint8_t bytes[2][12] = {{0xff, 0xff, 0xff, 0xff},
                                         {8, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}};
    fake_attach(f);
    NEED(write(dlp_channel_fd(f->channel), bytes[variant], 12) == 12);
    fake_heard_end(f);
}

START_TEST(garbage)
{
    variant = _i;
    fake_run(&fake, script_garbage);
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), 0);
    dataload_batch *batch;
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), -EPROTO);
    ck_assert_ptr_nonnull(strstr(dataload_error(handle), "malformed message"));
    dataload_detach(handle);
}
END_TEST

static void script_version(struct fake *f)
{
    fake_accept(f);
    fake_heard(f, DLP__ENVELOPE__BODY_HELLO);
    Dlp__HelloReply reply = DLP__HELLO_REPLY__INIT;
    reply.version = 77;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = f->id;
    env.body_case = DLP__ENVELOPE__BODY_HELLO_REPLY;
    env.hello_reply = &reply;
    fake_say(f, &env, NULL, 0);
    fake_heard_end(f);
}

START_TEST(version_not_offered)
{
    fake_run(&fake, script_version);
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), -EPROTO);
    ck_assert_ptr_nonnull(strstr(dataload_error(handle), "version 77"));
    dataload_detach(handle);
}
END_TEST

static void script_newer(struct fake *f)
{
    static const uint8_t unknown[] = {4, 0, 0, 0, 0xfa, 0x7f, 1, 'x'};
    fake_attach(f);
    NEED(write(dlp_channel_fd(f->channel), unknown, sizeof unknown) == sizeof unknown);
    fake_ready(f, 0, 1, 0, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_error(f, f->id, 3, "Take is not known here"); /* UNSUPPORTED: of an older daemon */
    fake_ready(f, 1, 2, 0, 1);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_error(f, f->id, 15, "slot 1 is not held"); /* BAD_RELEASE: somebody is wrong */
    fake_heard_end(f);
}

START_TEST(unknown_news_and_refused_messages)
{
    fake_run(&fake, script_newer);
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), 0);
    dataload_batch *batch;
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), 0);
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), 0);
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), -EINVAL);
    ck_assert_str_eq(dataload_error(handle), "slot 1 is not held");
    dataload_detach(handle);
}
END_TEST

/* Sends the reply and its memfd when the process may open no further file. */
static void script_no_room(struct fake *f)
{
    fake_hello(f);
    fake_heard(f, DLP__ENVELOPE__BODY_ATTACH);
    int fd = memfd_create("fake", MFD_CLOEXEC);
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = f->id;
    env.body_case = DLP__ENVELOPE__BODY_ATTACH_REPLY;
    env.attach_reply = &f->reply;
    uint8_t bytes[2048];
    NEED(dlp_frame_size(&env) <= sizeof bytes);
    struct iovec part = {bytes, dlp_frame_pack(&env, bytes)};
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct msghdr message = {NULL, 0, &part, 1, control, sizeof control, 0};
    *CMSG_FIRSTHDR(&message) = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof fd);
    struct rlimit whole, low;
    getrlimit(RLIMIT_NOFILE, &whole);
    low = whole;
    low.rlim_cur = (rlim_t)dup(fd);
    close((int)low.rlim_cur);
    setrlimit(RLIMIT_NOFILE, &low);
    NEED(sendmsg(dlp_channel_fd(f->channel), &message, 0) > 0);
    fake_heard_end(f);
    setrlimit(RLIMIT_NOFILE, &whole);
    close(fd);
}

/* S08: a descriptor cut off by the limit of open files is named as such. */
START_TEST(no_room_for_the_descriptor)
{
    fake_run(&fake, script_no_room);
    ck_assert_int_eq(dataload_attach("a-feed", &options, &handle), -EMFILE);
    ck_assert_ptr_nonnull(strstr(dataload_error(handle), "MSG_CTRUNC"));
    ck_assert_ptr_nonnull(strstr(dataload_error(handle), "ulimit -n"));
    dataload_detach(handle);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("client_hostile");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, hostile_reply, 0, 23);
    tcase_add_loop_test(tc, hostile_batch, 0, sizeof lies / sizeof *lies);
    tcase_add_test(tc, old_generation);
    tcase_add_loop_test(tc, garbage, 0, 2);
    tcase_add_test(tc, version_not_offered);
    tcase_add_test(tc, unknown_news_and_refused_messages);
    tcase_add_test(tc, no_room_for_the_descriptor);
    Suite *suite = suite_create("client_hostile");
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
