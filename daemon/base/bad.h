/* The classes of bad samples and bad shards: one table gives enum, name, meaning. */
#ifndef BAD_H
#define BAD_H

#include <stdint.h>

/* clang-format off */
#define BAD_CLASSES(X) \
    X(BAD_NONE,          "OK",            "not bad") \
    X(BAD_TRUNC,         "BAD-TRUNC",     "the image ends too early") \
    X(BAD_CORRUPT,       "BAD-CORRUPT",   "the image data is broken") \
    X(BAD_UNSUP,         "BAD-UNSUP",     "a form of image that is not supported") \
    X(BAD_SIZE,          "BAD-SIZE",      "larger than a limit") \
    X(BAD_EMPTY,         "BAD-EMPTY",     "no bytes") \
    X(BAD_TYPE,          "BAD-TYPE",      "not an image") \
    X(BAD_LABEL,         "LABEL-BAD",     "the label is no integer or out of range") \
    X(BAD_PART_MISSING,  "PART-MISSING",  "a record lacks a part that a field needs") \
    X(BAD_KEY_DUP,       "KEY-DUP",       "a record has a part twice") \
    X(BAD_KEY_SPLIT,     "KEY-SPLIT",     "a key comes again later in its shard") \
    X(BAD_SHARD_TRUNC,   "SHARD-TRUNC",   "the shard ends too early") \
    X(BAD_SHARD_HEADER,  "SHARD-HEADER",  "a member header of the shard is broken") \
    X(BAD_SHARD_TYPE,    "SHARD-TYPE",    "the shard is not of a known format") \
    X(BAD_SHARD_EMPTY,   "SHARD-EMPTY",   "the shard has no records") \
    X(BAD_SHARD_CHANGED, "SHARD-CHANGED", "the shard is another than when it was indexed") \
    X(BAD_SHARD_MISSING, "SHARD-MISSING", "the shard is gone or cannot be opened") \
    X(BAD_READ,          "BAD-READ",      "the storage gave an error")
/* clang-format on */

enum bad_class {
#define X(id, name, text) id,
    BAD_CLASSES(X)
#undef X
        BAD_CLASSES_COUNT
};

const char *bad_name(enum bad_class cls);
const char *bad_text(enum bad_class cls);

/* Where a bad thing was found; strings are borrowed. */
struct bad_report {
    enum bad_class cls;
    const char *shard; /* path */
    const char *key;   /* "" = of the shard */
    uint64_t offset;   /* bytes into the shard */
    const char *reason;
};

#endif
