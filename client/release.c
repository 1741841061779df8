#include <errno.h>

#include "client/client_parts.h"

static bool part_of(const struct mapping *mapping, const dataload_batch *batch)
{
    for (uint32_t i = 0; mapping && i < mapping->slots; i++) {
        if (&mapping->batches[i] == batch)
            return true;
    }
    return false;
}

/* The mapping that a caller's pointer points into, NULL when it is no batch of ours. */
static struct mapping *owner_of(struct dataload *handle, const dataload_batch *batch)
{
    if (part_of(handle->mapping, batch))
        return handle->mapping;
    struct mapping *mapping = handle->old;
    while (mapping && !part_of(mapping, batch))
        mapping = mapping->next;
    return mapping;
}

static void free_old(struct dataload *handle, struct mapping *mapping)
{
    struct mapping **link = &handle->old;
    while (*link != mapping)
        link = &(*link)->next;
    *link = mapping->next;
    mapping_free(mapping);
}

/* Nothing of ours works on the batch any more. */
static void give_back(struct dataload *handle, dataload_batch *batch, int64_t hold_ns)
{
    struct mapping *mapping = batch->mapping;
    bool heard = handle->phase == PHASE_STREAM || handle->dismissed;
    batch->state = BATCH_IDLE;
    if (mapping == handle->mapping && heard && handle->channel)
        take_send_release(handle, batch, (uint64_t)hold_ns);
    else if (mapping != handle->mapping && !mapping->held && !mapping->given)
        free_old(handle, mapping);
}

/* The driver's word on the work behind which batches were given back, in the context. */
static bool look(struct dataload *handle, struct mapping *mapping, struct device_answer *answer)
{
    const struct dlp_cuda *cu = &handle->device->cu;
    for (uint32_t i = 0, left = mapping->given; left && i < mapping->slots; i++) {
        struct dataload_batch *batch = &mapping->batches[i];
        if (batch->state != BATCH_GIVEN)
            continue;
        left--;
        device_did(answer, "cuEventQuery", cu->event_query(batch->released));
        if (answer->result == DLP_CU_NOT_READY)
            continue;
        if (answer->result != DLP_CU_SUCCESS)
            return false;
        mapping->given--;
        handle->given--;
        give_back(handle, batch, batch->hold_ns); /* may free an old mapping, with its last one */
    }
    return true;
}

static bool look_at_all(struct dataload *handle, struct device_answer *answer)
{
    if (handle->mapping && !look(handle, handle->mapping, answer))
        return false;
    for (struct mapping *mapping = handle->old, *next; mapping; mapping = next) {
        next = mapping->next;
        if (!look(handle, mapping, answer))
            return false;
    }
    return true;
}

void release_poll(struct dataload *handle)
{
    struct device_answer answer;
    char text[DLP_TEXT_MAX];
    if (!handle->given || handle->phase == PHASE_ENDED)
        return;
    bool entered = device_enter(handle->device, &answer);
    if (entered && look_at_all(handle, &answer)) {
        device_leave(handle->device);
        return;
    }
    if (entered)
        device_leave(handle->device);
    int r = device_explain(&answer, text, sizeof text);
    handle_end(handle, r, "work on a batch given back cannot be followed: %s", text);
}

/* In the context. */
static bool record(const struct device *device, dataload_batch *batch, dlp_cu_stream stream,
                   struct device_answer *answer)
{
    const struct dlp_cuda *cu = &device->cu;
    if (!device_idle_capture(device, stream, answer))
        return false;
    if (!batch->released &&
        !device_did(answer, "cuEventCreate",
                    cu->event_create(&batch->released, DLP_CU_EVENT_DISABLE_TIMING)))
        return false;
    return device_did(answer, "cuEventRecord", cu->event_record(batch->released, stream));
}

/* Behind what the stream has to do. */
static int give_behind(struct dataload *handle, dataload_batch *batch, dlp_cu_stream stream)
{
    struct device_answer answer;
    char text[DLP_TEXT_MAX];
    bool entered = device_enter(handle->device, &answer);
    bool done = entered && record(handle->device, batch, stream, &answer);
    if (entered)
        device_leave(handle->device);
    if (!done) {
        int r = device_explain(&answer, text, sizeof text);
        return handle_fail(handle, r, "the batch is still lent: %s", text);
    }
    batch->state = BATCH_GIVEN;
    batch->mapping->given++;
    handle->given++;
    return 0;
}

/* Checks that the caller has it. */
static int find(struct dataload *handle, const dataload_batch *batch)
{
    int r = handle_enter(handle);
    if (r < 0)
        return r;
    if (!owner_of(handle, batch) || batch->state != BATCH_HELD)
        return handle_fail(handle, -EINVAL,
                           "this batch is not lent: released twice, or not from this handle");
    return 0;
}

static int release(struct dataload *handle, dataload_batch *batch, bool behind, void *stream)
{
    int r = find(handle, batch);
    if (r < 0)
        return r;
    int64_t hold_ns = handle_now() - batch->taken_at;
    if (behind && batch->mapping->device)
        r = give_behind(handle, batch, stream);
    if (r < 0)
        return r;
    meter_released(&handle->meter, hold_ns);
    batch->mapping->held--;
    batch->hold_ns = hold_ns;
    if (batch->state == BATCH_HELD)
        give_back(handle, batch, hold_ns);
    release_poll(handle);
    request_settle(handle);
    return 0;
}

int dataload_release(dataload *handle, dataload_batch *batch)
{
    return release(handle, batch, false, NULL);
}

int dataload_release_on(dataload *handle, dataload_batch *batch, void *stream)
{
    return release(handle, batch, true, stream);
}
