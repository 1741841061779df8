/* The stand-in: allocations, pinned host memory, copies and their bounds. */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_rig.h"

enum { MIB = 1 << 20 };

static void there_and_back(int peer)
{
    (void)peer;
    static unsigned char data[3 * MIB + 5], back[sizeof data];
    dlp_cu_pointer at, copy;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + i / 256);
    crig_start(0);
    CU(0, cu.memory_alloc(&at, sizeof data));
    CU(0, cu.memory_alloc(&copy, sizeof data));
    crig_put(at, data, sizeof data);
    CU(0, cu.copy_on_device(copy, at, sizeof data, crig_stream));
    crig_get(back, copy, sizeof data);
    NEED(memcmp(data, back, sizeof data) == 0);
    crig_get(back, copy + 1000, 100);
    NEED(memcmp(data + 1000, back, 100) == 0);
    CU(0, cu.memory_free(at));
    CU(0, cu.memory_free(copy));
    crig_stop();
}

static void bounds(int peer)
{
    (void)peer;
    static char data[3 * MIB];
    dlp_cu_pointer at;
    crig_start(0);
    CU(DLP_CU_INVALID_VALUE, cu.memory_alloc(&at, 0));
    CU(0, cu.memory_alloc(&at, 3 * MIB));
    CU(DLP_CU_INVALID_VALUE, cu.copy_to_device(at, data, 3 * MIB + 1, crig_stream));
    CU(DLP_CU_INVALID_VALUE, cu.copy_to_device(at + 1, data, 3 * MIB, crig_stream));
    CU(DLP_CU_INVALID_VALUE, cu.copy_to_device(at - 1, data, 1, crig_stream));
    CU(DLP_CU_INVALID_VALUE, cu.copy_to_host(data, at + 3 * MIB, 1, crig_stream));
    CU(DLP_CU_INVALID_VALUE, cu.copy_on_device(at, 0, 1, crig_stream));
    CU(DLP_CU_INVALID_VALUE, cu.memory_free(at + 512));
    CU(0, cu.memory_free(at));
    CU(DLP_CU_INVALID_VALUE, cu.memory_free(at));
    CU(DLP_CU_INVALID_VALUE, cu.copy_to_device(at, data, 1, crig_stream));
    crig_stop();
}

static void cpu_reads_it(int peer)
{
    (void)peer;
    dlp_cu_pointer at;
    crig_start(0);
    CU(0, cu.memory_alloc(&at, 3 * MIB));
    signal(SIGSEGV, SIG_DFL);
    volatile char *host = (volatile char *)(uintptr_t)at;
    *host = 1;
}

/* Small ones share a block, never at its beginning; what is asked of one is its own. */
static void small_ones(int peer)
{
    (void)peer;
    dlp_cu_pointer first, second, base;
    size_t size;
    crig_start(0);
    CU(0, cu.memory_alloc(&first, 1000));
    CU(0, cu.memory_alloc(&second, 2000));
    NEED(first % (2 * MIB) != 0 && first / (2 * MIB) == second / (2 * MIB));
    NEED(second >= first + 1000);
    CU(0, more.address_range(&base, &size, first + 999));
    NEED(base == first && size == 1000);
    CU(DLP_CU_INVALID_VALUE, more.address_range(&base, &size, first + 1000));
    CU(0, cu.memory_free(first));
    crig_put(second, "still", 6);
    CU(0, cu.memory_free(second));
    crig_stop();
}

static void attributes(int peer)
{
    (void)peer;
    int value;
    unsigned type;
    dlp_cu_pointer at, start;
    static char host[100];
    crig_start(1);
    CU(0, cu.memory_alloc(&at, 4 * MIB));
    CU(0, cu.pointer_attribute(&value, DLP_CU_POINTER_DEVICE, at + 5));
    NEED(value == 1);
    CU(0, cu.pointer_attribute(&value, DLP_CU_POINTER_IPC_CAPABLE, at));
    NEED(value == 1);
    CU(0, cu.pointer_attribute(&start, DLP_CU_POINTER_START, at + 5));
    NEED(start == at);
    CU(0, cu.pointer_attribute(&type, DLP_CU_POINTER_MEMORY_TYPE, at));
    NEED(type == DLP_CU_MEMORY_DEVICE);
    CU(DLP_CU_INVALID_VALUE,
       cu.pointer_attribute(&type, DLP_CU_POINTER_MEMORY_TYPE, (uintptr_t)host));
    CU(0, cu.host_register(host, sizeof host, DLP_CU_HOST_PORTABLE));
    CU(0, cu.pointer_attribute(&type, DLP_CU_POINTER_MEMORY_TYPE, (uintptr_t)host));
    NEED(type == DLP_CU_MEMORY_HOST);
    CU(0, cu.host_unregister(host));
    CU(0, cu.memory_free(at));
    crig_stop();
}

