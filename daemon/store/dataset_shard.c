#include "store/dataset_shard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"

#define NOT_HERE UINT32_MAX

struct choice {
    struct dataset_shard *shard;
    const struct dataset_field *fields;
    size_t nfields;
    struct exclude *unwanted; /* NULL = none */
    XXH3_state_t hash;
};

void dataset_shard_done(struct dataset_shard *shard)
{
    free(shard->path);
    index_free(shard->index);
    free(shard->excluded);
    free(shard->excluded_before);
    free(shard->wanted);
    free(shard->faults);
    names_done(&shard->reasons);
}

uint64_t dataset_shard_memory(const struct dataset_shard *shard)
{
    return shard->nexcluded * (sizeof *shard->excluded + sizeof *shard->excluded_before) +
           shard->nfaults * sizeof *shard->faults + names_bytes(&shard->reasons);
}

uint64_t dataset_shard_count(const struct dataset_shard *shard)
{
    return index_records(shard->index) - shard->nexcluded;
}

uint32_t dataset_shard_number(const struct dataset_shard *shard, uint64_t j, uint64_t *excluded)
{
    uint64_t low = 0, high = shard->nexcluded;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (shard->excluded[middle] - middle <= j)
            low = middle + 1;
        else
            high = middle;
    }
    *excluded = low;
    return (uint32_t)(j + low);
}

const struct index_part *dataset_shard_part(const struct dataset_shard *shard, uint32_t record,
                                            const uint32_t *wanted, size_t nfrom)
{
    const struct index_part *parts = index_parts(shard->index, record);
    uint32_t count = index_record(shard->index, record)->parts;
    for (size_t i = 0; i < nfrom; i++)
        for (uint32_t k = 0; k < count && wanted[i] != NOT_HERE; k++)
            if (parts[k].suffix == wanted[i])
                return &parts[k];
    return NULL;
}

static uint32_t find_suffix(const struct index *index, const char *suffix)
{
    for (uint32_t i = 0; i < index_suffixes(index); i++)
        if (!strcmp(index_suffix(index, i), suffix))
            return i;
    return NOT_HERE;
}

static void find_suffixes(struct choice *choice)
{
    struct dataset_shard *shard = choice->shard;
    size_t count = 0;
    for (size_t f = 0; f < choice->nfields; f++)
        count += choice->fields[f].nfrom;
    uint32_t *at = shard->wanted = mem_array(count, sizeof *shard->wanted);
    for (size_t f = 0; f < choice->nfields; f++)
        for (size_t i = 0; i < choice->fields[f].nfrom; i++)
            *at++ = find_suffix(shard->index, choice->fields[f].from[i]);
}

static int add_fault(struct dataset_shard *shard, enum bad_class cls, uint32_t record,
                     uint64_t offset, const char *reason)
{
    struct dataset_shard_fault fault = {.cls = cls, .record = record, .offset = offset};
    int rc = names_add(&shard->reasons, reason, &fault.reason);
    if (rc)
        return rc;
    if (!array_room(&shard->faults, shard->nfaults, &shard->faults_room, sizeof fault))
        return -ENOMEM;
    shard->faults[shard->nfaults++] = fault;
    return 0;
}

static int take_index_faults(struct dataset_shard *shard)
{
    const struct index *index = shard->index;
    int rc = 0;
    for (uint32_t i = 0; i < index_faults(index) && !rc; i++) {
        const struct index_fault *fault = index_fault(index, i);
        if (fault->cls != BAD_NONE)
            rc = add_fault(shard, fault->cls, fault->record, fault->offset,
                           index_text(index, fault->reason));
    }
    return rc;
}

static int exclude(struct dataset_shard *shard, uint32_t record)
{
    const struct index_record *at = index_record(shard->index, record);
    if (!array_room(&shard->excluded, shard->nexcluded, &shard->excluded_room,
                    sizeof *shard->excluded) ||
        !array_room(&shard->excluded_before, shard->nexcluded + 1, &shard->before_room,
                    sizeof *shard->excluded_before))
        return -ENOMEM;
    uint64_t *before = &shard->excluded_before[shard->nexcluded];
    if (shard->nexcluded == 0)
        before[0] = 0;
    before[1] = before[0] + (at[1].bytes_before - at->bytes_before);
    shard->excluded[shard->nexcluded++] = record;
    return 0;
}

