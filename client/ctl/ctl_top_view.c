#include "client/ctl/ctl_top_view.h"

#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_table.h"

#define CLIENT_ROWS_MIN 4 /* that feeds leave, the titles included, where the screen has them */
#define VERDICT_LEFT 2
#define VERDICT_LINES 3

static const struct {
    int key;
    enum top_sort sort;
} sorts[] = {
    {'w', TOP_BY_WAIT}, {'r', TOP_BY_RATE}, {'p', TOP_BY_PID},
    {'j', TOP_BY_JOB},  {'f', TOP_BY_FEED},
};

static const char *const help[] = {
    "w r p j f     sort by wait, rate, pid, job, feed; again: the other way round",
    "up down       a client further; PgUp PgDn a page, Home End to the ends",
    "left right    further columns",
    "tab           the next feed's stages",
    "h ?           this help, and away with it",
    "q Ctrl-C      leave",
    "",
    "A bar is what a stage could do; the mark in its middle is what the trainers",
    "could take. WAIT/MIN is the share of time that a trainer waited, of the last",
    "minute, 5 s a sign. Rates are samples/s over the last seconds.",
};
#define HELP_LINES ((int)(sizeof(help) / sizeof(*help)))

static bool choose_sort(struct top_view *view, int key)
{
    for (size_t i = 0; i < sizeof(sorts) / sizeof(*sorts); i++) {
        if (sorts[i].key != key)
            continue;
        view->turned = view->sort == sorts[i].sort && !view->turned;
        view->sort = sorts[i].sort;
        view->first_client = 0;
        return true;
    }
    return false;
}

/* Drawing brings what is too large back to the last page. */
static bool move(struct top_view *view, int key)
{
    size_t *client = &view->first_client, page = view->page ? view->page : 1;
    switch (key) {
    case TOP_UP:
        *client -= *client > 0;
        return true;
    case TOP_DOWN:
        ++*client;
        return true;
    case TOP_PAGE_UP:
        *client -= *client < page ? *client : page;
        return true;
    case TOP_PAGE_DOWN:
        *client += page;
        return true;
    case TOP_HOME:
        *client = 0;
        return true;
    case TOP_END:
        *client = SIZE_MAX / 2;
        return true;
    case TOP_LEFT:
        view->first_column -= view->first_column > 0;
        return true;
    case TOP_RIGHT:
        view->first_column++;
        return true;
    default:
        return false;
    }
}

bool top_view_key(struct top_view *view, int key)
{
    if (key == 'h' || key == '?')
        view->help = !view->help;
    else if (key == '\t')
        view->first_feed++;
    else
        return choose_sort(view, key) || move(view, key);
    return true;
}

static void draw_head(const struct top_facts *facts, struct screen *screen)
{
    const Dlp__StatusReply *status = facts->status;
    char up[CTL_TEXT_MAX], used[CTL_TEXT_MAX], limit[CTL_TEXT_MAX], most[CTL_TEXT_MAX] = "";
    if (status->workers_max > status->workers)
        snprintf(most, sizeof(most), "/%u", status->workers_max);
    int col = screen_print(
        screen, 0, 0, SCREEN_BOLD, "dataloadd %s  pid %d  up %s  workers %u%s  memory %s of %s",
        status->version, status->pid, ctl_text_time(status->uptime_ns, up), status->workers, most,
        ctl_text_bytes(status->memory_used, used), ctl_text_bytes(status->memory_limit, limit));
    if (status->throttled_share >= 0.005)
        screen_print(screen, 0, col, SCREEN_BAD, "  throttled %.0f %%",
                     status->throttled_share * 100);
}

static void draw_foot(const struct top_facts *facts, struct screen *screen)
{
    int row = screen->rows - 1;
    if (*facts->trouble)
        screen_print(screen, row, 0, SCREEN_BAD, "%s", facts->trouble);
    else
        screen_print(screen, row, 0, SCREEN_DIM,
                     "q quit  h help  sort: w wait  r rate  p pid  j job  f feed  tab: next feed");
}

