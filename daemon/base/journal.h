/* Entries of systemd's journal by its native protocol: one datagram of lines NAME=value each.
 *
 * sd_journal_sendv() would do the same, but over a socket that blocks while journald does not read;
 * nothing here waits. After journal_open any thread. */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <stddef.h>

#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define JOURNAL_ENTRY_MAX 8192

struct journal_entry { /* begins as length 0 */
    size_t length;
    char bytes[JOURNAL_ENTRY_MAX];
};

/* Where entries go from now on; that it is there is seen when they are sent. */
void journal_open(const char *path);
/* One field more, control characters escaped; left out where it finds no room. name: of A-Z 0-9 _
 */
void journal_put(struct journal_entry *entry, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* 0, or a negative errno: -EAGAIN: journald does not keep up; -ENOENT, -ECONNREFUSED: there is
 * none. */
int journal_send(const struct journal_entry *entry);

#endif
