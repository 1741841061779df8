#include "control/exposition.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"

#define FRACTION_DIGITS 6

void exposition_family(struct text *out, const char *name, const char *type, const char *help)
{
    text_add(out, "# HELP ");
    text_add(out, name);
    text_add(out, " ");
    text_add(out, help);
    text_add(out, "\n# TYPE ");
    text_add(out, name);
    text_add(out, " ");
    text_add(out, type);
    text_add(out, "\n");
}

static void begin(struct text *out, const char *name, const char *labels)
{
    text_add(out, name);
    if (*labels) {
        text_add(out, "{");
        text_add(out, labels);
        text_add(out, "}");
    }
    text_add(out, " ");
}

void exposition_count(struct text *out, const char *name, const char *labels, uint64_t value)
{
    begin(out, name, labels);
    text_add_number(out, value);
    text_add(out, "\n");
}

/* Thousands of them are written at once, for which printf is slow. */
void exposition_seconds(struct text *out, const char *name, const char *labels, uint64_t ns)
{
    char fraction[FRACTION_DIGITS + 2] = ".";
    uint64_t rest = ns % CLOCK_SECOND / CLOCK_US;
    begin(out, name, labels);
    text_add_number(out, ns / CLOCK_SECOND);
    for (int i = FRACTION_DIGITS; i > 0; i--, rest /= 10)
        fraction[i] = (char)('0' + rest % 10);
    text_add(out, fraction);
    text_add(out, "\n");
}

void exposition_number(struct text *out, const char *name, const char *labels, double value)
{
    begin(out, name, labels);
    text_format(out, "%.9g\n", isfinite(value) ? value : 0);
}

void exposition_figure(struct text *out, const struct figure *figure, const char *labels,
                       const void *message)
{
    const void *at = (const char *)message + figure->offset;
    switch (figure->kind) {
    case EXPOSITION_U32:
        exposition_count(out, figure->name, labels, *(const uint32_t *)at);
        break;
    case EXPOSITION_U64:
        exposition_count(out, figure->name, labels, *(const uint64_t *)at);
        break;
    case EXPOSITION_NS:
        exposition_seconds(out, figure->name, labels, *(const uint64_t *)at);
        break;
    case EXPOSITION_DOUBLE:
        exposition_number(out, figure->name, labels, *(const double *)at);
        break;
    }
}

char *exposition_label(const char *value, char out[EXPOSITION_LABEL_MAX])
{
    char *at = out, *end = out + EXPOSITION_LABEL_MAX - 2; /* for one escaped, before the NUL */
    for (; *value && at < end; value++) {
        if (*value == '\\' || *value == '"' || *value == '\n')
            *at++ = '\\';
        *at++ = *value == '\n' ? 'n' : *value;
    }
    *at = '\0';
    return out;
}
