#include <stdlib.h>
#include <string.h>

#include "client/client_parts.h"
#include "proto/frames.h"

#define FINGERPRINT_MAX 64U

static bool hex(const char *text, size_t least, size_t most)
{
    size_t length = strspn(text, "0123456789abcdef");
    return length >= least && length <= most && !text[length];
}

static const char *check_numbers(const Dlp__AttachReply *reply)
{
    if (reply->world == 0 || reply->world > DLP_WORLD_MAX || reply->rank >= reply->world)
        return "rank or world out of range";
    if (reply->batch == 0 || reply->batch > DLP_BATCH_MAX)
        return "batch out of range";
    if (reply->slots < DLP_SLOTS_MIN || reply->slots > DLP_SLOTS_MAX)
        return "number of slots out of range";
    uint64_t steps = reply->epoch == reply->start_epoch ? reply->first_steps : reply->steps;
    if (reply->steps > INT64_MAX || reply->first_steps > INT64_MAX || reply->step > steps)
        return "step out of range";
    if (!dlp_name_valid(reply->job) || !hex(reply->plan_id, 16, 16) ||
        !hex(reply->fingerprint, 0, FINGERPRINT_MAX))
        return "job, plan or fingerprint is no name";
    if (!resume_fits(reply->token))
        return "a resume token with two places to fill in is not there";
    if (reply->n_notes > CLIENT_NOTES_MAX)
        return "too many notes";
    return NULL;
}

static bool read_tensor(const Dlp__Tensor *from, struct dlp_tensor *to)
{
    if (!dlp_name_valid(from->name) || from->n_shape > DLP_DIMS_MAX ||
        dlp_dtype_size(from->dtype) == 0)
        return false;
    *to = (struct dlp_tensor){.dtype = (enum dlp_dtype)from->dtype,
                              .ndim = (uint32_t)from->n_shape,
                              .offset = from->offset,
                              .size = from->size,
                              .ragged = from->ragged,
                              .data_offset = from->data_offset,
                              .data_size = from->data_size};
    strcpy(to->name, from->name);
    memcpy(to->shape, from->shape, from->n_shape * sizeof *from->shape);
    return true;
}

/* One value a row, under a name that every batch has. */
static bool has_column(const struct dlp_layout *layout, const char *name, enum dlp_dtype dtype)
{
    const struct dlp_tensor *tensor = dlp_layout_find(layout, name);
    return tensor && !tensor->ragged && tensor->dtype == dtype && tensor->ndim == 1;
}

const char *reply_check(const Dlp__AttachReply *reply, struct dlp_layout *layout)
{
    const char *wrong = check_numbers(reply);
    if (wrong)
        return wrong;
    if (reply->n_tensors > DLP_TENSORS_MAX)
        return "too many tensors";
    layout->batch = reply->batch;
    layout->slot_bytes = reply->slot_bytes;
    layout->ntensors = (uint32_t)reply->n_tensors;
    for (uint32_t i = 0; i < layout->ntensors; i++) {
        if (!read_tensor(reply->tensors[i], &layout->tensors[i]))
            return "a tensor has a wrong name, type or shape";
    }
    if (dlp_layout_check(layout) < 0)
        return "the tensors do not fit into a slot";
    if (!has_column(layout, "valid", DLP_DTYPE_U8) || !has_column(layout, "index", DLP_DTYPE_I64))
        return "the tensors \"valid\" and \"index\" are not there";
    return NULL;
}

/* Text from outside, made fit to be printed. */
static char *copy_text(const char *text)
{
    char safe[DLP_TEXT_MAX + 1];
    return strdup(dlp_printable(text, safe, sizeof safe));
}

bool reply_keep(struct dataload *handle, const Dlp__AttachReply *reply)
{
    strcpy(handle->job, reply->job);
    strcpy(handle->plan_id, reply->plan_id);
    strcpy(handle->fingerprint, reply->fingerprint);
    handle->rank = reply->rank;
    handle->world = reply->world;
    handle->batch = reply->batch;
    handle->slots = reply->slots;
    handle->seed = reply->seed;
    handle->records = reply->records;
    handle->steps = reply->steps;
    handle->first_steps = reply->first_steps;
    handle->start_epoch = reply->start_epoch;
    handle->start_position = reply->start_position;
    handle->skips = reply->skips;
    handle->members = reply->members;
    strcpy(handle->token, reply->token);
    dlp_printable(reply->started, handle->started, sizeof handle->started);
    handle->next = (struct position){reply->epoch, reply->step};
    handle->arriving = take_arriving(handle, handle->next);
    handle->transform = copy_text(reply->transform);
    for (size_t i = 0; i < reply->n_notes; i++) {
        char *note = copy_text(reply->notes[i]);
        if (!note)
            return false;
        handle->notes[handle->nnotes++] = note;
    }
    meter_start(&handle->meter, handle_now());
    handle->attached = true;
    return handle->transform != NULL;
}
