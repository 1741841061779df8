#include "proto/page/page_parts.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "proto/page/charts.h"
#include "proto/page/markup.h"

#define STAGES_MAX 16
#define CLASSES_MAX 12 /* that are drawn */

static bool is(const json_t *object, const char *key, const char *text)
{
    return strcmp(markup_string(object, key), text) == 0;
}

/* --- stages -------------------------------------------------------------------------------- */

static bool same_stream(const json_t *left, const json_t *right)
{
    return *markup_string(left, "group") && is(left, "group", markup_string(right, "group")) &&
           is(left, "feed", markup_string(right, "feed"));
}

/* What the trainers could take. A stream that several read is taken at the pace of the slowest, and
 * counts once. */
static double demand_of_stream(const json_t *clients, size_t number)
{
    const json_t *client = json_array_get(clients, number), *other;
    double least = markup_number(client, "compute_limit");
    size_t i;
    json_array_foreach (clients, i, other) {
        double limit = markup_number(other, "compute_limit");
        if (i == number || !same_stream(client, other))
            continue;
        if (i < number)
            return 0;
        least = limit > 0 && (limit < least || least <= 0) ? limit : least;
    }
    return least;
}

static double demand_of_feed(const json_t *report, const json_t *feed)
{
    const json_t *clients = json_object_get(report, "clients"), *client;
    double sum = 0;
    size_t i;
    json_array_foreach (clients, i, client) {
        if (is(client, "feed", markup_string(feed, "name")) &&
            !json_is_true(json_object_get(client, "probe")))
            sum += demand_of_stream(clients, i);
    }
    return sum;
}

/* The stage that a verdict means by its word. */
static const char *stage_of_word(const char *word)
{
    return strcmp(word, "storage") == 0 ? "read" : word;
}

/* Returns the new count. The same workers decode and augment: to know what they could do, both are
 * one. */
static size_t add_stage(struct chart_stage *stages, size_t count, const json_t *stage)
{
    double limit = markup_number(stage, "limit");
    struct chart_stage *last = count ? &stages[count - 1] : NULL;
    if (last && is(stage, "name", "augment") && strcmp(last->name, "decode") == 0) {
        *last = (struct chart_stage){"decode", 1 / (1 / last->limit + 1 / limit), "with augment"};
        return count;
    }
    stages[count] = (struct chart_stage){markup_string(stage, "name"), limit, ""};
    return count + 1;
}

static void draw_stages(FILE *out, const json_t *report, const json_t *feed)
{
    struct chart_stage stages[STAGES_MAX + 1];
    const json_t *stage;
    size_t i, count = 0;
    double demand = demand_of_feed(report, feed);
    json_array_foreach (json_object_get(feed, "stages"), i, stage)
        if (count < STAGES_MAX && markup_number(stage, "limit") > 0)
            count = add_stage(stages, count, stage);
    if (demand > 0)
        stages[count++] = (struct chart_stage){"trainer", demand, ""};
    if (count == 0) {
        fputs("<p class=\"dim\">No stage has figures yet: nothing has gone through it.</p>\n", out);
        return;
    }
    chart_waterfall(out, stages, count, demand, markup_number(feed, "samples_per_s"),
                    stage_of_word(markup_string(feed, "limiting_stage")));
    fputs("<p class=\"legend\">Bar: samples/s that a stage could do. Filled: what goes through it "
          "now. Line: what the "
          "trainers could take.</p>\n",
          out);
}

/* --- queues -------------------------------------------------------------------------------- */

