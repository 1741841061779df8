#include "client/ctl/ctl_table.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "proto/frames.h"

#define GAP 2

void ctl_table_init(struct ctl_table *table, const struct ctl_column *columns, size_t ncolumns)
{
    *table = (struct ctl_table){.columns = columns, .ncolumns = ncolumns};
}

void ctl_table_free(struct ctl_table *table)
{
    for (size_t i = 0; i < table->ncells; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct ctl_table){0};
}

char *ctl_text_escaped(const char *text)
{
    size_t room = strlen(text) * 4 + 1; /* \xNN for each byte */
    return dlp_printable(text, ctl_must(malloc(room)), room);
}

void ctl_table_add(struct ctl_table *table, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    text = ctl_must(text);
    bool full = (table->ncells & (table->ncells - 1)) == 0; /* the room is a power of two */
    size_t room = table->ncells > 0 ? 2 * table->ncells : 1;
    if (full)
        table->cells = ctl_must(reallocarray(table->cells, room, sizeof(*table->cells)));
    table->cells[table->ncells++] = ctl_text_escaped(*text ? text : "-");
    free(text);
}

void ctl_table_add_known(struct ctl_table *table, uint64_t number)
{
    if (number > 0)
        ctl_table_add(table, "%ju", (uintmax_t)number);
    else
        ctl_table_add(table, "-");
}

/* Characters of UTF-8 text, which dlp_printable has made valid. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

static size_t column_width(const struct ctl_table *table, size_t column, bool headers)
{
    size_t width = headers ? strlen(table->columns[column].title) : 0;
    for (size_t i = column; i < table->ncells; i += table->ncolumns) {
        size_t cell = width_of(table->cells[i]);
        width = cell > width ? cell : width;
    }
    return width;
}

static void print_cell(FILE *out, const char *text, size_t width, bool right, bool last)
{
    int pad = (int)(width - width_of(text));
    if (right)
        fprintf(out, "%*s%s", pad, "", text);
    else
        fprintf(out, "%s%*s", text, last ? 0 : pad, "");
    fprintf(out, "%*s", last ? 0 : GAP, "");
    if (last)
        fputc('\n', out);
}

void ctl_table_print(const struct ctl_table *table, FILE *out, bool headers)
{
    size_t *widths = ctl_must(calloc(table->ncolumns, sizeof(*widths)));
    for (size_t i = 0; i < table->ncolumns; i++)
        widths[i] = column_width(table, i, headers);
    for (size_t i = 0; headers && i < table->ncolumns; i++)
        print_cell(out, table->columns[i].title, widths[i], table->columns[i].right,
                   i + 1 == table->ncolumns);
    for (size_t i = 0; i < table->ncells; i++) {
        size_t column = i % table->ncolumns;
        print_cell(out, table->cells[i], widths[column], table->columns[column].right,
                   column + 1 == table->ncolumns);
    }
    free(widths);
}

const char *ctl_text_bytes(uint64_t bytes, char text[CTL_TEXT_MAX])
{
    static const char units[] = " kMGTPE";
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 999.95 && unit + 1 < sizeof(units) - 1) {
        value /= 1000;
        unit++;
    }
    if (unit == 0)
        snprintf(text, CTL_TEXT_MAX, "%.0f B", value);
    else
        snprintf(text, CTL_TEXT_MAX, "%.1f %cB", value, units[unit]);
    return text;
}

const char *ctl_text_time(uint64_t nanoseconds, char text[CTL_TEXT_MAX])
{
    uint64_t seconds = nanoseconds / 1000000000U, minutes = seconds / 60, hours = minutes / 60;
    if (nanoseconds < 995000)
        snprintf(text, CTL_TEXT_MAX, "%.2f ms", (double)nanoseconds / 1e6);
    else if (nanoseconds < 999950000U)
        snprintf(text, CTL_TEXT_MAX, "%.1f ms", (double)nanoseconds / 1e6);
    else if (seconds < 60)
        snprintf(text, CTL_TEXT_MAX, "%.1f s", (double)nanoseconds / 1e9);
    else if (minutes < 60)
        snprintf(text, CTL_TEXT_MAX, "%d min %d s", (int)minutes, (int)(seconds % 60));
    else if (hours < 48)
        snprintf(text, CTL_TEXT_MAX, "%d h %d min", (int)hours, (int)(minutes % 60));
    else
        snprintf(text, CTL_TEXT_MAX, "%d d %d h", (int)(hours / 24), (int)(hours % 24));
    return text;
}

const char *ctl_text_rate(double rate, char text[CTL_TEXT_MAX])
{
    if (!isfinite(rate) || rate <= 0 || rate >= 1e15)
        snprintf(text, CTL_TEXT_MAX, "-");
    else
        snprintf(text, CTL_TEXT_MAX, rate < 9.95 ? "%.1f" : "%.0f", rate);
    return text;
}
