#include "control/report_page.h"

#include <jansson.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "proto/limits.h"
#include "proto/page/message_json.h"
#include "proto/page/page.h"

#define SECONDS(bound) (bound) / 1e9,

/* Of the waits of a second hundredths are known, of rates tenths. */
static json_t *rounded(double number, double parts)
{
    return json_real((double)(int64_t)(number * parts + 0.5) / parts);
}

static json_t *history(const struct strip *strip)
{
    json_t *json = json_object(), *waits = json_array(), *rates = json_array();
    for (uint32_t i = 0; i < strip->count; i++) {
        struct strip_point point = strip_point(strip, i);
        json_array_append_new(waits, rounded(point.wait_share, 100));
        json_array_append_new(rates, rounded(point.samples_per_s, 10));
    }
    json_object_set_new(json, "wait_share", waits);
    json_object_set_new(json, "samples_per_s", rates);
    return json;
}

static json_t *wait_bounds(void)
{
    static const double bounds[] = {DLP_WAIT_BOUNDS(SECONDS)};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        json_array_append_new(list, json_real(bounds[i]));
    return list;
}

static int by_wait(const void *left, const void *right)
{
    double a = (*(const struct view *const *)left)->status.wait_share;
    double b = (*(const struct view *const *)right)->status.wait_share;
    return (a < b) - (a > b);
}

/* Of those that the page shows; each takes some 8 kB. */
static void add_histories(const struct census *census, json_t *clients)
{
    const struct view **views = calloc(census->count + 1, sizeof *views);
    for (uint32_t i = 0; views && i < census->count; i++)
        views[i] = &census->views[i];
    if (views)
        qsort(views, census->count, sizeof *views, by_wait);
    for (uint32_t i = 0; views && i < census->count && i < PAGE_CLIENTS; i++)
        json_object_set_new(json_array_get(clients, (size_t)(views[i] - census->views)), "history",
                            history(&views[i]->session->gauge->strip));
    free(views);
}

static void add_origin(json_t *json)
{
    char host[256] = "", taken[64];
    struct tm utc;
    time_t now = time(NULL);
    gethostname(host, sizeof host - 1);
    strftime(taken, sizeof taken, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &utc));
    json_object_set_new(json, "host", message_json_text(host));
    json_object_set_new(json, "taken", json_string(taken));
}

static json_t *report(const struct status *status)
{
    json_t *json = message_json(&status->reply.base);
    add_histories(&status->census, json_object_get(json, "clients"));
    add_origin(json);
    json_object_set_new(json, "wait_bounds_s", wait_bounds());
    json_object_set_new(json, "schema_version", json_integer(MESSAGE_JSON_SCHEMA));
    return json;
}

void report_page_json(const struct status *status, struct text *out)
{
    json_t *json = report(status);
    char *bytes = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(10));
    text_add(out, bytes ? bytes : "{}");
    free(bytes);
    json_decref(json);
}

void report_page_html(const struct status *status, struct text *out)
{
    json_t *json = report(status);
    char *html = page_html(json, true);
    text_add(out, html ? html : "");
    free(html);
    json_decref(json);
}
