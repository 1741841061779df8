/* One end of a control socket against raw bytes and descriptors. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/channel.h"
#include "proto/frames.h"

static const struct dlp_channel_limits client_limits = {DLP_FRAME_TO_CLIENT_MAX,
                                                        DLP_UNPACK_TO_CLIENT_MAX, .take_fds = true};
static const struct dlp_channel_limits daemon_limits = {DLP_FRAME_TO_DAEMON_MAX,
                                                        DLP_UNPACK_TO_DAEMON_MAX};

static struct dlp_channel *a, *b;
static int raw; /* the other end of b, where there is no a */

static void setup(void)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    a = dlp_channel_new(pair[0], &client_limits);
    b = dlp_channel_new(pair[1], &client_limits);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    raw = pair[0];
    close(pair[1]);
}

static void teardown(void)
{
    dlp_channel_free(a);
    dlp_channel_free(b);
    dlp_channel_free(NULL);
    close(raw);
}

/* Makes b the peer of `raw`. */
static void go_raw(const struct dlp_channel_limits *limits)
{
    int pair[2];
    dlp_channel_free(b);
    close(raw);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    raw = pair[0];
    b = dlp_channel_new(pair[1], limits);
}

static int open_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 200; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static Dlp__Envelope *ping(uint64_t id)
{
    static Dlp__Ping body = DLP__PING__INIT;
    static Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_PING;
    env.ping = &body;
    return &env;
}

static int send_ping(struct dlp_channel *channel, uint64_t id)
{
    return dlp_channel_send(channel, ping(id), NULL, 0);
}

/* Id of the next frame, 0 when there is none. */
static uint64_t next_id(struct dlp_channel *channel, int *fds, size_t *nfds)
{
    int err;
    Dlp__Envelope *env = dlp_channel_next(channel, fds, nfds, &err);
    ck_assert_int_eq(err, 0);
    uint64_t id = env ? env->id : 0;
    dlp_frame_free(env);
    return id;
}

static void expect_dead(struct dlp_channel *channel, int why)
{
    int fds[DLP_FDS_MAX], err;
    size_t nfds;
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_null(dlp_channel_next(channel, fds, &nfds, &err));
        ck_assert_int_eq(err, why);
        ck_assert_uint_eq(nfds, 0);
        ck_assert_int_eq(dlp_channel_receive(channel), why);
    }
}

static int memfd(off_t size)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, size), 0);
    return fd;
}

START_TEST(frames_in_order)
{
    int fds[DLP_FDS_MAX];
    size_t nfds;
    ck_assert_int_eq(dlp_channel_receive(b), -EAGAIN);
    for (uint64_t id = 1; id <= 3; id++)
        ck_assert_int_eq(send_ping(a, id), 0);
    ck_assert_int_gt(dlp_channel_receive(b), 0);
    for (uint64_t id = 1; id <= 3; id++)
        ck_assert_uint_eq(next_id(b, fds, &nfds), id);
    ck_assert_uint_eq(next_id(b, fds, &nfds), 0);
    ck_assert_int_eq(fcntl(dlp_channel_fd(a), F_GETFD), FD_CLOEXEC);
}
END_TEST

START_TEST(byte_by_byte)
{
    go_raw(&client_limits);
    uint8_t bytes[64];
    int fds[DLP_FDS_MAX];
    size_t nfds, size = dlp_frame_pack(ping(300), bytes);
    for (size_t i = 0; i < size; i++) {
        ck_assert_uint_eq(next_id(b, fds, &nfds), 0);
        ck_assert_int_eq(write(raw, bytes + i, 1), 1);
        ck_assert_int_eq(dlp_channel_receive(b), 1);
    }
    ck_assert_uint_eq(next_id(b, fds, &nfds), 300);
}
END_TEST

