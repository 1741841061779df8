#include "proto/page/page.h"

#include <stdlib.h>
#include <string.h>

#include "proto/embed.h"
#include "proto/page/markup.h"
#include "proto/page/page_parts.h"

DLP_EMBED(page_css, PAGE_CSS);
DLP_EMBED(page_live, PAGE_LIVE);

static void add_head(FILE *out, const json_t *report, bool live)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n"
          "<meta name=\"referrer\" content=\"no-referrer\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'; "
          "img-src data:",
          out);
    fputs(live ? "; script-src 'unsafe-inline'; connect-src 'self'\">\n<title>" : "\">\n<title>",
          out);
    markup_format(out, "dataloadd on %s", markup_string(report, "host"));
    fprintf(out, "</title>\n<style>\n%s</style></head>\n<body><main>\n", page_css);
}

static void add_workers(FILE *out, const json_t *report)
{
    char text[1200];
    const char *cpus = markup_string(report, "worker_cpus"),
               *why = markup_string(report, "workers_why");
    double most = markup_number(report, "workers_max"), now = markup_number(report, "workers");
    int used = snprintf(text, sizeof text, "%.0f", now);
    if (most > now)
        used += snprintf(text + used, sizeof text - (size_t)used, " of at most %.0f", most);
    snprintf(text + used, sizeof text - (size_t)used, "%s%.200s%s%.800s", *cpus ? ", on CPUs " : "",
             cpus, *why ? ": " : "", why);
    markup_fact(out, "workers", text);
}

static void add_memory(FILE *out, const json_t *report)
{
    char text[3 * MARKUP_FIGURE], used[MARKUP_FIGURE], limit[MARKUP_FIGURE];
    snprintf(text, sizeof text, "%s of %s",
             markup_bytes(markup_number(report, "memory_used"), used),
             markup_bytes(markup_number(report, "memory_limit"), limit));
    markup_fact(out, "memory", text);
}

static void add_count(FILE *out, const char *name, double count)
{
    char text[MARKUP_FIGURE];
    markup_fact(out, name, markup_count(count, text));
}

static void add_daemon(FILE *out, const json_t *report)
{
    char text[MARKUP_FIGURE];
    double throttled = markup_number(report, "throttled_share");
    fputs("<dl>\n", out);
    markup_fact(out, "up for", markup_seconds(markup_number(report, "uptime_s"), text));
    snprintf(text, sizeof text, "%.0f", markup_number(report, "pid"));
    markup_fact(out, "pid", text);
    add_workers(out, report);
    add_memory(out, report);
    snprintf(text, sizeof text, "%.0f %% of its time", throttled * 100);
    if (throttled > 0.005)
        markup_fact(out, "throttled by its cgroup", text);
    add_count(out, "refused requests", markup_number(report, "refused"));
    add_count(out, "malformed peers", markup_number(report, "malformed_peers"));
    markup_fact(out, "batches", markup_string(report, "device"));
    fputs("</dl>\n", out);
}

static void add_top(FILE *out, const json_t *report, bool live)
{
    fputs("<header><h1>", out);
    markup_format(out, "dataloadd %s on %s", markup_string(report, "version"),
                  markup_string(report, "host"));
    fputs("</h1>\n<p class=\"dim\">", out);
    markup_text(out, markup_string(report, "taken"));
    fputs(live ? ", <span id=\"live\">live: renewed each 2 s</span></p>\n" : "</p>\n", out);
    add_daemon(out, report);
    if (live)
        fputs("<p class=\"dim\">This port does not know who asks: class mix and pictures are shown "
              "by "
              "<code>dataloadctl report --html FILE</code> to those who may attach.</p>\n",
              out);
    fputs("</header>\n", out);
}

static void add_page(FILE *out, const json_t *report, bool live)
{
    const json_t *feed;
    size_t i;
    add_head(out, report, live);
    add_top(out, report, live);
    json_array_foreach (json_object_get(report, "feeds"), i, feed)
        page_feed(out, report, feed);
    page_clients(out, report);
    fputs("</main>\n", out);
    if (live)
        fprintf(out, "<script>\n%s</script>\n", page_live);
    fputs("</body></html>\n", out);
}

char *page_html(const json_t *report, bool live)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    add_page(out, report, live);
    bool failed = ferror(out);
    if (fclose(out) || failed) {
        free(text);
        return NULL;
    }
    return text;
}
