#include "proto/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

static int load(void **library, char *why, size_t size)
{
    *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (*library)
        return 0;
    const char *error = dlerror();
    if (error && strstr(error, "No such file"))
        snprintf(why, size, "no NVIDIA driver is installed here (%s is not found)", LIBRARY);
    else
        snprintf(why, size, "the NVIDIA driver cannot be loaded: %s", error ? error : LIBRARY);
    return -ENOENT;
}

static int too_old(int version, char *why, size_t size)
{
    snprintf(why, size, "the NVIDIA driver is for CUDA %d.%d, and 12.0 or newer is needed",
             version / 1000, version % 1000 / 10);
    return -EOPNOTSUPP;
}

static int symbols(struct dlp_cuda *cuda, void *library, char *why, size_t size)
{
    const char *missing = NULL;
#define X(member, symbol, arguments)                                                               \
    *(void **)(&cuda->member) = dlsym(library, #symbol);                                           \
    if (!cuda->member && !missing)                                                                 \
        missing = #symbol;
    DLP_CUDA_FUNCTIONS(X)
#undef X
    if (!missing)
        return 0;
    if (cuda->driver_version && cuda->driver_version(&cuda->version) == 0 &&
        cuda->version < DLP_CUDA_VERSION_MIN)
        return too_old(cuda->version, why, size);
    snprintf(why, size, "the NVIDIA driver has no %s: " LIBRARY " is too old or another library",
             missing);
    return -EOPNOTSUPP;
}

static int start(struct dlp_cuda *cuda, char *why, size_t size)
{
    dlp_cu_result code = cuda->init(0);
    if (code)
        return dlp_cu_result_explain(code, "cuInit", why, size);
    code = cuda->driver_version(&cuda->version);
    if (code)
        return dlp_cu_result_explain(code, "cuDriverGetVersion", why, size);
    return cuda->version < DLP_CUDA_VERSION_MIN ? too_old(cuda->version, why, size) : 0;
}

int dlp_cuda_open(struct dlp_cuda *cuda, char *why, size_t size)
{
    void *library;
    memset(cuda, 0, sizeof *cuda);
    int r = load(&library, why, size);
    if (r)
        return r;
    r = symbols(cuda, library, why, size);
    if (r)
        dlclose(library);
    else
        r = start(cuda, why, size);
    if (r)
        memset(cuda, 0, sizeof *cuda);
    return r;
}
