/* Indexes of many shards at a time, from the cache or made anew. Threads of its own that touch
 * nothing of the caller's, so that one that hangs in the storage can be left behind. */
#ifndef INDEXER_H
#define INDEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "store/files.h"
#include "store/format.h"
#include "store/index_cache.h"

struct indexer_options {
    const struct format *format;
    const char *const *paths;
    size_t count;
    struct files *files; /* these instead of paths, which are then their names; NULL = none */
    const char *space;   /* files_space */
    unsigned threads;
    const char *cache_dir; /* NULL = indexes are not kept */
    uint64_t cache_bytes;
    /* Called about each second; return false to stop (-ECANCELED). May be NULL. */
    bool (*progress)(void *context, const char *text, uint64_t done, uint64_t total);
    void *context;
    unsigned patience; /* seconds without progress in one shard until it counts as hung */
};

struct indexer_result {
    struct index *index; /* the caller's from now on, and its part of files_take_memory */
    struct index_stamp stamp;
};

/* One result a shard to out (room for count), or none: the first error, with the shard's name;
 * -ETIMEDOUT for one that hangs. */
int indexer_run(const struct indexer_options *options, struct indexer_result *out,
                struct error *err);

#endif
