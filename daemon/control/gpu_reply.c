#include "control/gpu_reply.h"

#include <stdio.h>
#include <string.h>

#include "control/control.h"
#include "device/gpus.h"
#include "proto/frames.h"

struct texts {
    Dlp__Gpu message;
    char capability[24];
    char fault[DLP_TEXT_MAX];
};

static void fill(const struct gpu *gpu, struct texts *texts)
{
    Dlp__Gpu *message = &texts->message;
    dlp__gpu__init(message);
    if (gpu->major)
        snprintf(texts->capability, sizeof texts->capability, "%d.%d", gpu->major, gpu->minor);
    else
        *texts->capability = '\0';
    message->uuid = (char *)gpu->uuid;
    message->name = (char *)gpu->name;
    message->bus = (char *)gpu->bus;
    message->memory = gpu->memory;
    message->mode = (char *)gpus_mode_name(gpu->mode);
    message->capability = texts->capability;
    message->numa_node = gpu->numa_node;
    message->vmm = gpu->vmm;
    message->posix_fd = gpu->posix_fd;
    message->fault = (char *)gpu->fault;
}

static void fill_use(struct uploaders *uploaders, const struct gpu *gpu, struct texts *texts)
{
    struct uploader_state state;
    Dlp__Gpu *message = &texts->message;
    if (!uploaders_state(uploaders, gpu->uuid, &state))
        return;
    message->context = state.active;
    message->lent = state.lent;
    message->copied = state.copied;
    if (state.lost)
        message->fault = dlp_escape(state.why, texts->fault, sizeof texts->fault);
}

static const struct gpu *find(const struct gpu_list *list, const char *uuid)
{
    for (uint32_t i = 0; list && i < list->n; i++)
        if (strcmp(list->gpus[i].uuid, uuid) == 0)
            return &list->gpus[i];
    return NULL;
}

/* False: refused, and told so. */
static bool let_go(struct session *session, uint64_t id, const char *uuid)
{
    const struct control_options *options = &session->control->options;
    if (!access_admin(&session->peer)) {
        session_deny(session, id, "release of a GPU", DLP_ERROR_NOT_PERMITTED,
                     "only root and the daemon's own user may have it let go of a GPU");
        return false;
    }
    if (!find(gpus_list(options->gpus), uuid)) {
        session_refuse_format(session, id, DLP_ERROR_GPU,
                              "%s: the daemon sees no such GPU: dataloadctl gpu lists them", uuid);
        return false;
    }
    uint32_t users = uploaders_let_go(options->uploaders, uuid);
    if (users)
        session_refuse_format(session, id, DLP_ERROR_GPU,
                              "%s: %u feed%s there: end the trainers that dataloadctl status names "
                              "first",
                              uuid, users,
                              users == 1 ? " has its batches" : "s have their batches");
    return users == 0;
}

void gpu_reply(struct session *session, uint64_t id, const Dlp__GpuRequest *message)
{
    if (*message->release && !let_go(session, id, message->release))
        return;
    const struct gpus *gpus = session->control->options.gpus;
    const struct gpu_list *list = gpus_list(gpus);
    struct texts texts[GPUS_MAX];
    Dlp__Gpu *messages[GPUS_MAX];
    char words[GPUS_TEXT_MAX];
    Dlp__GpuReply reply = DLP__GPU_REPLY__INIT;
    reply.looking = list == NULL;
    reply.device = (char *)gpus_words(gpus, words);
    reply.gpus = messages;
    reply.driver = list ? (uint32_t)list->version : 0;
    for (uint32_t i = 0; list && i < list->n; i++) {
        fill(&list->gpus[i], &texts[i]);
        fill_use(session->control->options.uploaders, &list->gpus[i], &texts[i]);
        messages[i] = &texts[i].message;
        reply.n_gpus++;
    }
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = id;
    env.body_case = DLP__ENVELOPE__BODY_GPU_REPLY;
    env.gpu_reply = &reply;
    session_send(session, &env);
}
