#include "proto/page/charts.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "proto/page/markup.h"

static double within(double value, double low, double high)
{
    return value > high ? high : value > low ? value : low; /* NaN gives low */
}

static void open_chart(FILE *out, const char *kind, const char *size, const char *title)
{
    fprintf(out, "<svg class=\"%s\" role=\"img\" %s><title>", kind, size);
    markup_text(out, title);
    fputs("</title><desc>", out);
}

/* --- stages -------------------------------------------------------------------------------- */

#define STAGE_TOP 24 /* room for the figure of the demand */
#define STAGE_HEIGHT 42
#define STAGE_BAR 18 /* below its name */
#define STAGE_THICK 14

/* The narrowest stage and what is delivered take at least a quarter of it, also where the demand is
 * far beyond; what is longer is cut. */
static double axis_of(const struct chart_stage *stages, size_t count, double demand,
                      double delivered)
{
    double narrow = INFINITY, wide = fmax(demand, delivered);
    for (size_t i = 0; i < count; i++) {
        narrow = fmin(narrow, stages[i].limit);
        wide = fmax(wide, stages[i].limit);
    }
    double matters = fmax(delivered, isfinite(narrow) ? narrow : 0);
    double axis = fmin(wide * 1.02, fmax(2 * matters, fmin(1.25 * demand, 4 * matters)));
    return axis > 0 ? axis : 1;
}

static void describe_stages(FILE *out, const struct chart_stage *stages, size_t count,
                            double demand, double delivered, const char *limiting)
{
    char rate[MARKUP_FIGURE];
    for (size_t i = 0; i < count; i++)
        markup_format(out, "%s could do %s%s. ", stages[i].name, markup_rate(stages[i].limit, rate),
                      strcmp(stages[i].name, limiting) == 0 ? ", which limits" : "");
    if (demand > 0)
        markup_format(out, "The trainers could take %s. ", markup_rate(demand, rate));
    markup_format(out, "Delivered: %s.", markup_rate(delivered, rate));
}

static void draw_stage(FILE *out, const struct chart_stage *stage, int top, double axis,
                       double delivered, bool limits)
{
    char rate[MARKUP_FIGURE];
    double length = within(stage->limit / axis, 0.004, 1) * 100;
    double filled = within(fmin(delivered, stage->limit) / axis, 0, 1) * 100;
    fprintf(out, "<g class=\"stage%s\"><text y=\"%d\" class=\"name\">", limits ? " limits" : "",
            top + 12);
    markup_text(out, stage->name);
    fprintf(out, "%s</text><text x=\"100%%\" y=\"%d\" text-anchor=\"end\">",
            limits ? " &#9664; limits" : "", top + 12);
    markup_format(out, "%s%s%s", stage->note, *stage->note ? ", " : "",
                  markup_rate(stage->limit, rate));
    fprintf(out, "%s</text>", stage->limit > axis * 1.001 ? " &#8811;" : "");
    fprintf(out, "<rect class=\"room\" y=\"%d\" width=\"%.1f%%\" height=\"%d\"/>", top + STAGE_BAR,
            length, STAGE_THICK);
    fprintf(out, "<rect class=\"done\" y=\"%d\" width=\"%.1f%%\" height=\"%d\"/></g>\n",
            top + STAGE_BAR, filled, STAGE_THICK);
}

static void draw_demand(FILE *out, double demand, double axis, int bottom)
{
    char rate[MARKUP_FIGURE];
    double at = within(demand / axis, 0, 1) * 100;
    fprintf(out, "<text class=\"name\" x=\"%.1f%%\" y=\"12\" text-anchor=\"%s\">demand ", at,
            at > 60   ? "end"
            : at < 20 ? "start"
                      : "middle");
    markup_text(out, markup_rate(demand, rate));
    fprintf(out, "%s</text>", demand > axis ? " &#8811;" : "");
    for (int top = STAGE_TOP + STAGE_BAR; top < bottom; top += STAGE_HEIGHT)
        fprintf(out, "<line class=\"demand\" x1=\"%.1f%%\" x2=\"%.1f%%\" y1=\"%d\" y2=\"%d\"/>", at,
                at, top - 3, top + STAGE_THICK + 3);
}

void chart_waterfall(FILE *out, const struct chart_stage *stages, size_t count, double demand,
                     double delivered, const char *limiting)
{
    char size[64];
    int height = STAGE_TOP + (int)count * STAGE_HEIGHT;
    double axis = axis_of(stages, count, demand, delivered);
    snprintf(size, sizeof size, "width=\"100%%\" height=\"%d\"", height);
    open_chart(out, "waterfall", size, "Capacity of each stage against the demand");
    describe_stages(out, stages, count, demand, delivered, limiting);
    fputs("</desc>\n", out);
    for (size_t i = 0; i < count; i++)
        draw_stage(out, &stages[i], STAGE_TOP + (int)i * STAGE_HEIGHT, axis, delivered,
                   strcmp(stages[i].name, limiting) == 0);
    if (demand > 0)
        draw_demand(out, demand, axis, height);
    fputs("</svg>\n", out);
}

/* --- strips -------------------------------------------------------------------------------- */

