/* Aligned tables and texts with units. */
#ifndef CTL_TABLE_H
#define CTL_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct ctl_column {
    const char *title;
    bool right; /* aligned: numbers */
};

struct ctl_table {
    const struct ctl_column *columns; /* the caller's, outlives the table */
    size_t ncolumns;
    char **cells; /* row after row */
    size_t ncells;
};

void ctl_table_init(struct ctl_table *table, const struct ctl_column *columns, size_t ncolumns);
/* The next cell, escaped; an empty one is printed as "-". */
void ctl_table_add(struct ctl_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A number, 0 = not known. */
void ctl_table_add_known(struct ctl_table *table, uint64_t number);
void ctl_table_print(const struct ctl_table *table, FILE *out, bool headers);
void ctl_table_free(struct ctl_table *table);

#define CTL_TEXT_MAX 32
const char *ctl_text_bytes(uint64_t bytes, char text[CTL_TEXT_MAX]); /* "3.2 GB", powers of ten */
const char *ctl_text_time(uint64_t nanoseconds,
                          char text[CTL_TEXT_MAX]); /* "3 h 12 min", "4.2 ms" */
/* "-" for what is not known: 0, negative, not finite. */
const char *ctl_text_rate(double rate, char text[CTL_TEXT_MAX]);

/* A copy with everything escaped that does not belong on a terminal; free it. */
char *ctl_text_escaped(const char *text);

#endif
