/* The pictures of the page: SVG without a colour of its own, which page.css gives by class. Each
 * has a title and a description in words, and shows nothing by colour alone. Pure; any thread. */
#ifndef DLP_CHARTS_H
#define DLP_CHARTS_H

#include <stddef.h>
#include <stdio.h>

#define CHART_SECONDS 600 /* of a strip, one a pixel */

struct chart_stage {
    const char *name;
    double limit;     /* samples/s */
    const char *note; /* beside its figure; "" = none */
};

/* A bar a stage, as long as its capacity, filled as far as `delivered`; a line at `demand` (0 = not
 * known). The stage named `limiting` is marked. */
void chart_waterfall(FILE *out, const struct chart_stage *stages, size_t count, double demand,
                     double delivered, const char *limiting);
/* The last seconds, newest at the right edge: columns as high as the share of each second that was
 * waited, and above them the rate. */
void chart_strip(FILE *out, const double *wait_share, const double *samples_per_s, size_t count);

struct chart_bar {
    char label[40];
    double share; /* of the longest: 0..1 */
    double mark;  /* another share of it, as a line; negative = none */
    char figure[40];
};

void chart_bars(FILE *out, const char *title, const struct chart_bar *bars, size_t count);

#endif
