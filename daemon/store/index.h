/* The record index of one shard: what its records are called and where their parts lie. Immutable;
 * mapped from a file that this daemon wrote (store/index_cache.h) or held in memory. Readable from
 * all threads.
 *
 * A record is a run of consecutive members with one key; all records of the shard are here, also
 * the bad ones, so that record numbers never depend on the fields asked for. */
#ifndef INDEX_H
#define INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/bad.h"
#include "base/error.h"

enum part_flags {
    PART_STORED = 0, /* size bytes at offset of the shard file (folder: of the record's own file) */
    PART_VALUE =
        1, /* no bytes: an integer known to the index (a folder's class number) is in offset */
};

struct index_part {
    uint32_t suffix; /* index_suffix() */
    uint32_t flags;
    uint64_t offset;
    uint64_t size;
};

struct index_record {
    uint64_t key; /* offset into the texts */
    uint64_t first_part;
    uint32_t parts;
    uint32_t fault; /* enum bad_class of a structural fault: KEY-DUP, KEY-SPLIT, SHARD-TRUNC (cut
                       off); else BAD_NONE */
    uint64_t bytes_before; /* sum of the part sizes of all records before this one */
};

struct index_fault { /* of the shard, or of a record by structure */
    uint32_t cls;    /* enum bad_class; BAD_NONE = no fault, a note about the shard */
    uint32_t record; /* UINT32_MAX = of the shard */
    uint64_t offset;
    uint64_t reason; /* offset into the texts */
};

struct index;

/* Identity of the file that was indexed. */
struct index_stamp {
    uint64_t size;
    int64_t mtime_ns;
    uint64_t inode;
    uint64_t content; /* XXH3-64 over the first and last 64 KiB */
};

/* Building: by a format, one thread. Limits are checked (2^30 keys, 4 GiB of them) with -E2BIG.
 * A failure is kept: everything after it fails alike, and so does finish. */
struct index_builder;
struct index_builder *index_builder_new(void);
void index_builder_free(struct index_builder *builder);
/* As what it holds grows, it asks for more; not 0: it fails with that. */
void index_builder_bound(struct index_builder *builder, int (*more)(void *context, uint64_t bytes),
                         void *context);
/* What its format holds meanwhile, in all: counts like its own. 0, or what it fails with. */
int index_builder_beside(struct index_builder *builder, uint64_t bytes);
/* Adds one member; another key than that of the call before starts a new record. suffix is already
 * lower-case. */
int index_builder_part(struct index_builder *builder, const char *key, const char *suffix,
                       uint32_t flags, uint64_t offset, uint64_t size);
/* A fault of the shard at offset, or with BAD_NONE a note. */
void index_builder_fault(struct index_builder *builder, enum bad_class cls, uint64_t offset,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));
/* A fault of the last record, which never enters a plan by it. */
void index_builder_spoil(struct index_builder *builder, enum bad_class cls, uint64_t offset,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));
uint32_t index_builder_records(const struct index_builder *builder);
const char *index_builder_last_key(const struct index_builder *builder); /* "" = no record yet */
/* Finds repeated suffixes and split keys, and gives the index; the builder is used up. -ENOMEM,
 * -E2BIG. */
int index_builder_finish(struct index_builder *builder, const struct index_stamp *stamp,
                         struct index **out);
/* Share of looked-at images whose EXIF says that they are turned; before the index is shared. */
void index_set_turned(struct index *index, uint64_t looked_at, uint64_t turned);

/* The file form, and back. load maps the file, which must be one that nobody else can change (or
 * reads a small one, and what goes beyond a bound of mappings), and checks all that it will later
 * trust (magic, version, checksum, sizes, every offset): -EBADMSG otherwise. */
int index_save(const struct index *index, int fd, struct error *err);
int index_load(int fd, struct index **out, struct error *err);
void index_free(struct index *index);
uint64_t index_size(const struct index *index); /* bytes; NULL: 0 */

const struct index_stamp *index_stamp(const struct index *index);
uint32_t index_records(const struct index *index);
/* number = index_records(): a sentinel with the sums in first_part and bytes_before. */
const struct index_record *index_record(const struct index *index, uint32_t number);
const char *index_key(const struct index *index, uint32_t number);
const struct index_part *index_parts(const struct index *index,
                                     uint32_t number); /* .parts of them */
const char *index_suffix(const struct index *index, uint32_t suffix);
uint32_t index_suffixes(const struct index *index);
uint32_t index_faults(const struct index *index);
const struct index_fault *index_fault(const struct index *index, uint32_t number);
const char *index_text(const struct index *index, uint64_t offset);
uint64_t index_looked_at(const struct index *index);
uint64_t index_turned(const struct index *index);

#endif
