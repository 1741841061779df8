/* An error on its way to a client: the wire's code and one line of text. */
#ifndef REFUSAL_H
#define REFUSAL_H

#include "base/error.h"
#include "proto/errors.h"

struct refusal {
    enum dlp_error code;
    char text[ERROR_TEXT_MAX];
};

/* Sets code and text and returns the code (never 0). */
int refuse(struct refusal *refusal, enum dlp_error code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
