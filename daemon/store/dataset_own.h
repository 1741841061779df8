/* The insides of a data set: private to dataset*.c and shard.c. */
#ifndef DATASET_OWN_H
#define DATASET_OWN_H

#include "store/dataset_shard.h"
#include "store/files.h"

struct dataset {
    _Atomic unsigned references;
    _Atomic bool outdated; /* a file of a folder was found changed */
    const struct format *format;
    struct files *files;          /* NULL: shards are paths */
    char space[FILES_SPACE_MAX];  /* of the cache */
    struct dataset_field *fields; /* copies of all */
    size_t nfields;
    uint32_t nshards;
    struct dataset_shard *shards;
    char *cache_dir; /* NULL = none */
    uint64_t cache_bytes;
    struct index_cache *marks; /* where marks are kept; NULL: they are not */
    uint64_t marks_bytes;
    _Atomic int marks_failed; /* negative: why a write did */
    char *exclude;            /* path of the keys to leave out; NULL = none */
    struct exclude_stamp exclude_stamp;
    uint64_t records, bytes, faults, unwanted;
    char fingerprint[33];
    char **notes;
    uint32_t nnotes;
};

/* Takes the text. */
void dataset_add_note(struct dataset *dataset, char *text);
/* Makes the files of marks, once all shards are chosen. What stands against it is told. */
void dataset_make_marks(struct dataset *dataset, const struct dataset_options *options);
/* Notes about shards, faults and turned pictures, once all shards are chosen. */
void dataset_describe(struct dataset *dataset);

#endif
