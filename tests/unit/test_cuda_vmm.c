/* The stand-in: memory apart from its address, and passed on as a descriptor. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda_rig.h"

enum { MIB = 1 << 20, SIZE = 4 * MIB };

static dlp_cu_memory create(size_t size)
{
    dlp_cu_memory memory;
    const dlp_cu_allocation what = crig_allocation(0, DLP_CU_HANDLE_POSIX_FD);
    CU(0, cu.memory_create(&memory, size, &what, 0));
    return memory;
}

static int export_fd(dlp_cu_memory memory)
{
    int fd = -1;
    CU(0, cu.memory_export(&fd, memory, DLP_CU_HANDLE_POSIX_FD, 0));
    NEED(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    return fd;
}

static dlp_cu_result import(dlp_cu_memory *memory, int fd)
{
    return cu.memory_import(memory, (void *)(intptr_t)fd, DLP_CU_HANDLE_POSIX_FD);
}

static void sizes(int peer)
{
    (void)peer;
    dlp_cu_memory memory;
    dlp_cu_pointer at;
    size_t granularity;
    dlp_cu_allocation what = crig_allocation(0, DLP_CU_HANDLE_POSIX_FD);
    crig_load();
    CU(0, cu.memory_granularity(&granularity, &what, DLP_CU_GRANULARITY_RECOMMENDED));
    NEED(granularity == 2 * MIB);
    CU(DLP_CU_INVALID_VALUE, cu.memory_create(&memory, MIB, &what, 0));
    CU(DLP_CU_INVALID_VALUE, cu.memory_create(&memory, 3 * MIB, &what, 0));
    CU(DLP_CU_INVALID_VALUE, cu.memory_create(&memory, 0, &what, 0));
    CU(DLP_CU_INVALID_VALUE, cu.memory_create(&memory, SIZE, &what, 1));
    what.handle_types = 8;
    CU(DLP_CU_INVALID_VALUE, cu.memory_create(&memory, SIZE, &what, 0));
    what = crig_allocation(1, DLP_CU_HANDLE_NONE);
    CU(DLP_CU_INVALID_DEVICE, cu.memory_create(&memory, SIZE, &what, 0));
    what = crig_allocation(0, DLP_CU_HANDLE_NONE);
    what.type = 0;
    CU(DLP_CU_INVALID_VALUE, cu.memory_create(&memory, SIZE, &what, 0));
    CU(DLP_CU_INVALID_VALUE, cu.address_reserve(&at, MIB, 0, 0, 0));
    CU(DLP_CU_INVALID_VALUE, cu.address_reserve(&at, SIZE, 3, 0, 0));
    CU(DLP_CU_INVALID_VALUE, cu.memory_release(4711));
}

static void mapping(int peer)
{
    (void)peer;
    dlp_cu_pointer at;
    dlp_cu_access access = {{DLP_CU_LOCATION_DEVICE, 0}, DLP_CU_ACCESS_READWRITE};
    crig_start(0);
    dlp_cu_memory memory = create(SIZE);
    CU(0, cu.address_reserve(&at, 2 * SIZE, 0, 0, 0));
    CU(DLP_CU_INVALID_VALUE, cu.memory_map(at, SIZE, 2 * MIB, memory, 0));
    CU(DLP_CU_INVALID_VALUE, cu.memory_map(at, 2 * SIZE, 0, memory, 0));
    CU(DLP_CU_INVALID_VALUE, cu.memory_map(at + 1, SIZE, 0, memory, 0));
    CU(DLP_CU_INVALID_VALUE, cu.memory_map(at + 2 * SIZE, SIZE, 0, memory, 0));
    CU(0, cu.memory_map(at + SIZE, SIZE, 0, memory, 0));
    CU(DLP_CU_INVALID_VALUE, cu.memory_map(at + SIZE, SIZE, 0, memory, 0));
    CU(0, cu.memory_release(memory));
    CU(DLP_CU_INVALID_VALUE, cu.memory_release(memory));
    CU(DLP_CU_INVALID_VALUE, cu.memory_access(at, SIZE, &access, 1));
    access.location.id = 1;
    CU(DLP_CU_PEER_ACCESS_UNSUPPORTED, cu.memory_access(at + SIZE, SIZE, &access, 1));
    access.location.id = 2;
    CU(DLP_CU_INVALID_DEVICE, cu.memory_access(at + SIZE, SIZE, &access, 1));
    access.location.id = 0;
    CU(0, cu.memory_access(at + SIZE, SIZE, &access, 1));
    crig_put(at + SIZE, "the mapping keeps it", 21);
    CU(DLP_CU_INVALID_VALUE, cu.address_free(at, 2 * SIZE));
    CU(DLP_CU_INVALID_VALUE, cu.memory_unmap(at + SIZE, MIB));
    CU(0, cu.memory_unmap(at + SIZE, SIZE));
    CU(DLP_CU_INVALID_VALUE, cu.memory_unmap(at + SIZE, SIZE));
    CU(DLP_CU_INVALID_VALUE, cu.address_free(at, SIZE));
    CU(0, cu.address_free(at, 2 * SIZE));
    crig_stop();
}

/* Unmapping waits for what is queued. */
static void drained(int peer)
{
    (void)peer;
    static char pinned[100];
    crig_start(0);
    CU(0, cu.host_register(pinned, sizeof pinned, 0));
    dlp_cu_memory memory = create(SIZE);
    dlp_cu_pointer at = crig_map(memory, SIZE, DLP_CU_ACCESS_READWRITE);
    CU(0, cu.memory_release(memory));
    CU(0, cu.copy_to_device(at, pinned, sizeof pinned, crig_stream));
    crig_unmap(at, SIZE);
    CU(0, cu.stream_query(crig_stream));
    CU(0, cu.host_unregister(pinned));
    crig_stop();
}

