/* All files under a directory. Follows symbolic links to directories, but none that leads back to
 * a directory it is in. Owner: one thread. */
#ifndef FOLDER_WALK_H
#define FOLDER_WALK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct folder_walk_events {
    /* name: relative to the root. size: 0 where `stat` is false. 0 or a negative errno that ends
     * the walk. A directory comes before what is in it. */
    int (*directory)(void *context, const char *name, int64_t mtime_ns);
    int (*file)(void *context, const char *name, uint64_t size);
    /* what is neither file nor directory, or a directory that contains itself */
    int (*other)(void *context, const char *name, const char *what);
    void *context;
    bool stat; /* files are looked at: their kind and size is needed */
    const _Atomic bool *cancel;
};

int folder_walk(int fd, const char *path, const struct folder_walk_events *events,
                struct error *err);

#endif
