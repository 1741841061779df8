/* The form of an index in memory and in its file, the same bytes: a header and five arrays.
 * Private to index.c and index_builder.c. Little-endian, as the machine that wrote it. */
#ifndef INDEX_FORM_H
#define INDEX_FORM_H

#include <stdbool.h>

#include "store/index.h"

#define INDEX_MAGIC 0x5844494c44415441ULL /* also tells the byte order */
#define INDEX_VERSION 1
#define INDEX_RECORDS_MAX (1ULL << 31)
#define INDEX_TEXT_MAX (1ULL << 34) /* keys, suffixes and reasons of at most 4 GiB each */

struct index_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_size;
    uint64_t checksum; /* XXH3-64 of all that follows this field */
    struct index_stamp stamp;
    uint64_t records, parts, suffixes, faults, text_size;
    uint64_t looked_at, turned;
};

/* records + 1 of them: the last one is a sentinel that holds the sums */
struct index {
    struct index_header *header;
    const struct index_record *records;
    const struct index_part *parts;
    const uint64_t *suffixes; /* offsets into the texts */
    const struct index_fault *faults;
    const char *texts; /* the first string is "" */
    size_t size;       /* bytes of all */
    bool mapped;
};

/* Total bytes of the form; 0 when the counts are over the limits. */
uint64_t index_form_size(const struct index_header *header);
/* An index over a block of that size. Takes the block (malloc, or mmap when mapped) except when it
 * returns NULL. */
struct index *index_form_wrap(void *block, size_t size, bool mapped);

#endif
