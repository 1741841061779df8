/* From the patterns of a configuration to the list of shards. Blocks (stat, readdir). */
#ifndef SOURCE_H
#define SOURCE_H

#include <stddef.h>

#include "base/error.h"

struct source {
    char **paths;
    size_t count;
    char **notes; /* a shard that is listed twice */
    size_t nnotes;
};

/* Patterns: paths, "a::b" (two lists), brace ranges {000..123} (padded as written) and lists {a,b}
 * in the order written, globs (sorted bytewise). -ENOENT with the name of what matches nothing or
 * is missing, -EINVAL for a pattern that makes no sense, -E2BIG over a million paths, and the
 * errors of directories that cannot be read. */
int source_expand(const char *const *patterns, size_t count, struct source *out, struct error *err);
void source_done(struct source *source);

#endif
