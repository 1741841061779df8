/* What a copy to the GPU can reach here at the most: GB/s by size from pinned memory of the driver,
 * registered memory, and pageable memory; on one stream and two. One row a line: name, number. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "gpu.h"

#define MIB (1UL << 20)
#define LARGEST (128 * MIB)
#define SECONDS 0.4 /* of each row */

static dlp_cu_pointer to;

/* On one stream: as many copies as fit into the time, four queued at once. */
static double rate(const uint8_t *from, size_t size, dlp_cu_stream *streams, unsigned count)
{
    double begin = gpu_seconds(), bytes = 0, now;
    do {
        for (unsigned i = 0; i < 4; i++)
            CU(cu.copy_to_device(to, from, size, streams[i % count]));
        for (unsigned i = 0; i < count; i++)
            CU(cu.stream_synchronize(streams[i]));
        bytes += 4 * (double)size;
        now = gpu_seconds();
    } while (now - begin < SECONDS);
    return bytes / (now - begin) / 1e9;
}

static void *map(int flags)
{
    void *at =
        mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void touch(uint8_t *at)
{
    for (size_t i = 0; i < LARGEST; i += 4096)
        at[i] = (uint8_t)i;
}

static void from_registered(const char *name, uint8_t *at, dlp_cu_stream *streams)
{
    if (!at) {
        printf("%s\t-\n", name);
        return;
    }
    touch(at);
    dlp_cu_result code = cu.host_register(at, LARGEST, DLP_CU_HOST_PORTABLE);
    if (code)
        printf("%s\t%s\n", name, dlp_cu_result_name(code));
    else
        printf("%s\t%.1f\n", name, rate(at, LARGEST, streams, 1));
    if (!code)
        CU(cu.host_unregister(at));
    munmap(at, LARGEST);
}

int main(void)
{
    void *pinned;
    size_t before, after, all;
    gpu_start();
    dlp_cu_stream streams[2] = {gpu_stream};
    CU(cu.stream_create(&streams[1], DLP_CU_STREAM_NON_BLOCKING, 0));
    CU(cu.memory_info(&before, &all));
    CU(cu.memory_alloc(&to, LARGEST));
    CU(cu.memory_info(&after, &all));
    printf("memory_mib\t%.0f\n", (double)all / MIB);
    printf("used_with_one_context_mib\t%.0f\n", (double)(all - before) / MIB);
    CU(more.host_alloc(&pinned, LARGEST, 0));
    touch(pinned);
    for (size_t mib = 1; mib <= 128; mib *= 2)
        printf("pinned_%zu_mib\t%.1f\n", mib, rate(pinned, mib * MIB, streams, 1));
    printf("pinned_two_streams\t%.1f\n", rate(pinned, LARGEST, streams, 2));
    CU(more.host_free(pinned));
    from_registered("registered", map(0), streams);
    from_registered("registered_huge_pages", map(MAP_HUGETLB), streams);
    uint8_t *pageable = map(0);
    touch(pageable);
    printf("pageable\t%.1f\n", rate(pageable, LARGEST, streams, 1));
    munmap(pageable, LARGEST);
    CU(cu.memory_free(to));
    CU(cu.stream_destroy(streams[1]));
    gpu_stop();
    return 0;
}
