#include "client/python/gpu_context.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "proto/cuda.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dlp_cuda cuda; /* under the lock until it is open, constant from then on */
static int open_result = -EAGAIN;

static int open_driver(char *why, size_t size)
{
    pthread_mutex_lock(&lock);
    if (open_result < 0)
        open_result = dlp_cuda_open(&cuda, why, size);
    int r = open_result;
    pthread_mutex_unlock(&lock);
    return r;
}

int gpu_enter(int number, char *why, size_t size)
{
    dlp_cu_device device;
    dlp_cu_context context;
    int r = open_driver(why, size);
    if (r < 0)
        return r;
    dlp_cu_result result = cuda.device_get(&device, number);
    if (result != DLP_CU_SUCCESS)
        return dlp_cu_result_explain(result, "cuDeviceGet", why, size);
    result = cuda.context_retain(&context, device);
    if (result != DLP_CU_SUCCESS)
        return dlp_cu_result_explain(result, "cuDevicePrimaryCtxRetain", why, size);
    result = cuda.context_push(context);
    if (result == DLP_CU_SUCCESS)
        return 0;
    cuda.context_release(device);
    return dlp_cu_result_explain(result, "cuCtxPushCurrent", why, size);
}

void gpu_leave(int number)
{
    dlp_cu_device device;
    dlp_cu_context popped;
    cuda.context_pop(&popped);
    if (cuda.device_get(&device, number) == DLP_CU_SUCCESS)
        cuda.context_release(device);
}

void gpu_finish(void *stream)
{
    char why[256];
    if (open_driver(why, sizeof why) == 0)
        cuda.stream_synchronize(stream);
}