static void pinning(int peer)
{
    (void)peer;
    static char host[20000];
    void *own;
    crig_start(0);
    CU(0, cu.host_register(host, sizeof host, 0));
    CU(DLP_CU_HOST_MEMORY_ALREADY_REGISTERED, cu.host_register(host + 100, 10, 0));
    CU(DLP_CU_HOST_MEMORY_NOT_REGISTERED, cu.host_unregister(host + 100));
    CU(0, cu.host_unregister(host));
    CU(DLP_CU_HOST_MEMORY_NOT_REGISTERED, cu.host_unregister(host));
    CU(DLP_CU_INVALID_VALUE, cu.host_register(NULL, 10, 0));
    CU(DLP_CU_INVALID_VALUE, cu.host_register(host, 0, 0));
    CU(DLP_CU_INVALID_VALUE, cu.host_register(host, 10, 64));
    char *gone = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(gone, 8192);
    CU(DLP_CU_INVALID_VALUE, cu.host_register(gone, 8192, 0));
    CU(0, more.host_alloc(&own, 10000, DLP_CU_HOST_PORTABLE));
    memset(own, 1, 10000);
    CU(DLP_CU_HOST_MEMORY_NOT_REGISTERED, cu.host_unregister(own));
    CU(0, more.host_free(own));
    crig_stop();
}

/* A copy from pageable memory has read it when the call returns, one from pinned memory has not. */
static void when_it_is_read(int peer)
{
    (void)peer;
    static char pageable[4096], pinned[4096], back[4096];
    dlp_cu_pointer at;
    crig_start(0);
    CU(0, cu.memory_alloc(&at, 8192));
    CU(0, cu.host_register(pinned, sizeof pinned, 0));
    memset(pageable, 1, sizeof pageable);
    CU(0, cu.copy_to_device(at, pageable, sizeof pageable, crig_stream));
    CU(0, cu.stream_query(crig_stream));
    memset(pinned, 2, sizeof pinned);
    crig_gate(crig_stream);
    CU(0, cu.copy_to_device(at + 4096, pinned, sizeof pinned, crig_stream));
    CU(DLP_CU_NOT_READY, cu.stream_query(crig_stream));
    crig_open();
    crig_sync();
    crig_get(back, at + 4096, sizeof back);
    NEED(back[0] == 2 && back[4095] == 2);
    CU(0, cu.host_unregister(pinned));
    CU(0, cu.memory_free(at));
    crig_stop();
}

/* Staging used again before its copy has run: the copy carries what is there then. */
static void reused_too_early(int peer)
{
    (void)peer;
    static char back[4096];
    void *staging;
    dlp_cu_pointer at;
    crig_start(0);
    CU(0, cu.memory_alloc(&at, 4096));
    CU(0, more.host_alloc(&staging, 4096, 0));
    memset(staging, 1, 4096);
    crig_gate(crig_stream);
    CU(0, cu.copy_to_device(at, staging, 4096, crig_stream));
    *(char *)staging = 9;
    crig_open();
    crig_sync();
    crig_get(back, at, sizeof back);
    NEED(back[0] == 9 && back[1] == 1);
    CU(0, more.host_free(staging));
    CU(0, cu.memory_free(at));
    crig_stop();
}

static void full(int peer)
{
    (void)peer;
    size_t free_bytes, total;
    dlp_cu_pointer first, second;
    crig_start(0);
    CU(0, cu.memory_alloc(&first, 10 * MIB));
    CU(0, cu.memory_info(&free_bytes, &total));
    NEED(total == 16 * MIB && free_bytes == 6 * MIB);
    CU(DLP_CU_OUT_OF_MEMORY, cu.memory_alloc(&second, 7 * MIB));
    CU(0, cu.memory_alloc(&second, 6 * MIB));
    CU(0, cu.memory_free(first));
    CU(0, cu.memory_info(&free_bytes, &total));
    NEED(free_bytes == 10 * MIB);
    CU(0, cu.memory_free(second));
    crig_stop();
}

static void other_context(int peer)
{
    (void)peer;
    dlp_cu_pointer at;
    dlp_cu_context first = NULL, second;
    crig_start(0);
    CU(0, cu.memory_alloc(&at, 100));
    CU(0, cu.context_retain(&second, 1));
    CU(0, cu.context_push(second));
    CU(DLP_CU_INVALID_VALUE, cu.memory_free(at));
    CU(DLP_CU_INVALID_HANDLE, cu.stream_synchronize(crig_stream));
    CU(0, cu.context_pop(&first));
    CU(0, cu.context_release(1));
    CU(0, cu.memory_free(at));
    crig_stop();
}

static void leaks(int peer)
{
    (void)peer;
    static char host[100];
    dlp_cu_pointer at;
    crig_start(0);
    CU(0, cu.memory_alloc(&at, 100));
    CU(0, cu.host_register(host, sizeof host, 0));
    crig_stop();
}

int main(int argc, char **argv)
{
    static const struct crig_role roles[] = {
        {"there_and_back", there_and_back},
        {"bounds", bounds},
        {"cpu_reads_it", cpu_reads_it, NULL, 128 + SIGSEGV},
        {"small_ones", small_ones},
        {"attributes", attributes, "STANDIN_DEVICES=2"},
        {"pinning", pinning},
        {"when_it_is_read", when_it_is_read},
        {"reused_too_early", reused_too_early},
        {"full", full, "STANDIN_MEMORY_MB=16"},
        {"other_context", other_context, "STANDIN_DEVICES=2"},
        {"leaks", leaks, NULL, 99, "leak: 1 allocations of cuMemAlloc on GPU 0"},
        {"pinned_leaks", leaks, NULL, 99, "leak: 1 ranges of host memory are pinned for GPU 0"},
    };
    return crig_main(argc, argv, "cuda_memory", roles, sizeof roles / sizeof *roles);
}
