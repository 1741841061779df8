/* Legacy handles of memory, and opening what another process has. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "standin_memory.h"
#include "standin_peer.h"
#include "standin_stream.h"

static const char memory_magic[8] = "SI-MEM";

/* In clock ticks since boot; 0 = no such process. */
static uint64_t started(int pid)
{
    char path[60], text[1000];
    unsigned long long ticks = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    const char *after = strrchr(text, ')'); /* the name may hold anything */
    if (!after || sscanf(after + 1,
                         " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                         "%*d %*d %llu",
                         &ticks) != 1)
        return 0;
    return ticks;
}

struct si_peer_handle si_peer_handle(const char magic[8], int fd, const struct si_context *context)
{
    struct stat stat = {0};
    fstat(fd, &stat);
    struct si_peer_handle handle = {
        .pid = getpid(), .fd = fd, .started = started(getpid()), .inode = stat.st_ino};
    memcpy(handle.magic, magic, sizeof handle.magic);
    memcpy(handle.uuid, context->uuid.bytes, sizeof handle.uuid);
    return handle;
}

int si_peer_open(const struct si_peer_handle *handle, const char magic[8], dlp_cu_result *code)
{
    char path[60];
    struct stat stat;
    *code = DLP_CU_INVALID_VALUE;
    if (memcmp(handle->magic, magic, sizeof handle->magic) != 0)
        return -1;
    *code = DLP_CU_INVALID_CONTEXT;
    if (handle->pid == getpid() && handle->started == started(getpid()))
        return -1;
    *code = DLP_CU_INVALID_HANDLE;
    if (started(handle->pid) != handle->started)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle->pid, handle->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        *code = errno == EACCES || errno == EPERM ? DLP_CU_MAP_FAILED : DLP_CU_INVALID_HANDLE;
        return -1;
    }
    if (fstat(fd, &stat) == 0 && stat.st_ino == handle->inode)
        return fd;
    close(fd); /* freed, and the number used for another file */
    return -1;
}

dlp_cu_result cuIpcGetMemHandle(dlp_cu_ipc_memory *result, dlp_cu_pointer at)
{
    SI_ENTER(SI_IN_CONTEXT);
    const struct si_range *range = si_range_at(at);
    if (!range || range->kind != SI_ALLOCATED || range->context != si_current())
        return DLP_CU_INVALID_VALUE;
    if (!si_knobs.ipc)
        return DLP_CU_NOT_SUPPORTED;
    struct si_peer_handle handle = si_peer_handle(memory_magic, range->store->fd, range->context);
    memcpy(result, &handle, sizeof *result);
    return 0;
}

/* The one import of that memory, in whatever context. */
static struct si_range *imported(uint64_t inode)
{
    for (struct si_range *range = si_ranges; range; range = range->next)
        if (range->kind == SI_IMPORTED && range->store->inode == inode)
            return range;
    return NULL;
}

static dlp_cu_result again(struct si_range *range, dlp_cu_pointer *at)
{
    if (range->context != si_current())
        return DLP_CU_INVALID_CONTEXT;
    if (!si_peer_alive(range->store))
        return DLP_CU_INVALID_HANDLE;
    range->opens++;
    *at = range->base;
    return 0;
}

/* As long as we have this opening of the file, its exporter can find the lock. */
static bool hold(struct si_store *store, int fd, int pid)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    close(store->fd);
    store->fd = fd;
    store->peer = (int)syscall(SYS_pidfd_open, pid, 0);
    return store->peer >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static dlp_cu_result import(const struct si_peer_handle *handle, dlp_cu_pointer *at)
{
    dlp_cu_result code;
    int fd = si_peer_open(handle, memory_magic, &code);
    if (fd < 0)
        return code;
    struct si_store *store = si_store_of_fd(fd, &code);
    if (!store || store->context != si_current()) {
        if (store)
            si_store_drop(store);
        close(fd);
        return store ? DLP_CU_PEER_ACCESS_UNSUPPORTED : code;
    }
    if (!hold(store, fd, handle->pid)) {
        si_store_drop(store);
        return DLP_CU_INVALID_HANDLE;
    }
    *at = si_address_take(store->size, SI_GRANULE);
    si_range_add(*at, store->size, SI_IMPORTED, store, 0, si_current());
    return 0;
}

dlp_cu_result cuIpcOpenMemHandle_v2(dlp_cu_pointer *at, dlp_cu_ipc_memory bytes, unsigned flags)
{
    SI_ENTER(SI_IN_CONTEXT);
    struct si_peer_handle handle;
    memcpy(&handle, &bytes, sizeof handle);
    if (flags != DLP_CU_IPC_LAZY_PEER_ACCESS)
        return DLP_CU_INVALID_VALUE;
    if (!si_knobs.ipc)
        return DLP_CU_NOT_SUPPORTED;
    struct si_range *range = imported(handle.inode);
    return range && memcmp(handle.magic, memory_magic, sizeof handle.magic) == 0
               ? again(range, at)
               : import(&handle, at);
}

dlp_cu_result cuIpcCloseMemHandle(dlp_cu_pointer at)
{
    SI_ENTER(SI_IN_CONTEXT);
    si_streams_drain(__func__);
    struct si_range *range = si_range_of(at, SI_IMPORTED);
    if (!range || range->context != si_current())
        return DLP_CU_INVALID_VALUE;
    if (--range->opens)
        return 0;
    si_address_give(range->base, range->store->size);
    si_range_remove(range);
    return 0;
}
