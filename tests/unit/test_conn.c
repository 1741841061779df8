/* control/conn.c, lease.c and the loop: real sockets and processes. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/conn.h"
#include "control/control.h"
#include "control/inquiry.h"
#include "control/listen.h"
#include "control/session.h"
#include "proto/channel.h"
#include "proto/frames.h"

#define CLIENTS 2
#define MOST (CLIENTS + 32) /* connections */

static uv_loop_t loop;
static struct budget *budget;
static struct workers *workers;
static struct mailbox *mailbox;
static struct gpus *gpus;
static struct uploaders *uploaders;
static struct control *control;

static void setup(void)
{
    uv_loop_init(&loop);
    budget = budget_new(64 << 20, 1 << 20);
    workers = workers_new(1, NULL, budget);
    mailbox = mailbox_new(&loop);
    gpus = gpus_new();
    uploaders = uploaders_new(&uploader_times);
    struct control_options options = {.loop = &loop,
                                      .mailbox = mailbox,
                                      .budget = budget,
                                      .workers = workers,
                                      .client_memory = 16 << 20,
                                      .clients = CLIENTS,
                                      .job_linger = 60,
                                      .threads = 1,
                                      .socket_path = "/run/x.sock",
                                      .uploaders = uploaders,
                                      .gpus = gpus};
    control = control_new(&options);
}

static void on_stopped(void *context)
{
    *(bool *)context = true;
}

static void teardown(void)
{
    bool stopped = false;
    control_stop(control, on_stopped, &stopped);
    while (!stopped)
        uv_run(&loop, UV_RUN_ONCE);
    control_free(control);
    mailbox_free(mailbox);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    workers_free(workers);
    ck_assert(gpus_free(gpus, UINT64_MAX));
    ck_assert(uploaders_free(uploaders, UINT64_MAX));
    budget_free(budget);
}

/* Our end of a connection. */
static struct dlp_channel *connection(void)
{
    int ends[2];
    const struct dlp_channel_limits limits = {.receive_max = DLP_FRAME_TO_CLIENT_MAX,
                                              .unpack_max = DLP_UNPACK_TO_CLIENT_MAX};
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    control_accept(control, ends[0]);
    return dlp_channel_new(ends[1], &limits);
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    usleep(100);
}

/* The next frame; NULL at the end of the connection. */
static Dlp__Envelope *receive(struct dlp_channel *channel)
{
    uint64_t end = clock_ns() + 20 * CLOCK_SECOND;
    while (clock_ns() < end) {
        int err;
        size_t nfds;
        int fds[DLP_FDS_MAX];
        Dlp__Envelope *env = dlp_channel_next(channel, fds, &nfds, &err);
        if (env)
            return env;
        long got = dlp_channel_receive(channel);
        if (got == 0 || got == -ECONNRESET)
            return NULL;
        if (got < 0)
            turn();
    }
    ck_abort_msg("nothing came");
}

static void expect_error(struct dlp_channel *channel, enum dlp_error code, const char *what)
{
    Dlp__Envelope *env = receive(channel);
    ck_assert_ptr_nonnull(env);
    ck_assert_int_eq(env->body_case, DLP__ENVELOPE__BODY_ERROR);
    ck_assert_uint_eq(env->error->code, code);
    ck_assert_msg(strstr(env->error->text, what), "%s", env->error->text);
    dlp_frame_free(env);
}

static void expect_end(struct dlp_channel *channel)
{
    ck_assert_ptr_null(receive(channel));
    dlp_channel_free(channel);
}

static void say(struct dlp_channel *channel, int body_case, void *message)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = 1;
    env.body_case = (Dlp__Envelope__BodyCase)body_case;
    env.hello = message; /* of the union */
    dlp_channel_send(channel, &env, NULL, 0);
}

static void say_hello(struct dlp_channel *channel)
{
    Dlp__Hello hello = DLP__HELLO__INIT;
    hello.version_min = hello.version_max = 1;
    say(channel, DLP__ENVELOPE__BODY_HELLO, &hello);
}

static void greet(struct dlp_channel *channel)
{
    say_hello(channel);
    Dlp__Envelope *env = receive(channel);
    ck_assert_ptr_nonnull(env);
    ck_assert_int_eq(env->body_case, DLP__ENVELOPE__BODY_HELLO_REPLY);
    dlp_frame_free(env);
}

