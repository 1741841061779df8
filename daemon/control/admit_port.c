#include <errno.h>
#include <string.h>

#include "control/admit_parts.h"
#include "feed/feed_ports.h"

int admit_find_gpu(const struct admit *admit, const uint8_t *uuid, struct uploader **out,
                   struct error *err)
{
    struct uploaders_gpu gpu;
    int code = uploaders_find(admit->session->control->options.uploaders, uuid, &gpu, err);
    if (code < 0)
        return code;
    *out = gpu.uploader;
    if (admit->group->handoff.kind == DLP_MEMORY_IPC || gpu.vmm)
        return 0;
    return error_set(err, -ENODEV, "%s: its memory cannot be passed on as a descriptor",
                     uploader_name(gpu.uploader));
}

void admit_note_ports(struct admit *admit)
{
    struct admit_ports *ports = &admit->ports;
    ports->count = ports->done = 0;
    for (const struct session *s = admit->group->members; s; s = s->fellow) {
        if (!s->admit || s->admit->stage != ADMIT_GROUP || !s->admit->wish.gpu)
            continue;
        if (ports->count < FERRY_PORTS_MAX)
            memcpy(ports->gpus[ports->count++], s->gpu, UPLOADERS_UUID);
    }
}

/* What cannot be had is left out, and said when its member joins. */
void admit_make_ports(struct admit *admit)
{
    struct error err;
    struct uploader *uploader;
    struct admit_ports *ports = &admit->ports;
    for (uint32_t i = 0; i < ports->count; i++)
        if (admit_find_gpu(admit, ports->gpus[i], &uploader, &err) == 0 &&
            feed_add_port(admit->feed, uploader, &ports->ports[ports->done], &err) == 0)
            ports->done++;
}

void admit_expect_ports(const struct admit *admit)
{
    for (uint32_t i = 0; i < admit->ports.done; i++)
        feed_expect_port(admit->feed, admit->ports.ports[i]);
}

static void make_port(uv_work_t *work)
{
    struct admit *admit = work->data;
    struct uploader *uploader;
    if (admit_find_gpu(admit, admit->session->gpu, &uploader, &admit->err) == 0)
        feed_add_port(admit->feed, uploader, &admit->ports.ports[0], &admit->err);
    feed_withdraw_port(admit->feed);
}

/* What can fail from here on gives the port up again. */
static void enter(struct admit *admit)
{
    struct session *session = admit->session;
    struct group *group = admit->group;
    struct refusal refusal = group->stop;
    struct feed_place first, from = feed_enter_port(group->feed, admit->ports.ports[0]);
    session->port = (int)admit->ports.ports[0];
    group_close_ports(group);
    if (refusal.code || place_join(&admit->place, group, from, &first, &refusal))
        admit_fail(admit, refusal.code, refusal.text);
    else
        admit_wait_for_check(admit, group->feed, first);
}

static void have_port(uv_work_t *work, int status)
{
    struct admit *admit = work->data;
    struct control *control = admit->session->control;
    struct feed *feed = admit->feed;
    (void)status;
    admit->feed = NULL;
    control->gpu_opens--;
    if (admit->cancelled)
        admit_drop(admit);
    else if (admit->err.code || feed_has_lost(feed, admit->ports.ports[0], &admit->err))
        admit_fail(admit, DLP_ERROR_GPU, admit->err.text);
    else
        enter(admit);
    control_settled(control); /* others wait for that */
}

/* Tries again with the next tick, or earlier. */
static void wait_to_join(struct admit *admit)
{
    const struct group *group = admit->group;
    char text[DLP_TEXT_MAX];
    struct error err;
    admit->stage = ADMIT_GROUP;
    if (admit_wait_for_others(admit, clock_ns(), text))
        return;
    error_set(&err, -ENODEV, "group %s of feed %s has its batches on GPUs, and %s: attach again",
              group->job->name, group->params.spec->name, text);
    admit_fail(admit, DLP_ERROR_GPU, err.text);
}

void admit_join_port(struct admit *admit)
{
    if (!admit_may_ask(admit)) {
        wait_to_join(admit);
        return;
    }
    admit_ask_gpu(admit);
    admit->feed = admit->group->feed;
    feed_announce_port(admit->feed);
    admit_run(admit, ADMIT_PORT, make_port, have_port);
}
