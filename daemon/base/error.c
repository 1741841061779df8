#include "base/error.h"

#include <stdio.h>
#include <string.h>

int error_set(struct error *err, int code, const char *format, ...)
{
    if (!err)
        return code;
    /* Through a buffer of its own: an argument may be err->text. */
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    err->code = code;
    memcpy(err->text, text, strlen(text) + 1);
    return code;
}

int error_prefix(struct error *err, const char *format, ...)
{
    if (!err)
        return 0;
    char text[2 * ERROR_TEXT_MAX + 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, ERROR_TEXT_MAX, format, args);
    va_end(args);
    size_t length = strlen(text);
    snprintf(text + length, sizeof text - length, ": %s", err->text);
    text[ERROR_TEXT_MAX - 1] = '\0';
    memcpy(err->text, text, strlen(text) + 1);
    return err->code;
}
