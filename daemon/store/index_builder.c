#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/index_form.h"
#include "store/names.h"

#define GRANT (64U << 10) /* bytes */

struct draft { /* a record in the making */
    uint32_t key;
    uint32_t fault;
    uint64_t first_part;
};

struct index_builder {
    struct names keys, suffixes, reasons;
    struct draft *records;
    uint64_t nrecords, records_room;
    struct index_part *parts;
    uint64_t nparts, parts_room;
    struct index_fault *faults; /* reason = number of the string until finish */
    uint64_t nfaults, faults_room;
    uint64_t bytes;                             /* of all parts */
    int failed;                                 /* the first error */
    int (*more)(void *context, uint64_t bytes); /* NULL: it may hold any */
    void *context;
    uint64_t beside, granted;
};

struct index_builder *index_builder_new(void)
{
    return mem_new(sizeof(struct index_builder));
}

void index_builder_free(struct index_builder *builder)
{
    if (!builder)
        return;
    names_done(&builder->keys);
    names_done(&builder->suffixes);
    names_done(&builder->reasons);
    free(builder->records);
    free(builder->parts);
    free(builder->faults);
    free(builder);
}

void index_builder_bound(struct index_builder *builder, int (*more)(void *context, uint64_t bytes),
                         void *context)
{
    builder->more = more;
    builder->context = context;
}

static int fail(struct index_builder *builder, int rc)
{
    if (!builder->failed)
        builder->failed = rc;
    return builder->failed;
}

static uint64_t held(const struct index_builder *builder)
{
    return builder->beside + builder->nrecords * sizeof *builder->records +
           builder->nparts * sizeof *builder->parts + builder->nfaults * sizeof *builder->faults +
           names_bytes(&builder->keys) + names_bytes(&builder->suffixes) +
           names_bytes(&builder->reasons);
}

static int ask(struct index_builder *builder)
{
    if (!builder->more || held(builder) <= builder->granted)
        return 0;
    builder->granted += GRANT;
    return builder->more(builder->context, GRANT);
}

int index_builder_beside(struct index_builder *builder, uint64_t bytes)
{
    builder->beside = bytes;
    int rc = ask(builder);
    return rc ? fail(builder, rc) : 0;
}

static const char *string_of(const struct names *names, uint32_t number)
{
    return names->text + names->at[number];
}

uint32_t index_builder_records(const struct index_builder *builder)
{
    return (uint32_t)builder->nrecords;
}

const char *index_builder_last_key(const struct index_builder *builder)
{
    return builder->nrecords
               ? string_of(&builder->keys, builder->records[builder->nrecords - 1].key)
               : "";
}

static int next_record(struct index_builder *builder, const char *key)
{
    if (builder->nrecords && !strcmp(key, index_builder_last_key(builder)))
        return 0;
    if (builder->nrecords >= INDEX_RECORDS_MAX - 1)
        return -E2BIG;
    if (!array_room(&builder->records, builder->nrecords, &builder->records_room,
                    sizeof *builder->records))
        return -ENOMEM;
    struct draft *record = &builder->records[builder->nrecords];
    *record = (struct draft){.first_part = builder->nparts};
    int rc = names_add(&builder->keys, key, &record->key);
    if (!rc)
        builder->nrecords++;
    return rc;
}

int index_builder_part(struct index_builder *builder, const char *key, const char *suffix,
                       uint32_t flags, uint64_t offset, uint64_t size)
{
    struct index_part part = {.flags = flags, .offset = offset, .size = size};
    if (builder->failed)
        return builder->failed;
    if (!array_room(&builder->parts, builder->nparts, &builder->parts_room, sizeof part))
        return fail(builder, -ENOMEM);
    if (__builtin_add_overflow(builder->bytes, size, &builder->bytes) || builder->bytes > INT64_MAX)
        return fail(builder, -E2BIG);
    int rc = next_record(builder, key);
    if (!rc)
        rc = names_add(&builder->suffixes, suffix, &part.suffix);
    if (!rc)
        rc = ask(builder);
    if (rc)
        return fail(builder, rc);
    builder->parts[builder->nparts++] = part;
    return 0;
}

static void add_fault(struct index_builder *builder, struct index_fault fault, const char *reason)
{
    uint32_t number = 0;
    int rc = names_add(&builder->reasons, reason, &number);
    if (!rc && !array_room(&builder->faults, builder->nfaults, &builder->faults_room, sizeof fault))
        rc = -ENOMEM;
    if (!rc)
        rc = ask(builder);
    if (rc) {
        fail(builder, rc);
        return;
    }
    fault.reason = number;
    builder->faults[builder->nfaults++] = fault;
}

static void add_formatted(struct index_builder *builder, struct index_fault fault,
                          const char *format, va_list args)
{
    char *reason = NULL;
    if (vasprintf(&reason, format, args) < 0) {
        fail(builder, -ENOMEM);
        return;
    }
    add_fault(builder, fault, reason);
    free(reason);
}

void index_builder_fault(struct index_builder *builder, enum bad_class cls, uint64_t offset,
                         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct index_fault fault = {.cls = cls, .record = UINT32_MAX, .offset = offset};
    add_formatted(builder, fault, format, args);
    va_end(args);
}

void index_builder_spoil(struct index_builder *builder, enum bad_class cls, uint64_t offset,
                         const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct index_fault fault = {.cls = cls, .record = UINT32_MAX, .offset = offset};
    if (builder->nrecords) {
        fault.record = (uint32_t)builder->nrecords - 1;
        builder->records[fault.record].fault = cls;
    }
    add_formatted(builder, fault, format, args);
    va_end(args);
}

