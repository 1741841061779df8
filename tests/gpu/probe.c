/* The rules that the stand-in for the driver enforces, asked of the driver that is found: one row a
 * line, its name and what came of it, a result of the driver or a word. To be run on both and
 * compared. Each row is a process of its own, for some take their context with them; rows with a
 * peer have another process at the end of a socket. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

#define MIB (1UL << 20)
#define SIZE (2 * MIB)
#define ROW_S 20 /* a row that takes longer has hung */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    fflush(stdout);
}

static void say_code(dlp_cu_result code)
{
    say("%u ", code);
}

static void give(int peer, const void *bytes, size_t size, int fd)
{
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {(void *)bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.room;
        message.msg_controllen = sizeof control.room;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    if (sendmsg(peer, &message, MSG_NOSIGNAL) != (ssize_t)size)
        exit(2);
}

static int take(int peer, void *bytes, size_t size)
{
    int fd = -1;
    char control[CMSG_SPACE(sizeof fd)] __attribute__((aligned(sizeof(size_t))));
    struct iovec part = {bytes, size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    if (recvmsg(peer, &message, MSG_WAITALL) != (ssize_t)size)
        exit(2);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(head), sizeof fd);
    return fd;
}

static void put(dlp_cu_pointer at, uint32_t value)
{
    CU(cu.copy_to_device(at, &value, sizeof value, gpu_stream));
    gpu_sync();
}

/* Of the call or of its end. */
static dlp_cu_result get(dlp_cu_pointer at, uint32_t *value)
{
    dlp_cu_result code = cu.copy_to_host(value, at, sizeof *value, gpu_stream);
    return code ? code : cu.stream_synchronize(gpu_stream);
}

static void say_value(dlp_cu_pointer at)
{
    uint32_t value = 0;
    dlp_cu_result code = get(at, &value);
    if (code)
        say_code(code);
    else
        say("%s ", value == 4711 ? "readable" : "other bytes");
}

/* One process. */

static void no_context(int peer)
{
    dlp_cu_pointer at;
    (void)peer;
    gpu_load();
    say_code(cu.memory_alloc(&at, SIZE));
}

static void in_a_forked_child(int peer)
{
    dlp_cu_pointer at;
    (void)peer;
    gpu_start();
    pid_t pid = fork();
    if (pid == 0) {
        say_code(cu.memory_alloc(&at, SIZE));
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void beyond_the_end(int peer)
{
    static uint8_t bytes[4 * SIZE];
    dlp_cu_pointer at;
    (void)peer;
    gpu_start();
    CU(cu.memory_alloc(&at, SIZE));
    say_code(cu.copy_to_device(at, bytes, sizeof bytes, gpu_stream));
}

static void pinning(int peer)
{
    void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)peer;
    gpu_start();
    say_code(cu.host_unregister(at));
    say_code(cu.host_register(at, SIZE, DLP_CU_HOST_PORTABLE));
    say_code(cu.host_register(at, SIZE, DLP_CU_HOST_PORTABLE));
    say_code(cu.host_unregister(at));
}

/* Pages that cannot be written: as staging that was mapped by mistake. */
static void pinning_nothing(int peer)
{
    (void)peer;
    gpu_start();
    say_code(cu.host_register((void *)(16 * MIB), SIZE, DLP_CU_HOST_PORTABLE));
}

static void small_allocations(int peer)
{
    dlp_cu_pointer one, two, base;
    size_t size;
    (void)peer;
    gpu_start();
    CU(cu.memory_alloc(&one, 4096));
    CU(cu.memory_alloc(&two, 4096));
    CU(more.address_range(&base, &size, two));
    say("%s, range of %s ", one / SIZE == two / SIZE ? "share a block" : "apart",
        size == 4096 ? "its own" : "the block");
}

static void handle_of_small(int peer)
{
    dlp_cu_ipc_memory one, two;
    dlp_cu_pointer first, second;
    (void)peer;
    gpu_start();
    CU(cu.memory_alloc(&first, 4096));
    CU(cu.memory_alloc(&second, 4096));
    CU(cu.ipc_get(&one, first));
    CU(cu.ipc_get(&two, second));
    say(memcmp(&one, &two, sizeof one) ? "differ" : "the block's");
}

static void own_handle(int peer)
{
    dlp_cu_ipc_memory handle;
    dlp_cu_pointer at, again;
    (void)peer;
    gpu_start();
    CU(cu.memory_alloc(&at, SIZE));
    CU(cu.ipc_get(&handle, at));
    say_code(cu.ipc_open(&again, handle, DLP_CU_IPC_LAZY_PEER_ACCESS));
    say_code(cu.ipc_close(at));
}

static void garbage_handle(int peer)
{
    dlp_cu_ipc_memory handle;
    dlp_cu_pointer at;
    (void)peer;
    gpu_start();
    memset(&handle, 0x5a, sizeof handle);
    say_code(cu.ipc_open(&at, handle, DLP_CU_IPC_LAZY_PEER_ACCESS));
    say_code(cu.ipc_open(&at, handle, 0));
}

static dlp_cu_memory create(dlp_cu_handle_type type)
{
    dlp_cu_memory memory;
    const dlp_cu_allocation kind = gpu_allocation(type);
    CU(cu.memory_create(&memory, SIZE, &kind, 0));
    return memory;
}

static void handle_of_vmm(int peer)
{
    dlp_cu_ipc_memory handle;
    (void)peer;
    gpu_start();
    say_code(cu.ipc_get(&handle,
                        gpu_map(create(DLP_CU_HANDLE_POSIX_FD), SIZE, DLP_CU_ACCESS_READWRITE)));
}

static void granularity(int peer)
{
    size_t granule;
    dlp_cu_memory memory;
    const dlp_cu_allocation kind = gpu_allocation(DLP_CU_HANDLE_POSIX_FD);
    (void)peer;
    gpu_start();
    CU(cu.memory_granularity(&granule, &kind, DLP_CU_GRANULARITY_MINIMUM));
    say("%zu ", granule);
    say_code(cu.memory_create(&memory, granule / 2, &kind, 0));
}

static void mapping_rules(int peer)
{
    dlp_cu_pointer at;
    dlp_cu_memory memory;
    (void)peer;
    gpu_start();
    memory = create(DLP_CU_HANDLE_POSIX_FD);
    CU(cu.address_reserve(&at, 2 * SIZE, 0, 0, 0));
    say_code(cu.memory_map(at, SIZE, SIZE / 2, memory, 0));
    say_code(cu.memory_map(at, SIZE, 0, memory, 0));
    say_code(cu.memory_map(at, SIZE, 0, memory, 0));
    say_code(cu.memory_unmap(at + SIZE, SIZE));
}

static void export_without_asking(int peer)
{
    int fd = -1;
    (void)peer;
    gpu_start();
    say_code(cu.memory_export(&fd, create(0), DLP_CU_HANDLE_POSIX_FD, 0));
}

static void foreign_descriptor(int peer)
{
    dlp_cu_memory memory;
    int fd = memfd_create("probe", MFD_CLOEXEC);
    (void)peer;
    gpu_start();
    if (ftruncate(fd, SIZE) != 0)
        exit(2);
    say_code(cu.memory_import(&memory, (void *)(intptr_t)fd, DLP_CU_HANDLE_POSIX_FD));
}

static void no_access(int peer)
{
    uint32_t value;
    (void)peer;
    gpu_start();
    dlp_cu_pointer at = gpu_map(create(DLP_CU_HANDLE_POSIX_FD), SIZE, 0);
    say_code(get(at, &value));
    say_code(get(at, &value));
}

static void events(int peer)
{
    dlp_cu_event event, other;
    (void)peer;
    gpu_start();
    CU(cu.event_create(&event, DLP_CU_EVENT_DISABLE_TIMING));
    say_code(cu.event_query(event));
    say_code(cu.event_record(event, gpu_stream));
    gpu_sync();
    say_code(cu.event_query(event));
    say_code(cu.event_create(&other, 4)); /* interprocess, and with times */
}

static void captures(int peer)
{
    dlp_cu_graph graph;
    dlp_cu_capture state = 0;
    dlp_cu_event event;
    (void)peer;
    gpu_start();
    CU(cu.event_create(&event, DLP_CU_EVENT_DISABLE_TIMING));
    CU(more.capture_begin(gpu_stream, 0));
    CU(cu.stream_capturing(gpu_stream, &state));
    say("%s ", state ? "seen" : "not seen");
    say_code(cu.stream_synchronize(gpu_stream));
    say_code(more.capture_end(gpu_stream, &graph));
}

static void modules(int peer)
{
    dlp_cu_module module;
    (void)peer;
    gpu_start();
    say_code(cu.module_load(&module, "these are no kernels, whoever looks at them"));
}

/* Two processes: the row exports, its peer imports. */

static void export_handle(int peer)
{
    dlp_cu_ipc_memory handle;
    dlp_cu_pointer at;
    uint8_t done;
    gpu_start();
    CU(cu.memory_alloc(&at, SIZE));
    put(at, 4711);
    CU(cu.ipc_get(&handle, at));
    give(peer, &handle, sizeof handle, -1);
    take(peer, &done, 1);
}

static dlp_cu_ipc_memory receive_handle(int peer)
{
    dlp_cu_ipc_memory handle;
    gpu_start();
    take(peer, &handle, sizeof handle);
    return handle;
}

static void open_twice(int peer)
{
    dlp_cu_pointer one = 0, two = 0;
    dlp_cu_ipc_memory handle = receive_handle(peer);
    say_code(cu.ipc_open(&one, handle, DLP_CU_IPC_LAZY_PEER_ACCESS));
    say_code(cu.ipc_open(&two, handle, DLP_CU_IPC_LAZY_PEER_ACCESS));
    say("%s ", one == two ? "same address" : "other address");
    say_value(one);
    say_code(cu.memory_free(one));
    say_code(cu.ipc_close(one));
    say_code(cu.ipc_close(one));
    say_code(cu.ipc_close(one));
}

static void open_and_time(int peer)
{
    dlp_cu_pointer at;
    dlp_cu_ipc_memory handle = receive_handle(peer);
    double begin = gpu_seconds();
    CU(cu.ipc_open(&at, handle, DLP_CU_IPC_LAZY_PEER_ACCESS));
    double opened = gpu_seconds();
    CU(cu.ipc_close(at));
    say("open %.0f us, close %.0f us", (opened - begin) * 1e6, (gpu_seconds() - opened) * 1e6);
}

static void export_descriptor(int peer)
{
    int fd;
    uint8_t done = 0;
    gpu_start();
    dlp_cu_memory memory = create(DLP_CU_HANDLE_POSIX_FD);
    put(gpu_map(memory, SIZE, DLP_CU_ACCESS_READWRITE), 4711);
    CU(cu.memory_export(&fd, memory, DLP_CU_HANDLE_POSIX_FD, 0));
    give(peer, &done, 1, fd);
    take(peer, &done, 1);
}

static dlp_cu_pointer import(int peer, dlp_cu_access_flags flags)
{
    uint8_t byte;
    dlp_cu_memory memory;
    gpu_start();
    int fd = take(peer, &byte, 1);
    dlp_cu_result code = cu.memory_import(&memory, (void *)(intptr_t)fd, DLP_CU_HANDLE_POSIX_FD);
    say_code(code);
    if (code)
        exit(0);
    close(fd);
    dlp_cu_pointer at = gpu_map(memory, SIZE, flags);
    CU(cu.memory_release(memory));
    return at;
}

static void import_and_read(int peer)
{
    say_value(import(peer, DLP_CU_ACCESS_READ));
}

static void import_and_time(int peer)
{
    double begin = gpu_seconds();
    dlp_cu_pointer at = import(peer, DLP_CU_ACCESS_READ);
    double mapped = gpu_seconds();
    gpu_unmap(at, SIZE);
    say("with a context %.0f us, unmap %.0f us", (mapped - begin) * 1e6,
        (gpu_seconds() - mapped) * 1e6);
}

static void write_read_only(int peer)
{
    uint32_t value = 1;
    dlp_cu_pointer at = import(peer, DLP_CU_ACCESS_READ);
    dlp_cu_result code = cu.copy_to_device(at, &value, sizeof value, gpu_stream);
    say_code(code ? code : cu.stream_synchronize(gpu_stream));
}

static void export_handle_and_die(int peer)
{
    pid_t pid = getpid();
    give(peer, &pid, sizeof pid, -1);
    export_handle(peer);
}

static void handle_outlives(int peer)
{
    pid_t pid;
    dlp_cu_pointer at, again;
    take(peer, &pid, sizeof pid);
    dlp_cu_ipc_memory handle = receive_handle(peer);
    CU(cu.ipc_open(&at, handle, DLP_CU_IPC_LAZY_PEER_ACCESS));
    kill(pid, SIGKILL);
    usleep(300000);
    say_code(cu.ipc_open(&again, handle, DLP_CU_IPC_LAZY_PEER_ACCESS));
    say_value(at);
}

static void export_descriptor_and_die(int peer)
{
    pid_t pid = getpid();
    give(peer, &pid, sizeof pid, -1);
    export_descriptor(peer);
}

static void descriptor_outlives(int peer)
{
    pid_t pid;
    take(peer, &pid, sizeof pid);
    dlp_cu_pointer at = import(peer, DLP_CU_ACCESS_READ);
    kill(pid, SIGKILL);
    usleep(300000);
    say_value(at);
}

static void open_handle(int peer)
{
    dlp_cu_pointer at;
    dlp_cu_ipc_memory handle = receive_handle(peer);
    dlp_cu_result code = cu.ipc_open(&at, handle, DLP_CU_IPC_LAZY_PEER_ACCESS);
    say_code(code);
    if (!code)
        say_value(at);
}

enum apart { TOGETHER, PID_NAMESPACE, OTHER_USER };

static const struct row {
    const char *name;
    void (*run)(int peer), (*importer)(int peer); /* importer: the row's words are its own */
    enum apart apart;                             /* the importer */
    bool is_figure;                               /* and no rule: not to be compared */
} rows[] = {
    {"no context: alloc", no_context},
    {"forked child: alloc", in_a_forked_child},
    {"copy beyond the end", beyond_the_end},
    {"unpin, pin, pin, unpin", pinning},
    {"pin what is not mapped", pinning_nothing},
    {"two allocations of 4 KiB", small_allocations},
    {"handle of 4 KiB", handle_of_small},
    {"own handle: open; close own", own_handle},
    {"garbage handle; flags 0", garbage_handle},
    {"handle of VMM memory", handle_of_vmm},
    {"VMM granularity; half of it", granularity},
    {"VMM map: offset, map, twice; unmap unknown", mapping_rules},
    {"VMM export not asked for", export_without_asking},
    {"VMM import of a memfd", foreign_descriptor},
    {"VMM without access: read, again", no_access},
    {"event: unrecorded, record, done; IPC with times", events},
    {"capture: seen, synchronize, end", captures},
    {"module: garbage", modules},
    {"handle: open, again, address, read, free, close x 3", export_handle, open_twice},
    {"handle: time", export_handle, open_and_time, .is_figure = true},
    {"handle: PID namespace", export_handle, open_handle, PID_NAMESPACE},
    {"handle: other user", export_handle, open_handle, OTHER_USER},
    {"handle: exporter killed: open, read", export_handle_and_die, handle_outlives},
    {"descriptor: import, read", export_descriptor, import_and_read},
    {"descriptor: time", export_descriptor, import_and_time, .is_figure = true},
    {"descriptor: read-only, write", export_descriptor, write_read_only},
    {"descriptor: PID namespace", export_descriptor, import_and_read, PID_NAMESPACE},
    {"descriptor: other user", export_descriptor, import_and_read, OTHER_USER},
    {"descriptor: exporter killed: read", export_descriptor_and_die, descriptor_outlives},
};

/* False: it cannot be set apart here. */
static bool set_apart(enum apart apart)
{
    if (apart == OTHER_USER)
        return setgid(65534) == 0 && setuid(65534) == 0;
    if (apart == PID_NAMESPACE && unshare(CLONE_NEWPID) != 0)
        return false;
    pid_t pid = apart == PID_NAMESPACE ? fork() : 0;
    if (pid == 0)
        return true;
    int status;
    waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static pid_t start(void (*run)(int peer), enum apart apart, int peer, int other)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    alarm(ROW_S);
    close(other);
    if (!set_apart(apart)) {
        say("not possible here ");
        _exit(0);
    }
    alarm(ROW_S);
    run(peer);
    fflush(stdout);
    _exit(0); /* as a process that dies: what is left is the driver's to free */
}

static void end_of(pid_t pid)
{
    int status;
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        say("%s ", WTERMSIG(status) == SIGALRM ? "hangs" : strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        say("ended with %d ", WEXITSTATUS(status));
}

static void try_row(const struct row *row)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        exit(2);
    say("%s%s\t", row->is_figure ? "# " : "", row->name);
    pid_t exporter = start(row->run, TOGETHER, ends[0], ends[1]);
    if (row->importer) {
        end_of(start(row->importer, row->apart, ends[1], ends[0]));
        kill(exporter, SIGKILL);
        waitpid(exporter, NULL, 0);
    } else {
        end_of(exporter);
    }
    close(ends[0]);
    close(ends[1]);
    say("\n");
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (argc < 2 || strstr(rows[i].name, argv[1]))
            try_row(&rows[i]);
    return 0;
}
