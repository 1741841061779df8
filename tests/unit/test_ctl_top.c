/* The page of top, its order and its memory, from hand-made reports and without a terminal. */
#include <check.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl_top_view.h"

#define CLIENTS_MAX 400
#define STAGES 6

static Dlp__ClientStatus clients[CLIENTS_MAX];
static Dlp__ClientStatus *client_list[CLIENTS_MAX];
static char jobs[CLIENTS_MAX][16];
static Dlp__StageStatus stages[2][STAGES];
static Dlp__StageStatus *stage_lists[2][STAGES];
static Dlp__FeedStatus feeds[2];
static Dlp__FeedStatus *feed_list[2] = {&feeds[0], &feeds[1]};
static struct history history;

static void make_client(size_t i)
{
    Dlp__ClientStatus *client = &clients[i];
    dlp__client_status__init(client);
    snprintf(jobs[i], sizeof(jobs[i]), "job-%02u", (unsigned)(i / 4) % 100);
    client->pid = 1000 + (int)i;
    client->number = i + 1;
    client->user = (char *)"ada";
    client->job = jobs[i];
    client->rank = (uint32_t)(i % 4);
    client->world = 4;
    client->feed = (char *)"imagenet";
    client->samples_per_s = 100 + (double)(i * 37 % 50);
    client->compute_limit = 300;
    client->wait_share = (double)(i * 7 % 100) / 100;
    client->slots = 4;
    client->ready = 1;
    client->limiting_stage = (char *)"decode";
    client->last_cause = (char *)"decode";
    client->wait_p99_ns = 34000000;
    client_list[i] = client;
}

static void make_feed(size_t number, const char *name, size_t count)
{
    static const char *const names[STAGES] = {"read",    "decode", "augment",
                                              "shuffle", "slots",  "copy"};
    static const double limits[STAGES] = {9000, 840, 4000, 0, 0, 1300};
    for (size_t i = 0; i < STAGES; i++) {
        Dlp__StageStatus *stage = &stages[number][i];
        dlp__stage_status__init(stage);
        stage->name = (char *)names[i];
        stage->limit = limits[i];
        stage->busy = i == 1 ? 1.96 : 0.4;
        stage_lists[number][i] = stage;
    }
    stages[number][3].queued = 900;
    stages[number][3].room = 1000;
    Dlp__FeedStatus *feed = &feeds[number];
    dlp__feed_status__init(feed);
    feed->name = (char *)name;
    feed->clients = (uint32_t)count;
    feed->samples_per_s = 840;
    feed->stages = stage_lists[number];
    feed->n_stages = STAGES;
    feed->limiting_stage = (char *)"decode";
    feed->verdict = (char *)"decode limits: 2 workers x 420/s = 840/s, the trainer could take "
                            "1,200/s; 3 workers would do, more buy nothing";
}

static Dlp__StatusReply report(size_t nclients, size_t nfeeds)
{
    Dlp__StatusReply status = DLP__STATUS_REPLY__INIT;
    for (size_t i = 0; i < nclients; i++)
        make_client(i);
    make_feed(0, "imagenet", nclients);
    make_feed(1, "second", 1);
    status.pid = 77;
    status.version = (char *)"0.1.0";
    status.workers = 2;
    status.workers_max = 8;
    status.throttled_share = 0.125;
    status.memory_limit = 16000000000;
    status.uptime_ns = 3700000000000;
    status.clients = client_list;
    status.n_clients = nclients;
    status.feeds = feed_list;
    status.n_feeds = nfeeds;
    return status;
}

static char *line(const struct screen *screen, int row)
{
    static char text[8][1024];
    static int next;
    char *out = text[next++ % 8];
    size_t size = 0;
    for (int col = 0; col < screen->cols; col++) {
        uint32_t glyph = screen->cells[row * screen->cols + col].glyph;
        if (glyph >= 0x800)
            out[size++] = (char)(0xE0 | glyph >> 12),
            out[size++] = (char)(0x80 | (glyph >> 6 & 63));
        else if (glyph >= 0x80)
            out[size++] = (char)(0xC0 | glyph >> 6);
        out[size++] = (char)(glyph < 0x80 ? glyph : 0x80 | (glyph & 63));
    }
    out[size] = '\0';
    return out;
}

static int row_with(const struct screen *screen, const char *text)
{
    for (int row = 0; row < screen->rows; row++)
        if (strstr(line(screen, row), text))
            return row;
    return -1;
}

static size_t count_rows(const struct screen *screen, const char *text)
{
    size_t count = 0;
    for (int row = 0; row < screen->rows; row++)
        count += strstr(line(screen, row), text) != NULL;
    return count;
}

