/* A feed of the client's own: what the daemon is given, in which portions, and again after a
 * restart. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/dataload.h"
#include "fake_daemon.h"
#include "give_rig.h"
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
    give_start();
}

static void teardown(void)
{
    if (fake.script)
        fake_done(&fake);
    give_end();
}

static void attaches(void (*script)(struct fake *))
{
    fake_run(&fake, script);
    int r = dataload_attach(NULL, &options, &handle);
    ck_assert_msg(r == 0, "%s", dataload_error(handle));
}

static void fails(void (*script)(struct fake *), int code, const char *text)
{
    fake_run(&fake, script);
    int r = dataload_attach(NULL, &options, &handle);
    ck_assert_msg(r == code && strstr(dataload_error(handle), text), "%d: %s", r,
                  dataload_error(handle));
    dataload_detach(handle);
}

static void script_70(struct fake *f)
{
    static const uint32_t portions[] = {DLP_FDS_MAX, DLP_FDS_MAX, 6};
    uint32_t taken = 0;
    give_hear_beginning(f);
    for (int i = 0; i < 3; i++) {
        NEED(give_hear_portion(f, taken) == portions[i]);
        taken += portions[i];
        usleep(20000); /* nothing more is sent before the answer */
        struct pollfd more = {.fd = dlp_channel_fd(f->channel), .events = POLLIN};
        NEED(poll(&more, 1, 0) == 0);
        fake_files_taken(f, taken);
    }
    give_hear_attach(f);
    fake_detached(f);
}

START_TEST(in_portions_each_awaited)
{
    give_shards(70, "", &options);
    attaches(script_70);
    dataload_info info = {.size = sizeof info};
    dataload_get_info(handle, &info);
    ck_assert_str_eq(info.feed, FAKE_OWN);
    dataload_detach(handle);
}
END_TEST

/* Of 1000 bytes each: a message of 16 KiB takes fifteen. */
static void script_long_names(struct fake *f)
{
    give_hear_all(f, 15, 0);
    fake_detached(f);
}

START_TEST(names_have_room_in_a_message)
{
    char folder[3200] = "";
    for (int i = 0; i < 12; i++) {
        size_t length = strlen(folder);
        memset(folder + length, 'd', 249);
        strcpy(folder + length + 249, "/");
        ck_assert_int_eq(mkdir(folder, 0700), 0);
    }
    give_shards(32, folder, &options);
    attaches(script_long_names);
    dataload_detach(handle);
}
END_TEST

static void script_few(struct fake *f)
{
    give_hear_all(f, 4, 0);
    fake_detached(f);
}

/* So many descriptors more may be opened; each of the others is in use. */
static void leave_room(rlim_t room)
{
    struct rlimit limit;
    int next = dup(0);
    close(next);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)next + room;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* The daemon is a process of its own, so that its descriptors do not count. */
static void with_room(void (*script)(struct fake *), rlim_t room, int code, const char *text)
{
    give_shards(20, "", &options);
    pid_t daemon = fork();
    if (daemon == 0) {
        script(&fake);
        _exit(0);
    }
    fake_silence(&fake);
    leave_room(room);
    int r = dataload_attach(NULL, &options, &handle);
    ck_assert_msg(r == code && strstr(dataload_error(handle), text), "%d: %s", r,
                  dataload_error(handle));
    dataload_detach(handle);
    int status;
    ck_assert_int_eq(waitpid(daemon, &status, 0), daemon);
    ck_assert_int_eq(status, 0);
    unlink(fake.path);
}

/* Three of the handle, and four shards, each twice. */
START_TEST(fewer_at_a_time_where_few_files_may_be_open)
{
    with_room(script_few, 3 + 9, 0, "");
}
END_TEST

static void script_named_only(struct fake *f)
{
    give_hear_beginning(f);
    fake_heard_end(f);
}

START_TEST(not_even_one_descriptor)
{
    with_room(script_named_only, 3 + 1, -EMFILE,
              "0.tar cannot be passed to dataloadd: Too many open files");
}
END_TEST

static void script_old(struct fake *f)
{
    f->version = 1;
    fake_hello(f);
    fake_heard_end(f);
}

START_TEST(old_daemon)
{
    give_shards(1, "", &options);
    fails(script_old, -EOPNOTSUPP, "too old to be given a feed (it speaks version 1");
}
END_TEST

static void script_refuses_feed(struct fake *f)
{
    give_hear_feed(f);
    fake_error(f, f->id, DLP_ERROR_NOT_PERMITTED, "own_feeds: no");
    fake_heard_end(f);
}

static void script_refuses_files(struct fake *f)
{
    give_hear_beginning(f);
    give_hear_portion(f, 0);
    fake_error(f, f->id, DLP_ERROR_TOO_MANY, "4096 files");
    fake_heard_end(f);
}

START_TEST(refusals)
{
    give_shards(2, "", &options);
    fails(_i ? script_refuses_files : script_refuses_feed, _i ? -EUSERS : -EACCES,
          _i ? "4096 files" : "own_feeds: no");
}
END_TEST

static int descriptors(void)
{
    DIR *list = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(list))
        count++;
    closedir(list);
    return count;
}

static void script_never(struct fake *f)
{
    (void)f;
}

/* An attach that fails before it connects. */
static void refused(const char *feed, const char *text)
{
    int before = descriptors();
    int r = dataload_attach(feed, &options, &handle);
    ck_assert_msg(r == -EINVAL && strstr(dataload_error(handle), text), "%d: %s", r,
                  dataload_error(handle));
    dataload_detach(handle);
    ck_assert_int_eq(descriptors(), before);
}

