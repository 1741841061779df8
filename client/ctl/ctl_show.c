#include <errno.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "client/ctl/ctl_probe.h"
#include "client/ctl/ctl_sheet.h"

#define IMAGES 16

/* A picture: [rows, h, w, c] of bytes, or [rows, c, h, w]. */
static bool as_images(const dataload_tensor *tensor, struct sheet_source *source)
{
    if (tensor->ndim != 4 || tensor->offsets)
        return false;
    const uint64_t *shape = tensor->shape;
    bool last = tensor->dtype == DATALOAD_UINT8 && (shape[3] == 3 || shape[3] == 1);
    if (!last && shape[1] != 3 && shape[1] != 1)
        return false;
    *source = (struct sheet_source){
        .pixels = tensor->data,
        .dtype = tensor->dtype,
        .planar = !last,
        .height = (uint32_t)shape[last ? 1 : 2],
        .width = (uint32_t)shape[last ? 2 : 3],
        .channels = (uint32_t)shape[last ? 3 : 1],
        .count = (uint32_t)shape[0],
    };
    return true;
}

/* The first field of pictures and the first of whole numbers that a feed declares. */
static bool find_fields(const dataload_batch *batch, struct sheet_source *source)
{
    dataload_tensor tensor;
    const int64_t *labels = NULL;
    bool found = false;
    for (uint32_t i = 0; dataload_batch_tensor_at(batch, i, &tensor) == 0; i++) {
        if (!found && as_images(&tensor, source))
            found = true;
        else if (!labels && tensor.dtype == DATALOAD_INT64 && tensor.ndim == 1 &&
                 strcmp(tensor.name, "index") != 0)
            labels = tensor.data;
    }
    source->labels = labels;
    if (found && dataload_batch_tensor(batch, "valid", &tensor) == 0 &&
        tensor.dtype == DATALOAD_UINT8)
        source->valid = tensor.data;
    return found;
}

static json_t *labels_json(const struct sheet_source *source)
{
    json_t *list = ctl_must(json_array());
    for (uint32_t i = 0; source->labels && i < source->count; i++)
        json_array_append_new(list, json_integer(source->labels[i]));
    return list;
}

static void print_report(const struct ctl *ctl, const struct sheet_source *source,
                         const struct sheet *sheet, const dataload_batch *batch)
{
    uint32_t invalid = 0;
    for (uint32_t i = 0; source->valid && i < source->count; i++)
        invalid += !source->valid[i];
    if (!ctl->json) {
        ctl_print(ctl, "%s: %u image%s of %s, epoch %ju, %u x %u pixels%s", ctl->file,
                  source->count, source->count == 1 ? "" : "s", ctl->feed,
                  (uintmax_t)dataload_batch_epoch(batch), sheet->width, sheet->height,
                  invalid ? "; red frames are bad or repeated samples" : "");
        return;
    }
    json_t *json = ctl_must(json_object());
    json_object_set_new(json, "feed", ctl_json_text(ctl->feed));
    json_object_set_new(json, "file", ctl_json_text(ctl->file));
    json_object_set_new(json, "epoch", json_integer((json_int_t)dataload_batch_epoch(batch)));
    json_object_set_new(json, "images", json_integer(source->count));
    json_object_set_new(json, "invalid", json_integer(invalid));
    json_object_set_new(json, "width", json_integer(sheet->width));
    json_object_set_new(json, "height", json_integer(sheet->height));
    json_object_set_new(json, "labels", labels_json(source));
    ctl_json_print(ctl->out, json, true);
}

static int draw(const struct ctl *ctl, const dataload_batch *batch, struct sheet_source *source,
                struct sheet *sheet)
{
    if (!find_fields(batch, source))
        return ctl_fail(ctl, CTL_UNAVAILABLE,
                        "feed %s has no field of pictures of one size: nothing to show", ctl->feed);
    if (source->count > dataload_batch_rows(batch))
        source->count = dataload_batch_rows(batch);
    int err = sheet_draw(source, sheet);
    if (err == -EFBIG)
        return ctl_fail(ctl, CTL_USAGE, "the sheet would be over %u MB: choose a smaller --count",
                        SHEET_BYTES_MAX / 1000000U);
    if (err)
        return ctl_fail(ctl, CTL_UNAVAILABLE, "cannot draw the pictures of %s: %s", ctl->feed,
                        strerror(-err));
    return CTL_OK;
}

int ctl_show_draw(const struct ctl *ctl, const dataload_batch *batch, struct sheet *sheet)
{
    struct sheet_source source = {0};
    return draw(ctl, batch, &source, sheet);
}

int ctl_show_batch(const struct ctl *ctl, const dataload_batch *batch, bool report)
{
    struct sheet_source source = {0};
    struct sheet sheet = {0};
    int code = draw(ctl, batch, &source, &sheet);
    if (code)
        return code;
    int err = sheet_write(&sheet, ctl->file);
    if (err)
        code = ctl_fail(ctl, err == -EACCES || err == -EPERM ? CTL_PERMISSION : CTL_UNAVAILABLE,
                        "cannot write %s: %s", ctl->file, strerror(-err));
    else if (report)
        print_report(ctl, &source, &sheet, batch);
    sheet_free(&sheet);
    return code;
}

int ctl_show(const struct ctl *ctl)
{
    struct ctl_link link;
    dataload *handle = NULL;
    dataload_batch *batch = NULL;
    int code = ctl_link_open(ctl, "dataloadctl show", &link);
    if (code)
        return code;
    ctl_link_close(&link); /* it runs: what fails from here on concerns the feed */
    struct probe probe = {
        .verb = "show", .world = 1, .batch = ctl->count > 0 ? ctl->count : IMAGES};
    code = ctl_probe_attach(ctl, &probe, 0, &handle);
    if (code == CTL_OK)
        code = ctl_probe_first(ctl, handle, CTL_PROBE_PATIENCE_MS, &batch);
    if (code == CTL_OK)
        code = ctl_show_batch(ctl, batch, true);
    if (batch)
        dataload_release(handle, batch);
    dataload_detach(handle);
    return code;
}