static struct screen draw(struct top_view *view, const Dlp__StatusReply *status, int rows, int cols,
                          bool utf8)
{
    struct screen screen = {0};
    struct top_facts facts = {
        .status = status, .history = &history, .seconds = 1000, .trouble = ""};
    screen_size(&screen, rows, cols, utf8);
    top_view_draw(view, &facts, &screen);
    return screen;
}

static enum screen_look look_at(const struct screen *screen, int row, int col)
{
    return screen->cells[row * screen->cols + col].look;
}

START_TEST(page_of_80_by_24)
{
    struct top_view view = {0};
    Dlp__StatusReply status = report(4, 1);
    struct screen screen = draw(&view, &status, 24, 80, false);
    ck_assert_ptr_nonnull(strstr(line(&screen, 0), "dataloadd 0.1.0  pid 77  up 1 h 1 min"));
    ck_assert_ptr_nonnull(strstr(line(&screen, 0), "workers 2/8"));
    ck_assert_int_eq(row_with(&screen, "imagenet  4 clients  840 samples/s"), 1);
    ck_assert_int_eq(row_with(&screen, "decode limits: 2 workers x 420/s"), 2);
    ck_assert_int_eq(row_with(&screen, "more buy nothing"), 3);
    /* Demand is 1,200/s, in the middle of the bar. */
    const char *read = "  read      #############|############    9000/s busy  10 %";
    ck_assert_int_eq(row_with(&screen, read), 4);
    int limits = row_with(&screen, "< limits");
    ck_assert_int_eq(limits, row_with(&screen, "  decode    #########....|............     840/s"
                                               " busy  98 %"));
    ck_assert_int_eq(look_at(&screen, limits, 2), SCREEN_BAD);
    ck_assert_int_eq(look_at(&screen, limits + 1, 2), SCREEN_PLAIN);
    ck_assert_int_ge(row_with(&screen, "900 of 1000 held"), 0);
    ck_assert_int_ge(row_with(&screen, "trainer   #############|............    1200/s takes 840"),
                     0);
    ck_assert_int_ge(row_with(&screen, "q quit"), 23);
    ck_assert_uint_eq(count_rows(&screen, " job-00 "), 4);
    screen_free(&screen);
}
END_TEST

START_TEST(bars_and_lines_in_utf8)
{
    struct top_view view = {0};
    Dlp__StatusReply status = report(1, 1);
    status.clients[0]->wait_share = 0.5;
    for (int second = 990; second <= 1000; second++)
        history_add(&history, &status, second);
    struct screen screen = draw(&view, &status, 24, 80, true);
    ck_assert_int_ge(row_with(&screen, "\u25c0 limits"), 0);
    ck_assert_int_ge(row_with(&screen, "\u2588\u2502"), 0);
    ck_assert_int_ge(row_with(&screen, "\u2585\u2585\u2585"), 0);
    screen_free(&screen);
    screen = draw(&view, &status, 24, 80, false);
    ck_assert_int_ge(row_with(&screen, "==="), 0);
    for (int i = 0; i < screen.rows * screen.cols; i++)
        ck_assert_uint_lt(screen.cells[i].glyph, 0x80);
    screen_free(&screen);
    history_free(&history);
}
END_TEST

/* Each size has all of them within reach. */
START_TEST(four_hundred_clients)
{
    static const int sizes[][2] = {{24, 80}, {40, 120}, {10, 40}};
    Dlp__StatusReply status = report(CLIENTS_MAX, 2);
    int rows = sizes[_i][0], cols = sizes[_i][1];
    struct top_view view = {0};
    top_view_key(&view, 'p');
    struct screen screen = draw(&view, &status, rows, cols, false);
    ck_assert_uint_ge(view.page, 3);
    ck_assert_int_ge(row_with(&screen, "1000 job"), 0);
    screen_free(&screen);
    size_t seen = 0;
    while (seen < CLIENTS_MAX) {
        screen = draw(&view, &status, rows, cols, false);
        size_t first = view.first_client;
        ck_assert_uint_le(first, seen);
        char want[16];
        snprintf(want, sizeof(want), "%zu job", 1000 + first);
        ck_assert_int_ge(row_with(&screen, want), 0);
        seen = first + view.page;
        top_view_key(&view, TOP_PAGE_DOWN);
        screen_free(&screen);
    }
    top_view_key(&view, TOP_HOME);
    top_view_key(&view, TOP_END);
    screen = draw(&view, &status, rows, cols, false);
    ck_assert_int_ge(row_with(&screen, "1399 job"), 0);
    screen_free(&screen);
}
END_TEST

