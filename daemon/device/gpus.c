#include "device/gpus.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/plural.h"
#include "base/thread.h"
#include "device/uploaders.h"

struct gpus {
    pthread_t thread;
    uint64_t since;
    _Atomic bool found; /* list is complete */
    struct gpu_list list;
};

static int attribute(const struct dlp_cuda *cuda, dlp_cu_device device,
                     dlp_cu_device_attribute which, int fallback)
{
    int value;
    return cuda->device_attribute(&value, which, device) == 0 ? value : fallback;
}

/* What a GPU must be able to say; the call that failed, or NULL. */
static const char *identify(const struct dlp_cuda *cuda, int ordinal, dlp_cu_device *device,
                            struct gpu *gpu, dlp_cu_result *code)
{
    dlp_cu_uuid uuid;
    size_t memory;
    int mode;
    if ((*code = cuda->device_get(device, ordinal)))
        return "cuDeviceGet";
    if ((*code = cuda->device_name(gpu->name, sizeof gpu->name, *device)))
        return "cuDeviceGetName";
    if ((*code = cuda->device_uuid(&uuid, *device)))
        return "cuDeviceGetUuid_v2";
    uploaders_uuid_text((const uint8_t *)uuid.bytes, gpu->uuid);
    if ((*code = cuda->device_memory(&memory, *device)))
        return "cuDeviceTotalMem_v2";
    gpu->memory = memory;
    if ((*code = cuda->device_attribute(&mode, DLP_CU_DEVICE_COMPUTE_MODE, *device)))
        return "cuDeviceGetAttribute";
    gpu->mode = (dlp_cu_mode)mode;
    return NULL;
}

static void ask(const struct dlp_cuda *cuda, int ordinal, struct gpu *gpu)
{
    dlp_cu_device device;
    dlp_cu_result code;
    const char *failed = identify(cuda, ordinal, &device, gpu, &code);
    gpu->numa_node = -1;
    if (failed) {
        dlp_cu_result_explain(code, failed, gpu->fault, sizeof gpu->fault);
        return;
    }
    if (cuda->device_bus_id(gpu->bus, sizeof gpu->bus, device))
        *gpu->bus = '\0';
    gpu->major = attribute(cuda, device, DLP_CU_DEVICE_MAJOR, 0);
    gpu->minor = attribute(cuda, device, DLP_CU_DEVICE_MINOR, 0);
    gpu->numa_node = attribute(cuda, device, DLP_CU_DEVICE_NUMA_NODE, -1);
    gpu->vmm = attribute(cuda, device, DLP_CU_DEVICE_VMM, 0) > 0;
    gpu->posix_fd = attribute(cuda, device, DLP_CU_DEVICE_POSIX_FD, 0) > 0;
    if (gpu->mode == DLP_CU_MODE_PROHIBITED)
        snprintf(gpu->fault, sizeof gpu->fault, "its compute mode prohibits all use");
    else if (gpu->mode == DLP_CU_MODE_EXCLUSIVE)
        snprintf(gpu->fault, sizeof gpu->fault,
                 "its compute mode is for one process: the daemon would lock trainers out");
}

static void look(struct gpu_list *list)
{
    struct dlp_cuda cuda;
    int count = 0;
    list->err = dlp_cuda_open(&cuda, list->why, sizeof list->why);
    if (list->err)
        return;
    list->version = cuda.version;
    dlp_cu_result code = cuda.device_count(&count);
    if (code || count < 1) {
        list->err = dlp_cu_result_explain(code ? code : DLP_CU_NO_DEVICE, "cuDeviceGetCount",
                                          list->why, sizeof list->why);
        return;
    }
    list->n = (uint32_t)(count < GPUS_MAX ? count : GPUS_MAX);
    for (uint32_t i = 0; i < list->n; i++)
        ask(&cuda, (int)i, &list->gpus[i]);
}

static void *run(void *context)
{
    struct gpus *gpus = context;
    char text[GPUS_TEXT_MAX];
    look(&gpus->list);
    gpus->found = true;
    log_info("batches go to %s", gpus_words(gpus, text));
    return NULL;
}

struct gpus *gpus_new(void)
{
    struct gpus *gpus = mem_new(sizeof *gpus);
    gpus->since = clock_ns();
    gpus->thread = thread_start("gpus", run, gpus);
    return gpus;
}

bool gpus_free(struct gpus *gpus, uint64_t until)
{
    if (!thread_join_until(gpus->thread, until))
        return false;
    free(gpus);
    return true;
}

void gpus_abandon(struct gpus *gpus)
{
    pthread_detach(gpus->thread);
}

const struct gpu_list *gpus_list(const struct gpus *gpus)
{
    return gpus->found ? &gpus->list : NULL;
}

uint64_t gpus_asked_since(const struct gpus *gpus)
{
    return gpus->since;
}

const char *gpus_words(const struct gpus *gpus, char text[GPUS_TEXT_MAX])
{
    const struct gpu_list *list = gpus_list(gpus);
    if (!list)
        snprintf(text, GPUS_TEXT_MAX, "shared memory; the NVIDIA driver is being asked for GPUs");
    else if (list->err)
        snprintf(text, GPUS_TEXT_MAX, "shared memory, as %.*s", GPUS_TEXT_MAX - 40, list->why);
    else
        snprintf(text, GPUS_TEXT_MAX,
                 "shared memory, or a GPU for trainers that ask for it; %u GPU%s, CUDA %d.%d",
                 list->n, plural(list->n), list->version / 1000, list->version % 1000 / 10);
    return text;
}

const char *gpus_mode_name(dlp_cu_mode mode)
{
    switch (mode) {
    case DLP_CU_MODE_DEFAULT:
        return "default";
    case DLP_CU_MODE_PROHIBITED:
        return "prohibited";
    case DLP_CU_MODE_EXCLUSIVE:
        return "exclusive process";
    default:
        return "unknown";
    }
}