static void send_bytes(struct dlp_channel *channel, const void *bytes, size_t size)
{
    ck_assert_int_eq(send(dlp_channel_fd(channel), bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

START_TEST(malformed_peers_are_told_counted_and_closed)
{
    struct dlp_channel *channel = connection();
    greet(channel);
    send_bytes(channel, "\x05\0\0\0\xff\xff\xff\xff\xff", 9);
    expect_error(channel, DLP_ERROR_MALFORMED, "understood");
    expect_end(channel);
    channel = connection();
    greet(channel);
    send_bytes(channel, "\0\0\x10\0", 4); /* 1 MiB to come */
    expect_error(channel, DLP_ERROR_MALFORMED, "16 KiB");
    expect_end(channel);
    ck_assert_uint_eq(control->malformed, 2);
    ck_assert_uint_eq(control->nconns, 0);
    ck_assert_ptr_null(control->sessions);
}
END_TEST

START_TEST(frames_come_in_any_pieces)
{
    Dlp__Hello hello = DLP__HELLO__INIT;
    Dlp__Ping ping = DLP__PING__INIT;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    uint8_t bytes[256];
    hello.version_min = hello.version_max = 1;
    env.body_case = DLP__ENVELOPE__BODY_HELLO;
    env.hello = &hello;
    size_t size = dlp_frame_pack(&env, bytes);
    env.body_case = DLP__ENVELOPE__BODY_PING;
    env.ping = &ping;
    size += dlp_frame_pack(&env, bytes + size);
    struct dlp_channel *channel = connection();
    for (size_t i = 0; i < size; i++) {
        send_bytes(channel, bytes + i, 1);
        turn();
    }
    Dlp__Envelope *reply = receive(channel);
    ck_assert_int_eq(reply->body_case, DLP__ENVELOPE__BODY_HELLO_REPLY);
    dlp_frame_free(reply);
    reply = receive(channel);
    ck_assert_int_eq(reply->body_case, DLP__ENVELOPE__BODY_PONG);
    dlp_frame_free(reply);
    dlp_channel_free(channel);
}
END_TEST

/* It asks and asks and reads nothing: the daemon stops reading too, and loses nothing. */
START_TEST(a_peer_that_does_not_read_is_not_read_from)
{
    Dlp__StatusRequest request = DLP__STATUS_REQUEST__INIT;
    struct dlp_channel *channel = connection();
    unsigned asked = 0, answered = 0;
    greet(channel);
    for (int quiet = 0; quiet < 200;) {
        if (dlp_channel_unsent(channel) == 0) {
            say(channel, DLP__ENVELOPE__BODY_STATUS_REQUEST, &request);
            asked++;
            quiet = 0;
        } else {
            turn();
            dlp_channel_flush(channel);
            quiet++;
        }
    }
    struct dlp_channel *other = connection(); /* others are served */
    greet(other);
    while (answered < asked) {
        Dlp__Envelope *env = receive(channel);
        ck_assert_ptr_nonnull(env);
        ck_assert_int_eq(env->body_case, DLP__ENVELOPE__BODY_STATUS_REPLY);
        answered++;
        dlp_frame_free(env);
        ck_assert_int_eq(dlp_channel_flush(channel), 0);
    }
    dlp_channel_free(other);
    dlp_channel_free(channel);
}
END_TEST

START_TEST(a_peer_that_vanishes_unread_is_let_go)
{
    Dlp__StatusRequest request = DLP__STATUS_REQUEST__INIT;
    struct dlp_channel *channel = connection();
    greet(channel);
    for (int i = 0; i < 20000 && dlp_channel_unsent(channel) == 0; i++) {
        say(channel, DLP__ENVELOPE__BODY_STATUS_REQUEST, &request);
        turn();
    }
    dlp_channel_free(channel);
    uint64_t end = clock_ns() + 5 * CLOCK_SECOND;
    while (control->sessions && clock_ns() < end)
        turn();
    ck_assert_ptr_null(control->sessions);
    ck_assert_uint_eq(control->nconns, 0);
}
END_TEST

static void set_busy(bool busy)
{
    for (struct session *s = control->sessions; s; s = s->next)
        s->listing.active = busy;
}

/* Idle ones make room, the oldest first; where all are at work, the new one is turned away. */
static int parts;

static bool send_pong(struct inquiry *inquiry)
{
    Dlp__Pong pong = DLP__PONG__INIT;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_PONG;
    env.pong = &pong;
    session_send(inquiry->session, &env);
    return --parts;
}

/* Also where the peer reads as fast as we can send. */
START_TEST(a_long_answer_leaves_the_loop_to_others)
{
    static const struct inquiry_kind kind = {"test", NULL, send_pong, free};
    struct dlp_channel *channel = connection();
    greet(channel);
    struct session *session = control->sessions;
    session->inquiry = calloc(1, sizeof *session->inquiry);
    session->inquiry->kind = &kind;
    session->inquiry->session = session;
    session->inquiry->stage = INQUIRY_ANSWER;
    parts = 200;
    session->sink.more(session->sink.context);
    for (int turns = 0; parts; turns++) {
        int before = parts;
        ck_assert_int_lt(turns, 100000);
        turn();
        ck_assert_int_ge(parts, before - 4); /* so many a turn */
    }
    ck_assert_ptr_null(session->inquiry);
    for (int i = 0; i < 200; i++)
        dlp_frame_free(receive(channel));
    dlp_channel_free(channel);
}
END_TEST

START_TEST(connections_are_bounded)
{
    struct dlp_channel *channels[MOST], *more[2];
    channels[0] = connection(); /* says nothing */
    for (int i = 1; i < MOST; i++) {
        channels[i] = connection();
        greet(channels[i]);
    }
    for (int i = 0; i < 2; i++) {
        more[i] = connection();
        greet(more[i]);
        expect_error(channels[i], DLP_ERROR_TOO_MANY, "did nothing");
        expect_end(channels[i]);
        ck_assert_uint_eq(control->nconns, MOST);
    }
    set_busy(true);
    struct dlp_channel *away = connection();
    set_busy(false);
    expect_error(away, DLP_ERROR_TOO_MANY, "34 connections");
    expect_end(away);
    for (int i = 2; i < MOST; i++)
        dlp_channel_free(channels[i]);
    dlp_channel_free(more[0]);
    dlp_channel_free(more[1]);
}
END_TEST

/* Whose clients are bounded has room for a few tools beside them, and takes no place of others. */
START_TEST(connections_of_a_user_are_bounded)
{
    enum { OWN = 1 + 16 };
    struct dlp_channel *channels[OWN + 1];
    users_set(control, &(struct users){.rest = {.clients = 1, .weight = 1}});
    for (int i = 0; i <= OWN; i++) {
        channels[i] = connection();
        greet(channels[i]);
    }
    expect_error(channels[0], DLP_ERROR_TOO_MANY, "did nothing");
    expect_end(channels[0]);
    ck_assert_uint_eq(control->nconns, OWN);
    set_busy(true);
    struct dlp_channel *away = connection();
    set_busy(false);
    expect_error(away, DLP_ERROR_TOO_MANY, "17 connections of user");
    expect_end(away);
    for (int i = 1; i <= OWN; i++)
        dlp_channel_free(channels[i]);
}
END_TEST

/* It takes 10 s. */
START_TEST(a_peer_that_says_nothing_is_closed)
{
    struct dlp_channel *silent = connection(), *polite = connection();
    greet(polite);
    expect_error(silent, DLP_ERROR_BAD_REQUEST, "Hello");
    expect_end(silent);
    Dlp__Ping ping = DLP__PING__INIT;
    say(polite, DLP__ENVELOPE__BODY_PING, &ping);
    Dlp__Envelope *env = receive(polite);
    ck_assert_ptr_nonnull(env);
    ck_assert_int_eq(env->body_case, DLP__ENVELOPE__BODY_PONG);
    dlp_frame_free(env);
    dlp_channel_free(polite);
}
END_TEST

/* A client whose forked child keeps the socket open. */
static void be_client(const char *path, int ready)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    strcpy(addr.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        _exit(1);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, 0);
        sleep(5);
        _exit(0);
    }
    if (write(ready, &child, sizeof child) != sizeof child)
        _exit(1);
    pause();
}

static void on_accepted(void *context, int fd)
{
    (void)context;
    control_accept(control, fd);
}

START_TEST(lease_ends_with_the_process)
{
    char folder[] = "/tmp/conn-XXXXXX", path[64], lock[80];
    struct listener *listener;
    struct error err;
    int ready[2];
    pid_t child;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/c.sock", folder);
    snprintf(lock, sizeof lock, "%s.lock", path);
    ck_assert_int_eq(listen_open(path, 0600, &listener, &err), 0);
    ck_assert_int_eq(listen_start(listener, &loop, on_accepted, NULL, &err), 0);
    ck_assert_int_eq(pipe(ready), 0);
    pid_t client = fork();
    if (client == 0)
        be_client(path, ready[1]);
    ck_assert_int_eq(read(ready[0], &child, sizeof child), sizeof child);
    while (!control->nconns)
        turn();
    const char *lease = control->sessions->lease;
    ck_assert_msg(strcmp(lease, "eof") != 0, "no pidfd on this kernel");
    ck_assert_int_eq(control->sessions->peer.pid, client);
    uint64_t start = clock_ns();
    kill(client, SIGKILL);
    while (control->sessions && clock_ns() < start + 30 * CLOCK_SECOND)
        turn();
    ck_assert_ptr_null(control->sessions);
    ck_assert_uint_lt(clock_ns() - start, 5 * CLOCK_SECOND);
    waitpid(client, NULL, 0);
    kill(child, SIGKILL);
    listen_close(listener);
    unlink(lock);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conn");
    TCase *test = tcase_create("conn");
    tcase_add_checked_fixture(test, setup, teardown);
    tcase_add_test(test, malformed_peers_are_told_counted_and_closed);
    tcase_add_test(test, frames_come_in_any_pieces);
    tcase_add_test(test, a_peer_that_does_not_read_is_not_read_from);
    tcase_add_test(test, a_peer_that_vanishes_unread_is_let_go);
    tcase_add_test(test, connections_are_bounded);
    tcase_add_test(test, connections_of_a_user_are_bounded);
    tcase_add_test(test, a_long_answer_leaves_the_loop_to_others);
    if (getenv("DATALOADD_LONG"))
        tcase_add_test(test, a_peer_that_says_nothing_is_closed);
    tcase_add_test(test, lease_ends_with_the_process);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
