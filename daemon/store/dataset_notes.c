#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/plural.h"
#include "store/dataset_own.h"

#define SHARD_NOTES_MAX 20

void dataset_add_note(struct dataset *dataset, char *text)
{
    dataset->notes = mem_grow(dataset->notes, dataset->nnotes + 1, sizeof *dataset->notes);
    dataset->notes[dataset->nnotes++] = text;
}

static void note_shards(struct dataset *dataset)
{
    uint64_t count = 0;
    for (uint32_t s = 0; s < dataset->nshards; s++) {
        const struct dataset_shard *shard = &dataset->shards[s];
        for (uint32_t i = 0; i < index_faults(shard->index); i++) {
            const struct index_fault *fault = index_fault(shard->index, i);
            if (fault->cls == BAD_NONE && count++ < SHARD_NOTES_MAX)
                dataset_add_note(dataset, mem_format("%s: %s", shard->path,
                                                     index_text(shard->index, fault->reason)));
        }
    }
    if (count > SHARD_NOTES_MAX)
        dataset_add_note(dataset,
                         mem_format("and %" PRIu64 " more note%s of this kind",
                                    count - SHARD_NOTES_MAX, plural(count - SHARD_NOTES_MAX)));
}

/* One note a class, with the first of its faults. */
static void note_faults(struct dataset *dataset)
{
    uint64_t counts[BAD_CLASSES_COUNT] = {0};
    uint32_t first[BAD_CLASSES_COUNT] = {0};
    uint32_t number = 0;
    for (uint32_t s = 0; s < dataset->nshards; s++)
        for (uint64_t i = 0; i < dataset->shards[s].nfaults; i++, number++) {
            uint32_t cls = dataset->shards[s].faults[i].cls;
            if (counts[cls]++ == 0)
                first[cls] = number;
        }
    for (unsigned cls = 0; cls < BAD_CLASSES_COUNT; cls++) {
        if (!counts[cls])
            continue;
        struct bad_report report = dataset_fault(dataset, first[cls]);
        dataset_add_note(dataset,
                         mem_format("%" PRIu64 " x %s (%s), first: %s%s%s: %s", counts[cls],
                                    bad_name(report.cls), bad_text(report.cls), report.shard,
                                    *report.key ? ": " : "", report.key, report.reason));
    }
}

static void note_turned(struct dataset *dataset)
{
    uint64_t looked_at = 0, turned = 0;
    for (uint32_t s = 0; s < dataset->nshards; s++) {
        looked_at += index_looked_at(dataset->shards[s].index);
        turned += index_turned(dataset->shards[s].index);
    }
    if (turned)
        dataset_add_note(dataset,
                         mem_format("%" PRIu64 " of %" PRIu64 " picture%s looked at (%.1f %%) are "
                                    "stored turned, by their EXIF orientation",
                                    turned, looked_at, plural(looked_at),
                                    100.0 * (double)turned / (double)looked_at));
}

void dataset_describe(struct dataset *dataset)
{
    note_shards(dataset);
    note_faults(dataset);
    note_turned(dataset);
}
