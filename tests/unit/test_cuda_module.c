/* The stand-in: images of kernels, their launch, and what the kernels compute, which is what the
 * daemon's own conversion gives, bit for bit. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_rig.h"
#include "image/tensor.h"

static const char ptx[] = "// made by hand\n.version 7.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry dataload_nchw_u8(\n)\n{\nret;\n}\n";
static const unsigned fatbin[8] = {0xBA55ED50, 0x00100001};

static void images(int peer)
{
    (void)peer;
    dlp_cu_module module;
    crig_start(0);
    CU(DLP_CU_INVALID_VALUE, cu.module_load(&module, NULL));
    CU(DLP_CU_INVALID_IMAGE, cu.module_load(&module, "no image at all"));
    CU(DLP_CU_INVALID_PTX, cu.module_load(&module, ".version x"));
    CU(0, cu.module_load(&module, "\x7F"
                                  "ELF..."));
    CU(0, cu.module_unload(module));
    CU(DLP_CU_INVALID_HANDLE, cu.module_unload(module));
    CU(0, cu.module_load(&module, fatbin));
    CU(0, cu.module_unload(module));
    CU(0, cu.module_load(&module, ptx));
    CU(0, cu.module_unload(module));
    crig_stop();
}

static void newer_ptx(int peer)
{
    (void)peer;
    dlp_cu_module module;
    crig_start(0);
    CU(DLP_CU_UNSUPPORTED_PTX_VERSION, cu.module_load(&module, ".version 9.0\n"));
    CU(0, cu.module_load(&module, ".version 8.0\n"));
    CU(0, cu.module_unload(module));
    crig_stop();
}

static void names(int peer)
{
    (void)peer;
    dlp_cu_module module;
    dlp_cu_function function;
    crig_start(0);
    CU(0, cu.module_load(&module, ptx));
    CU(0, cu.module_function(&function, module, "dataload_nchw_u8"));
    CU(DLP_CU_NOT_FOUND, cu.module_function(&function, module, "dataload_nchw_f32"));
    CU(DLP_CU_NOT_FOUND, cu.module_function(&function, module, "no_such_kernel"));
    CU(DLP_CU_INVALID_HANDLE, cu.module_function(&function, NULL, "dataload_nchw_u8"));
    CU(0, cu.module_unload(module));
    void *none[8] = {NULL};
    CU(DLP_CU_INVALID_HANDLE, cu.launch(function, 1, 1, 1, 1, 1, 1, 0, crig_stream, none, NULL));
    crig_stop();
}

/* A picture of all byte values in each channel, on the GPU: at is the input, out the result. */
enum { PIXELS = 256, IMAGES = 2, VALUES = IMAGES * PIXELS * 3 };
struct work {
    dlp_cu_module module;
    dlp_cu_pointer in, out;
    unsigned char pictures[VALUES];
};

static void begin(struct work *work)
{
    crig_start(0);
    for (size_t i = 0; i < VALUES; i++)
        work->pictures[i] = (unsigned char)(i / 3 + i % 3 * 85 + i / (VALUES / 2) * 11);
    CU(0, cu.module_load(&work->module, fatbin));
    CU(0, cu.memory_alloc(&work->in, VALUES));
    CU(0, cu.memory_alloc(&work->out, VALUES * sizeof(float)));
    crig_put(work->in, work->pictures, VALUES);
}

static void end(struct work *work)
{
    CU(0, cu.memory_free(work->in));
    CU(0, cu.memory_free(work->out));
    CU(0, cu.module_unload(work->module));
    crig_stop();
}

static void launch(struct work *work, const char *name, const float norm[6])
{
    dlp_cu_function function;
    uint32_t images = IMAGES, pixels = PIXELS;
    float values[6];
    memcpy(values, norm, sizeof values);
    void *arguments[] = {&work->in, &work->out, &images, &pixels, values};
    CU(0, cu.module_function(&function, work->module, name));
    CU(0, cu.launch(function, 4, 1, 1, 256, 1, 1, 0, crig_stream, arguments, NULL));
    images = pixels = 4711; /* the launch has its own copy */
    memset(values, 0, sizeof values);
    crig_sync();
}

