#include "control/status_line.h"

#include <check.h>
#include <stdlib.h>

#include "control/verdict.h"

static Dlp__ClientStatus clients[4];
static Dlp__FeedStatus feeds[3];
static Dlp__ClientStatus *client_list[4];
static Dlp__FeedStatus *feed_list[3];
static Dlp__StatusReply reply;

static void setup(void)
{
    dlp__status_reply__init(&reply);
    reply.clients = client_list;
    reply.feeds = feed_list;
    reply.memory_used = 1500000;
    reply.memory_limit = 8000000000;
}

static void add_feed(const char *name, uint32_t attached, enum verdict_stage stage)
{
    Dlp__FeedStatus *feed = feed_list[reply.n_feeds] = &feeds[reply.n_feeds];
    dlp__feed_status__init(feed);
    feed->name = (char *)name;
    feed->clients = attached;
    feed->limiting_stage = (char *)verdict_stage_name(stage);
    reply.n_feeds++;
}

static void add_client(const char *feed, const char *state, double bytes_per_s, double wait_share)
{
    Dlp__ClientStatus *client = client_list[reply.n_clients] = &clients[reply.n_clients];
    dlp__client_status__init(client);
    client->feed = (char *)feed;
    client->state = (char *)state;
    client->bytes_per_s = bytes_per_s;
    client->wait_share = wait_share;
    reply.n_clients++;
}

static void expect(const char *line)
{
    char text[STATUS_LINE_MAX];
    ck_assert_str_eq(status_line(&reply, text), line);
}

START_TEST(nobody_is_there)
{
    add_feed("idle", 0, VERDICT_UNKNOWN);
    expect("0 clients, 0.0 MB/s, 1.5 MB of 8000.0 MB in use");
    reply.draining_ns = 1;
    expect("draining, 0 clients, 0.0 MB/s, 1.5 MB of 8000.0 MB in use");
}
END_TEST

START_TEST(the_feed_that_is_waited_for_most)
{
    add_feed("quick", 1, VERDICT_TRAINER);
    add_feed("val", 1, VERDICT_STORAGE);
    add_feed("train", 2, VERDICT_DECODE);
    add_client("quick", "streaming", 1e6, 0.9);
    add_client("val", "streaming", 2e6, 0.2);
    add_client("train", "streaming", 400e6, 0.1);
    add_client("train", "streaming", 409.5e6, 0.3);
    expect("4 clients, 812.5 MB/s, train limited by decode, 1.5 MB of 8000.0 MB in use");
    clients[3].wait_share = 0.15;
    expect("4 clients, 812.5 MB/s, val limited by storage, 1.5 MB of 8000.0 MB in use");
}
END_TEST

START_TEST(nobody_waits)
{
    add_feed("train", 1, VERDICT_TRAINER);
    add_client("train", "streaming", 5e6, 0);
    add_client("train", "closing", 0, 0);
    expect("1 client, 5.0 MB/s, limited by the trainers, 1.5 MB of 8000.0 MB in use");
}
END_TEST

START_TEST(not_known_yet)
{
    add_feed("train", 1, VERDICT_UNKNOWN);
    add_client("train", "attaching", 0, 0);
    expect("1 client, 0.0 MB/s, 1.5 MB of 8000.0 MB in use");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("status_line");
    TCase *tcase = tcase_create("words");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, nobody_is_there);
    tcase_add_test(tcase, the_feed_that_is_waited_for_most);
    tcase_add_test(tcase, nobody_waits);
    tcase_add_test(tcase, not_known_yet);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
