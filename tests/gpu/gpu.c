#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct dlp_cuda cu;
struct gpu_more more;
dlp_cu_context gpu_context;
dlp_cu_stream gpu_stream;

void gpu_must(const char *call, dlp_cu_result code)
{
    if (!code)
        return;
    fprintf(stderr, "%s gave %u %s\n", call, code, dlp_cu_result_name(code));
    exit(2);
}

void gpu_load(void)
{
    char why[300] = "";
    if (dlp_cuda_open(&cu, why, sizeof why) != 0) {
        fprintf(stderr, "%s\n", why);
        exit(2);
    }
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
#define X(member, symbol, arguments) *(void **)(&more.member) = dlsym(library, #symbol);
    STANDIN_MORE_FUNCTIONS(X)
#undef X
    dlclose(library);
}

void gpu_start(void)
{
    gpu_load();
    CU(cu.context_retain(&gpu_context, 0));
    CU(cu.context_push(gpu_context));
    CU(cu.stream_create(&gpu_stream, DLP_CU_STREAM_NON_BLOCKING, 0));
}

void gpu_stop(void)
{
    CU(cu.stream_destroy(gpu_stream));
    CU(cu.context_pop(&gpu_context));
    CU(cu.context_release(0));
}

void gpu_sync(void)
{
    CU(cu.stream_synchronize(gpu_stream));
}

dlp_cu_allocation gpu_allocation(dlp_cu_handle_type type)
{
    return (dlp_cu_allocation){.type = DLP_CU_ALLOCATION_PINNED,
                               .handle_types = type,
                               .location = {DLP_CU_LOCATION_DEVICE, 0}};
}

dlp_cu_pointer gpu_map(dlp_cu_memory memory, size_t size, dlp_cu_access_flags flags)
{
    dlp_cu_pointer at;
    const dlp_cu_access access = {{DLP_CU_LOCATION_DEVICE, 0}, flags};
    CU(cu.address_reserve(&at, size, 0, 0, 0));
    CU(cu.memory_map(at, size, 0, memory, 0));
    if (flags)
        CU(cu.memory_access(at, size, &access, 1));
    return at;
}

void gpu_unmap(dlp_cu_pointer at, size_t size)
{
    CU(cu.memory_unmap(at, size));
    CU(cu.address_free(at, size));
}

double gpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
