/* The report as one HTML page: SVG in it, nothing from anywhere else, no script but the live page's
 * own. Pure; any thread.
 *
 * The report is what the page "report.json" of the daemon says: the keys of a status
 * (docs/dataloadctl.1), "host", "taken", "wait_bounds_s", and for each client a "history" with
 * lists of "wait_share" and "samples_per_s", a second each. What a port cannot know is added by who
 * may ask for it: "mixes", objects of a MixReply with "feed", and "sheets", objects with "feed" and
 * either "png" (base64) or "why" there is none. */
#ifndef DLP_PAGE_H
#define DLP_PAGE_H

#include <jansson.h>
#include <stdbool.h>

#define PAGE_CLIENTS 64 /* that are shown, those that wait most */

/* NULL without memory; free it. live: it fetches itself again each 2 s, and says what it cannot
 * show. */
char *page_html(const json_t *report, bool live);

#endif
