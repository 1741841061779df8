/* Preloaded into the daemon: each read of a *.tar takes SLOW_STORAGE_MS longer, and hangs while
 * there is a file SLOW_STORAGE_HANG; so do looks at and closes of one whose path has
 * SLOW_STORAGE_WHOLLY in it, and then of no other; with SLOW_STORAGE_DENY looks at such a file
 * fail, as at one on a server that does not know the daemon. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int is_shard(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path);
    if (length < 5 || length == sizeof path || memcmp(path + length - 4, ".tar", 4) != 0)
        return 0;
    path[length] = '\0';
    const char *part = getenv("SLOW_STORAGE_WHOLLY");
    return !part || strstr(path, part);
}

static void wait_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void storage(int fd)
{
    const char *ms = getenv("SLOW_STORAGE_MS");
    const char *hang = getenv("SLOW_STORAGE_HANG");
    if (!is_shard(fd))
        return;
    if (ms)
        wait_ms(strtol(ms, NULL, 10));
    while (hang && access(hang, F_OK) == 0)
        wait_ms(20);
}

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    static ssize_t (*real)(int, void *, size_t, off_t);
    if (!real)
        real = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
    storage(fd);
    return real(fd, to, size, at);
}

ssize_t preadv(int fd, const struct iovec *pieces, int count, off_t at)
{
    static ssize_t (*real)(int, const struct iovec *, int, off_t);
    if (!real)
        real = (ssize_t(*)(int, const struct iovec *, int, off_t))dlsym(RTLD_NEXT, "preadv");
    storage(fd);
    return real(fd, pieces, count, at);
}

int fstat(int fd, struct stat *out)
{
    static int (*real)(int, struct stat *);
    if (!real)
        real = (int (*)(int, struct stat *))dlsym(RTLD_NEXT, "fstat");
    if (getenv("SLOW_STORAGE_WHOLLY"))
        storage(fd);
    if (getenv("SLOW_STORAGE_DENY") && is_shard(fd)) {
        errno = EACCES;
        return -1;
    }
    return real(fd, out);
}

int close(int fd)
{
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "close");
    if (getenv("SLOW_STORAGE_WHOLLY"))
        storage(fd);
    return real(fd);
}