/* One that says it may take some lines; without one, one line. */
static int verdict_lines(const struct screen *screen, const Dlp__FeedStatus *feed)
{
    int lines = screen_lines(screen, VERDICT_LEFT, feed->verdict);
    return lines < VERDICT_LINES ? lines : VERDICT_LINES;
}

static int draw_verdict(struct screen *screen, int row, int most, const Dlp__FeedStatus *feed)
{
    bool limited = *feed->limiting_stage && strcmp(feed->limiting_stage, "unknown") != 0 &&
                   strcmp(feed->limiting_stage, "trainer") != 0;
    return screen_wrap(screen, row, VERDICT_LEFT, most < VERDICT_LINES ? most : VERDICT_LINES,
                       limited ? SCREEN_FAIR : SCREEN_PLAIN, feed->verdict);
}

/* Title, verdict and stages, as far as `most` lines reach; returns how many. */
static int draw_feed(struct screen *screen, int row, int most, const Dlp__StatusReply *status,
                     const Dlp__FeedStatus *feed)
{
    char rate[CTL_TEXT_MAX];
    if (most < 1)
        return 0;
    screen_print(screen, row, 0, SCREEN_BOLD, "%s  %u client%s  %s samples/s  %.1f MB/s read",
                 feed->name, feed->clients, feed->clients == 1 ? "" : "s",
                 ctl_text_rate(feed->samples_per_s, rate), feed->read_bytes_per_s / 1e6);
    int lines = 1 + draw_verdict(screen, row + 1, most - 1, feed);
    return lines + top_stages_draw(screen, row + lines, most - lines, status, feed);
}

static int lines_of(const struct screen *screen, const Dlp__FeedStatus *feed)
{
    return 1 + verdict_lines(screen, feed) + top_stages_lines(feed);
}

/* Feeds from the chosen one on, whole ones, and how many others there are; returns the lines. */
static int draw_feeds(struct top_view *view, const Dlp__StatusReply *status, struct screen *screen,
                      int row, int most)
{
    size_t shown = 0;
    int used = 0;
    view->first_feed = status->n_feeds ? view->first_feed % status->n_feeds : 0;
    for (; shown < status->n_feeds; shown++) {
        const Dlp__FeedStatus *feed = status->feeds[(view->first_feed + shown) % status->n_feeds];
        bool others = shown + 1 < status->n_feeds;
        if (shown > 0 && used + lines_of(screen, feed) + others > most)
            break;
        used += draw_feed(screen, row + used, most - used - others, status, feed);
    }
    if (shown < status->n_feeds && used < most)
        screen_print(screen, row + used++, 0, SCREEN_DIM, "%zu more feed%s: tab",
                     status->n_feeds - shown, status->n_feeds - shown == 1 ? "" : "s");
    return used;
}

static void draw_help(struct screen *screen, int row, int rows)
{
    for (int i = 0; i < HELP_LINES && i < rows; i++)
        screen_print(screen, row + i, 0, SCREEN_PLAIN, "%s", help[i]);
}

void top_view_draw(struct top_view *view, const struct top_facts *facts, struct screen *screen)
{
    int rows = screen->rows - 2; /* without head and foot */
    draw_foot(facts, screen);
    if (view->help) {
        draw_help(screen, 0, screen->rows - 1);
        return;
    }
    if (!facts->status)
        return;
    draw_head(facts, screen);
    /* Few clients leave their rows to the feeds. */
    int clients = facts->status->n_clients + 1 < CLIENT_ROWS_MIN ? (int)facts->status->n_clients + 1
                                                                 : CLIENT_ROWS_MIN;
    clients = clients < 2 ? 2 : clients;
    int used = draw_feeds(view, facts->status, screen, 1, rows - clients);
    if (rows > used)
        top_clients_draw(view, facts, screen, 1 + used, rows - used);
}