START_TEST(options_that_make_no_sense)
{
    static char large[DLP_RECIPE_MAX + 2];
    static const char *none[] = {NULL};
    const char *const *files;
    give_shards(2, "", &options);
    files = options.files;
    fake_run(&fake, script_never);
    refused("a-feed", "with options.recipe it is NULL");
    options.recipe = "";
    refused(NULL, "1 to 12288 bytes are possible, these are 0");
    options.recipe = memset(large, ' ', sizeof large - 1);
    refused(NULL, "these are 12289");
    options.recipe = GIVE_RECIPE;
    options.nfiles = 0;
    refused(NULL, "1 to 65536 shards, not 0");
    options.nfiles = 65537;
    refused(NULL, "not 65537");
    options.files = none;
    options.nfiles = 1;
    refused(NULL, "files[0]");
    options.files = files;
    options.recipe = NULL;
    refused("a-feed", "without options.recipe");
    options.files = NULL;
    options.nfiles = 0;
    refused(NULL, "feed: a name has");
}
END_TEST

/* The daemon hears one portion, and then the end. */
static void script_one_portion(struct fake *f)
{
    give_hear_beginning(f);
    fake_files_taken(f, give_hear_portion(f, 0));
    fake_heard_end(f);
}

static void removed(const char *path)
{
    unlink(path);
}

static void folder(const char *path)
{
    unlink(path);
    mkdir(path, 0700);
}

/* To open one waits for a writer, but not us. */
static void pipe_without_writer(const char *path)
{
    unlink(path);
    mkfifo(path, 0600);
}

START_TEST(bad_shard)
{
    static const struct {
        void (*make)(const char *path);
        const char *text;
    } kinds[] = {{removed, "cannot be opened: No such file or directory: it has to be there"},
                 {folder, "is no regular file: a feed of one's own has tar shards"},
                 {pipe_without_writer, "is no regular file"}};
    char text[400];
    give_shards(50, "", &options);
    kinds[_i].make("40.tar");
    snprintf(text, sizeof text, "shard %s/40.tar %s", give_folder(), kinds[_i].text);
    int before = descriptors();
    fails(script_one_portion, -EIO, text);
    fake_done(&fake);
    ck_assert_int_eq(descriptors(), before - 1); /* it no longer listens */
    fake.script = NULL;
}
END_TEST

START_TEST(unreadable_shard)
{
    give_shards(50, "", &options);
    chmod("40.tar", 0);
    chmod(give_folder(), 0755);
    chmod(fake.path, 0666);
    if (geteuid() == 0)
        ck_assert_int_eq(seteuid(61001), 0);
    fails(script_one_portion, -EIO, "40.tar cannot be opened: Permission denied: this user has to");
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

static void script_silent(struct fake *f)
{
    give_hear_beginning(f);
    give_hear_portion(f, 0);
    fake_heard_end(f);
}

START_TEST(no_answer)
{
    give_shards(2, "", &options);
    options.timeout_ms = 200;
    fails(script_silent, -ETIMEDOUT, "attach to " FAKE_OWN ": no answer from dataloadd");
}
END_TEST

/* Longer in all than the time-out, but never between two answers. */
static void script_slow(struct fake *f)
{
    give_hear_all(f, DLP_FDS_MAX, 300000);
    fake_detached(f);
}

static uint64_t told, told_of, turns;

static void progress(void *context, const char *text, uint64_t done, uint64_t total)
{
    (void)context;
    bool ours = strcmp(text, "giving shards") == 0;
    told = ours ? done : 0;
    told_of = total;
    turns += !ours;
}

START_TEST(time_out_counts_from_the_last_answer)
{
    give_shards(160, "", &options);
    options.timeout_ms = 1000;
    options.progress = progress;
    attaches(script_slow);
    ck_assert_uint_eq(told, 128); /* after the first second */
    ck_assert_uint_eq(told_of, 160);
    ck_assert_uint_eq(turns, 1);
    dataload_detach(handle);
}
END_TEST

static void script_wrong_count(struct fake *f)
{
    give_hear_beginning(f);
    fake_files_taken(f, give_hear_portion(f, 0) + 1);
    fake_heard_end(f);
}

static void script_named_twice(struct fake *f)
{
    give_hear_beginning(f);
    give_hear_portion(f, 0);
    fake_feed_named(f);
    fake_heard_end(f);
}

static void script_taken_first(struct fake *f)
{
    give_hear_feed(f);
    fake_files_taken(f, 2);
    fake_heard_end(f);
}

START_TEST(hostile_daemon)
{
    static void (*const scripts[])(struct fake *) = {script_wrong_count, script_named_twice,
                                                     script_taken_first};
    give_shards(2, "", &options);
    fails(scripts[_i], -EPROTO, "broke the protocol: Give");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("give");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, in_portions_each_awaited);
    tcase_add_test(tcase, names_have_room_in_a_message);
    tcase_add_test(tcase, fewer_at_a_time_where_few_files_may_be_open);
    tcase_add_test(tcase, not_even_one_descriptor);
    tcase_add_test(tcase, old_daemon);
    tcase_add_loop_test(tcase, refusals, 0, 2);
    tcase_add_test(tcase, options_that_make_no_sense);
    tcase_add_loop_test(tcase, bad_shard, 0, 3);
    tcase_add_test(tcase, unreadable_shard);
    tcase_add_test(tcase, no_answer);
    tcase_add_test(tcase, time_out_counts_from_the_last_answer);
    tcase_add_loop_test(tcase, hostile_daemon, 0, 3);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
