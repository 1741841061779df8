#include <errno.h>
#include <string.h>

#include "client/client_parts.h"

/* What the client has read of an offer, or why it could not. */
static void send_check(struct dataload *handle, uint64_t offer, uint8_t *nonce,
                       const struct device_answer *answer)
{
    Dlp__ArenaCheck check = DLP__ARENA_CHECK__INIT;
    check.offer = offer;
    if (nonce)
        check.nonce = (ProtobufCBinaryData){DLP_NONCE, nonce};
    check.step = (char *)answer->step;
    check.result = (int32_t)answer->result;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_ARENA_CHECK;
    env.arena_check = &check;
    request_send(handle, &env);
}

/* NULL, or what is wrong with the offer of a GPU's memory. */
static const char *check_offer(const struct dataload *handle, const Dlp__AttachReply *reply)
{
    uint64_t need, nonce_end;
    if (!handle->device)
        return "memory of a GPU was not asked for";
    if (reply->gpu.len != DEVICE_UUID ||
        memcmp(reply->gpu.data, handle->device->uuid, DEVICE_UUID) != 0)
        return "its memory is of another GPU than was asked for";
    if (reply->memory == DLP_MEMORY_IPC && reply->ipc_handle.len != sizeof(dlp_cu_ipc_memory))
        return "a handle of memory has another size";
    if (__builtin_mul_overflow(reply->slot_bytes, reply->slots, &need) ||
        __builtin_add_overflow(reply->nonce_offset, DLP_NONCE, &nonce_end) ||
        reply->arena_bytes > INT64_MAX || need > reply->arena_bytes ||
        nonce_end > reply->arena_bytes)
        return "its memory is smaller than what lies in it";
    return NULL;
}

/* Once it has said that it could not map memory by a handle the daemon frees that; the driver of a
 * context that is lost may have it mapped still. */
static bool may_stay_mapped(enum dlp_memory memory, const struct device_answer *answer)
{
    return memory == DLP_MEMORY_IPC && dlp_cu_result_lost(answer->result);
}

static void end_lost(struct dataload *handle, const struct device_answer *answer)
{
    char text[DLP_TEXT_MAX];
    int r = device_explain(answer, text, sizeof text);
    handle_end(handle, r, "memory of the GPU cannot be read: %s", text);
}

static bool take_cuda(struct dataload *handle, const Dlp__AttachReply *reply,
                      const struct dlp_layout *layout, int fd, struct mapping **out)
{
    const char *wrong = check_offer(handle, reply);
    if (wrong) {
        handle_protocol(handle, "AttachReply: %s", wrong);
        return false;
    }
    const struct mapping_offer offer = {.memory = reply->memory,
                                        .fd = fd,
                                        .handle = reply->ipc_handle.data,
                                        .bytes = reply->arena_bytes,
                                        .nonce_offset = reply->nonce_offset,
                                        .slots = reply->slots,
                                        .shared = reply->shared};
    uint8_t nonce[DLP_NONCE];
    struct device_answer answer;
    int r = mapping_cuda(handle->device, &offer, layout, out, nonce, &answer);
    if (r < 0 && answer.result == DLP_CU_SUCCESS)
        handle_end(handle, r, "out of memory");
    else if (r < 0 && may_stay_mapped(offer.memory, &answer))
        end_lost(handle, &answer);
    else
        send_check(handle, reply->offer, r < 0 ? NULL : nonce, &answer);
    if (r == 0 && handle->phase == PHASE_ATTACH)
        return true;
    if (r == 0)
        mapping_free(*out);
    return false;
}

static bool take_host(struct dataload *handle, const Dlp__AttachReply *reply,
                      const struct dlp_layout *layout, int fd, struct mapping **out)
{
    char text[256];
    if (handle->gpu_only) {
        handle_protocol(handle, "AttachReply: shared memory instead of a GPU's");
        return false;
    }
    int r = mapping_memfd(fd, reply->slots, reply->shared, layout, out, text, sizeof text);
    if (r < 0)
        handle_end(handle, r, "dataloadd at %s: %s", handle->peer, text);
    return r == 0;
}

bool offer_take(struct dataload *handle, const Dlp__AttachReply *reply,
                const struct dlp_layout *layout, const int *fds, size_t nfds, struct mapping **out)
{
    size_t expected = reply->memory != DLP_MEMORY_IPC;
    if (reply->memory > DLP_MEMORY_IPC)
        handle_protocol(handle, "AttachReply: memory of kind %u", reply->memory);
    else if (nfds != expected)
        handle_protocol(handle, "AttachReply carries %zu descriptors, not %zu", nfds, expected);
    else if (reply->memory == DLP_MEMORY_HOST)
        return take_host(handle, reply, layout, fds[0], out);
    else
        return take_cuda(handle, reply, layout, nfds ? fds[0] : -1, out);
    return false;
}
