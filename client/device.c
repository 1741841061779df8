#include "client/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool device_did(struct device_answer *answer, const char *step, dlp_cu_result result)
{
    *answer = (struct device_answer){step, result};
    return result == DLP_CU_SUCCESS;
}

int device_explain(const struct device_answer *answer, char *text, size_t size)
{
    return dlp_cu_result_explain(answer->result, answer->step, text, size);
}

bool device_enter(const struct device *device, struct device_answer *answer)
{
    return device_did(answer, "cuCtxPushCurrent", device->cu.context_push(device->context));
}

void device_leave(const struct device *device)
{
    dlp_cu_context popped;
    device->cu.context_pop(&popped);
}

static bool choose(struct device *device, struct device_answer *answer)
{
    const struct dlp_cuda *cu = &device->cu;
    dlp_cu_context current = NULL;
    dlp_cu_uuid uuid;
    if (!device_did(answer, "cuCtxGetCurrent", cu->context_current(&current)))
        return false;
    if (current && !device_did(answer, "cuCtxGetDevice", cu->context_device(&device->number)))
        return false;
    if (!current && !device_did(answer, "cuDeviceGet", cu->device_get(&device->number, 0)))
        return false;
    if (!device_did(answer, "cuDeviceGetUuid", cu->device_uuid(&uuid, device->number)))
        return false;
    memcpy(device->uuid, uuid.bytes, sizeof device->uuid);
    return true;
}

static bool make_stream(struct device *device, struct device_answer *answer)
{
    if (!device_enter(device, answer))
        return false;
    bool done =
        device_did(answer, "cuStreamCreateWithPriority",
                   device->cu.stream_create(&device->stream, DLP_CU_STREAM_NON_BLOCKING, 0));
    device_leave(device);
    return done;
}

static bool start(struct device *device, struct device_answer *answer)
{
    if (!choose(device, answer) ||
        !device_did(answer, "cuDevicePrimaryCtxRetain",
                    device->cu.context_retain(&device->context, device->number)))
        return false;
    if (make_stream(device, answer))
        return true;
    device->cu.context_release(device->number);
    return false;
}

int device_open(struct device **out, char *why, size_t size)
{
    struct device_answer answer;
    struct device *device = calloc(1, sizeof *device);
    if (!device) {
        snprintf(why, size, "out of memory");
        return -ENOMEM;
    }
    device->owner = getpid();
    int r = dlp_cuda_open(&device->cu, why, size);
    if (r == 0 && !start(device, &answer))
        r = device_explain(&answer, why, size);
    if (r < 0) {
        free(device);
        return r;
    }
    *out = device;
    return 0;
}

void device_close(struct device *device)
{
    struct device_answer answer;
    if (device && device->owner == getpid()) {
        if (device_enter(device, &answer)) {
            device->cu.stream_destroy(device->stream);
            if (device->kernels)
                device->cu.module_unload(device->kernels);
            device_leave(device);
        }
        device->cu.context_release(device->number);
    }
    free(device);
}

bool device_read(const struct device *device, void *to, dlp_cu_pointer from, size_t size,
                 struct device_answer *answer)
{
    const struct dlp_cuda *cu = &device->cu;
    return device_did(answer, "cuMemcpyDtoHAsync",
                      cu->copy_to_host(to, from, size, device->stream)) &&
           device_did(answer, "cuStreamSynchronize", cu->stream_synchronize(device->stream));
}

bool device_idle_capture(const struct device *device, dlp_cu_stream stream,
                         struct device_answer *answer)
{
    dlp_cu_capture capture = DLP_CU_CAPTURE_NONE;
    if (!device_did(answer, "cuStreamIsCapturing", device->cu.stream_capturing(stream, &capture)))
        return false;
    if (capture != DLP_CU_CAPTURE_NONE)
        answer->result = DLP_CU_STREAM_CAPTURE_UNSUPPORTED;
    return capture == DLP_CU_CAPTURE_NONE;
}