/* Each descriptor comes with its own frame, whatever was read together. */
START_TEST(fds_stay_with_their_frame)
{
    int sent[2] = {memfd(111), memfd(222)}, fds[DLP_FDS_MAX];
    size_t nfds;
    int before = open_fds();
    send_ping(a, 1);
    ck_assert_int_eq(dlp_channel_send(a, ping(2), &sent[0], 1), 0);
    send_ping(a, 3);
    ck_assert_int_eq(dlp_channel_send(a, ping(4), sent, 2), 0);
    uint64_t expected = 1;
    while (dlp_channel_receive(b) > 0) {
        for (uint64_t id; (id = next_id(b, fds, &nfds)) != 0; expected++) {
            ck_assert_uint_eq(id, expected);
            ck_assert_uint_eq(nfds, id == 2 ? 1 : id == 4 ? 2 : 0);
            for (size_t i = 0; i < nfds; i++) {
                struct stat st;
                fstat(fds[i], &st);
                ck_assert_int_eq(st.st_size, i ? 222 : 111);
                ck_assert_int_eq(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
                close(fds[i]);
            }
        }
    }
    ck_assert_uint_eq(expected, 5);
    ck_assert_int_eq(open_fds(), before);
    ck_assert_int_eq(dlp_channel_send(a, ping(5), sent, DLP_FDS_MAX + 1), -EINVAL);
}
END_TEST

/* Ids of the frames of one call at the other end. */
static size_t packet(int socket, uint64_t ids[8], bool *with_fds)
{
    uint8_t bytes[4096];
    _Alignas(struct cmsghdr) char control[256];
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT);
    size_t at = 0, count = 0;
    *with_fds = CMSG_FIRSTHDR(&message) != NULL;
    while (size > 0 && at < (size_t)size) {
        long length = dlp_frame_peek(bytes + at, (size_t)size - at, DLP_FRAME_TO_CLIENT_MAX);
        ck_assert_int_gt(length, 0);
        Dlp__Envelope *env = dlp_frame_unpack(bytes + at, (size_t)length, DLP_UNPACK_TO_CLIENT_MAX);
        ids[count++] = env->id;
        dlp_frame_free(env);
        at += (size_t)length;
    }
    return count;
}

/* What is queued goes out by one call, but a frame with descriptors by its own. */
START_TEST(frames_go_out_together)
{
    int pair[2], fd = memfd(1);
    uint64_t ids[8];
    bool with_fds;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    struct dlp_channel *channel = dlp_channel_new(pair[0], &client_limits);
    for (uint64_t id = 1; id <= 5; id++)
        ck_assert_int_eq(dlp_channel_queue(channel, ping(id), &fd, id == 3 ? 1 : 0), 0);
    ck_assert_uint_gt(dlp_channel_unsent(channel), 0);
    ck_assert_uint_eq(packet(pair[1], ids, &with_fds), 0);
    ck_assert_int_eq(dlp_channel_flush(channel), 0);
    ck_assert_uint_eq(dlp_channel_unsent(channel), 0);
    ck_assert_uint_eq(packet(pair[1], ids, &with_fds), 2);
    ck_assert(ids[0] == 1 && ids[1] == 2 && !with_fds);
    ck_assert_uint_eq(packet(pair[1], ids, &with_fds), 1);
    ck_assert(ids[0] == 3 && with_fds);
    ck_assert_uint_eq(packet(pair[1], ids, &with_fds), 2);
    ck_assert(ids[0] == 4 && ids[1] == 5 && !with_fds);
    dlp_channel_free(channel);
    close(pair[1]);
}
END_TEST

START_TEST(fds_not_taken_are_closed)
{
    int fd = memfd(1), before = open_fds();
    ck_assert_int_eq(dlp_channel_send(a, ping(1), &fd, 1), 0);
    ck_assert_int_gt(dlp_channel_receive(b), 0);
    ck_assert_int_eq(open_fds(), before + 1);
    dlp_channel_free(b);
    b = NULL;
    ck_assert_int_eq(open_fds(), before - 1);
}
END_TEST