#define RATE_HEIGHT 34
#define WAIT_TOP (RATE_HEIGHT + 4)
#define WAIT_HEIGHT 26
#define WAIT_STEPS 13 /* heights; equal ones side by side are one rectangle */

static const double wait_kinds[] = {0.05, 0.2, 0.5, 0.8, 2};
#define WAIT_KINDS (sizeof wait_kinds / sizeof *wait_kinds)

static size_t wait_kind(double share)
{
    size_t kind = 0;
    while (kind + 1 < WAIT_KINDS && share > wait_kinds[kind])
        kind++;
    return kind;
}

static int wait_step(double share)
{
    return 1 + (int)(within(share, 0, 1) * (WAIT_STEPS - 1) + 0.5);
}

static void draw_waits(FILE *out, const double *share, size_t count, size_t kind)
{
    bool any = false;
    for (size_t i = 0, end; i < count; i = end) {
        int step = wait_step(share[i]);
        bool ours = wait_kind(share[i]) == kind;
        for (end = i + 1; end < count && wait_step(share[end]) == step &&
                          (wait_kind(share[end]) == kind) == ours;
             end++)
            ;
        if (!ours)
            continue;
        fprintf(out, "%sM%zu %dh%zuv-%dh-%zuz", any ? "" : "<path d=\"", CHART_SECONDS - count + i,
                WAIT_TOP + WAIT_HEIGHT, end - i, step * WAIT_HEIGHT / WAIT_STEPS, end - i);
        any = true;
    }
    if (any)
        fprintf(out, "\" class=\"wait%zu\"/>\n", kind);
}

static void draw_rate(FILE *out, const double *rate, size_t count, double most)
{
    size_t left = CHART_SECONDS - count;
    fprintf(out, "<path class=\"rate\" d=\"M%zu %d", left, RATE_HEIGHT);
    for (size_t i = 0; i < count; i++) {
        int y = RATE_HEIGHT - (int)(within(rate[i] / most, 0, 1) * (RATE_HEIGHT - 2) + 0.5);
        fprintf(out, "V%dh1", y);
    }
    fprintf(out, "V%dz\"/>\n", RATE_HEIGHT);
}

void chart_strip(FILE *out, const double *wait_share, const double *samples_per_s, size_t count)
{
    char size[64], rate[MARKUP_FIGURE];
    double most = 0, waited = 0;
    if (count > CHART_SECONDS) {
        wait_share += count - CHART_SECONDS;
        samples_per_s += count - CHART_SECONDS;
        count = CHART_SECONDS;
    }
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, samples_per_s[i]);
        waited += wait_share[i];
    }
    snprintf(size, sizeof size, "viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\"", CHART_SECONDS,
             WAIT_TOP + WAIT_HEIGHT);
    open_chart(out, "strip", size, "The last ten minutes, one pixel a second");
    markup_format(out,
                  "%zu seconds are known; on average %.0f %% of them was waited; highest rate %s.",
                  count, count ? waited / (double)count * 100 : 0, markup_rate(most, rate));
    fprintf(out, "</desc>\n<rect class=\"ground\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
            WAIT_TOP, CHART_SECONDS, WAIT_HEIGHT);
    if (most > 0)
        draw_rate(out, samples_per_s, count, most);
    for (size_t kind = 0; kind < WAIT_KINDS; kind++)
        draw_waits(out, wait_share, count, kind);
    fputs("</svg>\n", out);
}

/* --- bars ---------------------------------------------------------------------------------- */

#define BARS_WIDTH 344
#define BAR_HEIGHT 18
#define BAR_LEFT 100
#define BAR_LENGTH 132

void chart_bars(FILE *out, const char *title, const struct chart_bar *bars, size_t count)
{
    char size[96];
    int height = (int)count * BAR_HEIGHT;
    snprintf(size, sizeof size, "width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\"", BARS_WIDTH,
             height, BARS_WIDTH, height);
    open_chart(out, "bars", size, title);
    for (size_t i = 0; i < count; i++)
        markup_format(out, "%s: %s. ", bars[i].label, bars[i].figure);
    fputs("</desc>\n", out);
    for (size_t i = 0; i < count; i++) {
        int top = (int)i * BAR_HEIGHT;
        double length = within(bars[i].share, 0, 1) * BAR_LENGTH;
        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", BAR_LEFT - 6, top + 13);
        markup_text(out, bars[i].label);
        fprintf(out, "</text><rect class=\"room\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>",
                BAR_LEFT, top + 3, BAR_LENGTH, BAR_HEIGHT - 6);
        fprintf(out, "<rect class=\"done\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>",
                BAR_LEFT, top + 3, length, BAR_HEIGHT - 6);
        if (bars[i].mark >= 0)
            fprintf(out, "<rect class=\"mark\" x=\"%.1f\" y=\"%d\" width=\"2\" height=\"%d\"/>",
                    BAR_LEFT + within(bars[i].mark, 0, 1) * BAR_LENGTH - 1, top + 1,
                    BAR_HEIGHT - 2);
        fprintf(out, "<text x=\"%d\" y=\"%d\">", BAR_LEFT + BAR_LENGTH + 6, top + 13);
        markup_text(out, bars[i].figure);
        fputs("</text>\n", out);
    }
    fputs("</svg>\n", out);
}
