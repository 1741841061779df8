/* The status report from hand-made replies. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl_sight.h"

static char *text;
static size_t text_size;

static struct ctl start(bool json)
{
    return (struct ctl){.out = open_memstream(&text, &text_size),
                        .err = stderr,
                        .json = json,
                        .headers = true,
                        .watch = -1,
                        .count = -1};
}

static Dlp__ClientStatus client_of(int pid, const char *feed)
{
    Dlp__ClientStatus client = DLP__CLIENT_STATUS__INIT;
    client.pid = pid;
    client.user = (char *)"ada";
    client.job = (char *)"slurm-7";
    client.rank = 1;
    client.world = 2;
    client.feed = (char *)feed;
    client.epoch = 3;
    client.step = 41;
    client.steps = 500;
    client.samples_per_s = 420;
    client.bytes_per_s = 63.2e6;
    client.ready = 1;
    client.slots = 4;
    client.wait_share = 0.31;
    client.hold_share = 0.6;
    client.stalls = 12;
    client.longest_stall_ns = 340000000;
    client.last_cause = (char *)"decode";
    client.lease = (char *)"pidfd";
    client.started = (char *)"from the start";
    client.state = (char *)"streaming";
    client.read_limit = 5000;
    client.decode_limit = 420;
    client.decode_per_worker = 420;
    client.window_s = 5;
    client.limiting_stage = (char *)"decode";
    client.verdict = (char *)"decode limits: 420/s";
    return client;
}

static Dlp__FeedStatus feed_of(const char *name)
{
    Dlp__FeedStatus feed = DLP__FEED_STATUS__INIT;
    feed.name = (char *)name;
    feed.clients = 2;
    feed.read_busy = 0.12;
    feed.decode_busy = 0.98;
    feed.handoff_busy = 0.01;
    feed.shuffle_fill = 1;
    feed.bad = 3;
    feed.records = 1281167;
    feed.shards = 1024;
    feed.decode_per_worker = 420;
    feed.read_bytes_per_s = 92.4e6;
    feed.samples_per_s = 840;
    feed.window_s = 5;
    feed.limiting_stage = (char *)"decode";
    feed.verdict = (char *)"decode limits: 840/s";
    return feed;
}

static Dlp__StatusReply reply_of(Dlp__ClientStatus **clients, size_t n_clients,
                                 Dlp__FeedStatus **feeds, size_t n_feeds)
{
    Dlp__StatusReply reply = DLP__STATUS_REPLY__INIT;
    reply.pid = 77;
    reply.uptime_ns = 3700000000000;
    reply.version = (char *)"0.1.0";
    reply.socket = (char *)"/run/dataloadd/control.sock";
    reply.workers = 2;
    reply.memory_limit = 16000000000;
    reply.memory_used = 3200000000;
    reply.device = (char *)"no NVIDIA driver: shared memory";
    reply.clients = clients;
    reply.n_clients = n_clients;
    reply.feeds = feeds;
    reply.n_feeds = n_feeds;
    return reply;
}

static Dlp__VacantRank vacant_of(const char *feed)
{
    Dlp__VacantRank vacant = DLP__VACANT_RANK__INIT;
    vacant.feed = (char *)feed;
    vacant.job = (char *)"slurm-7";
    vacant.rank = 3;
    vacant.world = 4;
    vacant.epoch = 3;
    vacant.step = 40;
    vacant.lost = 64;
    vacant.vacant_ns = 2100000000;
    return vacant;
}

START_TEST(report_has_all_columns)
{
    Dlp__ClientStatus one = client_of(4001, "train"), two = client_of(4002, "train");
    Dlp__FeedStatus feed = feed_of("train");
    char *notes[] = {(char *)"shards would be faster"};
    feed.n_notes = 1;
    feed.notes = notes;
    two.rank = 0;
    two.group = (char *)"default";
    two.members = 2;
    two.waiting_ns = 2100000000;
    two.reason = (char *)"reads /data/a\n.tar";
    Dlp__StatusReply reply =
        reply_of((Dlp__ClientStatus *[]){&one, &two}, 2, (Dlp__FeedStatus *[]){&feed}, 1);
    Dlp__VacantRank vacant = vacant_of("train"), *list[] = {&vacant};
    reply.vacant = list;
    reply.n_vacant = 1;
    struct ctl ctl = start(false);
    ctl_status_table(&ctl, &reply);
    fclose(ctl.out);
    ck_assert_str_eq(
        text,
        "dataloadd 0.1.0, pid 77, up 1 h 1 min, 2 workers, /run/dataloadd/control.sock\n"
        "memory 3.2 GB of 16.0 GB; no NVIDIA driver: shared memory\n"
        "\n"
        " PID  USER  JOB      GROUP       RANK  FEED   EPOCH    STEP  SAMPLES/S  MB/S  READY  "
        "WAIT %  HOLD %  STALLS   LONGEST  CAUSE   LIMIT   LEASE  STARTED         NOW\n"
        "4001  ada   slurm-7  -            1/2  train      3  41/500        420  63.2    1/4  "
        "    31      60      12  340.0 ms  decode  decode  pidfd  from the start  streaming\n"
        "4002  ada   slurm-7  default x2   0/2  train      3  41/500        420  63.2    1/4  "
        "    31      60      12  340.0 ms  decode  decode  pidfd  from the start  no batch for 2.1 "
        "s: reader reads /data/a\\x0A.tar\n"
        "\n"
        "FEED   CLIENTS  SAMPLES/S  READ %  READ MB/S  DECODE %  HAND-OFF %  SHUFFLE %  BAD  "
        "DAMAGED  RECORDS  SHARDS\n"
        "train        2        840      12       92.4        98           1        100    3  "
        "      0  1281167    1024\n"
        "\n"
        "train: decode limits: 840/s\n"
        "train: note: shards would be faster\n"
        "train: job slurm-7: nobody has had rank 3 of 4 for 2.1 s; it has released what is before "
        "epoch 3, step 40, and lost 64 samples since; a trainer with resume \"last\" takes it\n");
    free(text);
}
END_TEST

static Dlp__UserStatus user_of(const char *name, uint32_t uid)
{
    Dlp__UserStatus user = DLP__USER_STATUS__INIT;
    user.user = (char *)name;
    user.uid = uid;
    user.clients = 3;
    user.memory = 3200000000;
    user.weight = 1;
    user.busy = 0.5;
    return user;
}

/* Where there are several, or one who has limits. */
START_TEST(users_are_shown_where_it_matters)
{
    Dlp__UserStatus ada = user_of("ada", 1000), bob = user_of("bob\n", 2000),
                    *list[] = {&ada, &bob};
    Dlp__StatusReply reply = reply_of(NULL, 0, NULL, 0);
    reply.users = list;
    reply.n_users = 1;
    struct ctl ctl = start(false);
    ctl_status_table(&ctl, &reply);
    fclose(ctl.out);
    ck_assert_ptr_null(strstr(text, "ada"));
    free(text);
    ada.clients_limit = 32;
    ada.memory_limit = 64000000000;
    ada.threads_limit = 16;
    ada.weight = 5;
    ctl = start(false);
    ctl_status_table(&ctl, &reply);
    fclose(ctl.out);
    ck_assert_ptr_nonnull(
        strstr(text, "ada   1000  3 of 32  3.2 GB of 64.0 GB       5       16         50\n"));
    free(text);
    reply.n_users = 2;
    ctl = start(false);
    ctl_status_table(&ctl, &reply);
    fclose(ctl.out);
    ck_assert_ptr_nonnull(
        strstr(text, "USER      UID  CLIENTS             MEMORY  WEIGHT  THREADS  WORKERS %\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "bob\\x0A  2000        3             3.2 GB       1        -         50\n"));
    free(text);
}
END_TEST

START_TEST(orphaned_memory_is_shown_where_there_is_some)
{
    Dlp__StatusReply reply = reply_of(NULL, 0, NULL, 0);
    reply.memory_orphaned = 400000000;
    struct ctl ctl = start(false);
    ctl_status_table(&ctl, &reply);
    fclose(ctl.out);
    ck_assert_ptr_nonnull(strstr(text, "\nmemory 3.2 GB of 16.0 GB, orphaned 400.0 MB; no NVIDIA"));
    free(text);
}
END_TEST

START_TEST(an_idle_daemon)
{
    Dlp__FeedStatus feed = feed_of("val");
    feed.verdict = (char *)"no trainer is attached";
    Dlp__StatusReply reply = reply_of(NULL, 0, (Dlp__FeedStatus *[]){&feed}, 1);
    struct ctl ctl = start(false);
    ctl.headers = false;
    ctl_status_table(&ctl, &reply);
    fclose(ctl.out);
    ck_assert_ptr_nonnull(strstr(text, "val: no trainer is attached\n"));
    ck_assert_ptr_null(strstr(text, "PID"));
    ck_assert_ptr_null(strstr(text, "FEED"));
    free(text);
}
END_TEST

START_TEST(an_older_daemon_leaves_the_verdict_out)
{
    Dlp__ClientStatus one = client_of(1, "train");
    Dlp__FeedStatus feed = feed_of("train");
    one.limiting_stage = one.verdict = feed.limiting_stage = feed.verdict = (char *)"";
    Dlp__StatusReply reply =
        reply_of((Dlp__ClientStatus *[]){&one}, 1, (Dlp__FeedStatus *[]){&feed}, 1);
    struct ctl ctl = start(false);
    ctl_status_table(&ctl, &reply);
    fclose(ctl.out);
    ck_assert_ptr_nonnull(strstr(text, "  decode  -      pidfd  "));
    ck_assert_ptr_null(strstr(text, "train: "));
    free(text);
}
END_TEST

START_TEST(who_waits_for_a_member_is_told_for_whom)
{
    Dlp__ClientStatus fast = client_of(1, "train"), slow = client_of(2, "train");
    fast.group = slow.group = (char *)"g";
    fast.members = slow.members = 2;
    Dlp__FeedStatus feed = feed_of("train");
    fast.waiting_ns = 2100000000;
    fast.waits_for = 2;
    fast.reason = (char *)"waits for pid 2 of group g, 3 batches behind, 2.0 s";
    slow.behind = 3;
    Dlp__StatusReply reply =
        reply_of((Dlp__ClientStatus *[]){&fast, &slow}, 2, (Dlp__FeedStatus *[]){&feed}, 1);
    struct ctl ctl = start(false);
    ctl_status_table(&ctl, &reply);
    fclose(ctl.out);
    ck_assert_ptr_nonnull(
        strstr(text, "no batch for 2.1 s: waits for pid 2 of group g, 3 batches"));
    ck_assert_ptr_nonnull(strstr(text, "streaming, 3 batches behind\n"));
    ck_assert_ptr_nonnull(strstr(text, "g x2"));
    free(text);
}
END_TEST

START_TEST(pinned_workers_are_told)
{
    Dlp__StatusReply reply = reply_of(NULL, 0, NULL, 0);
    reply.worker_cpus = (char *)"0-1,8";
    struct ctl ctl = start(false);
    ctl_status_table(&ctl, &reply);
    fclose(ctl.out);
    ck_assert_ptr_nonnull(strstr(text, ", 2 workers on CPUs 0-1,8, /run/"));
}
END_TEST

START_TEST(workers_that_set_their_number_are_told)
{
    Dlp__StatusReply reply = reply_of(NULL, 0, NULL, 0);
    reply.workers_max = 16;
    reply.workers_why = (char *)"the trainers could take 840/s, 2 workers x 420/s = 840/s";
    reply.throttled_share = 0.4;
    struct ctl ctl = start(false);
    ctl_status_table(&ctl, &reply);
    fclose(ctl.out);
    ck_assert_ptr_nonnull(strstr(
        text,
        "\nworkers: 2 of up to 16: the trainers could take 840/s, 2 workers x 420/s = 840/s\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "\nthrottled: the CPU quota of a cgroup kept 40 % of the CPU time"));
}
END_TEST

static const char *const client_keys[] = {
    "pid",
    "uid",
    "user",
    "job",
    "rank",
    "world",
    "feed",
    "epoch",
    "step",
    "steps",
    "samples_per_s",
    "bytes_per_s",
    "ready",
    "held",
    "slots",
    "wait_share",
    "hold_share",
    "stalls",
    "longest_stall_s",
    "last_cause",
    "waiting_s",
    "idle_s",
    "samples",
    "batches",
    "bad",
    "dropped",
    "lease",
    "state",
    "reason",
    "started",
    "program",
    "attached_s",
    "read_limit",
    "decode_limit",
    "arena_bytes",
    "shuffle_bytes",
    "probe",
    "slots_held_share",
    "window_s",
    "decode_per_worker",
    "read_bytes_per_s",
    "plan_id",
    "group",
    "members",
    "behind",
    "waits_for",
    "skipped",
    "memory",
    "gpu",
    "memory_why",
    "limiting_stage",
    "verdict",
    "stages",
    "ready_share",
    "wait_s",
    "hold_s",
    "wait_p50_s",
    "wait_p99_s",
    "wait_max_s",
    "wait_counts",
    "causes",
    "compute_limit",
    "allow_replay",
    "replaying",
    "bytes",
    "read_bytes",
    "number",
    "share_wait_s",
    "share",
};
static const char *const feed_keys[] = {
    "name",
    "clients",
    "read_busy",
    "decode_busy",
    "handoff_busy",
    "shuffle_fill",
    "bad",
    "damaged",
    "records",
    "shards",
    "decode_per_worker",
    "read_bytes_per_s",
    "samples_per_s",
    "notes",
    "read_limit",
    "window_s",
    "decoded",
    "lag_detached",
    "skipped",
    "marks_used",
    "marks_wrong",
    "marks_kept",
    "marks_bytes",
    "batches",
    "samples",
    "bytes",
    "wait_s",
    "hold_s",
    "wait_counts",
    "causes",
    "bad_limit_stops",
    "limiting_stage",
    "verdict",
    "stages",
    "remedies",
    "read_bytes",
    "read_errors",
};
static const char *const daemon_keys[] = {
    "pid",
    "uptime_s",
    "version",
    "socket",
    "workers",
    "memory_limit",
    "memory_used",
    "memory_orphaned",
    "device",
    "clients",
    "feeds",
    "malformed_peers",
    "refused",
    "vacant",
    "schema_version",
    "worker_cpus",
    "workers_max",
    "workers_why",
    "throttled_share",
    "answers",
    "heartbeat_age_s",
    "figures_age_s",
    "hangs",
    "http",
    "draining_s",
    "notes",
    "users",
};
static const char *const user_keys[] = {
    "uid",          "user",          "clients", "clients_limit",     "memory",
    "memory_limit", "threads_limit", "weight",  "descriptors_limit", "busy"};
static const char *const vacant_keys[] = {"feed",  "job",  "uid",  "rank",     "world",
                                          "epoch", "step", "lost", "vacant_s", "shared"};
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* The manual, with a blank at its end so that each word stands between two. */
static const char *manual(void)
{
    static char page[65536];
    FILE *file = fopen(SOURCE_DIR "/docs/dataloadctl.1", "r");
    ck_assert_ptr_nonnull(file);
    size_t size = fread(page, 1, sizeof(page) - 2, file);
    fclose(file);
    for (size_t i = 0; i < size; i++)
        page[i] = page[i] == '\n' ? ' ' : page[i];
    strcpy(page + size, " ");
    return page;
}

/* Keys may be added, and then belong into this list and the manual; none goes or changes. */
static void ck_keys(const json_t *object, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char word[64];
        snprintf(word, sizeof(word), " %s ", keys[i]);
        ck_assert_msg(json_object_get(object, keys[i]) != NULL, "no key %s", keys[i]);
        ck_assert_msg(strstr(manual(), word) != NULL, "%s is not in the manual", keys[i]);
    }
    ck_assert_uint_eq(json_object_size(object), count);
}

START_TEST(json_has_the_documented_keys)
{
    Dlp__ClientStatus one = client_of(4001, "train");
    Dlp__FeedStatus feed = feed_of("train");
    Dlp__StatusReply reply =
        reply_of((Dlp__ClientStatus *[]){&one}, 1, (Dlp__FeedStatus *[]){&feed}, 1);
    Dlp__VacantRank vacant = vacant_of("train"), *list[] = {&vacant};
    reply.vacant = list;
    reply.n_vacant = 1;
    Dlp__UserStatus user = user_of("ada", 1000), *users[] = {&user};
    reply.users = users;
    reply.n_users = 1;
    struct ctl ctl = start(true);
    ctl_status_json(&ctl, &(struct ctl_sight){.status = &reply});
    fclose(ctl.out);
    json_t *json = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(json);
    json_t *client = json_array_get(json_object_get(json, "clients"), 0);
    json_t *shown = json_array_get(json_object_get(json, "feeds"), 0);
    ck_keys(json, daemon_keys, COUNT(daemon_keys));
    ck_keys(client, client_keys, COUNT(client_keys));
    ck_keys(shown, feed_keys, COUNT(feed_keys));
    ck_keys(json_array_get(json_object_get(json, "vacant"), 0), vacant_keys, COUNT(vacant_keys));
    ck_keys(json_array_get(json_object_get(json, "users"), 0), user_keys, COUNT(user_keys));
    ck_assert_str_eq(json_string_value(json_object_get(client, "limiting_stage")), "decode");
    ck_assert_double_eq_tol(json_number_value(json_object_get(json, "uptime_s")), 3700, 1e-6);
    ck_assert_int_eq(json_integer_value(json_object_get(json, "memory_used")), 3200000000);
    json_decref(json);
    free(text);
}
END_TEST

START_TEST(watched_json_is_one_line)
{
    Dlp__StatusReply reply = reply_of(NULL, 0, NULL, 0);
    struct ctl ctl = start(true);
    ctl.watch = 1;
    ctl_status_json(&ctl, &(struct ctl_sight){.status = &reply});
    fclose(ctl.out);
    ck_assert_ptr_eq(strchr(text, '\n'), text + text_size - 1);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ctl_status");
    TCase *tcase = tcase_create("report");
    tcase_add_test(tcase, report_has_all_columns);
    tcase_add_test(tcase, users_are_shown_where_it_matters);
    tcase_add_test(tcase, orphaned_memory_is_shown_where_there_is_some);
    tcase_add_test(tcase, an_idle_daemon);
    tcase_add_test(tcase, pinned_workers_are_told);
    tcase_add_test(tcase, workers_that_set_their_number_are_told);
    tcase_add_test(tcase, an_older_daemon_leaves_the_verdict_out);
    tcase_add_test(tcase, who_waits_for_a_member_is_told_for_whom);
    tcase_add_test(tcase, json_has_the_documented_keys);
    tcase_add_test(tcase, watched_json_is_one_line);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
