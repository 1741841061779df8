/* Requests against a stand-in for the daemon: errors, exit codes, deadlines, answers in parts. */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "proto/errors.h"
#include "proto/frames.h"

static char folder[] = "/tmp/test-ctl-XXXXXX";
static char path[64];
static int listener;
static pthread_t thread;
static char *out_text, *err_text;
static size_t out_size, err_size;
static struct ctl ctl;

/* What the stand-in does with the first request after the greeting. */
enum act {
    ANSWER, /* a status in three parts, or a pong */
    SAY_NOTHING,
    HANG_UP,
    REFUSE, /* an error with refuse_code */
    SEND_NONSENSE,
    GREET_WITH_ERROR,
    REPORT_PROGRESS /* for longer than the deadline, then answer */
};
static enum act act;
static unsigned refuse_code;

static Dlp__Envelope *read_frame(int fd)
{
    uint8_t bytes[4096];
    size_t size = 0;
    long whole = 0;
    while (whole == 0) {
        ssize_t got = read(fd, bytes + size, sizeof(bytes) - size);
        if (got <= 0)
            return NULL;
        size += (size_t)got;
        whole = dlp_frame_peek(bytes, size, sizeof(bytes));
    }
    return whole > 0 ? dlp_frame_unpack(bytes, (size_t)whole, 65536) : NULL;
}

static void write_frame(int fd, const Dlp__Envelope *env)
{
    uint8_t bytes[4096];
    size_t size = dlp_frame_pack(env, bytes);
    send(fd, bytes, size, MSG_NOSIGNAL); /* the asker may have what it wanted and be gone */
}

static void greet(int fd, uint64_t id)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__HelloReply reply = DLP__HELLO_REPLY__INIT;
    reply.daemon_version = (char *)"9.8.7";
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_HELLO_REPLY;
    env.hello_reply = &reply;
    write_frame(fd, &env);
}

static void refuse(int fd, uint64_t id, unsigned code)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__Error error = DLP__ERROR__INIT;
    error.code = code;
    error.text = (char *)"no feed 'x'\x1b[2J; there are: train, val";
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_ERROR;
    env.error = &error;
    write_frame(fd, &env);
}

static void pong(int fd, uint64_t id)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__Pong reply = DLP__PONG__INIT;
    reply.pid = 4711;
    reply.uptime_ns = 90000000000;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_PONG;
    env.pong = &reply;
    write_frame(fd, &env);
}

/* Parts of one, two and one clients; a reply to somebody else between them. */
static void status_in_parts(int fd, uint64_t id)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__ClientStatus one = DLP__CLIENT_STATUS__INIT, two = DLP__CLIENT_STATUS__INIT;
    Dlp__ClientStatus *clients[] = {&one, &two};
    env.body_case = DLP__ENVELOPE__BODY_STATUS_REPLY;
    for (int part = 0; part < 3; part++) {
        Dlp__StatusReply reply = DLP__STATUS_REPLY__INIT;
        one.pid = part * 10 + 1;
        two.pid = part * 10 + 2;
        reply.pid = part == 0 ? 4711 : 0;
        reply.more = part < 2;
        reply.clients = clients;
        reply.n_clients = part == 1 ? 2 : 1;
        env.id = id;
        env.status_reply = &reply;
        write_frame(fd, &env);
        pong(fd, id + 1000);
    }
}

static void report_progress(int fd, uint64_t id)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__AttachProgress progress = DLP__ATTACH_PROGRESS__INIT;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_ATTACH_PROGRESS;
    env.attach_progress = &progress;
    for (int i = 0; i < 6; i++) {
        usleep(100000);
        write_frame(fd, &env);
    }
    pong(fd, id);
}

static void act_on(int fd, const Dlp__Envelope *request)
{
    switch (act) {
    case ANSWER:
        if (request->body_case == DLP__ENVELOPE__BODY_STATUS_REQUEST)
            status_in_parts(fd, request->id);
        else
            pong(fd, request->id);
        break;
    case REFUSE:
        refuse(fd, request->id, refuse_code);
        break;
    case SEND_NONSENSE:
        if (write(fd, "\xff\xff\xff\xff", 4) != 4)
            return;
        break;
    case REPORT_PROGRESS:
        report_progress(fd, request->id);
        break;
    default:
        break;
    }
}

