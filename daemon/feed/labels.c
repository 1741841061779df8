#include "feed/labels.h"

#include <stdlib.h>

#include "base/mem.h"
#include "feed/label.h"

#define READS_AT_ONCE 32 /* a stop waits for them */
#define BYTES_AT_ONCE (4U << 20)

struct entry {
    uint64_t id; /* sample id + 1; 0 = free */
    int64_t label;
    bool good;
};

struct want {
    struct plan_place place;
    uint64_t id;
    uint32_t number; /* in the index of the shard */
    struct dataset_part part;
};

struct labels {
    const struct dataset *dataset;
    const struct field_spec *field;
    uint32_t number;     /* of the field */
    struct entry *table; /* open addressing; a power of two of them */
    uint64_t room, used;
};

static int find_field(const struct feed_spec *spec)
{
    for (uint32_t f = 0; f < spec->nfields; f++)
        if (spec->fields[f].kind == FIELD_INT)
            return (int)f;
    return -1;
}

struct labels *labels_new(const struct feed_spec *spec, const struct dataset *dataset)
{
    int field = find_field(spec);
    if (field < 0)
        return NULL;
    struct labels *labels = mem_new(sizeof *labels);
    labels->dataset = dataset;
    labels->field = &spec->fields[field];
    labels->number = (uint32_t)field;
    return labels;
}

void labels_free(struct labels *labels)
{
    if (!labels)
        return;
    free(labels->table);
    free(labels);
}

bool labels_indexed(const struct feed_spec *spec, const struct dataset *dataset)
{
    int field = find_field(spec);
    struct dataset_record record;
    for (uint32_t s = 0; field >= 0 && s < dataset_shards(dataset); s++) {
        if (dataset_shard_records(dataset, s) == 0)
            continue;
        dataset_record(dataset, s, 0, &record);
        return record.parts[field].flags & PART_VALUE;
    }
    return false;
}

/* Where it is, or would be. */
static struct entry *slot_of(const struct labels *labels, uint64_t id)
{
    uint64_t at = (id * 0x9E3779B97F4A7C15ULL) >> 20;
    struct entry *entry = &labels->table[at & (labels->room - 1)];
    while (entry->id && entry->id != id + 1)
        entry = &labels->table[++at & (labels->room - 1)];
    return entry;
}

static void grow(struct labels *labels)
{
    struct labels old = *labels;
    if (labels->used < labels->room / 2)
        return;
    labels->room = old.room ? 2 * old.room : 1024;
    labels->table = mem_array(labels->room, sizeof *labels->table);
    for (uint64_t i = 0; i < old.room; i++)
        if (old.table[i].id)
            *slot_of(labels, old.table[i].id - 1) = old.table[i];
    free(old.table);
}

static void put(struct labels *labels, uint64_t id, bool good, int64_t label)
{
    if (labels->used == LABELS_MAX)
        return;
    grow(labels);
    struct entry *entry = slot_of(labels, id);
    labels->used += !entry->id;
    *entry = (struct entry){id + 1, label, good};
}

static bool judge(const struct labels *labels, const struct dataset_part *part, uint8_t *bytes,
                  int64_t *out)
{
    struct sample_part sample = {.value = part->flags & PART_VALUE,
                                 .offset = part->offset,
                                 .size = part->size,
                                 .bytes = bytes};
    char reason[LABEL_REASON_MAX];
    return label_of(labels->field, &sample, out, reason) == BAD_NONE;
}

static struct want look_up(const struct labels *labels, struct plan_place place)
{
    struct dataset_record record;
    dataset_record(labels->dataset, place.shard, place.record, &record);
    return (struct want){place, record.id, record.number, record.parts[labels->number]};
}

bool labels_get(const struct labels *labels, struct plan_place place, int64_t *out)
{
    struct want want = look_up(labels, place);
    if (want.part.flags & PART_VALUE)
        return judge(labels, &want.part, NULL, out);
    if (!labels->room)
        return false;
    const struct entry *entry = slot_of(labels, want.id);
    *out = entry->label;
    return entry->id && entry->good;
}

static int compare(const void *left, const void *right)
{
    const struct want *a = left, *b = right;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Wants of one shard, in order; their bytes fit the buffer. */
static void read_some(struct labels *labels, struct shard *shard, const struct want *wants,
                      size_t count, uint8_t *buffer)
{
    struct format_read reads[READS_AT_ONCE];
    for (size_t i = 0; i < count; i++) {
        reads[i] = (struct format_read){.record = wants[i].number,
                                        .offset = wants[i].part.offset,
                                        .size = wants[i].part.size,
                                        .dst = buffer};
        buffer += wants[i].part.size;
    }
    if (shard)
        shard_read(shard, reads, count);
    for (size_t i = 0; i < count; i++) {
        int64_t label = 0;
        bool good = shard && !reads[i].error && reads[i].got == reads[i].size &&
                    judge(labels, &wants[i].part, reads[i].dst, &label);
        put(labels, wants[i].id, good, label);
    }
}

static size_t group(const struct want *wants, size_t count)
{
    uint64_t bytes = 0;
    size_t end = 0;
    while (end < count && end < READS_AT_ONCE && wants[end].place.shard == wants[0].place.shard &&
           bytes + wants[end].part.size <= BYTES_AT_ONCE)
        bytes += wants[end++].part.size;
    return end;
}

static void read_all(struct labels *labels, const struct want *wants, size_t count,
                     const _Atomic bool *cancel, _Atomic uint64_t *done)
{
    cleanup_free uint8_t *buffer = mem_array(BYTES_AT_ONCE, 1);
    struct shard *shard = NULL;
    for (size_t n, at = 0; at < count && !*cancel && labels->used < LABELS_MAX; at += n) {
        uint32_t number = wants[at].place.shard;
        struct error err;
        n = group(&wants[at], count - at);
        if (at == 0 || wants[at - 1].place.shard != number) {
            shard_close(shard);
            shard = NULL;
            shard_open(labels->dataset, number, &shard, &err);
        }
        read_some(labels, shard, &wants[at], n, buffer);
        *done += n;
    }
    shard_close(shard);
}

void labels_read(struct labels *labels, const struct plan_place *places, uint64_t count,
                 const _Atomic bool *cancel, _Atomic uint64_t *done)
{
    size_t nwants = 0;
    cleanup_free struct want *wants = mem_array(count + 1, sizeof *wants);
    for (uint64_t i = 0; i < count; i++) {
        struct want want = look_up(labels, places[i]);
        if (want.part.flags & PART_VALUE || want.part.size > LABELS_BYTES_MAX ||
            (labels->room && slot_of(labels, want.id)->id))
            continue;
        wants[nwants++] = want;
    }
    qsort(wants, nwants, sizeof *wants, compare);
    read_all(labels, wants, nwants, cancel, done);
}
