/* Images of kernels, and their launch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin_kernels.h"
#include "standin_stream.h"

static struct function {
    struct function *next;
    const struct module *module;
    const struct si_kernel *kernel;
} * functions;

static struct module {
    struct module *next;
    struct si_context *context;
    char *ptx; /* NULL of a binary image */
} * modules;

static struct module *module_of(dlp_cu_module handle)
{
    struct module *module = modules;
    while (module && module != (struct module *)handle)
        module = module->next;
    return module && module->context == si_current() ? module : NULL;
}

/* A driver of CUDA 12.x compiles PTX up to 8.x, one of 13.x up to 9.x. */
static dlp_cu_result check_ptx(const char *version)
{
    int driver = 0;
    unsigned major;
    const char *text = getenv("STANDIN_VERSION");
    driver = text ? atoi(text) : 13000;
    if (sscanf(version, ".version %u.", &major) != 1)
        return DLP_CU_INVALID_PTX;
    return (int)major > driver / 1000 - 4 ? DLP_CU_UNSUPPORTED_PTX_VERSION : 0;
}

static dlp_cu_result check_image(const void *image, const char **ptx)
{
    static const unsigned char fatbin[] = {0x50, 0xED, 0x55, 0xBA}, elf[] = {0x7F, 'E', 'L', 'F'};
    const char *text = image;
    *ptx = NULL;
    if (memcmp(image, fatbin, 4) == 0 || memcmp(image, elf, 4) == 0)
        return 0;
    while (strncmp(text, "//", 2) == 0 || *text == '\n') /* comments first */
        text = strchr(text, '\n') ? strchr(text, '\n') + 1 : "";
    if (strncmp(text, ".version", 8) != 0)
        return DLP_CU_INVALID_IMAGE;
    *ptx = text;
    return check_ptx(text);
}

dlp_cu_result cuModuleLoadData(dlp_cu_module *handle, const void *image)
{
    SI_ENTER(SI_IN_CONTEXT);
    const char *ptx;
    if (!image)
        return DLP_CU_INVALID_VALUE;
    dlp_cu_result code = check_image(image, &ptx);
    if (code)
        return code;
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        si_abort("out of memory");
    *module = (struct module){modules, si_current(), ptx ? strdup(ptx) : NULL};
    modules = module;
    *handle = (dlp_cu_module)module;
    return 0;
}

static void forget_functions(const struct module *module)
{
    for (struct function **at = &functions; *at;) {
        struct function *function = *at;
        if (function->module != module) {
            at = &function->next;
            continue;
        }
        *at = function->next;
        free(function);
    }
}

dlp_cu_result cuModuleUnload(dlp_cu_module handle)
{
    SI_ENTER(SI_IN_CONTEXT);
    struct module *gone = module_of(handle);
    if (!gone)
        return DLP_CU_INVALID_HANDLE;
    si_streams_drain(__func__);
    for (struct module **at = &modules; *at; at = &(*at)->next)
        if (*at == gone) {
            *at = gone->next;
            break;
        }
    forget_functions(gone);
    free(gone->ptx);
    free(gone);
    return 0;
}

/* Text shows which kernels it has; a binary image may be compressed. */
static bool has_kernel(const struct module *module, const char *name)
{
    char entry[200];
    snprintf(entry, sizeof entry, ".entry %s(", name);
    return !module->ptx || strstr(module->ptx, entry);
}

dlp_cu_result cuModuleGetFunction(dlp_cu_function *handle, dlp_cu_module of, const char *name)
{
    SI_ENTER(SI_IN_CONTEXT);
    const struct module *module = module_of(of);
    const struct si_kernel *kernel = si_kernel(name);
    if (!module)
        return DLP_CU_INVALID_HANDLE;
    if (!kernel || !has_kernel(module, name))
        return DLP_CU_NOT_FOUND;
    struct function *function = malloc(sizeof *function);
    if (!function)
        si_abort("out of memory");
    *function = (struct function){functions, module, kernel};
    functions = function;
    *handle = (dlp_cu_function)function;
    return 0;
}

/* An operation's data: the arguments as they were at the launch. */
struct launch {
    const struct si_kernel *kernel;
    unsigned char bytes[SI_ARGUMENTS][32];
};

static dlp_cu_result run(struct si_op *op, bool dead)
{
    struct launch *launch = (struct launch *)op->data;
    void *arguments[SI_ARGUMENTS] = {NULL};
    for (unsigned i = 0; i < SI_ARGUMENTS && launch->kernel->sizes[i]; i++)
        arguments[i] = launch->bytes[i];
    return dead ? 0 : launch->kernel->run(arguments, op->context);
}

static bool fits(unsigned value, unsigned max)
{
    return value > 0 && value <= max;
}

dlp_cu_result cuLaunchKernel(dlp_cu_function handle, unsigned grid_x, unsigned grid_y,
                             unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                             unsigned shared_bytes, dlp_cu_stream at, void **parameters,
                             void **extra)
{
    SI_ENTER(SI_IN_CONTEXT);
    const struct function *function = functions;
    struct si_stream *stream = si_stream_of(at);
    while (function && function != (const struct function *)handle)
        function = function->next;
    if (!function || function->module->context != si_current() || !stream)
        return DLP_CU_INVALID_HANDLE;
    if (!fits(grid_x, 0x7FFFFFFF) || !fits(grid_y, 65535) || !fits(grid_z, 65535) ||
        !fits(block_x, 1024) || !fits(block_y, 1024) || !fits(block_z, 64) ||
        (uint64_t)block_x * block_y * block_z > 1024 || shared_bytes > 48 << 10 || !parameters ||
        extra)
        return DLP_CU_INVALID_VALUE;
    struct si_op *op = si_op_new(function->kernel->name, sizeof(struct launch), run);
    struct launch *launch = (struct launch *)op->data;
    launch->kernel = function->kernel;
    for (unsigned i = 0; i < SI_ARGUMENTS && launch->kernel->sizes[i]; i++)
        memcpy(launch->bytes[i], parameters[i], launch->kernel->sizes[i]);
    si_stream_queue(stream, op);
    return 0;
}

void si_leaks_modules(const struct si_context *context)
{
    unsigned n = 0;
    for (const struct module *module = modules; module; module = module->next)
        n += module->context == context;
    if (n)
        si_report("leak: %u modules on GPU %u", n, context->device);
}
