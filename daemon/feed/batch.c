#include "feed/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct batch *batch_new(const struct recipe *recipe, struct belt *belt)
{
    uint32_t rows = recipe->batch;
    struct batch *batch = mem_new(sizeof *batch + rows * sizeof batch->rows[0]);
    batch->recipe = recipe;
    batch->belt = belt;
    batch->lengths = mem_array((size_t)rows * recipe->layout.nragged + 1, sizeof *batch->lengths);
    return batch;
}

static void clear_row(struct row *row)
{
    sample_free(row->sample);
    free(row->reason);
    *row = (struct row){0};
}

void batch_reset(struct batch *batch)
{
    for (uint32_t r = 0; r < batch->count; r++)
        clear_row(&batch->rows[r]);
    batch->count = 0;
    batch->landed = false;
    atomic_store(&batch->lost, 0);
    batch->next = NULL;
    atomic_store(&batch->is_void, false);
}

void batch_free(struct batch *batch)
{
    batch_reset(batch);
    free(batch->lengths);
    free(batch);
}

bool batch_rows_done(struct batch *batch, uint32_t count)
{
    return atomic_fetch_sub(&batch->left, count) == count;
}

uint64_t *batch_length(const struct batch *batch, uint32_t field, uint32_t row)
{
    const struct recipe *recipe = batch->recipe;
    return &batch->lengths[(size_t)recipe->layout.fields[field].ragged * recipe->batch + row];
}

static bool is_ragged(const struct batch *batch, uint32_t field)
{
    return batch->recipe->layout.fields[field].ragged != LAYOUT_NONE;
}

static bool has_shape(const struct batch *batch, uint32_t field)
{
    return batch->recipe->layout.fields[field].shape != LAYOUT_NONE;
}

static void copy_row(struct batch *batch, uint32_t field, uint32_t to, uint32_t from)
{
    const struct layout *layout = &batch->recipe->layout;
    uint64_t bytes = layout->fields[field].row_bytes;
    if (is_ragged(batch, field)) {
        bytes = *batch_length(batch, field, from);
        *batch_length(batch, field, to) = bytes;
    }
    memcpy(layout_row(layout, batch->memory, field, to),
           layout_row(layout, batch->memory, field, from), bytes);
    if (has_shape(batch, field))
        memcpy(layout_shape(layout, batch->memory, field, to),
               layout_shape(layout, batch->memory, field, from), 2 * sizeof(int32_t));
}

static void blank_row(struct batch *batch, uint32_t field, uint32_t row)
{
    const struct layout *layout = &batch->recipe->layout;
    if (is_ragged(batch, field))
        *batch_length(batch, field, row) = 0;
    else
        memset(layout_row(layout, batch->memory, field, row), 0, layout->fields[field].row_bytes);
    if (has_shape(batch, field))
        memset(layout_shape(layout, batch->memory, field, row), 0, 2 * sizeof(int32_t));
}

/* good: the row to copy, or LAYOUT_NONE. */
static void replace_row(struct batch *batch, uint32_t row, uint32_t good)
{
    for (uint32_t f = 0; f < batch->recipe->layout.nfields; f++) {
        if (good == LAYOUT_NONE)
            blank_row(batch, f, row);
        else
            copy_row(batch, f, row, good);
    }
}

static void replace_bad_rows(struct batch *batch)
{
    uint32_t good = LAYOUT_NONE;
    for (uint32_t r = batch->count; r-- > 0 && good == LAYOUT_NONE;)
        if (!batch->rows[r].bad)
            good = r;
    for (uint32_t r = 0; r < batch->count; r++) {
        if (batch->rows[r].bad)
            replace_row(batch, r, good);
        else
            good = r;
    }
    for (uint32_t r = batch->count; r < batch->recipe->batch; r++)
        replace_row(batch, r, LAYOUT_NONE);
}

/* Returns the bytes of all rows. */
static uint64_t pack(struct batch *batch, uint32_t field)
{
    const struct layout *layout = &batch->recipe->layout;
    uint64_t *offsets =
        (uint64_t *)(void *)layout_tensor(layout, batch->memory, layout->fields[field].tensor);
    uint8_t *data = layout_row(layout, batch->memory, field, 0);
    uint64_t at = 0;
    for (uint32_t r = 0; r < batch->recipe->batch; r++) {
        uint64_t length = *batch_length(batch, field, r);
        memmove(data + at, layout_row(layout, batch->memory, field, r), length);
        offsets[r] = at;
        at += length;
    }
    offsets[batch->recipe->batch] = at;
    return at;
}

static void write_flags(struct batch *batch)
{
    const struct layout *layout = &batch->recipe->layout;
    uint8_t *valid = layout_tensor(layout, batch->memory, layout->valid);
    int64_t *index = (int64_t *)(void *)layout_tensor(layout, batch->memory, layout->index);
    batch->valid = batch->bad = 0;
    for (uint32_t r = 0; r < batch->recipe->batch; r++) {
        const struct row *row = &batch->rows[r];
        bool present = r < batch->count;
        valid[r] = present && !row->bad && !row->repeated;
        index[r] = present ? (int64_t)row->id : -1;
        batch->valid += valid[r];
        batch->bad += present && row->bad && !row->repeated;
    }
}

void batch_finish(struct batch *batch)
{
    const struct recipe *recipe = batch->recipe;
    uint64_t bytes = 0;
    replace_bad_rows(batch);
    write_flags(batch);
    for (uint32_t f = 0; f < recipe->layout.nfields; f++)
        bytes += is_ragged(batch, f) ? pack(batch, f)
                                     : batch->count * recipe->layout.fields[f].row_bytes;
    batch->bytes = bytes;
    tally_add(&recipe->tally->samples, batch->count);
    tally_add(&recipe->tally->batches, 1);
    tally_add(&recipe->tally->bytes, bytes);
    tally_add(&recipe->tally->bad, batch->bad);
}
