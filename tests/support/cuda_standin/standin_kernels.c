/* uint8 NHWC pictures of 3 channels to planes: as they are, or as floats, normalised.
 *
 * Arithmetic is that of the daemon's host path: ((float)x / 255 - mean) / std, each operation
 * rounded as float32; 16-bit results are that, rounded to nearest even. */
#include "standin_kernels.h"

#include <string.h>

#include "standin_memory.h"

struct norm {
    float mean[3], std[3];
};

enum { IN, OUT, IMAGES, PIXELS, NORM };

static uint64_t address(const void *argument)
{
    uint64_t value;
    memcpy(&value, argument, sizeof value);
    return value;
}

static uint32_t count(const void *argument)
{
    uint32_t value;
    memcpy(&value, argument, sizeof value);
    return value;
}

static float normal(uint8_t x, const struct norm *norm, unsigned c)
{
    float value = (float)x / 255.0F;
    value -= norm->mean[c];
    return value / norm->std[c];
}

static void put_u8(unsigned char *to, uint8_t x, const struct norm *norm, unsigned c)
{
    (void)norm;
    (void)c;
    *to = x;
}

static void put_f32(unsigned char *to, uint8_t x, const struct norm *norm, unsigned c)
{
    float value = normal(x, norm, c);
    memcpy(to, &value, sizeof value);
}

/* Of float bits to 16-bit ones, to nearest even: magnitude below 2^-14 by the subnormals' step. */
static void put_f16(unsigned char *to, uint8_t x, const struct norm *norm, unsigned c)
{
    float value = normal(x, norm, c);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, exponent = bits >> 23 & 0xFF, whole = bits & 0x7FFFFFFF;
    uint32_t half, cut = exponent < 113 ? 13 + 113 - exponent : 13;
    uint32_t mantissa = (bits & 0x7FFFFF) | (exponent ? 0x800000 : 0);
    if (whole >= 0x47800000)
        half = 0x7C00;
    else if (cut > 25)
        half = 0;
    else {
        uint32_t base = exponent < 113 ? 0 : (exponent - 113) << 10;
        half = base + (mantissa >> cut);
        uint32_t rest = mantissa & ((1U << cut) - 1), middle = 1U << (cut - 1);
        half += rest > middle || (rest == middle && (half & 1));
    }
    uint16_t result = (uint16_t)(sign | half);
    memcpy(to, &result, sizeof result);
}

static void put_bf16(unsigned char *to, uint8_t x, const struct norm *norm, unsigned c)
{
    float value = normal(x, norm, c);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t result = (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    memcpy(to, &result, sizeof result);
}

static dlp_cu_result planes(void *const *arguments, const struct si_context *context, size_t width,
                            void (*put)(unsigned char *, uint8_t, const struct norm *, unsigned))
{
    size_t images = count(arguments[IMAGES]), pixels = count(arguments[PIXELS]);
    size_t values = images * pixels * 3;
    struct norm norm = {{0}, {0}};
    if (arguments[NORM])
        memcpy(&norm, arguments[NORM], sizeof norm);
    pthread_mutex_lock(&si_lock);
    const unsigned char *in = si_bytes(address(arguments[IN]), values, false, context);
    unsigned char *out = si_bytes(address(arguments[OUT]), values * width, true, context);
    pthread_mutex_unlock(&si_lock);
    if (!in || !out)
        return DLP_CU_ILLEGAL_ADDRESS;
    for (size_t n = 0; n < images; n++)
        for (unsigned c = 0; c < 3; c++)
            for (size_t i = 0; i < pixels; i++)
                put(out + ((n * 3 + c) * pixels + i) * width, in[(n * pixels + i) * 3 + c], &norm,
                    c);
    return 0;
}

static dlp_cu_result to_u8(void *const *arguments, const struct si_context *context)
{
    return planes(arguments, context, 1, put_u8);
}

static dlp_cu_result to_f32(void *const *arguments, const struct si_context *context)
{
    return planes(arguments, context, 4, put_f32);
}

static dlp_cu_result to_f16(void *const *arguments, const struct si_context *context)
{
    return planes(arguments, context, 2, put_f16);
}

static dlp_cu_result to_bf16(void *const *arguments, const struct si_context *context)
{
    return planes(arguments, context, 2, put_bf16);
}

const struct si_kernel *si_kernel(const char *name)
{
    /* in, out, number of pictures, pixels of each, mean and std */
    static const struct si_kernel kernels[] = {
        {"dataload_nchw_u8", {8, 8, 4, 4}, to_u8},
        {"dataload_nchw_f32", {8, 8, 4, 4, sizeof(struct norm)}, to_f32},
        {"dataload_nchw_f16", {8, 8, 4, 4, sizeof(struct norm)}, to_f16},
        {"dataload_nchw_bf16", {8, 8, 4, 4, sizeof(struct norm)}, to_bf16},
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}
