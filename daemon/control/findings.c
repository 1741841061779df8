#include "control/findings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/system.h"

#define MB 1e6
#define FILES_WANTED 4096 /* shards that stay open, trainers, arenas */
#define FREE_WANTED 0.05  /* of the space or the files of the cache's file system */
#define DRIVER_S 10       /* then it hangs */
#define WORKER_S 60       /* so does a worker at one row */
#define MEMORY_LEAST 64e6 /* without so much nothing works */

static struct finding *add(struct findings *out, enum finding_level level, const char *check,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));

static struct finding *add(struct findings *out, enum finding_level level, const char *check,
                           const char *format, ...)
{
    struct finding *found = &out->list[out->count < FINDINGS_MAX ? out->count++ : FINDINGS_MAX - 1];
    *found = (struct finding){.level = level, .check = check};
    va_list args;
    va_start(args, format);
    vsnprintf(found->text, sizeof found->text, format, args);
    va_end(args);
    return found;
}

static void advise(struct finding *found, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void advise(struct finding *found, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(found->remedy, sizeof found->remedy, format, args);
    va_end(args);
}

void findings_files(struct findings *out, uint64_t allowed, uint64_t open)
{
    enum finding_level level = open + open / 8 > allowed ? FINDING_CRITICAL
                               : allowed < FILES_WANTED  ? FINDING_WARNING
                                                         : FINDING_OK;
    struct finding *found =
        add(out, level, "files", "%" PRIu64 " of %" PRIu64 " descriptors are open", open, allowed);
    if (level)
        advise(found, "raise the hard limit: LimitNOFILE=65536 in the unit, or ulimit -Hn 65536");
}

static uint64_t open_files(void)
{
    uint64_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count > 3 ? count - 3 : 0; /* ".", ".." and the folder */
}

static void look_at_limits(struct findings *out, const struct gpu_list *gpus)
{
    struct rlimit limit;
    if (!getrlimit(RLIMIT_NOFILE, &limit))
        findings_files(out, limit.rlim_cur, open_files());
    if (getrlimit(RLIMIT_MEMLOCK, &limit))
        return;
    if (limit.rlim_cur == RLIM_INFINITY) {
        add(out, FINDING_OK, "memlock", "as much memory as is wanted may be locked");
        return;
    }
    bool used = gpus && gpus->n;
    struct finding *found = add(out, used ? FINDING_WARNING : FINDING_OK, "memlock",
                                "%.1f MB may be locked%s", (double)limit.rlim_cur / MB,
                                used ? ": batches on their way to a GPU may need more" : "");
    if (used)
        advise(found, "LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited");
}

void findings_memory(struct findings *out, const struct findings_facts *facts, uint64_t free)
{
    double used = (double)facts->memory_used, room = (double)free;
    double left = (double)facts->memory_limit - used;
    enum finding_level level = room >= left           ? FINDING_OK
                               : room >= MEMORY_LEAST ? FINDING_WARNING
                                                      : FINDING_CRITICAL;
    struct finding *found =
        add(out, level, "memory",
            "%.1f MB of %.1f MB are in use, and the machine or a cgroup has room for %.1f MB%s",
            used / MB, (double)facts->memory_limit / MB, room / MB,
            level ? ", less than the rest: attaches will be refused before memory is used up" : "");
    if (level)
        advise(found,
               "free memory on the node, raise MemoryMax of the unit, or lower memory in the "
               "configuration to at most %.0fMiB",
               (used + room) / (1 << 20));
}

static void cannot_write(struct findings *out, const char *folder, int code)
{
    struct finding *found =
        add(out, FINDING_WARNING, "cache",
            "nothing can be written to %s: %s; indexes are made anew at each start", folder,
            strerror(code));
    if (code == ENOSPC || code == EDQUOT)
        advise(found, "free space there, or set cache.path to a file system that has some");
    else
        advise(found, "let the daemon's user own it, or set cache.path to a directory that is its");
}

static bool try_to_write(const char *folder)
{
    static const char text[4096];
    cleanup_free char *path = mem_format("%s/check-XXXXXX", folder);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return false;
    bool good = write(fd, text, sizeof text) == (ssize_t)sizeof text && !fdatasync(fd);
    int code = errno;
    unlink(path);
    close(fd);
    errno = code;
    return good;
}

/* As index_cache_open wants it; it may have been made by another user. */
static bool index_can_be_written(const char *index)
{
    struct stat stat;
    if (lstat(index, &stat))
        return errno == ENOENT;
    errno = EACCES;
    return S_ISDIR(stat.st_mode) && stat.st_uid == geteuid() && try_to_write(index);
}

static double share(uint64_t free, uint64_t all)
{
    return all ? (double)free / (double)all : 1;
}

void findings_cache(struct findings *out, const char *folder)
{
    struct statvfs fs;
    if (!folder) {
        add(out, FINDING_OK, "cache", "none is kept");
        return;
    }
    if ((mkdir(folder, 0700) && errno != EEXIST) || !try_to_write(folder) || statvfs(folder, &fs)) {
        cannot_write(out, folder, errno);
        return;
    }
    cleanup_free char *index = mem_format("%s/index", folder);
    if (!index_can_be_written(index)) {
        cannot_write(out, index, errno);
        return;
    }
    bool full = share(fs.f_bavail, fs.f_blocks) < FREE_WANTED ||
                share(fs.f_favail, fs.f_files) < FREE_WANTED;
    struct finding *found = add(out, full ? FINDING_WARNING : FINDING_OK, "cache",
                                "%s can be written, %.1f MB are free there%s", folder,
                                (double)fs.f_bavail * (double)fs.f_frsize / MB,
                                full ? ": less than 5 % of its space or files" : "");
    if (full)
        advise(found, "free space there, or lower cache.bytes");
}

static void look_at_each(struct findings *out, const struct gpu_list *list)
{
    const struct gpu *bad = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->n; i++)
        if (*list->gpus[i].fault) {
            bad = bad ? bad : &list->gpus[i];
            count++;
        }
    if (!bad) {
        add(out, FINDING_OK, "driver", "CUDA %d.%d, %u GPU%s", list->version / 1000,
            list->version % 1000 / 10, list->n, list->n == 1 ? "" : "s");
        return;
    }
    advise(add(out, FINDING_WARNING, "driver", "%u of %u GPUs cannot be used, %s: %s", count,
               list->n, bad->uuid, bad->fault),
           "dataloadctl gpu lists them; after a repair start the daemon anew");
}

