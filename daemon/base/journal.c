#include "base/journal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/escape.h"

#define VALUE_MAX 2048 /* also of what its escaping makes of it */

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int fd = -1;

void journal_open(const char *path)
{
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd < 0)
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

void journal_put(struct journal_entry *entry, const char *name, const char *format, ...)
{
    char value[VALUE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    char *at = entry->bytes + entry->length;
    size_t left = sizeof entry->bytes - entry->length;
    if (strlen(name) + 2 > left) /* the signs = and newline */
        return;
    size_t length = (size_t)snprintf(at, left, "%s=", name);
    left -= length + 1;
    length += escape_line(at + length, left < VALUE_MAX ? left : VALUE_MAX, value);
    at[length++] = '\n';
    entry->length += length;
}

/* By its address each time, so that a journald that was started anew gets it. */
int journal_send(const struct journal_entry *entry)
{
    ssize_t sent = sendto(fd, entry->bytes, entry->length, MSG_DONTWAIT | MSG_NOSIGNAL,
                          (const struct sockaddr *)&address, sizeof address);
    return sent < 0 ? -errno : 0;
}
