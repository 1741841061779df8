/* Which vector instructions are used. Kernels that use them give the same bytes as the plain C
 * beside them. */
#ifndef SIMD_H
#define SIMD_H

enum simd {
    SIMD_NONE,
    SIMD_SSE4,   /* SSE4.1 */
    SIMD_AVX2,   /* with FMA and F16C */
    SIMD_AVX512, /* F, BW, VL, VBMI and VNNI: Ice Lake, Zen 4 and later */
};

/* The best that this machine has, or less where the environment says DATALOADD_SIMD = none, sse4,
 * avx2 or avx512, read at the first call: to compare results and speed. Any thread. */
enum simd simd_level(void);
/* As in DATALOADD_SIMD. */
const char *simd_name(enum simd level);

#if defined(__x86_64__)
#define SIMD_X86 1
#define simd_target __attribute__((target("avx2,fma,f16c")))
#define simd_target_sse4 __attribute__((target("sse4.1")))
#define simd_target_avx512                                                                         \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))
#endif

#endif