START_TEST(any_size_is_drawn)
{
    Dlp__StatusReply status = report(5, 2);
    struct top_facts facts = {.status = NULL, .history = &history, .trouble = "trouble"};
    for (int rows = 0; rows < 30; rows++)
        for (int cols = 0; cols < 90; cols += 7) {
            struct top_view view = {.first_column = (size_t)cols, .first_client = 3};
            struct screen screen = draw(&view, &status, rows, cols, true);
            top_view_draw(&view, &facts, &screen);
            view.help = true;
            top_view_draw(&view, &facts, &screen);
            screen_free(&screen);
        }
}
END_TEST

START_TEST(feeds_by_turns)
{
    struct top_view view = {0};
    Dlp__StatusReply status = report(8, 2);
    struct screen screen = draw(&view, &status, 24, 80, false);
    ck_assert_int_eq(row_with(&screen, "imagenet  8"), 1);
    ck_assert_int_gt(row_with(&screen, "1 more feed"), 1);
    screen_free(&screen);
    ck_assert(top_view_key(&view, '\t'));
    screen = draw(&view, &status, 24, 80, false);
    ck_assert_int_eq(row_with(&screen, "second  1"), 1);
    screen_free(&screen);
    ck_assert(top_view_key(&view, '\t'));
    screen = draw(&view, &status, 40, 120, false);
    ck_assert_int_eq(row_with(&screen, "imagenet  8"), 1);
    ck_assert_int_gt(row_with(&screen, "second  1"), 1);
    screen_free(&screen);
}
END_TEST

START_TEST(further_columns)
{
    struct top_view view = {0};
    Dlp__StatusReply status = report(2, 1);
    struct screen screen = draw(&view, &status, 24, 80, false);
    ck_assert_int_lt(row_with(&screen, "STEP/EPOCH"), 0);
    screen_free(&screen);
    for (int i = 0; i < 50; i++)
        top_view_key(&view, TOP_RIGHT);
    screen = draw(&view, &status, 24, 80, false);
    ck_assert_int_ge(row_with(&screen, "PID USER"), 0);
    screen_free(&screen);
    for (int i = 0; i < 50; i++)
        top_view_key(&view, TOP_LEFT);
    screen = draw(&view, &status, 40, 160, false);
    ck_assert_int_ge(row_with(&screen, "STEP/EPOCH"), 0);
    ck_assert_int_ge(row_with(&screen, "34.0 ms"), 0);
    screen_free(&screen);
}
END_TEST

START_TEST(trouble_and_help)
{
    struct top_view view = {0};
    struct screen screen = {0};
    Dlp__StatusReply status = report(1, 1);
    struct top_facts facts = {.status = &status, .history = &history, .trouble = "no answer"};
    screen_size(&screen, 24, 80, false);
    top_view_draw(&view, &facts, &screen);
    ck_assert_int_eq(row_with(&screen, "no answer"), 23);
    ck_assert(top_view_key(&view, 'h'));
    screen_size(&screen, 24, 80, false);
    top_view_draw(&view, &facts, &screen);
    ck_assert_int_eq(row_with(&screen, "sort by wait, rate, pid, job, feed"), 0);
    ck_assert_int_lt(row_with(&screen, "SAMP/S"), 0);
    ck_assert(!top_view_key(&view, 'x'));
    screen_free(&screen);
}
END_TEST

START_TEST(what_is_no_text_is_escaped)
{
    struct top_view view = {0};
    Dlp__StatusReply status = report(1, 1);
    status.clients[0]->job = (char *)"a\033[2Jb";
    feeds[0].verdict = (char *)"one\ntwo\x9b";
    struct screen screen = draw(&view, &status, 24, 80, true);
    for (int i = 0; i < screen.rows * screen.cols; i++)
        ck_assert(screen.cells[i].glyph >= 0x20 && screen.cells[i].glyph != 0x9b);
    ck_assert_int_ge(row_with(&screen, "one\\x0Atwo\\x9B"), 0);
    screen_free(&screen);
}
END_TEST

static void check_order(enum top_sort sort, bool turned, int first, int last)
{
    Dlp__StatusReply status = report(4, 1);
    clients[0].wait_share = 0.2, clients[0].samples_per_s = 40;
    clients[1].wait_share = 0.9, clients[1].samples_per_s = 10;
    clients[2].wait_share = 0.2, clients[2].samples_per_s = 90;
    clients[3].wait_share = 0.1, clients[3].samples_per_s = 20;
    clients[3].job = (char *)"a-job";
    clients[1].feed = (char *)"a-feed";
    const Dlp__ClientStatus **sorted = top_sorted(&status, sort, turned);
    ck_assert_int_eq(sorted[0]->pid, first);
    ck_assert_int_eq(sorted[3]->pid, last);
    free(sorted);
}

