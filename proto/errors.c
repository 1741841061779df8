#include "proto/errors.h"

#include <stddef.h>

static const struct row {
    const char *text;
    int err;
} rows[] = {
#define X(code, name, err, text) [code] = {text, err},
    DLP_ERRORS(X)
#undef X
};

static const struct row unknown = {"unknown error", EPROTO};

static const struct row *find(unsigned code)
{
    if (code >= sizeof rows / sizeof *rows || !rows[code].text)
        return &unknown;
    return &rows[code];
}

const char *dlp_error_text(unsigned code)
{
    return find(code)->text;
}

int dlp_error_errno(unsigned code)
{
    return find(code)->err;
}
