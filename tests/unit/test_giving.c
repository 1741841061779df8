/* control/giving and own_feeds: what a user gives, what is not taken, who may use it, where it
 * stands, when it goes, and that no descriptor stays. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "config_recipe.h"
#include "control/giving.h"
#include "control/own_feeds.h"
#include "control_rig.h"
#include "scratch.h"
#include "tar_maker.h"

#define OVERFLOW_UID 65534

static struct scratch scratch;

static char *recipe(const char *name, unsigned batch)
{
    static char text[200];
    snprintf(text, sizeof text,
             "{\"name\": \"%s\", \"batch\": %u, \"shuffle\": 0, \"lanes\": 4, "
             "\"fields\": [{\"name\": \"label\", \"from\": \"cls\", \"kind\": \"int\"}]}",
             name, batch);
    return text;
}

/* A shard of 10 labels; each a file of its own. */
static int shard(int number)
{
    char name[32], text[16];
    struct tarm *tar = tarm_new();
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "%d-%d.cls", number, i);
        snprintf(text, sizeof text, "%d", 10 * number + i);
        tarm_text(tar, name, text);
    }
    tarm_end(tar);
    snprintf(name, sizeof name, "%d.tar", number);
    ck_assert_int_eq(tarm_write(tar, scratch_at(&scratch, name)), 0);
    tarm_free(tar);
    int fd = open(scratch_at(&scratch, name), O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static int open_fds(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* The user's closer is a thread. */
static void expect_fds(int count)
{
    uint64_t end = clock_ns() + 60 * CLOCK_SECOND;
    while (open_fds() != count && clock_ns() < end)
        rig_turn();
    ck_assert_int_eq(open_fds(), count);
}

/* The list of GPUs is made on a thread, which opens files. */
static void settle(void)
{
    int last = open_fds();
    for (int same = 0; same < 50; same++) {
        usleep(1000);
        if (open_fds() != last)
            same = 0;
        last = open_fds();
    }
}

static void setup(void)
{
    scratch_make(&scratch);
    rig_setup();
    settle();
    rig_control->options.own_feeds = true;
    rig_control->options.read_recipe = config_recipe_parse;
}

static void teardown(void)
{
    rig_teardown();
    scratch_remove(&scratch);
}

static struct rig_peer *peer_of(uid_t uid)
{
    static pid_t pid = 100;
    struct rig_peer *peer = rig_peer_new(pid++);
    peer->session->peer.uid = uid;
    ck_assert(rig_hello(peer, 1, 2));
    rig_await(peer, DLP__ENVELOPE__BODY_HELLO_REPLY);
    return peer;
}

static void begin(struct rig_peer *peer, const char *name, unsigned batch, uint32_t files)
{
    Dlp__GiveFeed message = DLP__GIVE_FEED__INIT;
    message.recipe = recipe(name, batch);
    message.files = files;
    SAY(peer, 5, GIVE_FEED, give_feed, &message);
}

static void send_files(struct rig_peer *peer, const int *fds, size_t count)
{
    char *names[] = {"a", "b\n", "c", "d"};
    int mine[DLP_FDS_MAX];
    Dlp__GiveFiles message = DLP__GIVE_FILES__INIT;
    message.names = names;
    message.n_names = count;
    for (size_t i = 0; i < count; i++)
        mine[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
    giving_receive(peer->session, mine, count);
    SAY(peer, 6, GIVE_FILES, give_files, &message);
}

static const char *give(struct rig_peer *peer, const char *name, unsigned batch, const int *fds,
                        uint32_t count)
{
    begin(peer, name, batch, count);
    const char *feed = rig_await(peer, DLP__ENVELOPE__BODY_GIVE_FEED_REPLY)->give_feed_reply->feed;
    send_files(peer, fds, count);
    ck_assert_uint_eq(
        rig_await(peer, DLP__ENVELOPE__BODY_GIVE_FILES_REPLY)->give_files_reply->taken, count);
    return feed;
}

START_TEST(is_given_used_and_gone)
{
    int fds[] = {shard(0), shard(1)}, before = open_fds();
    uint32_t nfeeds = rig_control->options.nfeeds;
    struct rig_peer *peer = peer_of(1000);
    const char *feed = give(peer, "a", 4, fds, 2);
    ck_assert_str_eq(feed, "~1000/a");
    expect_fds(before + 2);
    Dlp__Attach message = rig_attach(feed);
    SAY(peer, 7, ATTACH, attach, &message);
    const Dlp__AttachReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_REPLY)->attach_reply;
    ck_assert_uint_eq(reply->records, 20);
    ck_assert_uint_eq(rig_next_ready(peer)->rows, 4);
    /* Used by this connection: it stays. */
    uint64_t now = clock_ns();
    own_feeds_tick(rig_control->own_feeds, now);
    own_feeds_tick(rig_control->own_feeds, now + 2 * OWN_LINGER_S * CLOCK_SECOND);
    ck_assert_int_ge(control_find_feed(rig_control, feed), 0);
    char name[32];
    strcpy(name, feed);
    rig_peer_free(peer);
    rig_wait_until_free();
    jobs_expire(rig_control->jobs, UINT64_MAX);
    own_feeds_tick(rig_control->own_feeds, now);
    own_feeds_tick(rig_control->own_feeds, now + OWN_LINGER_S * CLOCK_SECOND);
    ck_assert_int_ge(control_find_feed(rig_control, name), 0);
    struct bad_report report = {.cls = BAD_TRUNC, .shard = "a", .key = "k", .reason = "r"};
    badlist_add(rig_control->badlist, name, &report);
    own_feeds_tick(rig_control->own_feeds, now + (OWN_LINGER_S + 1) * CLOCK_SECOND);
    ck_assert_int_eq(control_find_any(rig_control, name), -1);
    ck_assert_uint_eq(badlist_count(rig_control->badlist), 0);
    expect_fds(before);
    /* Another has its place. */
    struct rig_peer *other = peer_of(1001);
    give(other, "b", 4, fds, 1);
    ck_assert_uint_eq(rig_control->options.nfeeds, nfeeds + 1);
    rig_peer_free(other);
    expect_fds(before + 1); /* for a while */
    close(fds[0]);
    close(fds[1]);
}
END_TEST

START_TEST(the_same_again_is_the_same_feed)
{
    int fds[] = {shard(0), shard(1), shard(2)}, before = open_fds();
    struct rig_peer *one = peer_of(1000), *two = peer_of(1000), *three = peer_of(1001);
    const char *feed = give(one, "a", 4, fds, 2);
    int number = control_find_feed(rig_control, feed);
    const struct feed_spec *spec = rig_control->feeds[number];
    give(two, "a", 4, fds, 2);
    ck_assert_ptr_eq(rig_control->feeds[number], spec);
    expect_fds(before + 2);
    ck_assert_str_eq(give(three, "a", 4, fds, 2), "~1001/a"); /* and one of his own */
    expect_fds(before + 4);
    give(two, "a", 8, fds, 2); /* another recipe, the same files */
    ck_assert_ptr_ne(rig_control->feeds[number], spec);
    ck_assert_uint_eq(rig_control->feeds[number]->batch, 8);
    expect_fds(before + 4);
    give(two, "a", 8, fds, 3);
    expect_fds(before + 5);
    ck_assert_int_eq(control_find_feed(rig_control, feed), number);
    ck_assert_uint_eq(files_count(rig_control->feeds[number]->files), 3);
    ck_assert_uint_eq(files_count(spec->files), 2); /* as `one` has given it */
    rig_peer_free(one);
    rig_peer_free(two);
    rig_peer_free(three);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}
END_TEST

START_TEST(nobody_else_may_use_it)
{
    int fd = shard(0);
    struct rig_peer *peer = peer_of(1000), *other = peer_of(1001), *unknown = peer_of(OVERFLOW_UID);
    Dlp__Attach message = rig_attach(give(peer, "a", 4, &fd, 1));
    SAY(other, 7, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(other, 7, DLP_ERROR_NOT_PERMITTED), "its user's own",
                    "uid 1001");
    Dlp__FeedsRequest request = DLP__FEEDS_REQUEST__INIT;
    SAY(other, 8, FEEDS_REQUEST, feeds_request, &request);
    const Dlp__FeedsReply *feeds = rig_await(other, DLP__ENVELOPE__BODY_FEEDS_REPLY)->feeds_reply;
    ck_assert_str_eq(feeds->feeds[3]->name, "~1000/a");
    ck_assert(!feeds->feeds[3]->allowed && !*feeds->feeds[3]->source);
    SAY(peer, 8, FEEDS_REQUEST, feeds_request, &request);
    feeds = rig_await(peer, DLP__ENVELOPE__BODY_FEEDS_REPLY)->feeds_reply;
    rig_expect_text(feeds->feeds[3]->source, "1 file given by ", "");
    begin(unknown, "a", 4, 1);
    rig_expect_text(rig_await_error(unknown, 5, DLP_ERROR_NOT_PERMITTED), "uid 65534", "any user");
    rig_peer_free(peer);
    rig_peer_free(other);
    rig_peer_free(unknown);
    close(fd);
}
END_TEST

enum kind { FOLDER, PIPE, SOCKET, DEVICE, PATH_ONLY, WRITE_ONLY, DIRECT, KINDS };
static const char *const says[] = {[FOLDER] = "is a directory",
                                   [PIPE] = "is a pipe",
                                   [SOCKET] = "is a socket",
                                   [DEVICE] = "is a character device",
                                   [PATH_ONLY] = "not open for reading",
                                   [WRITE_ONLY] = "not open for reading",
                                   [DIRECT] = "is open with O_DIRECT"};

static int make(enum kind kind)
{
    int pair[2];
    const char *path = scratch_at(&scratch, "0.tar");
    switch (kind) {
    case PIPE:
        ck_assert_int_eq(pipe(pair), 0);
        close(pair[1]);
        return pair[0];
    case SOCKET:
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        close(pair[1]);
        return pair[0];
    case FOLDER:
        return open("/tmp", O_RDONLY);
    case DEVICE:
        return open("/dev/null", O_RDONLY);
    case PATH_ONLY:
        return open(path, O_PATH);
    case WRITE_ONLY:
        return open(path, O_WRONLY);
    default:
        return open(path, O_RDONLY | O_DIRECT);
    }
}

START_TEST(other_things_are_not_taken)
{
    int good = shard(0), odd = make((enum kind)_i);
    if (odd < 0 && _i == DIRECT) /* not on every file system */
        return;
    int fds[] = {good, odd}, before = open_fds();
    struct rig_peer *peer = peer_of(1000);
    begin(peer, "a", 4, 2);
    rig_await(peer, DLP__ENVELOPE__BODY_GIVE_FEED_REPLY);
    send_files(peer, fds, 2);
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_DATASET), "file b\\x0A", says[_i]);
    expect_fds(before);
    ck_assert_int_eq(control_find_any(rig_control, "~1000/a"), -1);
    give(peer, "a", 4, &good, 1); /* and can begin anew */
    rig_peer_free(peer);
    close(good);
    close(odd);
}
END_TEST

