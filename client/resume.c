#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/client_parts.h"

_Static_assert(DATALOAD_TOKEN_MAX == DLP_TOKEN_MAX, "DATALOAD_TOKEN_MAX");

#define DIGITS 20U /* of a number of 64 bits */

bool resume_fits(const char *text)
{
    size_t marks = 0, length = 0;
    for (; text[length]; length++) {
        marks += text[length] == '#';
        if (text[length] < ' ' || text[length] > '~')
            return false;
    }
    return marks == 2 && length + 2 * DIGITS < DLP_TOKEN_MAX;
}

/* The daemon's text with the place put in; its length, or -ENOSPC. */
static int fill(const struct dataload *handle, struct position at, char *text, size_t size)
{
    uint64_t origin = at.epoch == handle->start_epoch ? handle->start_position : 0;
    uint64_t next = origin + at.step * handle->world * handle->batch;
    const char *first = strchr(handle->token, '#'), *second = strchr(first + 1, '#');
    int length =
        snprintf(text, size, "%.*s%" PRIu64 "%.*s%" PRIu64 "%s", (int)(first - handle->token),
                 handle->token, at.epoch, (int)(second - first - 1), first + 1, next, second + 1);
    return (size_t)length < size ? length : -ENOSPC;
}

int dataload_token(dataload *handle, char *text, size_t size)
{
    int r = handle_enter(handle);
    if (r < 0)
        return r;
    if (!handle->attached)
        return handle_fail(handle, -ENOTCONN, "no token: the attach did not come true");
    r = fill(handle, take_next(handle), text, size);
    return r < 0 ? handle_fail(handle, r, "the token has more than %zu characters", size) : r;
}

int dataload_batch_token(const dataload_batch *batch, char *text, size_t size)
{
    if (getpid() != batch->mapping->owner)
        return -ENOLCK;
    if (batch->state != BATCH_HELD)
        return -EINVAL;
    if (batch->replay)
        return handle_fail(batch->mapping->handle, -ENODATA,
                           "a batch that is served again is no step to go on after: "
                           "dataload_token() is of the last one that is");
    const struct dataload *handle = batch->mapping->handle;
    struct position at = {batch->at.epoch, batch->at.step + 1};
    if (at.step >= take_steps(handle, at.epoch))
        at = (struct position){at.epoch + 1, 0};
    return fill(handle, at, text, size);
}
