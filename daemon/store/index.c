#include "store/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "store/file_window.h"
#include "store/index_form.h"

#define AFTER_CHECKSUM offsetof(struct index_header, stamp)
/* A process has 65530 mappings by default, for all that it does: an index of about a page is read
 * into memory instead, and so is every one beyond these many. */
#define SMALL 4096
#define MAPPINGS_MAX 16384

static _Atomic unsigned mappings;

uint64_t index_form_size(const struct index_header *header)
{
    if (header->records >= INDEX_RECORDS_MAX || header->parts > INDEX_TEXT_MAX ||
        header->suffixes > INDEX_RECORDS_MAX || header->faults > INDEX_RECORDS_MAX ||
        header->text_size > INDEX_TEXT_MAX)
        return 0;
    return sizeof *header + (header->records + 1) * sizeof(struct index_record) +
           header->parts * sizeof(struct index_part) + header->suffixes * sizeof(uint64_t) +
           header->faults * sizeof(struct index_fault) + header->text_size;
}

struct index *index_form_wrap(void *block, size_t size, bool mapped)
{
    struct index *index = mem_new(sizeof *index);
    struct index_header *header = block;
    index->header = header;
    index->size = size;
    index->mapped = mapped;
    index->records = (const struct index_record *)(header + 1);
    index->parts = (const struct index_part *)(index->records + header->records + 1);
    index->suffixes = (const uint64_t *)(index->parts + header->parts);
    index->faults = (const struct index_fault *)(index->suffixes + header->suffixes);
    index->texts = (const char *)(index->faults + header->faults);
    return index;
}

static void release(void *block, size_t size, bool mapped)
{
    if (!mapped) {
        free(block);
        return;
    }
    munmap(block, size);
    mappings--;
}

void index_free(struct index *index)
{
    if (!index)
        return;
    release(index->header, index->size, index->mapped);
    free(index);
}

uint64_t index_size(const struct index *index)
{
    return index ? index->size : 0;
}

void index_set_turned(struct index *index, uint64_t looked_at, uint64_t turned)
{
    index->header->looked_at = looked_at;
    index->header->turned = turned;
}

static uint64_t checksum(const struct index_header *header, size_t size)
{
    return XXH3_64bits((const char *)header + AFTER_CHECKSUM, size - AFTER_CHECKSUM);
}

static int write_all(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done ? -errno : -EIO;
        bytes += done;
        size -= (size_t)done;
    }
    return 0;
}

int index_save(const struct index *index, int fd, struct error *err)
{
    struct index_header header = *index->header;
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, (const char *)&header + AFTER_CHECKSUM,
                       sizeof header - AFTER_CHECKSUM);
    XXH3_64bits_update(&state, index->header + 1, index->size - sizeof header);
    header.checksum = XXH3_64bits_digest(&state);
    int rc = write_all(fd, (const char *)&header, sizeof header);
    if (!rc)
        rc = write_all(fd, (const char *)(index->header + 1), index->size - sizeof header);
    return rc ? error_set(err, rc, "cannot write a record index: %s", strerror(-rc)) : 0;
}

static const char *header_fault(const struct index_header *header, size_t size)
{
    if (header->magic != INDEX_MAGIC)
        return "it is no record index of this kind of machine";
    if (header->version != INDEX_VERSION || header->header_size != sizeof *header)
        return "it is of another version";
    if (index_form_size(header) != size)
        return "its length does not fit its counts";
    if (checksum(header, size) != header->checksum)
        return "its checksum is wrong";
    if (header->text_size == 0 || header->turned > header->looked_at)
        return "its header contradicts itself";
    return NULL;
}

static bool part_is_sound(const struct index_header *header, const struct index_part *part)
{
    return part->suffix < header->suffixes && part->flags <= PART_VALUE &&
           (part->flags == PART_VALUE ||
            (part->offset <= INT64_MAX && part->size <= INT64_MAX - part->offset));
}

