#include <inttypes.h>
#include <stdio.h>

#include "base/plural.h"
#include "control/admit_parts.h"
#include "device/gpus.h"

#define ASKED_NS (30 * CLOCK_SECOND)  /* for the driver to say what GPUs there are */
#define OTHERS_NS (60 * CLOCK_SECOND) /* for memory that is made for others */
#define LOOK_MS 20                    /* between two looks for that, while somebody waits */
#define OPENS_MAX 4U                  /* of the helper threads: a driver that hangs holds them */

static void on_look(uv_timer_t *timer)
{
    struct control *control = timer->data;
    if (!gpus_list(control->options.gpus))
        return;
    uv_timer_stop(timer);
    control_settled(control);
}

static void wait_for_list(struct admit *admit, uint64_t now)
{
    struct control *control = admit->session->control;
    uint64_t asked = now - gpus_asked_since(control->options.gpus);
    char text[DLP_TEXT_MAX];
    if (asked < ASKED_NS) {
        uv_timer_start(&control->gpu_look, on_look, LOOK_MS, LOOK_MS);
        admit->stage = ADMIT_GPU;
        admit_progress(admit, "waiting for the NVIDIA driver, which is asked for its GPUs", 0, 0);
        return;
    }
    snprintf(text, sizeof text, "the NVIDIA driver has not said within %.0f s which GPUs there are",
             (double)ASKED_NS / (double)CLOCK_SECOND);
    admit_fall_back(admit, text);
}

bool admit_wait_for_others(struct admit *admit, uint64_t now, char text[DLP_TEXT_MAX])
{
    uint32_t opens = admit->session->control->gpu_opens;
    if (!admit->gpu_since)
        admit->gpu_since = now;
    bool over = now > admit->gpu_since + OTHERS_NS;
    snprintf(text, DLP_TEXT_MAX, "%s%u other trainer%s whose memory on GPUs is being made%s",
             over ? "" : "waiting for ", opens, plural(opens),
             over ? " have held this one up for 60 s" : "");
    if (!over)
        admit_progress(admit, text, 0, 0);
    return !over;
}

bool admit_may_ask(const struct admit *admit)
{
    return admit->session->control->gpu_opens < OPENS_MAX;
}

bool admit_wait_for_gpu(struct admit *admit, uint64_t now)
{
    const struct control *control = admit->session->control;
    char text[DLP_TEXT_MAX];
    if (admit->group->handoff.kind == DLP_MEMORY_HOST)
        return false;
    if (!gpus_list(control->options.gpus))
        wait_for_list(admit, now);
    else if (admit_may_ask(admit))
        return false;
    else if (admit_wait_for_others(admit, now, text))
        admit->stage = ADMIT_GPU;
    else
        admit_fall_back(admit, text);
    return true;
}

void admit_ask_gpu(struct admit *admit)
{
    char name[UPLOADER_NAME_MAX];
    snprintf(admit->waits_for, sizeof admit->waits_for, "waiting for the driver of %s",
             uploaders_uuid_text(admit->session->gpu, name));
    admit->session->control->gpu_opens++;
}
