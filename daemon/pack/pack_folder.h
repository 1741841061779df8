/* An image folder (DIR/class/.../picture.jpg) as a set of tar shards of nearly equal bytes. */
#ifndef PACK_FOLDER_H
#define PACK_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct pack_folder_options {
    const char *source;
    const char *target;
    uint32_t shards;      /* 0: by shard_bytes */
    uint64_t shard_bytes; /* aim of one shard */
    uint64_t seed;
    bool shuffle; /* false: sorted by path */
};

/* Classes are the folders of DIR, numbered in bytewise order of their names. Prints what it did to
 * stderr and the feed to stdout. Main thread. */
int pack_folder(const struct pack_folder_options *options, struct error *err);

#endif
