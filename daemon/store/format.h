/* A shard format: how to list its records, and how to read their bytes. One file a format, one
 * table of functions; nothing else knows formats. */
#ifndef FORMAT_H
#define FORMAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/index.h"

/* Counts for progress reports, which tell work from a storage that hangs; and a way to stop early.
 */
struct format_progress {
    _Atomic uint64_t bytes; /* looked at so far */
    _Atomic uint64_t records;
    _Atomic bool cancel;
};

/* One wanted part; result in got (short at the end of the file) or error (negative errno). */
struct format_read {
    uint32_t record;
    uint64_t offset;
    uint64_t size;
    void *dst;
    uint64_t got;
    int error;
};

struct format {
    const char *name;
    int open_flags; /* further flags of open(2): O_DIRECTORY for the folder format */
    /* What tells this state of the shard from any other. progress may be NULL. */
    int (*stamp)(int fd, const char *path, struct format_progress *progress,
                 struct index_stamp *out, struct error *err);
    /* Lists all records of the shard open at fd (a file, or a directory for the folder format) into
     * the builder. Structural damage is a fault in the index, not an error; an error is only what
     * prevents reading at all. */
    int (*list)(int fd, const char *path, struct index_builder *builder,
                struct format_progress *progress, struct error *err);
    /* Reads the parts, given in ascending (record, offset); large contiguous reads where parts are
     * neighbours. Never fails as a whole. */
    void (*read)(int fd, const struct index *index, struct format_read *reads, size_t count);
};

extern const struct format format_tar;
extern const struct format format_folder;

#endif
