#include "control/handoff.h"

#include <stdio.h>
#include <string.h>

int handoff_read(struct handoff_wish *wish, const Dlp__Attach *message, struct refusal *refusal)
{
    wish->gpu = message->gpu.len > 0;
    wish->only = message->gpu_only;
    wish->slots = message->slots;
    if (wish->gpu && message->gpu.len != UPLOADERS_UUID)
        return refuse(refusal, DLP_ERROR_BAD_REQUEST, "the UUID of a GPU has %u bytes, not %zu",
                      UPLOADERS_UUID, message->gpu.len);
    if (wish->only && !wish->gpu)
        return refuse(refusal, DLP_ERROR_BAD_REQUEST,
                      "batches are to lie on a GPU, and the attach does not say on which");
    if (wish->gpu)
        memcpy(wish->uuid, message->gpu.data, UPLOADERS_UUID);
    return 0;
}

static void add_reason(struct handoff *handoff, const char *reason)
{
    size_t used = strlen(handoff->why);
    snprintf(handoff->why + used, sizeof handoff->why - used, "%s%s", used ? "; " : "", reason);
}

/* The last of the kinds. */
static int go_to_host(struct handoff *handoff, const struct handoff_wish *wish,
                      const struct feed_spec *spec, const char *reason, struct refusal *refusal)
{
    handoff->kind = DLP_MEMORY_HOST;
    add_reason(handoff, reason);
    if (!wish->only)
        return 0;
    return refuse(refusal, DLP_ERROR_GPU,
                  "feed %s: batches cannot be put on the GPU: %s: mend that, or attach without "
                  "asking for a GPU alone",
                  spec->name, handoff->why);
}

/* Memory that a living process may have mapped by a handle must not be freed. */
static int try_ipc(struct handoff *handoff, const struct handoff_wish *wish,
                   const struct feed_spec *spec, bool watched, struct refusal *refusal)
{
    if (!watched)
        return go_to_host(handoff, wish, spec,
                          "not by a handle, as the kernel has no pidfd for the trainer's process",
                          refusal);
    handoff->kind = DLP_MEMORY_IPC;
    return 0;
}

int handoff_choose(struct handoff *handoff, const struct handoff_wish *wish,
                   const struct feed_spec *spec, uint32_t slots, bool watched,
                   struct refusal *refusal)
{
    char reason[DLP_TEXT_MAX];
    *handoff = (struct handoff){.kind = DLP_MEMORY_HOST};
    memcpy(handoff->uuid, wish->uuid, sizeof handoff->uuid);
    if (!wish->gpu)
        return 0;
    if (spec->handoff == HANDOFF_HOST)
        return go_to_host(handoff, wish, spec, "the feed has the setting handoff: host", refusal);
    if (slots < HANDOFF_GPU_SLOTS_MIN) {
        snprintf(reason, sizeof reason, "slots are %u, and a GPU needs at least %u", slots,
                 HANDOFF_GPU_SLOTS_MIN);
        return go_to_host(handoff, wish, spec, reason, refusal);
    }
    handoff->kind = DLP_MEMORY_VMM;
    return spec->handoff == HANDOFF_IPC ? try_ipc(handoff, wish, spec, watched, refusal) : 0;
}

uint32_t handoff_lower(struct handoff *handoff, const struct handoff_wish *wish, uint32_t slots,
                       const char *reason)
{
    char text[DLP_TEXT_MAX];
    if (wish->slots || slots <= HANDOFF_GPU_SLOTS_MIN)
        return 0;
    handoff->slots = slots;
    snprintf(text, sizeof text, "%u slots instead of %u, as %s", HANDOFF_GPU_SLOTS_MIN, slots,
             reason);
    add_reason(handoff, text);
    return HANDOFF_GPU_SLOTS_MIN;
}

int handoff_fall_back(struct handoff *handoff, const struct handoff_wish *wish,
                      const struct feed_spec *spec, const char *reason, bool watched,
                      struct refusal *refusal)
{
    if (handoff->kind == DLP_MEMORY_VMM && spec->handoff == HANDOFF_AUTO) {
        add_reason(handoff, reason);
        return try_ipc(handoff, wish, spec, watched, refusal);
    }
    return go_to_host(handoff, wish, spec, reason, refusal);
}

int handoff_join(const struct handoff *handoff, const struct handoff_wish *wish, const char *group,
                 const char *feed, struct refusal *refusal)
{
    if (handoff->kind == DLP_MEMORY_HOST && !wish->only)
        return 0;
    if (handoff->kind == DLP_MEMORY_HOST)
        return refuse(refusal, DLP_ERROR_GPU,
                      "group %s of feed %s has its batches in shared memory%s%s: attach without "
                      "asking for a GPU alone, or name another group",
                      group, feed, *handoff->why ? ", as " : "", handoff->why);
    if (wish->gpu)
        return 0;
    return refuse(refusal, DLP_ERROR_GPU,
                  "group %s of feed %s has its batches on GPUs, and this trainer asks for shared "
                  "memory: name another group",
                  group, feed);
}

const char *handoff_why(const struct handoff *handoff, const struct handoff_wish *wish)
{
    if (handoff->kind == DLP_MEMORY_HOST && wish->gpu && !*handoff->why)
        return "the trainer that opened its group asked for no GPU";
    return wish->gpu ? handoff->why : "";
}

const char *handoff_name(enum dlp_memory kind)
{
    return kind == DLP_MEMORY_VMM ? "vmm" : kind == DLP_MEMORY_IPC ? "ipc" : "host";
}