/* That there is none may be as it should be: only where the system has one it is a fault. */
static void look_at_driver(struct findings *out, const struct findings_facts *facts)
{
    const struct gpu_list *list = gpus_list(facts->gpus);
    if (!list) {
        double seconds = (double)facts->asked_gpus_ns / (double)CLOCK_SECOND;
        struct finding *found =
            add(out, seconds < DRIVER_S ? FINDING_OK : FINDING_WARNING, "driver",
                "the NVIDIA driver has been asked for %.0f s and has not answered yet", seconds);
        if (found->level)
            advise(found, "nvidia-smi and dmesg may say why it hangs");
        return;
    }
    if (list->n && !list->err) {
        look_at_each(out, list);
        return;
    }
    bool there = access("/proc/driver/nvidia/version", F_OK) == 0;
    struct finding *found = add(out, there ? FINDING_WARNING : FINDING_OK, "driver",
                                "batches lie in shared memory: %s%s", list->why,
                                there ? ", though the kernel has the NVIDIA driver" : "");
    if (there)
        advise(found, "install libcuda1 of the driver's version, and let the daemon's user open "
                      "/dev/nvidia*");
}

static void look_at_work(struct findings *out, const struct findings_facts *facts)
{
    double stuck = (double)facts->stuck_ns / (double)CLOCK_SECOND;
    double drains = (double)facts->draining_ns / (double)CLOCK_SECOND;
    if (stuck >= WORKER_S)
        advise(add(out, FINDING_CRITICAL, "workers", "one has been at one row for %.0f s", stuck),
               "its stack tells where: gdb -p; then start the daemon anew, trainers wait for it");
    else
        add(out, FINDING_OK, "workers", "all move or rest");
    if (*facts->note)
        advise(add(out, FINDING_WARNING, "configuration", "%s", facts->note),
               "mend the file and say dataloadctl reload, or start the daemon anew");
    if (facts->draining_ns)
        advise(add(out, FINDING_WARNING, "drain", "no new job is let in, for %.0f s", drains),
               "dataloadctl undrain lets them in");
}

void findings_look(const struct findings_facts *facts, struct findings *out)
{
    out->count = 0;
    look_at_driver(out, facts);
    look_at_limits(out, gpus_list(facts->gpus));
    findings_memory(out, facts, system_memory_free());
    findings_cache(out, facts->cache_dir);
    look_at_work(out, facts);
}