static void before_access(int peer)
{
    (void)peer;
    dlp_cu_pointer at;
    static char byte;
    crig_start(0);
    dlp_cu_memory memory = create(SIZE);
    CU(0, cu.address_reserve(&at, SIZE, 0, 0, 0));
    CU(0, cu.memory_map(at, SIZE, 0, memory, 0));
    CU(DLP_CU_ILLEGAL_ADDRESS, cu.copy_to_host(&byte, at, 1, crig_stream));
    CU(DLP_CU_ILLEGAL_ADDRESS, cu.stream_query(crig_stream));
}

static void read_only(int peer)
{
    (void)peer;
    char text[8];
    crig_start(0);
    dlp_cu_memory memory = create(SIZE);
    dlp_cu_pointer writable = crig_map(memory, SIZE, DLP_CU_ACCESS_READWRITE);
    dlp_cu_pointer readable = crig_map(memory, SIZE, DLP_CU_ACCESS_READ);
    crig_put(writable + 77, "shared", 7);
    crig_get(text, readable + 77, 7);
    NEED(strcmp(text, "shared") == 0);
    CU(DLP_CU_ILLEGAL_ADDRESS, cu.copy_to_device(readable, "x", 1, crig_stream));
    CU(DLP_CU_ILLEGAL_ADDRESS, cu.copy_to_device(writable, "x", 1, crig_stream));
}

static void access_taken(int peer)
{
    (void)peer;
    char byte;
    const dlp_cu_access none = {{DLP_CU_LOCATION_DEVICE, 0}, DLP_CU_ACCESS_NONE};
    crig_start(0);
    dlp_cu_memory memory = create(SIZE);
    dlp_cu_pointer at = crig_map(memory, SIZE, DLP_CU_ACCESS_READWRITE);
    crig_put(at, "x", 1);
    CU(0, cu.memory_access(at, SIZE, &none, 1));
    CU(DLP_CU_ILLEGAL_ADDRESS, cu.copy_to_host(&byte, at, 1, crig_stream));
}

static void exported(int peer)
{
    (void)peer;
    int fd;
    dlp_cu_memory memory, again;
    const dlp_cu_allocation private = crig_allocation(0, DLP_CU_HANDLE_NONE);
    crig_start(0);
    CU(0, cu.memory_create(&memory, SIZE, &private, 0));
    CU(DLP_CU_INVALID_VALUE, cu.memory_export(&fd, memory, DLP_CU_HANDLE_POSIX_FD, 0));
    CU(0, cu.memory_release(memory));
    memory = create(SIZE);
    CU(DLP_CU_INVALID_VALUE, cu.memory_export(&fd, memory, 8, 0));
    fd = export_fd(memory);
    CU(0, cu.memory_release(memory));
    CU(0, import(&again, fd)); /* the descriptor keeps the memory, and is still ours */
    close(fd);
    dlp_cu_pointer at = crig_map(again, SIZE, DLP_CU_ACCESS_READWRITE);
    crig_put(at, "x", 1);
    crig_unmap(at, SIZE);
    CU(0, cu.memory_release(again));
    crig_stop();
}

static void foreign_fds(int peer)
{
    (void)peer;
    dlp_cu_memory memory;
    crig_load();
    int plain = memfd_create("plain", MFD_CLOEXEC), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CU(DLP_CU_INVALID_VALUE, import(&memory, plain));
    NEED(ftruncate(plain, SIZE) == 0);
    CU(DLP_CU_INVALID_VALUE, import(&memory, plain));
    CU(DLP_CU_INVALID_VALUE, import(&memory, null));
    CU(DLP_CU_INVALID_VALUE, import(&memory, 900));
    CU(DLP_CU_INVALID_VALUE, import(&memory, -1));
    CU(DLP_CU_INVALID_VALUE, cu.memory_import(&memory, (void *)(intptr_t)plain, 8));
}