static void record_fault(struct index_builder *builder, uint32_t record, enum bad_class cls,
                         const struct index_part *part, const char *reason)
{
    builder->records[record].fault = cls;
    add_fault(builder, (struct index_fault){.cls = cls, .record = record, .offset = part->offset},
              reason);
}

static uint64_t parts_end(const struct index_builder *builder, uint32_t record)
{
    return record + 1 < builder->nrecords ? builder->records[record + 1].first_part
                                          : builder->nparts;
}

/* last[suffix] = record + 1 that had it last. */
static void check_suffixes(struct index_builder *builder, uint32_t record, uint32_t *last)
{
    uint64_t end = parts_end(builder, record);
    for (uint64_t i = builder->records[record].first_part; i < end; i++) {
        const struct index_part *part = &builder->parts[i];
        if (last[part->suffix] == record + 1) {
            char reason[300];
            snprintf(reason, sizeof reason, "the record has part '%.200s' more than once",
                     string_of(&builder->suffixes, part->suffix));
            record_fault(builder, record, BAD_KEY_DUP, part, reason);
            return;
        }
        last[part->suffix] = record + 1;
    }
}

static int check_records(struct index_builder *builder)
{
    cleanup_free uint32_t *uses = calloc(builder->keys.count + 1, sizeof *uses);
    cleanup_free uint32_t *last = calloc(builder->suffixes.count + 1, sizeof *last);
    if (!uses || !last)
        return -ENOMEM;
    for (uint64_t i = 0; i < builder->nrecords; i++)
        uses[builder->records[i].key]++;
    for (uint32_t i = 0; i < builder->nrecords; i++) {
        const struct draft *record = &builder->records[i];
        if (record->fault)
            continue;
        if (uses[record->key] == 1)
            check_suffixes(builder, i, last);
        else
            record_fault(builder, i, BAD_KEY_SPLIT, &builder->parts[record->first_part],
                         "members of this key lie apart from each other; pack the shard so that "
                         "the parts of a sample are neighbours");
    }
    return builder->failed;
}

static char *copy(char *at, const void *from, size_t size)
{
    if (size)
        memcpy(at, from, size);
    return at + size;
}

static char *put_records(const struct index_builder *builder, char *at, uint64_t keys)
{
    struct index_record *out = (struct index_record *)at;
    uint64_t bytes = 0, part = 0;
    for (uint32_t i = 0; i < builder->nrecords; i++) {
        const struct draft *record = &builder->records[i];
        uint64_t end = parts_end(builder, i);
        out[i] = (struct index_record){.key = keys + builder->keys.at[record->key],
                                       .first_part = record->first_part,
                                       .parts = (uint32_t)(end - record->first_part),
                                       .fault = record->fault,
                                       .bytes_before = bytes};
        for (; part < end; part++)
            bytes += builder->parts[part].size;
    }
    out[builder->nrecords] =
        (struct index_record){.first_part = builder->nparts, .bytes_before = bytes};
    return (char *)(out + builder->nrecords + 1);
}

/* The texts: "", keys, suffixes, reasons. */
static void fill(const struct index_builder *builder, char *at)
{
    uint64_t keys = 1, suffixes = keys + builder->keys.size;
    uint64_t reasons = suffixes + builder->suffixes.size;
    at = put_records(builder, at, keys);
    at = copy(at, builder->parts, builder->nparts * sizeof *builder->parts);
    for (uint32_t i = 0; i < builder->suffixes.count; i++) {
        uint64_t offset = suffixes + builder->suffixes.at[i];
        at = copy(at, &offset, sizeof offset);
    }
    for (uint64_t i = 0; i < builder->nfaults; i++) {
        struct index_fault fault = builder->faults[i];
        fault.reason = reasons + builder->reasons.at[fault.reason];
        at = copy(at, &fault, sizeof fault);
    }
    *at++ = '\0';
    at = copy(at, builder->keys.text, builder->keys.size);
    at = copy(at, builder->suffixes.text, builder->suffixes.size);
    copy(at, builder->reasons.text, builder->reasons.size);
}

static int assemble(const struct index_builder *builder, const struct index_stamp *stamp,
                    struct index **out)
{
    struct index_header header = {.magic = INDEX_MAGIC,
                                  .version = INDEX_VERSION,
                                  .header_size = sizeof header,
                                  .stamp = *stamp,
                                  .records = builder->nrecords,
                                  .parts = builder->nparts,
                                  .suffixes = builder->suffixes.count,
                                  .faults = builder->nfaults,
                                  .text_size = 1 + builder->keys.size + builder->suffixes.size +
                                               builder->reasons.size};
    uint64_t size = index_form_size(&header);
    if (!size)
        return -E2BIG;
    char *block = malloc(size);
    if (!block)
        return -ENOMEM;
    memcpy(block, &header, sizeof header);
    fill(builder, block + sizeof header);
    *out = index_form_wrap(block, size, false);
    return 0;
}

int index_builder_finish(struct index_builder *builder, const struct index_stamp *stamp,
                         struct index **out)
{
    int rc = builder->failed;
    if (!rc)
        rc = check_records(builder);
    if (!rc)
        rc = assemble(builder, stamp, out);
    index_builder_free(builder);
    return rc;
}
