#include "feed/sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* What malloc adds: its header, and what lies unused between blocks of many sizes (measured: 7 to
 * 12 %). */
#define OVERHEAD 64
#define UNUSED_SHARE 8

uint64_t sample_charge(uint64_t bytes, uint32_t nfields)
{
    uint64_t size = sizeof(struct sample) + nfields * sizeof(struct sample_part) + bytes;
    size += marks_share(bytes);
    return size + size / UNUSED_SHARE + OVERHEAD;
}

/* Of all parts; UINT64_MAX where the sum overflows. */
static uint64_t bytes_of(const struct dataset_record *record, uint32_t nfields)
{
    uint64_t bytes = 0;
    for (uint32_t f = 0; f < nfields; f++) {
        const struct dataset_part *part = &record->parts[f];
        if (!(part->flags & PART_VALUE) && __builtin_add_overflow(bytes, part->size, &bytes))
            return UINT64_MAX;
    }
    return bytes;
}

static uint64_t marks_of(const struct dataset_record *record, uint32_t nfields)
{
    uint64_t bytes = 0;
    for (uint32_t f = 0; f < nfields; f++)
        bytes += record->parts[f].marks.room;
    return bytes;
}

static void lay_parts(struct sample *sample, const struct dataset_record *record, bool stored)
{
    uint8_t *at = (uint8_t *)&sample->parts[sample->nparts];
    for (uint32_t f = 0; f < sample->nparts; f++) {
        const struct dataset_part *part = &record->parts[f];
        bool value = part->flags & PART_VALUE;
        sample->parts[f] =
            (struct sample_part){.value = value, .offset = part->offset, .size = part->size};
        if (!value && stored) {
            sample->parts[f].bytes = at;
            sample->parts[f].marks = at + part->size;
            sample->parts[f].marks_place = part->marks;
            at += part->size + part->marks.room;
        }
    }
}

struct sample *sample_new(const struct dataset_record *record, struct plan_place place,
                          uint32_t nfields, uint64_t limit, struct ration *ration,
                          enum ration_use use)
{
    uint64_t bytes = bytes_of(record, nfields);
    bool stored = bytes <= limit;
    size_t size = sizeof(struct sample) + nfields * sizeof(struct sample_part);
    if (stored)
        size += (size_t)(bytes + marks_of(record, nfields));
    uint64_t charge = sample_charge(stored ? bytes : 0, nfields);
    enum ration_from from;
    if (!ration_take(ration, charge, use, &from))
        return NULL;
    struct sample *sample = malloc(size);
    if (!sample) {
        ration_give_unused(ration, charge, from);
        return NULL;
    }
    *sample = (struct sample){.id = record->id,
                              .place = place,
                              .number = record->number,
                              .charge = charge,
                              .from = from,
                              .ration = ration,
                              .nparts = nfields};
    lay_parts(sample, record, stored);
    if (!stored)
        sample_fail(sample, BAD_SIZE, record->parts[0].offset,
                    "%" PRIu64 " bytes in one record, more than the %" PRIu64
                    " that memory allows: raise memory",
                    bytes, limit);
    return sample;
}

void sample_free_for(struct sample *sample, struct sample_refund *refund)
{
    if (!sample)
        return;
    refund->ration = sample->ration;
    refund->bytes[sample->from] += sample->charge;
    free(sample->reason);
    free(sample);
}

void sample_give_refund(const struct sample_refund *refund)
{
    for (enum ration_from from = RATION_BUDGET; from <= RATION_FLOOR; from++)
        if (refund->bytes[from])
            ration_give(refund->ration, refund->bytes[from], from);
}

void sample_free(struct sample *sample)
{
    struct sample_refund refund = {0};
    sample_free_for(sample, &refund);
    sample_give_refund(&refund);
}

void sample_fail(struct sample *sample, enum bad_class bad, uint64_t offset, const char *format,
                 ...)
{
    if (sample->bad)
        return;
    sample->bad = bad;
    sample->bad_offset = offset;
    va_list args;
    va_start(args, format);
    if (vasprintf(&sample->reason, format, args) < 0)
        sample->reason = NULL;
    va_end(args);
}