static void same_as_host(struct work *work, const char *name, enum pixels pixels,
                         const float norm[6])
{
    static unsigned char ours[VALUES * sizeof(float)], theirs[sizeof ours];
    size_t size = VALUES * pixels_size(pixels);
    struct tensor tensor = {0};
    launch(work, name, norm);
    crig_get(theirs, work->out, size);
    tensor_set(&tensor, pixels, norm, norm + 3, SIMD_NONE);
    for (size_t n = 0; n < IMAGES; n++) {
        struct tensor_planes planes;
        tensor_place(&tensor, PIXELS, ours + n * size / IMAGES, &planes);
        tensor_write(&tensor, work->pictures + n * PIXELS * 3, PIXELS, 0, &planes);
    }
    NEED(memcmp(ours, theirs, size) == 0);
}

static void kernels(int peer)
{
    (void)peer;
    static const float norms[][6] = {
        {0.485F, 0.456F, 0.406F, 0.229F, 0.224F, 0.225F},
        {0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F},
        {0, 0, 0, 1, 1, 1},
        {0.1F, -3, 1e-6F, 1e-6F, 1e6F, 60000}, /* beyond float16 at both ends */
        {-2049, -2051, -257, 1, 1, 1},         /* half way between two of 16 bits */
    };
    struct work work;
    begin(&work);
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        same_as_host(&work, "dataload_nchw_u8", PIXELS_U8_NCHW, norms[i]);
        same_as_host(&work, "dataload_nchw_f32", PIXELS_F32_NCHW, norms[i]);
        same_as_host(&work, "dataload_nchw_f16", PIXELS_F16_NCHW, norms[i]);
        same_as_host(&work, "dataload_nchw_bf16", PIXELS_BF16_NCHW, norms[i]);
    }
    end(&work);
}

static void limits(int peer)
{
    (void)peer;
    struct work work;
    dlp_cu_function f;
    void *args[8] = {NULL};
    begin(&work);
    CU(0, cu.module_function(&f, work.module, "dataload_nchw_u8"));
    CU(DLP_CU_INVALID_VALUE, cu.launch(f, 0, 1, 1, 1, 1, 1, 0, crig_stream, args, NULL));
    CU(DLP_CU_INVALID_VALUE, cu.launch(f, 1, 65536, 1, 1, 1, 1, 0, crig_stream, args, NULL));
    CU(DLP_CU_INVALID_VALUE, cu.launch(f, 1, 1, 1, 1025, 1, 1, 0, crig_stream, args, NULL));
    CU(DLP_CU_INVALID_VALUE, cu.launch(f, 1, 1, 1, 64, 32, 1, 0, crig_stream, args, NULL));
    CU(DLP_CU_INVALID_VALUE, cu.launch(f, 1, 1, 1, 1, 1, 65, 0, crig_stream, args, NULL));
    CU(DLP_CU_INVALID_VALUE, cu.launch(f, 1, 1, 1, 1, 1, 1, 49153, crig_stream, args, NULL));
    CU(DLP_CU_INVALID_VALUE, cu.launch(f, 1, 1, 1, 1, 1, 1, 0, crig_stream, NULL, NULL));
    CU(DLP_CU_INVALID_VALUE, cu.launch(f, 1, 1, 1, 1, 1, 1, 0, crig_stream, args, args));
    CU(DLP_CU_INVALID_HANDLE, cu.launch(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    end(&work);
}

/* One value more than there is room for. */
static void out_of_bounds(int peer)
{
    (void)peer;
    struct work work;
    dlp_cu_function function;
    uint32_t images = IMAGES, pixels = PIXELS + 1;
    begin(&work);
    void *arguments[] = {&work.in, &work.out, &images, &pixels};
    CU(0, cu.module_function(&function, work.module, "dataload_nchw_u8"));
    CU(0, cu.launch(function, 4, 1, 1, 256, 1, 1, 0, crig_stream, arguments, NULL));
    CU(DLP_CU_ILLEGAL_ADDRESS, cu.stream_synchronize(crig_stream));
    CU(DLP_CU_ILLEGAL_ADDRESS, cu.memory_free(work.in));
}

static void leaks(int peer)
{
    (void)peer;
    dlp_cu_module module;
    crig_start(0);
    CU(0, cu.module_load(&module, ptx));
    crig_stop();
}

int main(int argc, char **argv)
{
    static const struct crig_role roles[] = {
        {"images", images},
        {"newer_ptx", newer_ptx, "STANDIN_VERSION=12040"},
        {"names", names},
        {"kernels", kernels},
        {"limits", limits},
        {"out_of_bounds", out_of_bounds},
        {"leaks", leaks, NULL, 99, "leak: 1 modules on GPU 0"},
    };
    return crig_main(argc, argv, "cuda_module", roles, sizeof roles / sizeof *roles);
}
