/* The identity of a shard: which state of which file an index belongs to. */
#ifndef STAMP_H
#define STAMP_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"
#include "store/format.h"

/* fstat; where the server would have to know us (a file that a user with a Kerberos ticket has
 * opened), what the kernel knows of the file. 0 or -1 with errno. */
int stamp_look(int fd, struct stat *out);
/* Of a regular file: stamp_look, and XXH3-64 over its first and last 64 KiB. -EISDIR, -EINVAL
 * (neither file nor directory) and the errors of reading, with path in the text. */
int stamp_file(int fd, const char *path, struct format_progress *progress, struct index_stamp *out,
               struct error *err);
/* The same state of the same data, also as a copy: everything but the inode. */
bool stamp_same(const struct index_stamp *a, const struct index_stamp *b);

#endif
