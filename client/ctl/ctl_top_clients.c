#include <stdio.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_table.h"
#include "client/ctl/ctl_top_view.h"

/* Columns in the order of their worth: a narrow screen has the first ones. */
enum column {
    PID,
    JOB,
    RANK,
    FEED,
    RATE,
    WAIT,
    MINUTE,
    READY,
    LIMIT,
    HOLD,
    STALLS,
    P99,
    CAUSE,
    MEGABYTES,
    STEP,
    USER,
    COLUMNS
};

#define CELL_MAX 64
#define GAP 1

static const struct {
    const char *title;
    bool right;
    int width, most; /* at least; at most, by what it holds */
    int sort;        /* by which it is, or -1 */
} columns[COLUMNS] = {
    [PID] = {"PID", true, 7, 7, TOP_BY_PID},
    [JOB] = {"JOB", false, 4, 14, TOP_BY_JOB},
    [RANK] = {"RANK", true, 5, 9, -1},
    [FEED] = {"FEED", false, 5, 14, TOP_BY_FEED},
    [RATE] = {"SAMP/S", true, 7, 8, TOP_BY_RATE},
    [WAIT] = {"WAIT%", true, 6, 6, TOP_BY_WAIT},
    [MINUTE] = {"WAIT/MIN", false, HISTORY_BINS, HISTORY_BINS, -1},
    [READY] = {"READY", true, 5, 7, -1},
    [LIMIT] = {"LIMIT", false, 7, 7, -1},
    [HOLD] = {"HOLD%", true, 5, 5, -1},
    [STALLS] = {"STALLS", true, 6, 8, -1},
    [P99] = {"P99", true, 8, 8, -1},
    [CAUSE] = {"CAUSE", false, 6, 12, -1},
    [MEGABYTES] = {"MB/S", true, 6, 8, -1},
    [STEP] = {"STEP/EPOCH", true, 10, 18, -1},
    [USER] = {"USER", false, 4, 10, -1},
};

static const char *spark(double share, bool utf8, char text[8])
{
    static const char *const plain[] = {"_", ".", "-", ":", "=", "+", "*", "#"};
    int level = (int)(share * 8);
    level = level < 0 ? 0 : level > 7 ? 7 : level;
    if (!utf8)
        return plain[level];
    snprintf(text, 8, "\xE2\x96%c", 0x81 + level);
    return text;
}

static void minute_text(const struct top_facts *facts, const Dlp__ClientStatus *client, bool utf8,
                        char cell[CELL_MAX])
{
    double shares[HISTORY_BINS];
    char text[8];
    history_get(facts->history, client, facts->seconds, shares);
    *cell = '\0';
    for (int i = 0; i < HISTORY_BINS; i++)
        strcat(cell, shares[i] < 0 ? " " : spark(shares[i], utf8, text));
}

static void cell_text(const struct top_facts *facts, const Dlp__ClientStatus *client,
                      enum column column, bool utf8, char cell[CELL_MAX])
{
    char text[CTL_TEXT_MAX];
    switch (column) {
    case PID:
        snprintf(cell, CELL_MAX, "%d", client->pid);
        return;
    case JOB:
        snprintf(cell, CELL_MAX, "%s", client->job);
        return;
    case RANK:
        snprintf(cell, CELL_MAX, "%u/%u", client->rank, client->world);
        return;
    case FEED:
        snprintf(cell, CELL_MAX, "%s", client->feed);
        return;
    case RATE:
        snprintf(cell, CELL_MAX, "%s", ctl_text_rate(client->samples_per_s, text));
        return;
    case WAIT:
        snprintf(cell, CELL_MAX, "%.0f", client->wait_share * 100);
        return;
    case MINUTE:
        minute_text(facts, client, utf8, cell);
        return;
    case READY:
        snprintf(cell, CELL_MAX, "%u/%u", client->ready, client->slots);
        return;
    case LIMIT:
        snprintf(cell, CELL_MAX, "%s", client->limiting_stage);
        return;
    case HOLD:
        snprintf(cell, CELL_MAX, "%.0f", client->hold_share * 100);
        return;
    case STALLS:
        snprintf(cell, CELL_MAX, "%ju", (uintmax_t)client->stalls);
        return;
    case P99:
        snprintf(cell, CELL_MAX, "%s",
                 client->wait_p99_ns ? ctl_text_time(client->wait_p99_ns, text) : "-");
        return;
    case CAUSE:
        snprintf(cell, CELL_MAX, "%s", client->last_cause);
        return;
    case MEGABYTES:
        snprintf(cell, CELL_MAX, "%.1f", client->bytes_per_s / 1e6);
        return;
    case STEP:
        snprintf(cell, CELL_MAX, "%ju/%ju", (uintmax_t)client->step, (uintmax_t)client->epoch);
        return;
    default:
        snprintf(cell, CELL_MAX, "%s", client->user);
    }
}

