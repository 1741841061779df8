/* Bytes of a GPU: memfds, and how much of it is in use by whom. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "standin_memory.h"

static struct si_store *stores; /* one for each inode that this process has */

static char *prefix_of(const struct si_context *context, char text[80])
{
    snprintf(text, 80, "memfd:standin-%s-%u-", si_knobs.domain, context->physical);
    return text;
}

/* Inodes that have been counted already. */
struct seen {
    unsigned long inodes[4096];
    unsigned n;
    uint64_t bytes;
};

static void count(struct seen *seen, unsigned long inode, uint64_t bytes)
{
    for (unsigned i = 0; i < seen->n; i++)
        if (seen->inodes[i] == inode)
            return;
    if (seen->n == sizeof seen->inodes / sizeof *seen->inodes)
        si_abort("more than %u allocations on one GPU", seen->n);
    seen->inodes[seen->n++] = inode;
    seen->bytes += bytes;
}

/* Who has a store keeps its descriptor open as long. */
static void count_fds(struct seen *seen, const char *pid, const char *prefix)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char link[300];
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, sizeof link - 1);
        link[n > 0 ? n : 0] = 0;
        const char *name = strstr(link, prefix);
        struct stat stat;
        if (name && fstatat(dirfd(dir), entry->d_name, &stat, 0) == 0)
            count(seen, stat.st_ino, strtoull(name + strlen(prefix), NULL, 10));
    }
    if (dir)
        closedir(dir);
}

uint64_t si_used(const struct si_context *context)
{
    static struct seen seen;
    char prefix[80];
    seen.n = 0;
    seen.bytes = 0;
    prefix_of(context, prefix);
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));)
        if (isdigit((unsigned char)entry->d_name[0]))
            count_fds(&seen, entry->d_name, prefix);
    if (proc)
        closedir(proc);
    return seen.bytes;
}

static struct si_store *attach(int fd, size_t size, struct si_context *context)
{
    struct stat stat;
    struct si_store *store = calloc(1, sizeof *store);
    unsigned char *alias = mmap(NULL, size + SI_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!store || alias == MAP_FAILED || fstat(fd, &stat) != 0)
        si_abort("memory of %zu bytes cannot be mapped", size);
    *store = (struct si_store){
        stores,  1,  fd, stat.st_ino, size, alias, (struct si_trailer *)(void *)(alias + size),
        context, -1, 0};
    stores = store;
    return store;
}

struct si_store *si_store_new(struct si_context *context, size_t size, bool exportable)
{
    char name[100], prefix[80];
    if (si_used(context) + size > si_knobs.memory)
        return NULL;
    snprintf(name, sizeof name, "%s%zu", prefix_of(context, prefix) + strlen("memfd:"), size);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)(size + SI_PAGE)) != 0)
        si_abort("no memfd of %zu bytes", size);
    struct si_store *store = attach(fd, size, context);
    if (si_knobs.dirty)
        memset(store->alias, 0xDB, size);
    memcpy(store->trailer->magic, SI_MAGIC, sizeof store->trailer->magic);
    memcpy(store->trailer->uuid, context->uuid.bytes, sizeof store->trailer->uuid);
    store->trailer->size = size;
    store->trailer->exportable = exportable;
    return store;
}

static bool read_trailer(int fd, struct si_trailer *trailer, struct stat *stat)
{
    return fstat(fd, stat) == 0 && S_ISREG(stat->st_mode) && stat->st_size > SI_PAGE &&
           pread(fd, trailer, sizeof *trailer, stat->st_size - SI_PAGE) == sizeof *trailer &&
           memcmp(trailer->magic, SI_MAGIC, sizeof trailer->magic) == 0 &&
           trailer->size == (uint64_t)stat->st_size - SI_PAGE;
}

struct si_store *si_store_of_fd(int fd, dlp_cu_result *code)
{
    struct si_trailer trailer;
    struct stat stat;
    if (!read_trailer(fd, &trailer, &stat)) {
        *code = DLP_CU_INVALID_VALUE;
        return NULL;
    }
    for (struct si_store *store = stores; store; store = store->next)
        if (store->inode == stat.st_ino && store->peer < 0) {
            store->refs++;
            return store;
        }
    struct si_context *context = si_context_of_uuid(trailer.uuid);
    if (!context) {
        *code = DLP_CU_INVALID_DEVICE;
        return NULL;
    }
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
        *code = DLP_CU_OPERATING_SYSTEM;
        return NULL;
    }
    return attach(copy, trailer.size, context);
}

void si_store_drop(struct si_store *store)
{
    if (--store->refs)
        return;
    for (struct si_store **at = &stores; *at; at = &(*at)->next)
        if (*at == store) {
            *at = store->next;
            break;
        }
    munmap(store->alias, store->size + SI_PAGE);
    close(store->fd);
    if (store->peer >= 0)
        close(store->peer);
    free(store);
}

bool si_peer_alive(const struct si_store *store)
{
    struct pollfd peer = {.fd = store->peer, .events = POLLIN};
    return store->peer < 0 || poll(&peer, 1, 0) == 0;
}

/* Descriptors that went over the border of the library. */
static struct watch {
    int fd;
    unsigned long inode;
    const char *what;
} watches[256];
static unsigned nwatches;

/* Another thread may have the number for a file of its own by now: a race only to a sanitizer,
 * which does not see this call. */
static bool open_still(const struct watch *watch)
{
    struct stat stat;
    return syscall(SYS_fstat, watch->fd, &stat) == 0 && stat.st_ino == watch->inode;
}

void si_fd_watch(int fd, const char *what)
{
    struct stat stat;
    if (fstat(fd, &stat) != 0)
        return;
    unsigned i = 0;
    while (i < nwatches && open_still(&watches[i]) && watches[i].fd != fd)
        i++;
    if (i == sizeof watches / sizeof *watches)
        si_abort("%u descriptors of memory are open", i);
    watches[i] = (struct watch){fd, stat.st_ino, what};
    if (i == nwatches)
        nwatches++;
}

void si_leaks_fds(void)
{
    for (unsigned i = 0; i < nwatches; i++)
        if (open_still(&watches[i]))
            si_report("leak: descriptor %d, %s, is open", watches[i].fd, watches[i].what);
}
