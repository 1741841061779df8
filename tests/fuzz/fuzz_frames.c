/* A frame of a stranger: its envelope, and the layout where it is an AttachReply. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frames.h"
#include "proto/slot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_layout(const Dlp__AttachReply *reply)
{
    static struct dlp_layout layout;
    layout.batch = reply->batch;
    layout.slot_bytes = reply->slot_bytes;
    layout.ntensors = 0;
    for (size_t i = 0; i < reply->n_tensors && i < DLP_TENSORS_MAX; i++) {
        const Dlp__Tensor *from = reply->tensors[i];
        struct dlp_tensor *to = &layout.tensors[layout.ntensors++];
        *to = (struct dlp_tensor){.dtype = (enum dlp_dtype)from->dtype,
                                  .ndim = (uint32_t)from->n_shape,
                                  .offset = from->offset,
                                  .size = from->size,
                                  .ragged = from->ragged,
                                  .data_offset = from->data_offset,
                                  .data_size = from->data_size};
        dlp_escape(from->name, to->name, sizeof to->name);
        for (uint32_t d = 0; d < to->ndim && d < DLP_DIMS_MAX; d++)
            to->shape[d] = from->shape[d];
    }
    if (dlp_layout_check(&layout) < 0)
        return;
    /* What the check lets pass lies inside the slot. */
    for (uint32_t i = 0; i < layout.ntensors; i++) {
        const struct dlp_tensor *t = &layout.tensors[i];
        if (t->size > layout.slot_bytes || t->offset > layout.slot_bytes - t->size ||
            t->data_size > layout.slot_bytes || t->data_offset > layout.slot_bytes - t->data_size)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    long frame = dlp_frame_peek(data, size, DLP_FRAME_TO_CLIENT_MAX);
    if (frame <= 0)
        return 0;
    Dlp__Envelope *env = dlp_frame_unpack(data, (size_t)frame, DLP_UNPACK_TO_DAEMON_MAX);
    if (!env)
        return 0;
    if (env->body_case == DLP__ENVELOPE__BODY_ATTACH_REPLY)
        check_layout(env->attach_reply);
    if (env->body_case == DLP__ENVELOPE__BODY_ERROR) {
        char text[64];
        if (strlen(dlp_escape(env->error->text, text, sizeof text)) >= sizeof text)
            abort();
    }
    uint8_t *again = malloc(dlp_frame_size(env));
    dlp_frame_pack(env, again);
    free(again);
    dlp_frame_free(env);
    return 0;
}
