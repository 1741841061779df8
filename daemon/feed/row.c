#include "feed/row.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "feed/belt.h"
#include "feed/label.h"
#include "image/jpeg_marks.h"

static void fail(struct row *row, enum bad_class bad, uint64_t offset, const char *reason)
{
    row->bad = bad;
    row->bad_offset = offset;
    row->reason = mem_string(reason);
}

static void keep_marks(const struct row *row, const struct sample_part *part,
                       const struct jpeg_marks_entry *marks)
{
    const struct recipe *recipe = row->batch->recipe;
    tally_add(&recipe->tally->marks_used, marks->used);
    tally_add(&recipe->tally->marks_wrong, marks->wrong);
    if (marks->changed &&
        dataset_keep_marks(recipe->dataset, row->place.shard, &part->marks_place, part->marks))
        tally_add(&recipe->tally->marks_kept, 1);
}

/* False: not now. */
static bool do_image(struct row *row, uint32_t field, const struct sample_part *part,
                     struct decoder *decoder)
{
    const struct batch *batch = row->batch;
    const struct recipe *recipe = batch->recipe;
    const struct layout_field *place = &recipe->layout.fields[field];
    struct decoder_result result = {0};
    struct jpeg_marks_entry marks = {.bytes = part->marks, .room = part->marks_place.room};
    if (marks.room)
        decoder_mark(decoder, &marks);
    decoder_run(decoder, part->bytes, part->size, &recipe->spec->transform, recipe->order.seed,
                batch->place.epoch, row->id,
                layout_row(&recipe->layout, batch->memory, field, row->number), place->row_bytes,
                &result);
    if (result.busy)
        return false;
    keep_marks(row, part, &marks);
    if (result.cls) {
        fail(row, result.cls, part->offset, result.reason);
        return true;
    }
    tally_add(&recipe->tally->damaged, result.damaged);
    tally_add(&recipe->tally->augment_ns, result.transform_ns);
    if (place->shape == LAYOUT_NONE)
        return true;
    int32_t *shape = layout_shape(&recipe->layout, batch->memory, field, row->number);
    shape[0] = result.height;
    shape[1] = result.width;
    *batch_length(batch, field, row->number) = (uint64_t)result.height * (uint64_t)result.width * 3;
    return true;
}

static void do_number(struct row *row, uint32_t field, const struct sample_part *part)
{
    const struct recipe *recipe = row->batch->recipe;
    char reason[LABEL_REASON_MAX];
    int64_t value;
    enum bad_class bad = label_of(&recipe->spec->fields[field], part, &value, reason);
    if (bad)
        fail(row, bad, part->value ? 0 : part->offset, reason);
    else
        memcpy(layout_row(&recipe->layout, row->batch->memory, field, row->number), &value,
               sizeof value);
}

static void do_bytes(struct row *row, uint32_t field, const struct sample_part *part)
{
    const struct recipe *recipe = row->batch->recipe;
    uint64_t room = recipe->layout.fields[field].row_bytes;
    if (part->size > room) {
        char reason[200];
        snprintf(reason, sizeof reason, "%" PRIu64 " bytes, more than max_bytes %" PRIu64,
                 part->size, room);
        fail(row, BAD_SIZE, part->offset, reason);
        return;
    }
    memcpy(layout_row(&recipe->layout, row->batch->memory, field, row->number), part->bytes,
           part->size);
    *batch_length(row->batch, field, row->number) = part->size;
}

static void do_key(struct row *row, uint32_t field)
{
    const struct recipe *recipe = row->batch->recipe;
    const char *key = dataset_key(recipe->dataset, row->place.shard, row->sample->number);
    size_t size = strlen(key);
    memcpy(layout_row(&recipe->layout, row->batch->memory, field, row->number), key, size);
    *batch_length(row->batch, field, row->number) = size;
}

static bool do_field(struct row *row, uint32_t field, struct decoder *decoder)
{
    const struct field_spec *spec = &row->batch->recipe->spec->fields[field];
    const struct sample_part *part = &row->sample->parts[field];
    if (spec->kind == FIELD_INT)
        do_number(row, field, part);
    else if (spec->kind == FIELD_KEY)
        do_key(row, field);
    else if (part->value)
        fail(row, BAD_TYPE, 0, "a number, not bytes");
    else if (spec->kind == FIELD_IMAGE)
        return do_image(row, field, part, decoder);
    else
        do_bytes(row, field, part);
    return true;
}

static bool do_fields(struct row *row, struct decoder *decoder)
{
    const struct recipe *recipe = row->batch->recipe;
    struct sample *sample = row->sample;
    row->id = sample->id;
    if (sample->bad) {
        fail(row, sample->bad, sample->bad_offset, sample->reason);
        return true;
    }
    delay_decode(&recipe->delay, row->id);
    for (uint32_t f = 0; f < recipe->layout.nfields && !row->bad; f++)
        if (!do_field(row, f, decoder))
            return false;
    return true;
}

bool row_run(struct row *row, struct decoder *decoder)
{
    const struct delay *delay = &row->batch->recipe->delay;
    if (atomic_load_explicit(&row->batch->is_void, memory_order_relaxed))
        return true;
    uint64_t begin = delay_row_begin(delay);
    bool done = do_fields(row, decoder);
    delay_row_end(delay, begin);
    return done;
}

static void end_rows(struct batch *batch, uint32_t count)
{
    if (!atomic_load(&batch->is_void))
        tally_add(&batch->recipe->tally->decoded, count);
    if (!batch_rows_done(batch, count))
        return;
    if (!atomic_load(&batch->is_void))
        batch_finish(batch);
    belt_complete(batch->belt, batch);
}

static struct batch *batch_of(const void *row)
{
    return ((const struct row *)row)->batch;
}

void row_done(void **rows, uint32_t count)
{
    struct sample_refund refund = {0};
    for (uint32_t i = 0; i < count; i++) {
        struct row *row = rows[i];
        sample_free_for(row->sample, &refund);
        row->sample = NULL;
    }
    sample_give_refund(&refund);
    for (uint32_t end, i = 0; i < count; i = end) {
        struct batch *batch = batch_of(rows[i]);
        for (end = i + 1; end < count && batch_of(rows[end]) == batch;)
            end++;
        end_rows(batch, end - i);
    }
}

void row_drop(struct row *row)
{
    sample_free(row->sample);
    row->sample = NULL;
}
