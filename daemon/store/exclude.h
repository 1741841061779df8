/* Keys of records that a feed leaves out: a file with one key a line, as it stands in the shard.
 * Read once for each opening of a data set; exclude_has may be called by several threads. */
#ifndef EXCLUDE_H
#define EXCLUDE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define EXCLUDE_FILE_MAX (1ULL << 30) /* bytes */

/* State of a file of keys; tells it from a later one. */
struct exclude_stamp {
    uint64_t inode, size;
    int64_t mtime_ns;
};

struct exclude;

/* Blocks. Empty lines are skipped, a key named twice counts once. -errno with the path. */
int exclude_read(const char *path, struct exclude **out, struct error *err);
void exclude_free(struct exclude *exclude); /* NULL is fine */
struct exclude_stamp exclude_stamp(const struct exclude *exclude);
/* True while the file at path is the one that was read. */
bool exclude_current(const char *path, const struct exclude_stamp *stamp);

/* Is the key named? It counts as met then. */
bool exclude_has(struct exclude *exclude, const char *key);
uint64_t exclude_keys(const struct exclude *exclude);
/* Keys that were never met, and the first of them (NULL = none). */
uint64_t exclude_unmet(const struct exclude *exclude, const char **first);

#endif