/* S08: a descriptor cut by the limit of open files is an error of its own, and none leaks. */
START_TEST(fds_cut_by_the_limit)
{
    int fds[3] = {memfd(1), memfd(2), memfd(3)};
    ck_assert_int_eq(dlp_channel_send(a, ping(1), fds, 3), 0);
    int before = open_fds();
    struct rlimit limit, low;
    getrlimit(RLIMIT_NOFILE, &limit);
    low = limit;
    low.rlim_cur = (rlim_t)dup(0) + 1; /* room for one of the three */
    close((int)low.rlim_cur - 1);
    setrlimit(RLIMIT_NOFILE, &low);
    ck_assert_int_eq(dlp_channel_receive(b), -EMFILE);
    setrlimit(RLIMIT_NOFILE, &limit);
    expect_dead(b, -EMFILE);
    ck_assert_int_eq(open_fds(), before);
}
END_TEST

/* The daemon's end takes no descriptors, and goes on. */
START_TEST(fds_for_the_daemon_are_dropped)
{
    int fd = memfd(1), fds[DLP_FDS_MAX];
    size_t nfds;
    go_raw(&daemon_limits);
    struct dlp_channel *peer = dlp_channel_new(dup(raw), &client_limits);
    int before = open_fds();
    ck_assert_int_eq(dlp_channel_send(peer, ping(9), &fd, 1), 0);
    ck_assert_int_gt(dlp_channel_receive(b), 0);
    ck_assert_uint_eq(next_id(b, fds, &nfds), 9);
    ck_assert_uint_eq(nfds, 0);
    ck_assert_int_eq(open_fds(), before);
    dlp_channel_free(peer);
}
END_TEST

static int dropped[DLP_FDS_MAX];
static size_t ndropped;

static void on_drop(void *context, const int *fds, size_t count)
{
    ck_assert_ptr_eq(context, &ndropped);
    for (size_t i = 0; i < count; i++)
        dropped[ndropped++] = fds[i];
}

/* A daemon's end that has come to take descriptors closes none itself. */
START_TEST(fds_are_taken_later)
{
    int fd = memfd(1), before = open_fds(), fds[DLP_FDS_MAX];
    size_t nfds;
    go_raw(&daemon_limits);
    struct dlp_channel *peer = dlp_channel_new(dup(raw), &client_limits);
    ck_assert_int_eq(dlp_channel_send(peer, ping(8), &fd, 1), 0);
    ck_assert_int_gt(dlp_channel_receive(b), 0);
    dlp_channel_take_fds(b, on_drop, &ndropped);
    ck_assert_uint_eq(next_id(b, fds, &nfds), 8);
    ck_assert_uint_eq(nfds, 0); /* it came before */
    ck_assert_int_eq(dlp_channel_send(peer, ping(9), &fd, 1), 0);
    ck_assert_int_gt(dlp_channel_receive(b), 0);
    ck_assert_uint_eq(next_id(b, fds, &nfds), 9);
    ck_assert_uint_eq(nfds, 1);
    close(fds[0]);
    ck_assert_uint_eq(ndropped, 0);
    ck_assert_int_eq(dlp_channel_send(peer, ping(10), &fd, 1), 0);
    ck_assert_int_gt(dlp_channel_receive(b), 0);
    dlp_channel_free(b);
    b = NULL;
    ck_assert_uint_eq(ndropped, 1);
    ck_assert_int_eq(close(dropped[0]), 0);
    dlp_channel_free(peer);
    ck_assert_int_eq(open_fds(), before - 1); /* b's */
}
END_TEST

