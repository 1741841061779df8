#include <errno.h>
#include <string.h>

#include "client/client_parts.h"
#include "client/kernels.h"

enum { BLOCK = 256, GRID_MAX = 4096 };

struct scale { /* as in kernels/nchw.cu */
    float mean[3], std[3];
};

struct kernel {
    const char *name;
    dataload_dtype dtype;
    uint64_t width;
};

static const struct kernel *kernel_of(dataload_dtype dtype)
{
    static const struct kernel kernels[] = {
        {"dataload_nchw_u8", DATALOAD_UINT8, 1},
        {"dataload_nchw_f32", DATALOAD_FLOAT32, 4},
        {"dataload_nchw_f16", DATALOAD_FLOAT16, 2},
        {"dataload_nchw_bf16", DATALOAD_BFLOAT16, 2},
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i].dtype == dtype)
            return &kernels[i];
    return NULL;
}

/* What can be said without the driver. */
static int check(const dataload_batch *batch, const dataload_tensor *tensor,
                 const struct kernel *kernel, uint64_t bytes)
{
    struct dataload *handle = batch->mapping->handle;
    if (!batch->mapping->device)
        return handle_fail(handle, -EOPNOTSUPP,
                           "field %s is in shared memory: let the feed convert it (output:)",
                           tensor->name);
    if (!kernel || tensor->dtype != DATALOAD_UINT8 || tensor->offsets || tensor->ndim != 4 ||
        tensor->shape[3] != 3 || tensor->shape[1] * tensor->shape[2] > UINT32_MAX)
        return handle_fail(handle, -EINVAL,
                           "field %s: only pictures of uint8 [rows, height, width, 3] are "
                           "converted, to uint8, float32, float16 or bfloat16",
                           tensor->name);
    unsigned long long size = tensor->bytes * kernel->width;
    if (size > bytes)
        return handle_fail(handle, -ENOSPC, "field %s becomes %llu bytes, there is room for %llu",
                           tensor->name, size, (unsigned long long)bytes);
    return 0;
}

/* In the context. */
static bool launch(struct device *device, const struct kernel *kernel,
                   const dataload_tensor *tensor, void *to, const struct scale *scale,
                   dlp_cu_stream stream, struct device_answer *answer)
{
    const struct dlp_cuda *cu = &device->cu;
    dlp_cu_function function;
    dlp_cu_pointer in = (uintptr_t)tensor->data, out = (uintptr_t)to;
    uint32_t pictures = (uint32_t)tensor->shape[0];
    uint32_t pixels = (uint32_t)(tensor->shape[1] * tensor->shape[2]);
    uint64_t blocks = ((uint64_t)pictures * pixels + BLOCK - 1) / BLOCK;
    unsigned grid = blocks < GRID_MAX ? (unsigned)blocks : GRID_MAX;
    void *arguments[] = {&in, &out, &pictures, &pixels, (void *)scale};
    if (!device->kernels && !kernels_load(cu, &device->kernels, answer))
        return false;
    return device_idle_capture(device, stream, answer) &&
           device_did(answer, "cuModuleGetFunction",
                      cu->module_function(&function, device->kernels, kernel->name)) &&
           device_did(answer, "cuLaunchKernel",
                      cu->launch(function, grid, 1, 1, BLOCK, 1, 1, 0, stream, arguments, NULL));
}

int dataload_batch_convert(const dataload_batch *batch, const char *name, void *to, uint64_t bytes,
                           dataload_dtype dtype, const float *mean, const float *std, void *stream)
{
    static const struct scale plain = {{0, 0, 0}, {1, 1, 1}};
    const struct kernel *kernel = kernel_of(dtype);
    dataload_tensor tensor;
    struct device_answer answer;
    struct scale scale = plain;
    char text[DLP_TEXT_MAX];
    int r = dataload_batch_tensor(batch, name, &tensor);
    if (r == 0)
        r = check(batch, &tensor, kernel, bytes);
    if (r < 0 || tensor.bytes == 0)
        return r;
    if (mean)
        memcpy(scale.mean, mean, sizeof scale.mean);
    if (std)
        memcpy(scale.std, std, sizeof scale.std);
    struct dataload *handle = batch->mapping->handle;
    bool entered = device_enter(handle->device, &answer);
    bool done = entered && launch(handle->device, kernel, &tensor, to, &scale, stream, &answer);
    if (entered)
        device_leave(handle->device);
    if (done)
        return 0;
    r = device_explain(&answer, text, sizeof text);
    return handle_fail(handle, r, "field %s: %s", tensor.name, text);
}
