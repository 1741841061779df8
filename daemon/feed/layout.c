#include "feed/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* What layout_make works on. */
struct making {
    const struct feed_spec *spec;
    const struct dataset *dataset;
    struct layout *layout;
    struct error *err;
};

static enum dlp_dtype pixels_dtype(enum pixels pixels)
{
    switch (pixels) {
    case PIXELS_F32_NCHW:
        return DLP_DTYPE_F32;
    case PIXELS_F16_NCHW:
        return DLP_DTYPE_F16;
    case PIXELS_BF16_NCHW:
        return DLP_DTYPE_BF16;
    default:
        return DLP_DTYPE_U8;
    }
}

static int number_of(struct making *making, const char *name, const struct dlp_tensor *tensor,
                     uint32_t *number)
{
    if (!tensor)
        return error_set(making->err, -EINVAL,
                         "feed %s: tensor %s does not fit into a batch of %" PRIu32
                         " rows: lower batch or the size of a row",
                         making->spec->name, name, making->layout->wire.batch);
    *number = (uint32_t)(tensor - making->layout->wire.tensors);
    return 0;
}

static int name_is_free(struct making *making, const char *name)
{
    if (!dlp_layout_find(&making->layout->wire, name))
        return 0;
    return error_set(making->err, -EINVAL, "feed %s: two tensors are called %s: rename the field",
                     making->spec->name, name);
}

static int add_dense(struct making *making, const char *name, enum dlp_dtype dtype,
                     const uint64_t *dims, uint32_t ndims, uint32_t *number)
{
    int code = name_is_free(making, name);
    if (code < 0)
        return code;
    return number_of(making, name, dlp_layout_add(&making->layout->wire, name, dtype, dims, ndims),
                     number);
}

static int add_ragged(struct making *making, const char *name, struct layout_field *field)
{
    int code = name_is_free(making, name);
    if (code < 0)
        return code;
    field->ragged = making->layout->nragged++;
    return number_of(making, name,
                     dlp_layout_add_ragged(&making->layout->wire, name, field->row_bytes),
                     &field->tensor);
}

static int add_sized_image(struct making *making, const char *name, struct layout_field *field)
{
    const struct transform *transform = &making->spec->transform;
    uint64_t height = transform->height;
    uint64_t width = transform->width;
    uint64_t nhwc[] = {height, width, 3};
    uint64_t nchw[] = {3, height, width};
    field->row_bytes = height * width * 3 * pixels_size(transform->pixels);
    return add_dense(making, name, pixels_dtype(transform->pixels),
                     transform->pixels == PIXELS_U8_NHWC ? nhwc : nchw, 3, &field->tensor);
}

static int add_own_size_image(struct making *making, const struct field_spec *spec,
                              struct layout_field *field)
{
    if (pixels_dtype(making->spec->transform.pixels) != DLP_DTYPE_U8)
        return error_set(making->err, -EINVAL,
                         "feed %s: field %s: pictures of their own size need a uint8 output",
                         making->spec->name, spec->name);
    if (spec->max_bytes == 0)
        return error_set(making->err, -EINVAL,
                         "feed %s: field %s: the transform gives no size: set max_bytes of the "
                         "field (height * width * 3 of the largest picture)",
                         making->spec->name, spec->name);
    field->row_bytes = spec->max_bytes;
    int code = add_ragged(making, spec->name, field);
    if (code < 0)
        return code;
    char name[DLP_NAME_MAX + 1];
    if (snprintf(name, sizeof name, "%s.shape", spec->name) >= (int)sizeof name)
        return error_set(making->err, -EINVAL,
                         "feed %s: field %s: the name is too long for \"%s.shape\"",
                         making->spec->name, spec->name, spec->name);
    return add_dense(making, name, DLP_DTYPE_I32, (uint64_t[]){2}, 1, &field->shape);
}

static int add_bytes(struct making *making, const struct field_spec *spec, uint32_t number,
                     struct layout_field *field)
{
    uint32_t batch = making->layout->wire.batch;
    field->row_bytes = spec->max_bytes;
    if (field->row_bytes == 0) {
        uint64_t largest = dataset_part_max(making->dataset, number);
        if (largest > LAYOUT_RAGGED_DEFAULT_MAX / batch)
            return error_set(making->err, -EINVAL,
                             "feed %s: field %s: the largest row has %" PRIu64 " bytes, times batch"
                             " %" PRIu32 " is over %llu MiB: set max_bytes of the field",
                             making->spec->name, spec->name, largest, batch,
                             LAYOUT_RAGGED_DEFAULT_MAX >> 20);
        field->row_bytes = largest ? largest : 1;
    }
    return add_ragged(making, spec->name, field);
}

static int add_field(struct making *making, uint32_t number)
{
    const struct field_spec *spec = &making->spec->fields[number];
    struct layout_field *field = &making->layout->fields[number];
    *field = (struct layout_field){.shape = LAYOUT_NONE, .ragged = LAYOUT_NONE};
    switch (spec->kind) {
    case FIELD_INT:
        field->row_bytes = sizeof(int64_t);
        return add_dense(making, spec->name, DLP_DTYPE_I64, NULL, 0, &field->tensor);
    case FIELD_BYTES:
    case FIELD_KEY:
        return add_bytes(making, spec, number, field);
    case FIELD_IMAGE:
        break;
    }
    return making->spec->transform.height ? add_sized_image(making, spec->name, field)
                                          : add_own_size_image(making, spec, field);
}

int layout_make(const struct feed_spec *spec, const struct dataset *dataset, uint32_t batch,
                struct layout *out, struct error *err)
{
    *out = (struct layout){.wire.batch = batch, .nfields = spec->nfields};
    struct making making = {spec, dataset, out, err};
    if (batch == 0 || batch > DLP_BATCH_MAX)
        return error_set(err, -EINVAL, "feed %s: batch %" PRIu32 " is not in 1 .. %u", spec->name,
                         batch, DLP_BATCH_MAX);
    for (uint32_t f = 0; f < spec->nfields; f++) {
        int code = add_field(&making, f);
        if (code < 0)
            return code;
    }
    int code = add_dense(&making, "valid", DLP_DTYPE_U8, NULL, 0, &out->valid);
    if (code == 0)
        code = add_dense(&making, "index", DLP_DTYPE_I64, NULL, 0, &out->index);
    if (code < 0)
        return code;
    dlp_layout_seal(&out->wire);
    if (dlp_layout_check(&out->wire) < 0)
        return error_set(err, -EINVAL,
                         "feed %s: a batch of %" PRIu32 " rows has no layout: lower "
                         "batch or the size of a row",
                         spec->name, batch);
    return 0;
}

uint8_t *layout_tensor(const struct layout *layout, uint8_t *slot, uint32_t tensor)
{
    return slot + layout->wire.tensors[tensor].offset;
}

uint8_t *layout_row(const struct layout *layout, uint8_t *slot, uint32_t field, uint32_t row)
{
    const struct layout_field *it = &layout->fields[field];
    const struct dlp_tensor *tensor = &layout->wire.tensors[it->tensor];
    return slot + (tensor->ragged ? tensor->data_offset : tensor->offset) + row * it->row_bytes;
}

int32_t *layout_shape(const struct layout *layout, uint8_t *slot, uint32_t field, uint32_t row)
{
    return (int32_t *)(void *)layout_tensor(layout, slot, layout->fields[field].shape) + row * 2;
}