static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xC0U) != 0x80;
    return width;
}

/* Of all clients, so that scrolling moves no column. */
static int column_width(const struct top_facts *facts, enum column column)
{
    char cell[CELL_MAX];
    int width = columns[column].width;
    for (size_t i = 0; i < facts->status->n_clients && width < columns[column].most; i++) {
        cell_text(facts, facts->status->clients[i], column, false, cell);
        int needed = width_of(cell);
        width = needed > width ? needed : width;
    }
    return width < columns[column].most ? width : columns[column].most;
}

struct place { /* of a column on the screen */
    enum column column;
    int left, width;
};

static size_t place_columns(const struct top_view *view, const struct top_facts *facts,
                            const struct screen *screen, struct place places[COLUMNS])
{
    size_t count = 0;
    int left = 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        if (i > 0 && i <= view->first_column)
            continue;
        int width = column_width(facts, (enum column)i);
        if (left + width > screen->cols && count > 0)
            break;
        places[count++] = (struct place){(enum column)i, left, width};
        left += width + GAP;
    }
    return count;
}

/* What is too long ends in "~". */
static void draw_cell(struct screen *screen, int row, const struct place *place,
                      enum screen_look look, const char *text)
{
    int width = width_of(text);
    bool right = columns[place->column].right;
    int left = place->left + (right && width < place->width ? place->width - width : 0);
    if (width <= place->width)
        screen_print(screen, row, left, look, "%s", text);
    else
        screen_print(screen, row, place->left, look, "%.*s~", place->width - 1, text);
}

static void draw_titles(const struct top_view *view, struct screen *screen, int row,
                        const struct place *places, size_t count)
{
    for (int col = 0; col < screen->cols; col++)
        screen_glyph(screen, row, col, SCREEN_TITLE, ' ');
    for (size_t i = 0; i < count; i++) {
        char title[CELL_MAX];
        enum column column = places[i].column;
        bool sorted = columns[column].sort == (int)view->sort;
        snprintf(title, sizeof(title), "%s%s", sorted ? view->turned ? "^" : "v" : "",
                 columns[column].title);
        draw_cell(screen, row, &places[i], SCREEN_TITLE, title);
    }
}

static enum screen_look look_of(const Dlp__ClientStatus *client, enum column column)
{
    if (column != WAIT && column != MINUTE)
        return SCREEN_PLAIN;
    return client->wait_share >= 0.3    ? SCREEN_BAD
           : client->wait_share >= 0.05 ? SCREEN_FAIR
                                        : SCREEN_GOOD;
}

static void draw_client(const struct top_facts *facts, const Dlp__ClientStatus *client,
                        struct screen *screen, int row, const struct place *places, size_t count)
{
    char cell[CELL_MAX];
    for (size_t i = 0; i < count; i++) {
        cell_text(facts, client, places[i].column, screen->utf8, cell);
        draw_cell(screen, row, &places[i], look_of(client, places[i].column), cell);
    }
}

/* Clients go, and the screen grows: the page stays full as far as there are clients for it. */
static void keep_in_range(struct top_view *view, size_t clients)
{
    size_t last = clients > view->page ? clients - view->page : 0;
    view->first_client = view->first_client < last ? view->first_client : last;
    view->first_column = view->first_column < COLUMNS - 1 ? view->first_column : COLUMNS - 2;
}

void top_clients_draw(struct top_view *view, const struct top_facts *facts, struct screen *screen,
                      int row, int rows)
{
    struct place places[COLUMNS];
    size_t clients = facts->status->n_clients;
    view->page = rows > 1 ? (size_t)(rows - 1) : 0;
    keep_in_range(view, clients);
    size_t count = place_columns(view, facts, screen, places);
    draw_titles(view, screen, row, places, count);
    const Dlp__ClientStatus **sorted = top_sorted(facts->status, view->sort, view->turned);
    for (size_t i = 0; i < view->page && view->first_client + i < clients; i++)
        draw_client(facts, sorted[view->first_client + i], screen, row + 1 + (int)i, places, count);
    free(sorted);
    if (clients == 0 && view->page > 0)
        screen_print(screen, row + 1, 0, SCREEN_DIM, "no trainer is attached");
}
