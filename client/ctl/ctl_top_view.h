/* The page of `dataloadctl top`: from a status report and what the user has chosen to cells. Pure:
 * no terminal, no clock, no connection. One thread. */
#ifndef CTL_TOP_VIEW_H
#define CTL_TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "client/ctl/ctl_history.h"
#include "client/ctl/ctl_screen.h"
#include "dataload.pb-c.h"

enum top_sort { TOP_BY_WAIT, TOP_BY_RATE, TOP_BY_PID, TOP_BY_JOB, TOP_BY_FEED, TOP_SORTS };

enum top_key { /* besides characters */
               TOP_UP = 0x110000,
               TOP_DOWN,
               TOP_LEFT,
               TOP_RIGHT,
               TOP_PAGE_UP,
               TOP_PAGE_DOWN,
               TOP_HOME,
               TOP_END
};

/* What the user has chosen, and how far the page reaches. */
struct top_view {
    enum top_sort sort;
    bool turned; /* the other way round */
    bool help;   /* instead of the clients */
    size_t first_client;
    size_t first_column;
    size_t first_feed; /* whose stages are shown before others' */
    size_t page;       /* clients that the last page had room for */
};

/* What is known now. */
struct top_facts {
    const Dlp__StatusReply *status; /* NULL: nothing yet */
    const struct history *history;
    double seconds;      /* of the clock of the history */
    const char *trouble; /* why the figures are old; empty: they are not */
};

/* False: the key has no meaning here. 'q' is not for the view. */
bool top_view_key(struct top_view *view, int key);
/* The screen has its size and is blank. */
void top_view_draw(struct top_view *view, const struct top_facts *facts, struct screen *screen);

/* The clients of a report in order; ties by feed, job, rank and pid. Free it. */
const Dlp__ClientStatus **top_sorted(const Dlp__StatusReply *status, enum top_sort sort,
                                     bool turned);
/* The stages of a feed against what its trainers could take, a line each from row on, at most
 * `most`; returns how many. */
int top_stages_draw(struct screen *screen, int row, int most, const Dlp__StatusReply *status,
                    const Dlp__FeedStatus *feed);
int top_stages_lines(const Dlp__FeedStatus *feed);
/* The table of clients, in the rows from row on; sets how many fit. */
void top_clients_draw(struct top_view *view, const struct top_facts *facts, struct screen *screen,
                      int row, int rows);

#endif