/* Two sets of descriptors for one frame that never ends. */
START_TEST(fds_for_no_frame)
{
    int fd = memfd(1), before = open_fds();
    go_raw(&client_limits);
    char control[CMSG_SPACE(sizeof fd)] = {0};
    uint8_t bytes[] = {200, 0, 0, 0};
    for (int i = 0; i < 2; i++) {
        struct iovec part = {bytes + 2 * i, 2};
        struct msghdr message = {&(char){0}, 0, &part, 1, control, sizeof control, 0};
        *CMSG_FIRSTHDR(&message) = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof fd);
        ck_assert_int_eq(sendmsg(raw, &message, 0), 2);
    }
    ck_assert_int_eq(dlp_channel_receive(b), 2);
    ck_assert_int_eq(dlp_channel_receive(b), -EPROTO);
    expect_dead(b, -EPROTO);
    ck_assert_int_eq(open_fds(), before);
}
END_TEST

START_TEST(oversized)
{
    go_raw(&daemon_limits);
    uint32_t length = DLP_FRAME_TO_DAEMON_MAX + 1;
    ck_assert_int_eq(write(raw, &length, 4), 4);
    ck_assert_int_eq(dlp_channel_receive(b), 4);
    expect_dead(b, -EMSGSIZE);
}
END_TEST

START_TEST(largest)
{
    go_raw(&daemon_limits);
    static char program[DLP_FRAME_TO_DAEMON_MAX];
    memset(program, 'p', sizeof program - 1);
    Dlp__Hello hello = DLP__HELLO__INIT;
    hello.program = program;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_HELLO;
    env.hello = &hello;
    while (dlp_frame_size(&env) > DLP_FRAME_TO_DAEMON_MAX + 4)
        program[strlen(program) - 1] = '\0';
    ck_assert_uint_eq(dlp_frame_size(&env), DLP_FRAME_TO_DAEMON_MAX + 4);
    uint8_t *bytes = malloc(dlp_frame_size(&env));
    size_t size = dlp_frame_pack(&env, bytes), nfds;
    ck_assert_int_eq(write(raw, bytes, size), (ssize_t)size);
    free(bytes);
    while (dlp_channel_receive(b) > 0)
        ;
    int fds[DLP_FDS_MAX], err;
    Dlp__Envelope *back = dlp_channel_next(b, fds, &nfds, &err);
    ck_assert_ptr_nonnull(back);
    ck_assert_str_eq(back->hello->program, program);
    dlp_frame_free(back);
}
END_TEST

START_TEST(garbage)
{
    static const uint8_t empty[4], junk[12] = {8, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255};
    go_raw(&daemon_limits);
    ck_assert_int_eq(write(raw, _i ? junk : empty, _i ? 12 : 4), _i ? 12 : 4);
    ck_assert_int_gt(dlp_channel_receive(b), 0);
    expect_dead(b, -EPROTO);
}
END_TEST

START_TEST(unpack_is_capped)
{
    struct dlp_channel_limits limits = daemon_limits;
    limits.unpack_max = 64;
    go_raw(&limits);
    uint8_t bytes[64];
    size_t size = dlp_frame_pack(ping(1), bytes);
    ck_assert_int_eq(write(raw, bytes, size), (ssize_t)size);
    ck_assert_int_gt(dlp_channel_receive(b), 0);
    expect_dead(b, -EPROTO);
}
END_TEST

START_TEST(frames_not_taken_fill_the_buffer)
{
    go_raw(&daemon_limits);
    static uint8_t bytes[4000 * 16];
    size_t size = 0;
    for (int i = 0; i < 4000; i++)
        size += dlp_frame_pack(ping(1), bytes + size);
    ck_assert_int_eq(write(raw, bytes, size), (ssize_t)size);
    long r;
    while ((r = dlp_channel_receive(b)) > 0)
        ;
    ck_assert_int_eq(r, -ENOBUFS);
    int fds[DLP_FDS_MAX], frames = 0;
    size_t nfds;
    do {
        while (next_id(b, fds, &nfds))
            frames++;
    } while (dlp_channel_receive(b) > 0);
    ck_assert_int_eq(frames, 4000);
}
END_TEST

