#include <stdio.h>
#include <string.h>

#include "client/ctl/ctl_table.h"
#include "client/ctl/ctl_top_view.h"

/* Columns of a line: name, bar, figures. The bar is twice what the trainers could take: a stage
 * that does not reach the mark in its middle holds them up. */
#define NAME_LEFT 2
#define BAR_LEFT 12
#define BAR_MIN 8
#define BAR_MAX 40
#define FIGURES 42 /* columns that stay for them */

struct line {
    const char *name;
    double limit; /* samples/s; 0 = not known */
    double fill;  /* share of its room; -1: it has a rate */
    bool limits;
    char figures[112];
};

static int bar_width(const struct screen *screen)
{
    int width = screen->cols - BAR_LEFT - FIGURES;
    return width < BAR_MIN ? BAR_MIN : width > BAR_MAX ? BAR_MAX : width;
}

/* Of all its trainers together; where one is not known, what they take. */
static double demand_of(const Dlp__StatusReply *status, const Dlp__FeedStatus *feed)
{
    double demand = 0;
    for (size_t i = 0; i < status->n_clients; i++) {
        const Dlp__ClientStatus *client = status->clients[i];
        if (strcmp(client->feed, feed->name) == 0)
            demand += client->compute_limit > 0 ? client->compute_limit : client->samples_per_s;
    }
    return demand;
}

/* The stage's own name of what a verdict calls otherwise. */
static bool names(const char *limiting, const char *stage)
{
    return strcmp(strcmp(limiting, "storage") == 0 ? "read" : limiting, stage) == 0;
}

static void draw_cells(struct screen *screen, int row, int full, enum screen_look look)
{
    int width = bar_width(screen);
    uint32_t block = screen->utf8 ? 0x2588 : '#', rest = screen->utf8 ? 0xB7 : '.';
    for (int i = 0; i < width; i++)
        screen_glyph(screen, row, BAR_LEFT + i, i < full ? look : SCREEN_DIM,
                     i < full ? block : rest);
}

static void draw_bar(struct screen *screen, int row, const struct line *line, double demand)
{
    int width = bar_width(screen), mark = width / 2;
    double share = demand > 0 ? line->limit / demand : 1;
    int full = share >= 2 ? width : (int)(share * mark + 0.5);
    draw_cells(screen, row, full,
               line->limits  ? SCREEN_BAD
               : full < mark ? SCREEN_FAIR
                             : SCREEN_GOOD);
    if (demand > 0)
        screen_glyph(screen, row, BAR_LEFT + mark, SCREEN_BOLD, screen->utf8 ? 0x2502 : '|');
}

/* A stage that holds something, and has no rate of its own: how full it is. */
static void draw_fill(struct screen *screen, int row, const struct line *line)
{
    double share = line->fill < 1 ? line->fill : 1;
    draw_cells(screen, row, (int)(share * bar_width(screen) + 0.5), SCREEN_GOOD);
}

static void draw_line(struct screen *screen, int row, const struct line *line, double demand)
{
    char rate[CTL_TEXT_MAX];
    enum screen_look look = line->limits ? SCREEN_BAD : SCREEN_PLAIN;
    int left = BAR_LEFT + bar_width(screen) + 1;
    screen_print(screen, row, NAME_LEFT, look, "%.9s", line->name);
    if (line->fill >= 0) {
        draw_fill(screen, row, line);
        screen_print(screen, row, left, look, "%9s %s", "", line->figures);
        return;
    }
    if (line->limit > 0)
        draw_bar(screen, row, line, demand);
    screen_print(screen, row, left, look, "%7s/s %s%s", ctl_text_rate(line->limit, rate),
                 line->figures,
                 line->limits ? screen->utf8 ? "  \u25c0 limits" : "  < limits" : "");
}

static void queue_text(const Dlp__StageStatus *stage, char *text, size_t size)
{
    char queued[CTL_TEXT_MAX], room[CTL_TEXT_MAX];
    bool bytes = strcmp(stage->name, "read") == 0;
    snprintf(queued, sizeof(queued), "%ju", (uintmax_t)stage->queued);
    snprintf(room, sizeof(room), "%ju", (uintmax_t)stage->room);
    if (bytes) {
        ctl_text_bytes(stage->queued, queued);
        ctl_text_bytes(stage->room, room);
    }
    if (stage->room)
        snprintf(text, size, "%s of %s", queued, room);
    else if (stage->queued)
        snprintf(text, size, "%s", queued);
    else
        *text = '\0';
}

static bool is(const Dlp__StageStatus *stage, const char *name)
{
    return strcmp(stage->name, name) == 0;
}

/* Threads that may be busy with it at once: one reader a client, else the workers. */
static double threads_of(const Dlp__StatusReply *status, const Dlp__FeedStatus *feed,
                         const Dlp__StageStatus *stage)
{
    uint32_t threads = is(stage, "read") || is(stage, "slots") ? feed->clients : status->workers;
    return threads ? threads : 1;
}

static struct line line_of(const Dlp__StatusReply *status, const Dlp__FeedStatus *feed,
                           const Dlp__StageStatus *stage)
{
    struct line line = {.name = stage->name,
                        .limit = stage->limit,
                        .fill = -1,
                        .limits = names(feed->limiting_stage, stage->name)};
    double busy = stage->busy / threads_of(status, feed, stage) * 100;
    char queue[72];
    queue_text(stage, queue, sizeof(queue));
    if (is(stage, "slots") || is(stage, "shuffle"))
        line.fill = stage->room ? (double)stage->queued / (double)stage->room : 0;
    if (is(stage, "slots"))
        snprintf(line.figures, sizeof(line.figures), "%s ready, waits %.0f %%", queue, busy);
    else if (is(stage, "shuffle"))
        snprintf(line.figures, sizeof(line.figures), "%s held", queue);
    else
        snprintf(line.figures, sizeof(line.figures), "busy %3.0f %%  %s", busy, queue);
    return line;
}

int top_stages_lines(const Dlp__FeedStatus *feed)
{
    return feed->n_stages && feed->clients ? (int)feed->n_stages + 1 : 0;
}

int top_stages_draw(struct screen *screen, int row, int most, const Dlp__StatusReply *status,
                    const Dlp__FeedStatus *feed)
{
    double demand = demand_of(status, feed);
    char rate[CTL_TEXT_MAX];
    int lines = top_stages_lines(feed) <= most ? top_stages_lines(feed) : 0;
    for (int i = 0; i + 1 < lines; i++) {
        struct line line = line_of(status, feed, feed->stages[i]);
        draw_line(screen, row + i, &line, demand);
    }
    if (lines > 0) {
        struct line trainer = {.name = "trainer",
                               .limit = demand,
                               .fill = -1,
                               .limits = names(feed->limiting_stage, "trainer")};
        snprintf(trainer.figures, sizeof(trainer.figures), "takes %s/s",
                 ctl_text_rate(feed->samples_per_s, rate));
        draw_line(screen, row + lines - 1, &trainer, demand);
    }
    return lines;
}