static void *serve(void *context)
{
    int fd = accept(listener, NULL, NULL);
    Dlp__Envelope *env = fd >= 0 ? read_frame(fd) : NULL;
    if (env && act == GREET_WITH_ERROR)
        refuse(fd, 0, refuse_code);
    else if (env)
        greet(fd, env->id);
    dlp_frame_free(env);
    env = act == GREET_WITH_ERROR ? NULL : read_frame(fd);
    if (env)
        act_on(fd, env);
    dlp_frame_free(env);
    if (act == SAY_NOTHING) /* until the other side has enough */
        read_frame(fd);
    close(fd);
    return context;
}

static void begin(enum act what, unsigned code)
{
    act = what;
    refuse_code = code;
    ck_assert_int_eq(pthread_create(&thread, NULL, serve, NULL), 0);
}

static void setup(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/s", folder);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(listener, 4), 0);
    ctl = (struct ctl){.out = open_memstream(&out_text, &out_size),
                       .err = open_memstream(&err_text, &err_size),
                       .socket = path,
                       .feed = "x",
                       .headers = true,
                       .world = 2,
                       .batch = -1,
                       .epoch = -1,
                       .watch = -1,
                       .count = -1};
}

static void teardown(void)
{
    fclose(ctl.out);
    fclose(ctl.err);
    free(out_text);
    free(err_text);
    close(listener);
    unlink(path);
    rmdir(folder);
}

static void ck_said(int code, int expected, const char *error)
{
    fflush(ctl.out);
    fflush(ctl.err);
    ck_assert_int_eq(code, expected);
    ck_assert_msg(strstr(err_text, error) != NULL, "'%s' is not in: %s", error, err_text);
    ck_assert_ptr_eq(strchr(err_text, '\n'), err_text + err_size - 1); /* one line */
}

START_TEST(pong_is_printed)
{
    begin(ANSWER, 0);
    ck_assert_int_eq(ctl_ping(&ctl), CTL_OK);
    pthread_join(thread, NULL);
    fflush(ctl.out);
    ck_assert_ptr_eq(strstr(out_text, "dataloadd 9.8.7, pid 4711, up 1 min 30 s, answers in "),
                     out_text);
}
END_TEST

START_TEST(parts_are_joined)
{
    struct ctl_link link;
    struct ctl_reply reply;
    begin(ANSWER, 0);
    ck_assert_int_eq(ctl_link_open(&ctl, "test", &link), CTL_OK);
    ck_assert_int_eq(ctl_status_ask(&link, &reply), CTL_OK);
    const Dlp__StatusReply *status = ctl_reply_body(&reply);
    ck_assert_int_eq(status->pid, 4711);
    ck_assert_uint_eq(status->n_clients, 4);
    ck_assert_int_eq(status->clients[0]->pid, 1);
    ck_assert_int_eq(status->clients[1]->pid, 11);
    ck_assert_int_eq(status->clients[2]->pid, 12);
    ck_assert_int_eq(status->clients[3]->pid, 21);
    ctl_reply_free(&reply);
    ctl_link_close(&link);
    pthread_join(thread, NULL);
}
END_TEST

static const struct {
    unsigned wire;
    int exit;
} refusals[] = {
    {DLP_ERROR_NO_SUCH_FEED, CTL_NOT_FOUND}, {DLP_ERROR_NOT_PERMITTED, CTL_PERMISSION},
    {DLP_ERROR_BAD_REQUEST, CTL_USAGE},      {DLP_ERROR_DATASET, CTL_UNAVAILABLE},
    {DLP_ERROR_TOO_MANY, CTL_UNAVAILABLE},   {9999, CTL_UNAVAILABLE},
};

START_TEST(refusals_have_exit_codes)
{
    begin(REFUSE, refusals[_i].wire);
    int code = ctl_slices(&ctl);
    pthread_join(thread, NULL);
    ck_said(code, refusals[_i].exit, "dataloadctl: no feed 'x'\\x1B[2J; there are: train, val\n");
}
END_TEST

START_TEST(refused_at_the_greeting)
{
    begin(GREET_WITH_ERROR, DLP_ERROR_VERSION);
    int code = ctl_feeds(&ctl);
    pthread_join(thread, NULL);
    ck_said(code, CTL_UNAVAILABLE, "there are: train, val");
}
END_TEST

