/* A data set: the shards of a source in listed order, their indexes, and which records enter the
 * plan for a given set of fields. Immutable after open, shared, reference-counted; all threads. */
#ifndef DATASET_H
#define DATASET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bad.h"
#include "base/error.h"
#include "store/format.h"
#include "store/marks.h"

#define DATASET_FIELDS_MAX 32

struct dataset_source {
    const char *const *patterns; /* paths, brace ranges {000..123}, globs, "a::b" */
    size_t count;
    bool folder;         /* patterns[0] is an image folder */
    struct files *files; /* tar shards that are given (store/files.h), in place of patterns */
};

/* Parts that a record must have: one of `from` for each field; the first that the record has is
 * used. nfrom 0: no part, but the record's key. */
struct dataset_field {
    const char *name;
    const char *const *from;
    size_t nfrom;
    bool marks; /* its parts have room for marks (store/marks.h) */
};

struct dataset_options {
    const char *name; /* of the feed, for texts */
    struct dataset_source source;
    const struct dataset_field *fields;
    size_t nfields;
    const char *exclude;   /* file of the keys to leave out (store/exclude.h); NULL = none */
    const char *cache_dir; /* NULL = indexes are not kept */
    uint64_t cache_bytes;
    bool marks; /* are kept beside the indexes */
    unsigned threads;
    /* Called about each second from the opening thread; return false to stop (-ECANCELED). */
    bool (*progress)(void *context, const char *text, uint64_t done, uint64_t total);
    void *context;
};

struct dataset;
/* Expands the source, indexes what is not in the cache (in parallel), checks what is against size,
 * mtime and content. Blocks; helper thread. -ENOENT and so on with a text that names pattern and
 * errno: a pattern that matches nothing, an unreadable directory, no record that has all fields. A
 * missing number of a brace range or a shard that cannot be opened is an error; a shard listed
 * twice, an empty one, and structural faults are notes. */
int dataset_open(const struct dataset_options *options, struct dataset **out, struct error *err);
struct dataset *dataset_ref(struct dataset *dataset);
void dataset_unref(struct dataset *dataset); /* NULL is fine */
/* True when every shard still has the stamp it was indexed with, and no file of a folder was found
 * to have another size, and the list of keys to leave out is the one that was read. Blocks. */
bool dataset_current(const struct dataset *dataset);

uint64_t dataset_records(const struct dataset *dataset);        /* N: those that enter the plan */
uint64_t dataset_bytes(const struct dataset *dataset);          /* of these */
const char *dataset_fingerprint(const struct dataset *dataset); /* 32 hex digits */
uint32_t dataset_shards(const struct dataset *dataset);
const char *dataset_shard_path(const struct dataset *dataset, uint32_t shard);
uint64_t dataset_shard_records(const struct dataset *dataset, uint32_t shard); /* of the plan */
uint64_t dataset_shard_bytes(const struct dataset *dataset, uint32_t shard);
/* Bytes of the plan's records [first, first + count) of a shard. */
uint64_t dataset_span_bytes(const struct dataset *dataset, uint32_t shard, uint64_t first,
                            uint64_t count);

/* The part of one field of a record of the plan. */
struct dataset_part {
    uint32_t flags; /* PART_VALUE: offset is the value */
    const char *suffix;
    uint64_t offset, size;
    struct marks_place marks; /* no room: none are kept */
};
struct dataset_record {
    uint64_t id;            /* sample id: number among all records of all shards */
    uint32_t shard, number; /* in the index of the shard */
    const char *key;
    struct dataset_part parts[DATASET_FIELDS_MAX]; /* one a field */
};
/* The j-th record of the plan of a shard. */
void dataset_record(const struct dataset *dataset, uint32_t shard, uint64_t j,
                    struct dataset_record *out);
/* Key of a record by its number in the index of its shard; the data set's. */
const char *dataset_key(const struct dataset *dataset, uint32_t shard, uint32_t number);
/* Largest size of one field's part, or key, over all records of the plan. */
uint64_t dataset_part_max(const struct dataset *dataset, size_t field);

/* Bytes of the files that marks are kept in; 0: none are kept. */
uint64_t dataset_marks_bytes(const struct dataset *dataset);
/* Negative: why marks cannot be kept any more. Any thread. */
int dataset_marks_failed(const struct dataset *dataset);
/* Keeps marks of a part, at its place. Any thread; blocks. false: cannot be kept (told once). */
bool dataset_keep_marks(struct dataset *dataset, uint32_t shard, const struct marks_place *place,
                        const void *marks);

/* Structural faults (never in the plan) and notes worth a user's eye, counted and listed. */
uint32_t dataset_faults(const struct dataset *dataset);
struct bad_report dataset_fault(const struct dataset *dataset, uint32_t number);
uint32_t dataset_notes(const struct dataset *dataset);
const char *dataset_note(const struct dataset *dataset, uint32_t number);

/* Reading. A handle of one open shard; owner: one reader thread. */
struct shard;
/* Opens and compares with the stamp: -ESTALE changed, -ENOENT missing. */
int shard_open(const struct dataset *dataset, uint32_t shard, struct shard **out,
               struct error *err);
void shard_close(struct shard *shard);
dev_t shard_device(const struct shard *shard); /* on which it lies */
void shard_read(struct shard *shard, struct format_read *reads, size_t count);
/* The marks kept at a place, zeros where there are none. */
void shard_read_marks(const struct shard *shard, const struct marks_place *place, void *dst);
/* Tells the kernel that [offset, offset + size) is wanted soon. */
void shard_advise(struct shard *shard, uint64_t offset, uint64_t size);

#endif