static void no_vmm(int peer)
{
    (void)peer;
    dlp_cu_memory memory;
    const dlp_cu_allocation what = crig_allocation(0, DLP_CU_HANDLE_NONE);
    crig_load();
    CU(DLP_CU_NOT_SUPPORTED, cu.memory_create(&memory, SIZE, &what, 0));
    CU(DLP_CU_NOT_SUPPORTED, import(&memory, 0));
}

static void no_fd(int peer)
{
    (void)peer;
    dlp_cu_memory memory;
    dlp_cu_allocation what = crig_allocation(0, DLP_CU_HANDLE_POSIX_FD);
    crig_load();
    CU(DLP_CU_NOT_SUPPORTED, cu.memory_create(&memory, SIZE, &what, 0));
    what.handle_types = DLP_CU_HANDLE_NONE;
    CU(0, cu.memory_create(&memory, SIZE, &what, 0));
    CU(0, cu.memory_release(memory));
}

static size_t free_memory(void)
{
    size_t free_bytes, total;
    CU(0, cu.memory_info(&free_bytes, &total));
    return free_bytes / MIB;
}

/* Takes the memory, says so, and is killed. */
static void keeper(int peer)
{
    char byte;
    dlp_cu_memory memory;
    int fd = crig_receive(peer, &byte, 1);
    crig_start(0);
    CU(0, import(&memory, fd));
    close(fd);
    crig_map(memory, SIZE, DLP_CU_ACCESS_READ);
    CU(0, cu.memory_release(memory));
    crig_tell(peer);
    pause();
}

/* Memory lives, and is counted, until its last user in any process has gone, however it goes. */
static void counted_to_the_end(int peer)
{
    int other;
    crig_start(0);
    dlp_cu_memory memory = create(SIZE);
    int fd = export_fd(memory);
    pid_t pid = crig_spawn("keeper", NULL, &other);
    NEED(free_memory() == 12);
    crig_send(other, "", 1, fd);
    close(fd);
    CU(0, cu.memory_release(memory));
    crig_listen(other);
    NEED(free_memory() == 12);
    CU(DLP_CU_OUT_OF_MEMORY,
       cu.memory_create(&memory, 14 * MIB, &(dlp_cu_allocation){1, 0, {1, 0}, NULL, {0}}, 0));
    kill(pid, SIGKILL);
    NEED(crig_wait(pid) == 128 + SIGKILL);
    NEED(free_memory() == 16);
    crig_stop();
    (void)peer;
}

static void blind(int peer)
{
    char byte;
    dlp_cu_memory memory;
    int fd = crig_receive(peer, &byte, 1);
    crig_load();
    CU(DLP_CU_INVALID_DEVICE, import(&memory, fd));
    close(fd);
}

/* The importer does not see the GPU where the memory lies. */
static void not_visible_there(int peer)
{
    int other;
    crig_load();
    dlp_cu_memory memory = create(SIZE);
    int fd = export_fd(memory);
    pid_t pid = crig_spawn("blind", "CUDA_VISIBLE_DEVICES=1", &other);
    crig_send(other, "", 1, fd);
    close(fd);
    NEED(crig_wait(pid) == 0);
    CU(0, cu.memory_release(memory));
    (void)peer;
}

static void leaks(int peer)
{
    (void)peer;
    crig_start(0);
    dlp_cu_memory memory = create(SIZE);
    export_fd(memory);
    crig_map(memory, SIZE, DLP_CU_ACCESS_READ);
    crig_stop();
}

int main(int argc, char **argv)
{
    static const struct crig_role roles[] = {
        {"sizes", sizes},
        {"mapping", mapping, "STANDIN_DEVICES=2"},
        {"drained", drained, "STANDIN_OP_US=20000"},
        {"before_access", before_access},
        {"read_only", read_only},
        {"access_taken", access_taken},
        {"exported", exported},
        {"foreign_fds", foreign_fds},
        {"no_vmm", no_vmm, "STANDIN_VMM=0"},
        {"no_fd", no_fd, "STANDIN_POSIX_FD=0"},
        {"counted_to_the_end", counted_to_the_end, "STANDIN_MEMORY_MB=16"},
        {"keeper", keeper, .is_peer = true},
        {"not_visible_there", not_visible_there, "STANDIN_DEVICES=2"},
        {"blind", blind, .is_peer = true},
        {"leaks", leaks, NULL, 99, "leak: 1 mappings of cuMemMap"},
        {"leaks_handle", leaks, NULL, 99, "leak: 1 memory handles of cuMemCreate"},
        {"leaks_address", leaks, NULL, 99, "leak: 1 address ranges"},
        {"leaks_fd", leaks, NULL, 99, ", exported, is open"},
    };
    return crig_main(argc, argv, "cuda_vmm", roles, sizeof roles / sizeof *roles);
}