/* " a, b, c", cut where it gets too long. */
static void add_words(char *text, size_t capacity, const char *word, bool first)
{
    size_t used = strlen(text);
    if (used + 60 < capacity)
        snprintf(text + used, capacity - used, "%s%.50s", first ? " " : ", ", word);
}

static int missing(struct choice *choice, uint32_t record, const struct dataset_field *field)
{
    const struct index *index = choice->shard->index;
    const struct index_part *parts = index_parts(index, record);
    char reason[700], wanted[300] = "", has[300] = "";
    for (size_t i = 0; i < field->nfrom; i++)
        add_words(wanted, sizeof wanted, field->from[i], i == 0);
    for (uint32_t i = 0; i < index_record(index, record)->parts; i++)
        add_words(has, sizeof has, index_suffix(index, parts[i].suffix), i == 0);
    snprintf(reason, sizeof reason, "no part%s for field '%.60s'; the record has:%s", wanted,
             field->name, has);
    return add_fault(choice->shard, BAD_PART_MISSING, record, parts[0].offset, reason);
}

/* Does the record have all fields? Otherwise the first one that it lacks goes to *lacks. */
static bool has_fields(struct choice *choice, uint32_t record, uint64_t sizes[DATASET_FIELDS_MAX],
                       const struct dataset_field **lacks)
{
    const uint32_t *wanted = choice->shard->wanted;
    for (size_t f = 0; f < choice->nfields; f++) {
        const struct dataset_field *field = &choice->fields[f];
        if (field->nfrom == 0) {
            sizes[f] = strlen(index_key(choice->shard->index, record));
            continue;
        }
        const struct index_part *part =
            dataset_shard_part(choice->shard, record, wanted, field->nfrom);
        if (!part) {
            *lacks = field;
            return false;
        }
        sizes[f] = part->size;
        wanted += field->nfrom;
    }
    return true;
}

/* Key, suffixes and sizes; of a part without bytes its value. Strings with their NUL. */
static void hash_record(struct choice *choice, uint32_t record)
{
    const struct index *index = choice->shard->index;
    const char *key = index_key(index, record);
    const struct index_part *parts = index_parts(index, record);
    uint32_t count = index_record(index, record)->parts;
    XXH3_128bits_update(&choice->hash, key, strlen(key) + 1);
    XXH3_128bits_update(&choice->hash, &count, sizeof count);
    for (uint32_t i = 0; i < count; i++) {
        const char *suffix = index_suffix(index, parts[i].suffix);
        uint64_t number = parts[i].flags == PART_VALUE ? parts[i].offset : parts[i].size;
        XXH3_128bits_update(&choice->hash, suffix, strlen(suffix) + 1);
        XXH3_128bits_update(&choice->hash, &number, sizeof number);
    }
}

static int choose_record(struct choice *choice, uint32_t record)
{
    struct dataset_shard *shard = choice->shard;
    uint64_t sizes[DATASET_FIELDS_MAX];
    const struct dataset_field *lacks;
    if (choice->unwanted && exclude_has(choice->unwanted, index_key(shard->index, record))) {
        shard->unwanted++;
        return exclude(shard, record);
    }
    if (index_record(shard->index, record)->fault)
        return exclude(shard, record);
    if (!has_fields(choice, record, sizes, &lacks)) {
        int rc = missing(choice, record, lacks);
        return rc ? rc : exclude(shard, record);
    }
    for (size_t f = 0; f < choice->nfields; f++)
        if (sizes[f] > shard->part_max[f])
            shard->part_max[f] = sizes[f];
    hash_record(choice, record);
    return 0;
}

int dataset_shard_choose(struct dataset_shard *shard, const struct dataset_field *fields,
                         size_t nfields, struct exclude *unwanted)
{
    struct choice choice = {
        .shard = shard, .fields = fields, .nfields = nfields, .unwanted = unwanted};
    uint32_t records = index_records(shard->index);
    XXH3_128bits_reset(&choice.hash);
    find_suffixes(&choice);
    int rc = take_index_faults(shard);
    for (uint32_t record = 0; record < records && !rc; record++)
        rc = choose_record(&choice, record);
    XXH128_hash_t digest = XXH3_128bits_digest(&choice.hash);
    shard->digest[0] = digest.low64;
    shard->digest[1] = digest.high64;
    return rc;
}