START_TEST(hung_up)
{
    begin(HANG_UP, 0);
    int code = ctl_bad(&ctl);
    pthread_join(thread, NULL);
    ck_said(code, CTL_UNAVAILABLE, "closed the connection");
}
END_TEST

START_TEST(nonsense)
{
    begin(SEND_NONSENSE, 0);
    int code = ctl_status(&ctl);
    pthread_join(thread, NULL);
    ck_said(code, CTL_UNAVAILABLE, "cannot be read");
}
END_TEST

static int ask_ping(int deadline_ms, double *took)
{
    struct ctl_link link;
    struct ctl_reply reply;
    struct timespec start, end;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__Ping ping = DLP__PING__INIT;
    env.body_case = DLP__ENVELOPE__BODY_PING;
    env.ping = &ping;
    ck_assert_int_eq(ctl_link_open(&ctl, "test", &link), CTL_OK);
    clock_gettime(CLOCK_MONOTONIC, &start);
    int code = ctl_link_ask(&link, &env, DLP__ENVELOPE__BODY_PONG, deadline_ms, &reply);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (code == CTL_OK)
        ctl_reply_free(&reply);
    ctl_link_close(&link);
    pthread_join(thread, NULL);
    *took = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    return code;
}

START_TEST(silence_ends_at_the_deadline)
{
    double took;
    begin(SAY_NOTHING, 0);
    int code = ask_ping(200, &took);
    ck_said(code, CTL_UNAVAILABLE, "did not answer");
    ck_assert(took >= 0.19 && took < 20);
}
END_TEST

START_TEST(progress_moves_the_deadline)
{
    double took;
    begin(REPORT_PROGRESS, 0);
    ck_assert_int_eq(ask_ping(400, &took), CTL_OK);
    ck_assert(took >= 0.5);
}
END_TEST

START_TEST(nobody_listens)
{
    close(listener);
    int code = ctl_ping(&ctl);
    ck_said(code, CTL_NOT_RUNNING, path);
    listener = -1;
}
END_TEST

START_TEST(no_socket)
{
    unlink(path);
    ck_said(ctl_ping(&ctl), CTL_NOT_RUNNING, path);
}
END_TEST

START_TEST(another_file)
{
    ctl.socket = "/etc/passwd";
    ck_said(ctl_ping(&ctl), CTL_CONFIG, "/etc/passwd is no socket");
}
END_TEST

START_TEST(a_path_that_is_too_long)
{
    char name[256];
    memset(name, 'a', sizeof(name));
    name[0] = '/';
    name[200] = 0;
    ctl.socket = name;
    ck_said(ctl_ping(&ctl), CTL_CONFIG, "107");
}
END_TEST

START_TEST(errno_of_the_library)
{
    ck_assert_int_eq(ctl_exit_of_errno(ENOENT), CTL_NOT_FOUND);
    ck_assert_int_eq(ctl_exit_of_errno(EACCES), CTL_PERMISSION);
    ck_assert_int_eq(ctl_exit_of_errno(ECONNREFUSED), CTL_NOT_RUNNING);
    ck_assert_int_eq(ctl_exit_of_errno(EINVAL), CTL_USAGE);
    ck_assert_int_eq(ctl_exit_of_errno(EIO), CTL_UNAVAILABLE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ctl_connect");
    TCase *tcase = tcase_create("requests");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, pong_is_printed);
    tcase_add_test(tcase, parts_are_joined);
    tcase_add_loop_test(tcase, refusals_have_exit_codes, 0, sizeof(refusals) / sizeof(*refusals));
    tcase_add_test(tcase, refused_at_the_greeting);
    tcase_add_test(tcase, hung_up);
    tcase_add_test(tcase, nonsense);
    tcase_add_test(tcase, silence_ends_at_the_deadline);
    tcase_add_test(tcase, progress_moves_the_deadline);
    tcase_add_test(tcase, nobody_listens);
    tcase_add_test(tcase, no_socket);
    tcase_add_test(tcase, another_file);
    tcase_add_test(tcase, a_path_that_is_too_long);
    tcase_add_test(tcase, errno_of_the_library);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