START_TEST(orders)
{
    check_order(TOP_BY_WAIT, false, 1001, 1003);
    check_order(TOP_BY_WAIT, true, 1003, 1001);
    check_order(TOP_BY_RATE, false, 1002, 1001);
    check_order(TOP_BY_PID, false, 1000, 1003);
    check_order(TOP_BY_PID, true, 1003, 1000);
    check_order(TOP_BY_JOB, false, 1003, 1002);
    check_order(TOP_BY_FEED, false, 1001, 1002);
}
END_TEST

START_TEST(keys_choose_orders)
{
    struct top_view view = {.first_client = 7};
    ck_assert(top_view_key(&view, 'r'));
    ck_assert_int_eq(view.sort, TOP_BY_RATE);
    ck_assert(!view.turned);
    ck_assert_uint_eq(view.first_client, 0);
    ck_assert(top_view_key(&view, 'r'));
    ck_assert(view.turned);
    ck_assert(top_view_key(&view, 'w'));
    ck_assert(!view.turned);
}
END_TEST

START_TEST(history_of_a_minute)
{
    double shares[HISTORY_BINS];
    Dlp__StatusReply status = report(2, 1);
    for (int second = 900; second < 1000; second++) {
        clients[0].wait_share = second < 950 ? 0 : 1;
        history_add(&history, &status, second);
    }
    history_get(&history, &clients[0], 999, shares);
    ck_assert_double_eq(shares[0], 0); /* 940 to 944 */
    ck_assert_double_eq(shares[1], 0);
    ck_assert_double_eq(shares[2], 1);
    ck_assert_double_eq(shares[HISTORY_BINS - 1], 1);
    history_get(&history, &clients[0], 1010, shares);
    ck_assert_double_eq(shares[HISTORY_BINS - 1], -1); /* nothing was heard since */
    ck_assert_double_eq(shares[HISTORY_BINS - 3], -1);
    ck_assert_double_eq(shares[HISTORY_BINS - 4], 1);
    /* Who has gone is forgotten, and another daemon's clients are others. */
    status.n_clients = 1;
    history_add(&history, &status, 1011);
    history_get(&history, &clients[1], 1011, shares);
    ck_assert_double_eq(shares[HISTORY_BINS - 4], -1);
    status.pid = 78;
    history_add(&history, &status, 1012);
    history_get(&history, &clients[0], 1012, shares);
    ck_assert_double_eq(shares[HISTORY_BINS - 4], -1);
    ck_assert_double_eq(shares[HISTORY_BINS - 1], 1);
    history_free(&history);
}
END_TEST

START_TEST(words_wrap)
{
    struct screen screen = {0};
    screen_size(&screen, 4, 12, false);
    ck_assert_int_eq(screen_lines(&screen, 2, "one two three four"), 2);
    ck_assert_int_eq(screen_wrap(&screen, 0, 2, 3, SCREEN_PLAIN, "one two three four"), 2);
    ck_assert_str_eq(line(&screen, 0), "  one two   ");
    ck_assert_str_eq(line(&screen, 1), "  three four");
    screen_size(&screen, 4, 12, false);
    ck_assert_int_eq(screen_wrap(&screen, 0, 0, 2, SCREEN_PLAIN, "averyveryverylongword and more"),
                     2);
    ck_assert_str_eq(line(&screen, 0), "averyveryver");
    ck_assert_str_eq(line(&screen, 1), "ylongword an");
    screen_free(&screen);
}
END_TEST

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8"); /* wcwidth */
    Suite *suite = suite_create("ctl_top");
    TCase *tests = tcase_create("all");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, page_of_80_by_24);
    tcase_add_test(tests, bars_and_lines_in_utf8);
    tcase_add_loop_test(tests, four_hundred_clients, 0, 3);
    tcase_add_test(tests, any_size_is_drawn);
    tcase_add_test(tests, feeds_by_turns);
    tcase_add_test(tests, further_columns);
    tcase_add_test(tests, trouble_and_help);
    tcase_add_test(tests, what_is_no_text_is_escaped);
    tcase_add_test(tests, orders);
    tcase_add_test(tests, keys_choose_orders);
    tcase_add_test(tests, history_of_a_minute);
    tcase_add_test(tests, words_wrap);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
