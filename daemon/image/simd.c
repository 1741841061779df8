#include "image/simd.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#ifdef SIMD_X86
#include <cpuid.h>

static bool has_avx2(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_FMA) &&
           (c & bit_F16C);
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
}

static enum simd level_of_machine(void)
{
    if (has_avx2())
        return has_avx512() ? SIMD_AVX512 : SIMD_AVX2;
    return __builtin_cpu_supports("sse4.1") ? SIMD_SSE4 : SIMD_NONE;
}
#else
static enum simd level_of_machine(void)
{
    return SIMD_NONE;
}
#endif

static enum simd chosen;

static void choose(void)
{
    chosen = level_of_machine();
    const char *most = getenv("DATALOADD_SIMD");
    if (!most)
        return;
    for (enum simd wanted = SIMD_NONE; wanted <= SIMD_AVX512; wanted++) {
        if (strcmp(most, simd_name(wanted)) == 0) {
            chosen = wanted < chosen ? wanted : chosen;
            return;
        }
    }
    log_warning("DATALOADD_SIMD=%s is not none, sse4, avx2 or avx512: %s is used, the best of this "
                "machine",
                most, simd_name(chosen));
}

enum simd simd_level(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return chosen;
}

const char *simd_name(enum simd level)
{
    static const char *const names[] = {"none", "sse4", "avx2", "avx512"};
    return names[level];
}
