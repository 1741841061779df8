#include "client/kernels.h"

#include "proto/embed.h"

DLP_EMBED(kernels_ptx, KERNELS_PTX);
#ifdef KERNELS_FATBIN
DLP_EMBED(kernels_fatbin, KERNELS_FATBIN);
static const char *const binaries = kernels_fatbin;
#else
static const char *const binaries = NULL;
#endif

bool kernels_load(const struct dlp_cuda *cu, dlp_cu_module *module, struct device_answer *answer)
{
    if (binaries && device_did(answer, "cuModuleLoadData", cu->module_load(module, binaries)))
        return true;
    if (binaries && dlp_cu_result_lost(answer->result))
        return false;
    return device_did(answer, "cuModuleLoadData", cu->module_load(module, kernels_ptx));
}