static const char *unit_of(const char *stage)
{
    static const char *const units[][2] = {
        {"decode", "rows"}, {"shuffle", "records"}, {"slots", "batches"}, {"copy", "batches"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(stage, units[i][0]) == 0)
            return units[i][1];
    return "";
}

static struct chart_bar queue_bar(const json_t *stage)
{
    char queued[MARKUP_FIGURE], room[MARKUP_FIGURE];
    double inside = markup_number(stage, "queued"), most = markup_number(stage, "room");
    struct chart_bar bar = {.share = inside / most, .mark = -1};
    const char *name = markup_string(stage, "name");
    snprintf(bar.label, sizeof bar.label, "%.39s", name);
    if (strcmp(name, "read") == 0)
        snprintf(bar.figure, sizeof bar.figure, "%.15s", markup_bytes(inside, queued));
    else
        snprintf(bar.figure, sizeof bar.figure, "%.11s/%.11s %s", markup_count(inside, queued),
                 markup_count(most, room), unit_of(name));
    return bar;
}

static void draw_queues(FILE *out, const json_t *feed)
{
    struct chart_bar bars[STAGES_MAX];
    const json_t *stage;
    size_t i, count = 0;
    bars[count++] = (struct chart_bar){
        .label = "shuffle buffer", .share = markup_number(feed, "shuffle_fill"), .mark = -1};
    snprintf(bars[0].figure, sizeof bars[0].figure, "%.0f %% full", bars[0].share * 100);
    json_array_foreach (json_object_get(feed, "stages"), i, stage)
        if (count < STAGES_MAX && markup_number(stage, "room") > 0 && !is(stage, "name", "shuffle"))
            bars[count++] = queue_bar(stage);
    fputs("<figure><figcaption>Queues: what waits for each stage</figcaption>\n", out);
    chart_bars(out, "Fill of the queues", bars, count);
    fputs("</figure>\n", out);
}

/* --- mix ----------------------------------------------------------------------------------- */

static void add_distance(FILE *out, const char *what, const json_t *mix, const char *key)
{
    const json_t *distance = json_object_get(mix, key);
    bool poor = json_is_true(json_object_get(distance, "poor"));
    if (!json_is_object(distance))
        return;
    fprintf(out, "<tr><th scope=\"row\">%s</th><td>%.3f</td><td>%.3f</td><td>%s</td></tr>\n", what,
            markup_number(distance, "batch"), markup_number(distance, "batch_shuffled"),
            poor ? "<strong>poor</strong>" : "as shuffled");
}

static void draw_classes(FILE *out, const json_t *mix)
{
    struct chart_bar bars[CLASSES_MAX];
    const json_t *classes = json_object_get(mix, "mix"), *class;
    size_t i, count = 0;
    double most = 1e-9;
    json_array_foreach (classes, i, class)
        most =
            fmax(most, fmax(markup_number(class, "share"), markup_number(class, "share_batches")));
    json_array_foreach (classes, i, class) {
        if (count == CLASSES_MAX)
            break;
        double here = markup_number(class, "share_batches"), whole = markup_number(class, "share");
        struct chart_bar *bar = &bars[count++];
        *bar = (struct chart_bar){.share = here / most, .mark = whole / most};
        snprintf(bar->label, sizeof bar->label, "class %.0f", markup_number(class, "label"));
        snprintf(bar->figure, sizeof bar->figure, "%.1f / %.1f %%", here * 100, whole * 100);
    }
    if (count == 0)
        return;
    fputs("<figure><figcaption>Classes that differ most: share of the batches (bar) / of the whole "
          "set (line)"
          "</figcaption>\n",
          out);
    chart_bars(out, "Class mix of the first batches", bars, count);
    fputs("</figure>\n", out);
}

static void draw_mix(FILE *out, const json_t *mix)
{
    char batches[MARKUP_FIGURE], rows[MARKUP_FIGURE], shuffle[MARKUP_FIGURE];
    const json_t *note;
    size_t i;
    fputs("<div class=\"part\"><h3>Shuffle and class mix</h3>\n", out);
    if (*markup_string(mix, "why")) {
        markup_element(out, "p", "dim", markup_string(mix, "why"));
        fputs("</div>\n", out);
        return;
    }
    fprintf(out, "<p>The first %s batches of epoch %s (%s rows), with a shuffle buffer of ",
            markup_count(markup_number(mix, "batches"), batches),
            markup_count(markup_number(mix, "epoch"), shuffle),
            markup_count(markup_number(mix, "rows"), rows));
    fprintf(out, "%s records, against true shuffles of the whole set.</p>\n",
            markup_count(markup_number(mix, "shuffle"), shuffle));
    fputs("<table><thead><tr><th scope=\"col\">Distance of a batch from the whole set</th><th "
          "scope=\"col\">here</th>"
          "<th scope=\"col\">true shuffle</th><th scope=\"col\">mix</th></tr></thead><tbody>\n",
          out);
    add_distance(out, "labels", mix, "label_mix");
    add_distance(out, "regions of storage", mix, "region_mix");
    fprintf(out,
            "<tr><th scope=\"row\">rows with a storage "
            "neighbour</th><td>%.3f</td><td>%.3f</td><td></td></tr>\n",
            markup_number(mix, "neighbours"), markup_number(mix, "neighbours_shuffled"));
    fputs("</tbody></table>\n", out);
    json_array_foreach (json_object_get(mix, "notes"), i, note)
        markup_element(out, "p", "note", json_string_value(note));
    draw_classes(out, mix);
    fputs("</div>\n", out);
}

static void draw_sheet(FILE *out, const json_t *sheet)
{
    fputs("<div class=\"part\"><h3>Pictures as the trainers get them</h3>\n", out);
    if (*markup_string(sheet, "png")) {
        fputs("<img class=\"sheet\" alt=\"Contact sheet of the first pictures of the feed, with "
              "their labels\" "
              "src=\"data:image/png;base64,",
              out);
        markup_text(out, markup_string(sheet, "png"));
        fputs("\">\n", out);
    } else {
        markup_element(out, "p", "dim", markup_string(sheet, "why"));
    }
    fputs("</div>\n", out);
}

/* --- the card ------------------------------------------------------------------------------ */

static void add_facts(FILE *out, const json_t *feed)
{
    char text[MARKUP_FIGURE], speed[MARKUP_FIGURE];
    fputs("<dl>", out);
    markup_fact(out, "delivered", markup_rate(markup_number(feed, "samples_per_s"), text));
    snprintf(speed, sizeof speed, "%.1f MB/s", markup_number(feed, "read_bytes_per_s") / 1e6);
    markup_fact(out, "read", speed);
    markup_fact(out, "clients", markup_count(markup_number(feed, "clients"), text));
    markup_fact(out, "records", markup_count(markup_number(feed, "records"), text));
    markup_fact(out, "shards", markup_count(markup_number(feed, "shards"), text));
    markup_fact(out, "bad samples", markup_count(markup_number(feed, "bad"), text));
    markup_fact(out, "read errors", markup_count(markup_number(feed, "read_errors"), text));
    fputs("</dl>\n", out);
}

static void add_list(FILE *out, const char *kind, const char *title, const json_t *list)
{
    const json_t *item;
    size_t i;
    if (json_array_size(list) == 0)
        return;
    markup_element(out, "h3", NULL, title);
    fprintf(out, "<ul class=\"%s\">\n", kind);
    json_array_foreach (list, i, item)
        markup_element(out, "li", NULL, json_string_value(item));
    fputs("</ul>\n", out);
}

static const json_t *of_feed(const json_t *list, const json_t *feed)
{
    const json_t *item;
    size_t i;
    json_array_foreach (list, i, item)
        if (is(item, "feed", markup_string(feed, "name")))
            return item;
    return NULL;
}

void page_feed(FILE *out, const json_t *report, const json_t *feed)
{
    const json_t *mix = of_feed(json_object_get(report, "mixes"), feed);
    const json_t *sheet = of_feed(json_object_get(report, "sheets"), feed);
    fputs("<section class=\"card\">\n<h2><span class=\"dim\">feed</span> ", out);
    markup_text(out, markup_string(feed, "name"));
    fputs("</h2>\n", out);
    markup_element(out, "p", "verdict", markup_string(feed, "verdict"));
    add_list(out, "remedies", "What would help", json_object_get(feed, "remedies"));
    if (markup_number(feed, "records") > 0)
        add_facts(out, feed);
    if (markup_number(feed, "clients") > 0) {
        fputs("<div class=\"pair\"><figure class=\"wide\"><figcaption>Stages</figcaption>\n", out);
        draw_stages(out, report, feed);
        fputs("</figure>\n", out);
        draw_queues(out, feed);
        fputs("</div>\n", out);
    }
    if (mix || sheet)
        fputs("<div class=\"pair\">\n", out);
    if (mix)
        draw_mix(out, mix);
    if (sheet)
        draw_sheet(out, sheet);
    if (mix || sheet)
        fputs("</div>\n", out);
    add_list(out, "notes", "Notes", json_object_get(feed, "notes"));
    fputs("</section>\n", out);
}
