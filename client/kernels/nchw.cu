// uint8 pictures [n, pixels, 3] to planes [n, 3, pixels]: as they are, or ((float)x / 255 - mean) / std,
// each operation rounded as float32 as the daemon's own conversion rounds it; 16-bit results are that, rounded to
// nearest even. One thread a pixel, over all pictures, in a loop over the grid.
#include <stdint.h>

struct scale {
    float mean[3], std[3];
};

__device__ static float normal(uint8_t x, float mean, float std)
{
    return __fdiv_rn(__fsub_rn(__fdiv_rn((float)x, 255.0F), mean), std);
}

// Bits of 16-bit floats by the hardware's own conversions, without the toolkit's headers.
__device__ static uint16_t half(float value)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ static uint16_t brain(float value)
{
    uint32_t bits = __float_as_uint(value);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

template <class T, class F>
__device__ static void planes(const uint8_t *in, T *out, uint32_t pictures, uint32_t pixels, F put)
{
    uint64_t all = (uint64_t)pictures * pixels;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < all; i += gridDim.x * (uint64_t)blockDim.x) {
        uint64_t picture = i / pixels, pixel = i % pixels;
        for (int c = 0; c < 3; c++)
            out[(picture * 3 + c) * pixels + pixel] = put(in[i * 3 + c], c);
    }
}

extern "C" __global__ void dataload_nchw_u8(const uint8_t *in, uint8_t *out, uint32_t pictures, uint32_t pixels)
{
    planes(in, out, pictures, pixels, [](uint8_t x, int) { return x; });
}

extern "C" __global__ void dataload_nchw_f32(const uint8_t *in, float *out, uint32_t pictures, uint32_t pixels, struct scale by)
{
    planes(in, out, pictures, pixels, [&by](uint8_t x, int c) { return normal(x, by.mean[c], by.std[c]); });
}

extern "C" __global__ void dataload_nchw_f16(const uint8_t *in, uint16_t *out, uint32_t pictures, uint32_t pixels, struct scale by)
{
    planes(in, out, pictures, pixels, [&by](uint8_t x, int c) { return half(normal(x, by.mean[c], by.std[c])); });
}

extern "C" __global__ void dataload_nchw_bf16(const uint8_t *in, uint16_t *out, uint32_t pictures, uint32_t pixels, struct scale by)
{
    planes(in, out, pictures, pixels, [&by](uint8_t x, int c) { return brain(normal(x, by.mean[c], by.std[c])); });
}
