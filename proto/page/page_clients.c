#include "proto/page/page_parts.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/page/charts.h"
#include "proto/page/markup.h"
#include "proto/page/page.h"

#define BUCKETS_MAX 40
#define LABEL sizeof((struct chart_bar *)0)->label

/* --- which ---------------------------------------------------------------------------------- */

static int by_wait(const void *left, const void *right)
{
    double a = markup_number(*(json_t *const *)left, "wait_share");
    double b = markup_number(*(json_t *const *)right, "wait_share");
    return (a < b) - (a > b);
}

/* The clients, those that wait most first; returns how many. Free the list. */
static size_t sorted(const json_t *clients, json_t ***list)
{
    size_t count = json_array_size(clients);
    *list = calloc(count + 1, sizeof **list);
    if (!*list)
        return 0;
    for (size_t i = 0; i < count; i++)
        (*list)[i] = json_array_get(clients, i);
    qsort(*list, count, sizeof **list, by_wait);
    return count < PAGE_CLIENTS ? count : PAGE_CLIENTS;
}

/* --- a client's card ------------------------------------------------------------------------ */

static size_t numbers_of(const json_t *list, double *numbers, size_t room)
{
    size_t count = json_array_size(list), first = count > room ? count - room : 0;
    for (size_t i = first; i < count; i++)
        numbers[i - first] = json_number_value(json_array_get(list, i));
    return count - first;
}

static void draw_strip(FILE *out, const json_t *client)
{
    static const char *const kinds[] = {"to 5 %", "to 20 %", "to 50 %", "to 80 %", "more"};
    double waits[CHART_SECONDS] = {0}, rates[CHART_SECONDS] = {0}, most = 0;
    char rate[MARKUP_FIGURE];
    const json_t *history = json_object_get(client, "history");
    size_t count = numbers_of(json_object_get(history, "wait_share"), waits, CHART_SECONDS);
    size_t rated = numbers_of(json_object_get(history, "samples_per_s"), rates, CHART_SECONDS);
    for (size_t i = 0; i < rated; i++)
        most = fmax(most, rates[i]);
    fprintf(
        out,
        "<figure class=\"wide\"><figcaption>Last ten minutes: samples/s (highest %s), and how much "
        "of each second was waited</figcaption>\n",
        markup_rate(most, rate));
    chart_strip(out, waits, rates, count < rated ? count : rated);
    fputs("<div class=\"axis\"><span>10 min ago</span><span>5 min</span><span>now</span></div>\n<p "
          "class=\"legend\">waited",
          out);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        fprintf(out, " <i class=\"key wait%zu\"></i>&nbsp;%s", i, kinds[i]);
    fputs("</p></figure>\n", out);
}

static void label_of(char label[LABEL], const json_t *bounds, size_t bucket)
{
    size_t count = json_array_size(bounds);
    const char *word = bucket < count ? "to" : "over";
    double bound = json_number_value(json_array_get(bounds, bucket < count ? bucket : count - 1));
    snprintf(label, LABEL, bound < 1 ? "%s %.3g ms" : "%s %.3g s", word,
             bound < 1 ? bound * 1e3 : bound);
}

/* Buckets before the first and after the last that have something are left out. */
static void draw_waits(FILE *out, const json_t *report, const json_t *client)
{
    double counts[BUCKETS_MAX] = {0}, most = 1, all = 0;
    struct chart_bar bars[BUCKETS_MAX];
    const json_t *bounds = json_object_get(report, "wait_bounds_s");
    size_t count = numbers_of(json_object_get(client, "wait_counts"), counts, BUCKETS_MAX);
    size_t first = count, last = 0, drawn = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, counts[i]);
        all += counts[i];
        if (counts[i] > 0) {
            first = first < i ? first : i;
            last = i;
        }
    }
    if (all <= 0 || json_array_size(bounds) == 0)
        return;
    for (size_t i = first; i <= last; i++) {
        struct chart_bar *bar = &bars[drawn++];
        *bar = (struct chart_bar){.share = counts[i] / most, .mark = -1};
        label_of(bar->label, bounds, i);
        snprintf(bar->figure, sizeof bar->figure, "%.1f %%", counts[i] / all * 100);
    }
    fputs("<figure><figcaption>Batches by how long the trainer waited for them</figcaption>\n",
          out);
    chart_bars(out, "Latency of batches", bars, drawn);
    fputs("</figure>\n", out);
}

/* "decode 54 (12.3 s), storage 2 (0.4 s)" */
static void stalls_of(const json_t *client, char *text, size_t size)
{
    char waited[MARKUP_FIGURE], stalls[MARKUP_FIGURE];
    const json_t *cause;
    size_t i, used = 0;
    *text = 0;
    json_array_foreach (json_object_get(client, "causes"), i, cause)
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%.20s %s (%s)", i ? ", " : "",
                                     markup_string(cause, "name"),
                                     markup_count(markup_number(cause, "stalls"), stalls),
                                     markup_seconds(markup_number(cause, "wait_s"), waited));
}

static void add_facts(FILE *out, const json_t *client)
{
    char text[MARKUP_FIGURE], stalls[400];
    fputs("<dl>\n", out);
    snprintf(text, sizeof text, "%.0f %% of the time", markup_number(client, "ready_share") * 100);
    markup_fact(out, "a batch was ready", text);
    if (markup_number(client, "compute_limit") > 0)
        markup_fact(out, "if it never waited",
                    markup_rate(markup_number(client, "compute_limit"), text));
    stalls_of(client, stalls, sizeof stalls);
    markup_fact(out, "stalls, by cause", stalls);
    markup_fact(out, "batches on", markup_string(client, "gpu"));
    markup_fact(out, "its reader now", markup_string(client, "reason"));
    fputs("</dl>\n", out);
}

