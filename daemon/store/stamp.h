/* The identity of a shard: which state of which file an index belongs to. */
#ifndef STAMP_H
#define STAMP_H

#include <stdbool.h>

#include "base/error.h"
#include "store/format.h"

/* Of a regular file: fstat, and XXH3-64 over its first and last 64 KiB. -EISDIR, -EINVAL (neither
 * file nor directory) and the errors of reading, with path in the text. */
int stamp_file(int fd, const char *path, struct format_progress *progress, struct index_stamp *out,
               struct error *err);
/* The same state of the same data, also as a copy: everything but the inode. */
bool stamp_same(const struct index_stamp *a, const struct index_stamp *b);

#endif