START_TEST(what_the_socket_does_not_take_waits)
{
    int fd = memfd(1), fds[DLP_FDS_MAX], before = open_fds();
    uint64_t sent = 0, got = 0;
    size_t nfds;
    while (dlp_channel_unsent(a) == 0)
        ck_assert_int_eq(send_ping(a, ++sent), 0);
    ck_assert_int_eq(dlp_channel_send(a, ping(++sent), &fd, 1), 0);
    close(fd); /* the channel has its own by now */
    size_t unsent = dlp_channel_unsent(a);
    ck_assert_int_eq(dlp_channel_flush(a), 0);
    ck_assert_uint_eq(dlp_channel_unsent(a), unsent);
    while (got < sent) {
        ck_assert_int_gt(dlp_channel_receive(b), 0);
        while (next_id(b, fds, &nfds))
            got++;
        ck_assert_int_eq(dlp_channel_flush(a), 0);
    }
    ck_assert_uint_eq(dlp_channel_unsent(a), 0);
    ck_assert_uint_eq(nfds, 0);
    close(fds[0]);
    ck_assert_int_eq(open_fds(), before - 1);
}
END_TEST

/* Of all processes of a user together: another's daemon that is slow is no error here. */
START_TEST(descriptors_on_their_way_are_limited)
{
    int fd = memfd(1), all[] = {fd, fd, fd, fd, fd, fd, fd, fd}, fds[DLP_FDS_MAX];
    size_t nfds, got = 0, sent = 0;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 32;
    setrlimit(RLIMIT_NOFILE, &limit);
    ck_assert(geteuid() != 0 || seteuid(61001) == 0); /* root has no limit */
    for (; dlp_channel_unsent(a) == 0 && sent < 100; sent++)
        ck_assert_int_eq(dlp_channel_send(a, ping(sent + 1), all, 8), 0);
    ck_assert_uint_lt(sent, 10);
    ck_assert(getuid() != 0 || seteuid(0) == 0);
    while (got < sent) {
        ck_assert_int_gt(dlp_channel_receive(b), 0);
        for (; next_id(b, fds, &nfds); got++) {
            ck_assert_uint_eq(nfds, 8);
            while (nfds)
                close(fds[--nfds]);
        }
        ck_assert_int_eq(dlp_channel_flush(a), 0);
    }
    close(fd);
}
END_TEST

START_TEST(peer_gone)
{
    send_ping(b, 5);
    dlp_channel_free(b);
    b = NULL;
    ck_assert_int_eq(send_ping(a, 1), -EPIPE);
    /* What it said before is still there. */
    int fds[DLP_FDS_MAX];
    size_t nfds;
    ck_assert_int_gt(dlp_channel_receive(a), 0);
    ck_assert_uint_eq(next_id(a, fds, &nfds), 5);
    ck_assert_int_eq(dlp_channel_receive(a), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("channel");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, frames_in_order);
    tcase_add_test(tc, byte_by_byte);
    tcase_add_test(tc, fds_stay_with_their_frame);
    tcase_add_test(tc, frames_go_out_together);
    tcase_add_test(tc, fds_not_taken_are_closed);
    tcase_add_test(tc, fds_cut_by_the_limit);
    tcase_add_test(tc, fds_for_the_daemon_are_dropped);
    tcase_add_test(tc, fds_are_taken_later);
    tcase_add_test(tc, fds_for_no_frame);
    tcase_add_test(tc, oversized);
    tcase_add_test(tc, largest);
    tcase_add_loop_test(tc, garbage, 0, 2);
    tcase_add_test(tc, unpack_is_capped);
    tcase_add_test(tc, frames_not_taken_fill_the_buffer);
    tcase_add_test(tc, what_the_socket_does_not_take_waits);
    tcase_add_test(tc, descriptors_on_their_way_are_limited);
    tcase_add_test(tc, peer_gone);
    Suite *suite = suite_create("channel");
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
