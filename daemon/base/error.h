/* An error on its way up: a negative errno and one line of text (what failed, why, what to do). */
#ifndef ERROR_H
#define ERROR_H

#include <stdarg.h>

#define ERROR_TEXT_MAX 1000

struct error {
    int code; /* negative errno, 0 = none */
    char text[ERROR_TEXT_MAX];
};

/* Sets code and text and returns code; err may be NULL. */
int error_set(struct error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts "prefix: " before the text; returns the code. */
int error_prefix(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