/* Anonymous memory is a regular file as well. */
START_TEST(a_file_without_a_name)
{
    char bytes[64 << 10];
    int shard_fd = shard(0), fd = memfd_create("m", MFD_CLOEXEC);
    ssize_t size = pread(shard_fd, bytes, sizeof bytes, 0);
    ck_assert_int_eq(write(fd, bytes, (size_t)size), size);
    struct rig_peer *peer = peer_of(1000);
    Dlp__Attach message = rig_attach(give(peer, "a", 4, &fd, 1));
    SAY(peer, 7, ATTACH, attach, &message);
    ck_assert_uint_eq(rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_REPLY)->attach_reply->records, 10);
    rig_peer_free(peer);
    close(fd);
    close(shard_fd);
}
END_TEST

START_TEST(one_after_the_other)
{
    int fds[] = {shard(0), shard(1)}, before = open_fds();
    struct rig_peer *one = peer_of(1000), *two = peer_of(1000), *three = peer_of(1000);
    begin(one, "a", 4, 2);
    rig_await(one, DLP__ENVELOPE__BODY_GIVE_FEED_REPLY);
    begin(two, "a", 4, 2);
    begin(three, "b", 4, 1); /* of another name: at once */
    rig_await(three, DLP__ENVELOPE__BODY_GIVE_FEED_REPLY);
    giving_tick(two->session, clock_ns());
    const Dlp__Envelope *env = rig_await(two, DLP__ENVELOPE__BODY_ATTACH_PROGRESS);
    ck_assert_uint_eq(env->id, 5);
    rig_expect_text(env->attach_progress->text, "waiting for pid", "which gives feed ~1000/a");
    send_files(one, fds, 1);
    rig_await(one, DLP__ENVELOPE__BODY_GIVE_FILES_REPLY);
    rig_peer_free(one); /* in the middle */
    rig_await(two, DLP__ENVELOPE__BODY_GIVE_FEED_REPLY);
    expect_fds(before);
    giving_tick(two->session, clock_ns() - CLOCK_SECOND); /* one that began before its turn came */
    ck_assert(giving_is_at_work(two->session->giving));
    /* A client that says nothing more. */
    giving_tick(two->session, clock_ns() + (GIVING_SILENCE_S - 1) * CLOCK_SECOND);
    giving_tick(two->session, clock_ns() + (GIVING_SILENCE_S + 1) * CLOCK_SECOND);
    rig_expect_text(rig_await_error(two, 5, DLP_ERROR_BAD_REQUEST), "~1000/a is given up",
                    "no file has come");
    /* Gone while a thread is at its files. */
    send_files(three, fds, 1);
    rig_peer_free(three);
    rig_peer_free(two);
    rig_wait_until_free();
    expect_fds(before);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

static sem_t answers;

static void hang(struct errand *errand)
{
    (void)errand;
    sem_wait(&answers);
}

static unsigned ended;

static void on_end(struct errand *errand)
{
    errands_end(errand);
    ended++;
}

/* Nobody waits for storage for ever, and nobody waits but its user. */
START_TEST(storage_that_does_not_answer)
{
    int fd = shard(0), before = open_fds();
    struct rig_peer *used = peer_of(1000), *one = peer_of(1000), *two = peer_of(1000);
    struct rig_peer *other = peer_of(1001);
    Dlp__Attach message = rig_attach(give(used, "used", 4, &fd, 1));
    struct errand stuck[OWN_OPENINGS_AT_ONCE] = {0};
    struct own_user *user = own_feeds_user(rig_control->own_feeds, 1000);
    sem_init(&answers, 0, 0);
    for (int i = 0; i < OWN_OPENINGS_AT_ONCE; i++) {
        stuck[i].run = hang;
        stuck[i].ran = on_end;
        errands_add(user->openings, &stuck[i]);
    }
    begin(one, "a", 4, 1);
    rig_await(one, DLP__ENVELOPE__BODY_GIVE_FEED_REPLY);
    send_files(one, &fd, 1);
    begin(two, "a", 4, 1);
    SAY(used, 7, ATTACH, attach, &message);
    uint64_t now = clock_ns();
    giving_tick(one->session, now);
    rig_expect_text(rig_await(one, DLP__ENVELOPE__BODY_ATTACH_PROGRESS)->attach_progress->text,
                    "waiting for 2 openings of the same user's files", "");
    datasets_tick(rig_control->datasets, now);
    rig_expect_text(rig_await(used, DLP__ENVELOPE__BODY_ATTACH_PROGRESS)->attach_progress->text,
                    "waiting for 3 openings of the same user's files", "");
    give(other, "a", 4, &fd, 1);
    /* What is before them goes on. */
    now += (GIVING_PATIENCE_S + 1) * CLOCK_SECOND;
    errands_go_on(&stuck[0], now - CLOCK_SECOND);
    giving_tick(two->session, now);
    giving_tick(one->session, now);
    datasets_tick(rig_control->datasets, now);
    ck_assert(giving_is_at_work(one->session->giving));
    ck_assert(giving_is_at_work(two->session->giving));
    ck_assert_int_eq(used->session->state, SESSION_ATTACHING);
    now += GIVING_PATIENCE_S * CLOCK_SECOND;
    giving_tick(two->session, now);
    rig_expect_text(rig_await_error(two, 5, DLP_ERROR_DATASET), "another process of the user",
                    "not answered for 120 s");
    giving_tick(one->session, now);
    rig_expect_text(rig_await_error(one, 6, DLP_ERROR_DATASET), "~1000/a is given up",
                    "not answered for 120 s");
    datasets_tick(rig_control->datasets, now);
    rig_expect_text(rig_await_error(used, 7, DLP_ERROR_DATASET), "~1000/used",
                    "not answered for 120 s");
    for (int i = 0; i < OWN_OPENINGS_AT_ONCE; i++)
        sem_post(&answers);
    while (ended < OWN_OPENINGS_AT_ONCE)
        rig_turn();
    message.job = "again";
    SAY(used, 7, ATTACH, attach, &message);
    rig_await(used, DLP__ENVELOPE__BODY_ATTACH_REPLY);
    rig_peer_free(used);
    rig_peer_free(one);
    rig_peer_free(two);
    rig_peer_free(other);
    rig_wait_until_free();
    jobs_expire(rig_control->jobs, UINT64_MAX);
    own_feeds_tick(rig_control->own_feeds, 1);
    own_feeds_tick(rig_control->own_feeds, 1 + 2 * OWN_LINGER_S * CLOCK_SECOND);
    expect_fds(before);
    close(fd);
}
END_TEST

START_TEST(what_is_too_much)
{
    int fds[] = {shard(0), shard(1), shard(2), shard(3)}, before = open_fds();
    struct rlimit limit, low;
    struct rig_peer *peer = peer_of(1000);
    begin(peer, "a", 4, 4097);
    rig_expect_text(rig_await_error(peer, 5, DLP_ERROR_TOO_MANY), "would have 4097",
                    "4096 are possible");
    getrlimit(RLIMIT_NOFILE, &limit);
    low = limit;
    low.rlim_cur = 200;
    setrlimit(RLIMIT_NOFILE, &low);
    begin(peer, "a", 4, 101);
    rig_expect_text(rig_await_error(peer, 5, DLP_ERROR_TOO_MANY), "would have 101",
                    "the 200 descriptors");
    setrlimit(RLIMIT_NOFILE, &limit);
    rig_control->options.own_feeds = false;
    begin(peer, "a", 4, 1);
    rig_expect_text(rig_await_error(peer, 5, DLP_ERROR_NOT_PERMITTED), "own_feeds: no", "");
    rig_control->options.own_feeds = true;
    /* More, or less, than was announced. */
    begin(peer, "a", 4, 3);
    rig_await(peer, DLP__ENVELOPE__BODY_GIVE_FEED_REPLY);
    send_files(peer, fds, 4);
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_BAD_REQUEST), "4 files came",
                    "lacks 3 of 3");
    send_files(peer, fds, 1);
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_BAD_REQUEST), "GiveFeed comes first", "");
    begin(peer, "a", 4, 3);
    rig_await(peer, DLP__ENVELOPE__BODY_GIVE_FEED_REPLY);
    send_files(peer, fds, 1);
    send_files(peer, fds, 1); /* before the answer */
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_BAD_REQUEST), "one at a time", "");
    rig_peer_free(peer);
    rig_wait_until_free();
    expect_fds(before);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}
