/* Prometheus' text format: families of samples, one line each. Pure. */
#ifndef EXPOSITION_H
#define EXPOSITION_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

#define EXPOSITION_LABEL_MAX 600 /* bytes of an escaped value, with its NUL */

enum exposition_kind { /* of the member that a value is read from */
                       EXPOSITION_U32,
                       EXPOSITION_U64,
                       EXPOSITION_NS, /* u64, shown as seconds */
                       EXPOSITION_DOUBLE,
};

/* One family, of a member of some message. */
struct figure {
    const char *name, *type, *help;
    enum exposition_kind kind;
    size_t offset;
};

/* HELP and TYPE; samples of the same name follow. */
void exposition_family(struct text *out, const char *name, const char *type, const char *help);
/* labels: a="x",b="y" with values escaped, or "" for none. */
void exposition_count(struct text *out, const char *name, const char *labels, uint64_t value);
void exposition_seconds(struct text *out, const char *name, const char *labels, uint64_t ns);
void exposition_number(struct text *out, const char *name, const char *labels, double value);
void exposition_figure(struct text *out, const struct figure *figure, const char *labels,
                       const void *message);
/* A label's value, escaped and cut where it finds no room; returns out. */
char *exposition_label(const char *value, char out[EXPOSITION_LABEL_MAX]);

#endif