static void draw_card(FILE *out, const json_t *report, const json_t *client)
{
    const char *group = markup_string(client, "group");
    fputs("<section class=\"card\">\n<h3>", out);
    markup_format(out, "pid %.0f, %s", markup_number(client, "pid"), markup_string(client, "feed"));
    fputs("</h3>\n<p class=\"dim\">", out);
    markup_format(out, "%s, job %s, rank %.0f of %.0f%s%s, %s, epoch %.0f, step %.0f of %.0f",
                  markup_string(client, "user"), markup_string(client, "job"),
                  markup_number(client, "rank"), markup_number(client, "world"),
                  *group ? ", group " : "", group, markup_string(client, "state"),
                  markup_number(client, "epoch"), markup_number(client, "step"),
                  markup_number(client, "steps"));
    fputs("</p>\n", out);
    markup_element(out, "p", "verdict", markup_string(client, "verdict"));
    add_facts(out, client);
    fputs("<div class=\"pair\">\n", out);
    draw_strip(out, client);
    draw_waits(out, report, client);
    fputs("</div>\n</section>\n", out);
}

/* --- the table ------------------------------------------------------------------------------ */

static void open_cell(FILE *out, const char *title, bool number)
{
    fprintf(out, "<td data-title=\"%s\"%s>", title, number ? " class=\"number\"" : "");
}

static void add_text(FILE *out, const char *title, const char *text)
{
    open_cell(out, title, false);
    markup_text(out, *text ? text : "-");
    fputs("</td>", out);
}

static void add_figure(FILE *out, const char *title, const char *text)
{
    open_cell(out, title, true);
    markup_text(out, text);
    fputs("</td>", out);
}

static void add_percent(FILE *out, const char *title, double share)
{
    char text[MARKUP_FIGURE];
    snprintf(text, sizeof text, "%.0f", share * 100);
    add_figure(out, title, text);
}

static const struct {
    const char *title;
    bool number;
} columns[] = {{"pid", false},    {"user", false},     {"job", false},   {"rank", false},
               {"feed", false},   {"samples/s", true}, {"MB/s", true},   {"wait %", true},
               {"hold %", true},  {"ready", true},     {"p50", true},    {"p99", true},
               {"longest", true}, {"stalls", true},    {"cause", false}, {"limit", false}};

static void add_row(FILE *out, const json_t *client)
{
    char text[MARKUP_FIGURE], ready[64], rank[64];
    snprintf(ready, sizeof ready, "%.0f/%.0f", markup_number(client, "ready"),
             markup_number(client, "slots"));
    snprintf(rank, sizeof rank, "%.0f/%.0f", markup_number(client, "rank"),
             markup_number(client, "world"));
    fprintf(out, "<tr><th scope=\"row\" data-title=\"pid\">%.0f</th>",
            markup_number(client, "pid"));
    add_text(out, "user", markup_string(client, "user"));
    add_text(out, "job", markup_string(client, "job"));
    add_text(out, "rank", rank);
    add_text(out, "feed", markup_string(client, "feed"));
    add_figure(out, "samples/s", markup_count(markup_number(client, "samples_per_s"), text));
    snprintf(text, sizeof text, "%.1f", markup_number(client, "bytes_per_s") / 1e6);
    add_figure(out, "MB/s", text);
    add_percent(out, "wait %", markup_number(client, "wait_share"));
    add_percent(out, "hold %", markup_number(client, "hold_share"));
    add_figure(out, "ready", ready);
    add_figure(out, "p50", markup_seconds(markup_number(client, "wait_p50_s"), text));
    add_figure(out, "p99", markup_seconds(markup_number(client, "wait_p99_s"), text));
    add_figure(out, "longest", markup_seconds(markup_number(client, "wait_max_s"), text));
    add_figure(out, "stalls", markup_count(markup_number(client, "stalls"), text));
    add_text(out, "cause", markup_string(client, "last_cause"));
    add_text(out, "limit", markup_string(client, "limiting_stage"));
    fputs("</tr>\n", out);
}

static void add_table(FILE *out, json_t **list, size_t count)
{
    fputs("<table class=\"clients\"><caption>Clients; p50, p99 and longest: how long the trainer "
          "waited for a batch"
          "</caption>\n<thead><tr>",
          out);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        fprintf(out, "<th scope=\"col\"%s>%s</th>", columns[i].number ? " class=\"number\"" : "",
                columns[i].title);
    fputs("</tr></thead>\n<tbody>\n", out);
    for (size_t i = 0; i < count; i++)
        add_row(out, list[i]);
    fputs("</tbody></table>\n", out);
}

void page_clients(FILE *out, const json_t *report)
{
    const json_t *clients = json_object_get(report, "clients");
    json_t **list;
    size_t count = sorted(clients, &list);
    fputs("<h2>Clients</h2>\n", out);
    if (json_array_size(clients) == 0)
        fputs("<p class=\"dim\">No trainer is attached.</p>\n", out);
    if (count < json_array_size(clients))
        fprintf(out, "<p class=\"dim\">The %zu of %zu clients that wait most.</p>\n", count,
                json_array_size(clients));
    if (count > 0) {
        fputs("<section class=\"card\">\n", out);
        add_table(out, list, count);
        fputs("</section>\n", out);
    }
    for (size_t i = 0; i < count; i++)
        draw_card(out, report, list[i]);
    free(list);
}