static bool records_are_sound(const struct index *index)
{
    const struct index_header *header = index->header;
    uint64_t part = 0, bytes = 0;
    for (uint64_t i = 0; i <= header->records; i++) {
        const struct index_record *record = &index->records[i];
        if (record->key >= header->text_size || record->fault >= BAD_CLASSES_COUNT ||
            record->first_part != part || record->bytes_before != bytes ||
            record->parts > header->parts - part || (record->parts == 0) != (i == header->records))
            return false;
        for (uint64_t end = part + record->parts; part < end; part++)
            if (!part_is_sound(header, &index->parts[part]) ||
                __builtin_add_overflow(bytes, index->parts[part].size, &bytes))
                return false;
    }
    return part == header->parts;
}

static bool tables_are_sound(const struct index *index)
{
    const struct index_header *header = index->header;
    if (index->texts[0] || index->texts[header->text_size - 1])
        return false;
    for (uint64_t i = 0; i < header->suffixes; i++)
        if (index->suffixes[i] >= header->text_size)
            return false;
    for (uint64_t i = 0; i < header->faults; i++) {
        const struct index_fault *fault = &index->faults[i];
        if (fault->cls >= BAD_CLASSES_COUNT || fault->reason >= header->text_size ||
            (fault->record >= header->records && fault->record != UINT32_MAX))
            return false;
    }
    return true;
}

/* NULL with errno, as map_block. */
static void *read_block(int fd, size_t size)
{
    void *block = malloc(size);
    int64_t got = block ? file_read(fd, block, 0, size) : -ENOMEM;
    if (got == (int64_t)size)
        return block;
    free(block);
    errno = got < 0 ? (int)-got : EIO;
    return NULL;
}

static void *map_block(int fd, size_t size)
{
    void *block = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (block == MAP_FAILED)
        return NULL;
    mappings++;
    return block;
}

int index_load(int fd, struct index **out, struct error *err)
{
    struct stat stat;
    if (fstat(fd, &stat))
        return error_set(err, -errno, "cannot look at a record index: %s", strerror(errno));
    if (!S_ISREG(stat.st_mode) || (uint64_t)stat.st_size < sizeof(struct index_header))
        return error_set(err, -EBADMSG, "not a record index: it is too short");
    size_t size = (size_t)stat.st_size;
    bool mapped = size > SMALL && mappings < MAPPINGS_MAX;
    void *block = (mapped ? map_block : read_block)(fd, size);
    if (!block)
        return error_set(err, -errno, "cannot load a record index: %s", strerror(errno));
    const char *fault = header_fault(block, size);
    if (fault) {
        release(block, size, mapped);
        return error_set(err, -EBADMSG, "not a good record index: %s", fault);
    }
    struct index *index = index_form_wrap(block, size, mapped);
    if (!tables_are_sound(index) || !records_are_sound(index)) {
        index_free(index);
        return error_set(err, -EBADMSG,
                         "not a good record index: its tables contradict each other");
    }
    *out = index;
    return 0;
}

const struct index_stamp *index_stamp(const struct index *index)
{
    return &index->header->stamp;
}

uint32_t index_records(const struct index *index)
{
    return (uint32_t)index->header->records;
}

const struct index_record *index_record(const struct index *index, uint32_t number)
{
    return &index->records[number];
}

const char *index_key(const struct index *index, uint32_t number)
{
    return index->texts + index->records[number].key;
}

const struct index_part *index_parts(const struct index *index, uint32_t number)
{
    return index->parts + index->records[number].first_part;
}

const char *index_suffix(const struct index *index, uint32_t suffix)
{
    return index->texts + index->suffixes[suffix];
}

uint32_t index_suffixes(const struct index *index)
{
    return (uint32_t)index->header->suffixes;
}

uint32_t index_faults(const struct index *index)
{
    return (uint32_t)index->header->faults;
}

const struct index_fault *index_fault(const struct index *index, uint32_t number)
{
    return &index->faults[number];
}

const char *index_text(const struct index *index, uint64_t offset)
{
    return index->texts + offset;
}

uint64_t index_looked_at(const struct index *index)
{
    return index->header->looked_at;
}

uint64_t index_turned(const struct index *index)
{
    return index->header->turned;
}
