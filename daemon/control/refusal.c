#include "control/refusal.h"

#include <stdio.h>

int refuse(struct refusal *refusal, enum dlp_error code, const char *format, ...)
{
    refusal->code = code;
    va_list args;
    va_start(args, format);
    vsnprintf(refusal->text, sizeof refusal->text, format, args);
    va_end(args);
    return (int)code;
}