END_TEST

START_TEST(places_are_few)
{
    char name[32];
    int fd = shard(0), before = open_fds();
    struct rig_peer *peer = peer_of(1000), *holders[OWN_FEEDS_OF_USER];
    uint32_t nfeeds = rig_control->options.nfeeds;
    for (int i = 0; i < OWN_FEEDS_OF_USER + 5; i++) { /* each uses the last one only */
        snprintf(name, sizeof name, "f%d", i);
        give(peer, name, 4, &fd, 1);
    }
    ck_assert_uint_eq(rig_control->options.nfeeds, nfeeds + OWN_FEEDS_OF_USER);
    for (int i = 0; i < OWN_FEEDS_OF_USER; i++) {
        holders[i] = peer_of(1000);
        snprintf(name, sizeof name, "f%d", i + 5);
        give(holders[i], name, 4, &fd, 1);
    }
    begin(peer, "more", 4, 1);
    rig_await(peer, DLP__ENVELOPE__BODY_GIVE_FEED_REPLY);
    send_files(peer, &fd, 1);
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_TOO_MANY), "64 feeds of uid 1000's own",
                    "at most 64");
    struct rig_peer *other = peer_of(1001);
    give(other, "more", 4, &fd, 1);
    rig_peer_free(holders[7]);
    give(peer, "more", 4, &fd, 1);
    ck_assert_int_eq(control_find_any(rig_control, "~1000/f12"), -1);
    rig_peer_free(peer);
    rig_peer_free(other);
    for (int i = 0; i < OWN_FEEDS_OF_USER; i++)
        if (i != 7)
            rig_peer_free(holders[i]);
    rig_wait_until_free();
    own_feeds_tick(rig_control->own_feeds, 1);
    own_feeds_tick(rig_control->own_feeds, 1 + 2 * OWN_LINGER_S * CLOCK_SECOND);
    expect_fds(before);
    close(fd);
}
END_TEST

START_TEST(version_1_has_none)
{
    struct rig_peer *peer = rig_greeted(3);
    begin(peer, "a", 4, 1);
    rig_await_error(peer, 5, DLP_ERROR_UNSUPPORTED);
    Dlp__GiveFiles message = DLP__GIVE_FILES__INIT;
    SAY(peer, 6, GIVE_FILES, give_files, &message);
    rig_await_error(peer, 6, DLP_ERROR_UNSUPPORTED);
    rig_peer_free(peer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("giving");
    TCase *test = tcase_create("giving");
    tcase_add_checked_fixture(test, setup, teardown);
    tcase_add_test(test, is_given_used_and_gone);
    tcase_add_test(test, the_same_again_is_the_same_feed);
    tcase_add_test(test, nobody_else_may_use_it);
    tcase_add_loop_test(test, other_things_are_not_taken, 0, KINDS);
    tcase_add_test(test, a_file_without_a_name);
    tcase_add_test(test, one_after_the_other);
    tcase_add_test(test, storage_that_does_not_answer);
    tcase_add_test(test, what_is_too_much);
    tcase_add_test(test, places_are_few);
    tcase_add_test(test, version_1_has_none);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
