#include "client/kernels.h"

/* A file as it is, and a zero byte. */
#define EMBED(name, path)                                                                          \
    __asm__(".pushsection .rodata\n.balign 64\n.globl " #name "\n.hidden " #name "\n" #name ":\n"  \
            ".incbin \"" path "\"\n.byte 0\n.popsection\n");                                       \
    extern const char name[] /* NOLINT(bugprone-macro-parentheses): a declaration */               \
        __attribute__((visibility("hidden")))

EMBED(kernels_ptx, KERNELS_PTX);
#ifdef KERNELS_FATBIN
EMBED(kernels_fatbin, KERNELS_FATBIN);
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
