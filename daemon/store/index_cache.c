#include "store/index_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "store/stamp.h"

#define ENDING ".index"
#define MARKS_ENDING ".marks"
#define JUST_NOW 2 /* seconds; marks used since are not removed to make room for others */
#define NAME_MAX_HERE 64
#define LEFTOVER_AGE 3600 /* seconds after which a temporary file belongs to nobody */

struct index_cache {
    char *path;
    int directory;
    uint64_t bytes;
};

static int make_directory(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        int rc = mkdir(path, 0755);
        *at = '/';
        if (rc && errno != EEXIST && errno != EACCES && errno != EROFS)
            return -errno;
    }
    return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
}

/* Nobody else may be able to put or change files there. */
static int check_directory(int fd)
{
    struct stat stat;
    if (fstat(fd, &stat))
        return -errno;
    return stat.st_uid == geteuid() && !(stat.st_mode & (S_IWGRP | S_IWOTH)) ? 0 : -EPERM;
}

int index_cache_open(const char *directory, uint64_t bytes, struct index_cache **out,
                     struct error *err)
{
    char *path = mem_format("%s/index", directory);
    int rc = make_directory(path);
    int fd = rc ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (!rc)
        rc = fd < 0 ? -errno : check_directory(fd);
    if (rc) {
        error_set(
            err, rc,
            "record indexes and marks cannot be kept in %s: %s%s; attaching and decoding take "
            "longer (see cache: path)",
            path, strerror(-rc), rc == -EPERM ? " (it must belong to this user alone)" : "");
        if (fd >= 0)
            close(fd);
        free(path);
        return rc;
    }
    *out = mem_new(sizeof **out);
    **out = (struct index_cache){.path = path, .directory = fd, .bytes = bytes};
    return 0;
}

void index_cache_close(struct index_cache *cache)
{
    if (!cache)
        return;
    close(cache->directory);
    free(cache->path);
    free(cache);
}

int index_cache_try_lock(struct index_cache *cache, uint64_t set, struct error *err)
{
    char name[NAME_MAX_HERE];
    snprintf(name, sizeof name, "%016llx.lock", (unsigned long long)set);
    int fd = openat(cache->directory, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    int rc = errno == EWOULDBLOCK ? -EAGAIN : -errno;
    if (fd >= 0)
        close(fd);
    return error_set(err, rc, "cannot lock %s/%s: %s", cache->path, name, strerror(-rc));
}

static void name_with(const char *format, const struct index_stamp *stamp, const char *ending,
                      char out[NAME_MAX_HERE])
{
    uint64_t identity[3] = {stamp->size, (uint64_t)stamp->mtime_ns, stamp->content};
    XXH128_hash_t hash =
        XXH3_128bits_withSeed(identity, sizeof identity, XXH3_64bits(format, strlen(format)));
    snprintf(out, NAME_MAX_HERE, "%016llx%016llx%s", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64, ending);
}

static void name_of(const char *format, const struct index_stamp *stamp, char out[NAME_MAX_HERE])
{
    name_with(format, stamp, ENDING, out);
}

/* For the order in which files go. */
static void set_used(int fd)
{
    futimens(fd, (struct timespec[2]){{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}});
}

static int check_file(int fd)
{
    struct stat stat;
    if (fstat(fd, &stat))
        return -errno;
    bool ours = S_ISREG(stat.st_mode) && stat.st_uid == geteuid() && stat.st_nlink == 1 &&
                !(stat.st_mode & (S_IWGRP | S_IWOTH));
    return ours ? 0 : -EPERM;
}

static int load_checked(int fd, const struct index_stamp *stamp, struct index **out,
                        struct error *err)
{
    int rc = check_file(fd);
    if (rc)
        return error_set(err, rc, "it is not a file of ours alone");
    rc = index_load(fd, out, err);
    if (!rc && !stamp_same(index_stamp(*out), stamp)) {
        index_free(*out);
        *out = NULL;
        rc = error_set(err, -ESTALE, "it belongs to another shard");
    }
    return rc;
}

int index_cache_get(struct index_cache *cache, const char *format, const struct index_stamp *stamp,
                    struct index **out, struct error *err)
{
    char name[NAME_MAX_HERE];
    name_of(format, stamp, name);
    cleanup_close int fd =
        openat(cache->directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return -ENOENT;
    int rc = fd < 0 ? error_set(err, -errno, "it cannot be opened: %s", strerror(errno))
                    : load_checked(fd, stamp, out, err);
    if (rc) {
        error_prefix(err, "the record index %s/%s is not used, it is made anew", cache->path, name);
        if (rc != -ENOMEM)
            unlinkat(cache->directory, name, 0);
        return rc;
    }
    set_used(fd);
    return 0;
}

int index_cache_put(struct index_cache *cache, const char *format, const struct index *index,
                    struct error *err)
{
    static _Atomic unsigned serial;
    char name[NAME_MAX_HERE], temporary[NAME_MAX_HERE];
    name_of(format, index_stamp(index), name);
    snprintf(temporary, sizeof temporary, "%d-%u.tmp", (int)getpid(), serial++);
    cleanup_close int fd = openat(cache->directory, temporary,
                                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set(err, -errno, "cannot create %s/%s: %s", cache->path, temporary,
                         strerror(errno));
    int rc = index_save(index, fd, err);
    if (!rc && renameat(cache->directory, temporary, cache->directory, name))
        rc = error_set(err, -errno, "cannot rename: %s", strerror(errno));
    if (rc) {
        unlinkat(cache->directory, temporary, 0);
        error_prefix(err, "a record index cannot be kept in %s", cache->path);
    }
    return rc;
}

void index_cache_forget(struct index_cache *cache, const char *format,
                        const struct index_stamp *stamp)
{
    char name[NAME_MAX_HERE];
    name_of(format, stamp, name);
    unlinkat(cache->directory, name, 0);
    name_with(format, stamp, MARKS_ENDING, name);
    unlinkat(cache->directory, name, 0);
}

struct kept {
    bool marks;
    char name[NAME_MAX_HERE];
    struct timespec used;
    uint64_t bytes;
};

static bool ends_in(const char *name, const char *ending)
{
    size_t length = strlen(name), tail = strlen(ending);
    return length >= tail && length < NAME_MAX_HERE && !strcmp(name + length - tail, ending);
}

static int compare_use(const void *a, const void *b)
{
    const struct kept *left = a, *right = b;
    if (left->marks != right->marks)
        return left->marks ? -1 : 1;
    if (left->used.tv_sec != right->used.tv_sec)
        return left->used.tv_sec < right->used.tv_sec ? -1 : 1;
    return (left->used.tv_nsec > right->used.tv_nsec) - (left->used.tv_nsec < right->used.tv_nsec);
}

/* All indexes and files of marks, and removes old leftovers on the way. */
static struct kept *list_kept(struct index_cache *cache, size_t *count)
{
    struct kept *kept = NULL;
    int fd = openat(cache->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    time_t now = time(NULL);
    while (directory && (entry = readdir(directory))) {
        struct stat stat;
        bool leftover = ends_in(entry->d_name, ".tmp");
        bool marks = ends_in(entry->d_name, MARKS_ENDING);
        if ((!leftover && !marks && !ends_in(entry->d_name, ENDING)) ||
            fstatat(cache->directory, entry->d_name, &stat, AT_SYMLINK_NOFOLLOW))
            continue;
        if (leftover && now - stat.st_mtim.tv_sec > LEFTOVER_AGE)
            unlinkat(cache->directory, entry->d_name, 0);
        if (leftover)
            continue;
        kept = mem_grow(kept, *count + 1, sizeof *kept);
        struct kept *one = &kept[(*count)++];
        snprintf(one->name, sizeof one->name, "%.63s", entry->d_name);
        one->marks = marks;
        one->used = stat.st_mtim;
        one->bytes = (uint64_t)stat.st_size;
    }
    if (directory)
        closedir(directory);
    return kept;
}

/* Those that go first come first; *sum: bytes of all. */
static struct kept *list_sorted(struct index_cache *cache, size_t *count, uint64_t *sum)
{
    struct kept *kept = list_kept(cache, count);
    if (*count)
        qsort(kept, *count, sizeof *kept, compare_use);
    *sum = 0;
    for (size_t i = 0; i < *count; i++)
        *sum += kept[i].bytes;
    return kept;
}

static bool in_use(const struct kept *kept)
{
    return kept->marks && time(NULL) - kept->used.tv_sec <= JUST_NOW;
}

/* No index goes for marks in use: these go next time. */
uint64_t index_cache_trim(struct index_cache *cache)
{
    size_t count = 0;
    uint64_t sum, spared = 0;
    cleanup_free struct kept *kept = list_sorted(cache, &count, &sum);
    for (size_t i = 0; i < count && sum - spared > cache->bytes; i++) {
        if (in_use(&kept[i])) {
            spared += kept[i].bytes;
            continue;
        }
        unlinkat(cache->directory, kept[i].name, 0);
        sum -= kept[i].bytes;
    }
    return sum;
}

/* ------- marks ------- */

/* Removes files of marks until `more` bytes fit in, or those that are left are in use. Returns how
 * many then fit in. */
static uint64_t make_room(struct index_cache *cache, uint64_t more)
{
    size_t count = 0;
    uint64_t sum;
    cleanup_free struct kept *kept = list_sorted(cache, &count, &sum);
    for (size_t i = 0; i < count && sum + more > cache->bytes; i++) {
        if (!kept[i].marks || in_use(&kept[i]))
            break;
        unlinkat(cache->directory, kept[i].name, 0);
        sum -= kept[i].bytes;
    }
    return cache->bytes > sum ? cache->bytes - sum : 0;
}

int index_cache_open_marks(struct index_cache *cache, const char *format,
                           const struct index_stamp *stamp, bool writing)
{
    char name[NAME_MAX_HERE];
    name_with(format, stamp, MARKS_ENDING, name);
    int fd = openat(cache->directory, name,
                    (writing ? O_WRONLY : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int rc = fd < 0 ? -errno : check_file(fd);
    if (rc && fd >= 0)
        close(fd);
    return rc ? rc : fd;
}

/* It is there, and of that size. Another one is not ours to use. */
static bool has_marks(struct index_cache *cache, const char *format,
                      const struct index_stamp *stamp, uint64_t size)
{
    char name[NAME_MAX_HERE];
    struct stat stat;
    cleanup_close int fd = index_cache_open_marks(cache, format, stamp, false);
    if (fd < 0 && fd != -EPERM && fd != -ELOOP)
        return false;
    if (fd >= 0 && fstat(fd, &stat) == 0 && (uint64_t)stat.st_size == size) {
        set_used(fd);
        return true;
    }
    name_with(format, stamp, MARKS_ENDING, name);
    unlinkat(cache->directory, name, 0);
    return false;
}

static int add_marks(struct index_cache *cache, const char *format, const struct index_stamp *stamp,
                     uint64_t size)
{
    char name[NAME_MAX_HERE];
    name_with(format, stamp, MARKS_ENDING, name);
    cleanup_close int fd =
        openat(cache->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST ? 0 : -errno; /* another process was faster */
    if (ftruncate(fd, (off_t)size) == 0)
        return 0;
    int rc = -errno;
    unlinkat(cache->directory, name, 0);
    return rc;
}

int index_cache_make_marks(struct index_cache *cache, const char *format,
                           const struct index_stamp *const *stamps, const uint64_t *sizes,
                           size_t count, uint64_t *made, struct error *err)
{
    cleanup_free bool *there = mem_array(count, sizeof *there);
    uint64_t lack = 0;
    *made = 0;
    for (size_t i = 0; i < count; i++) {
        there[i] = has_marks(cache, format, stamps[i], sizes[i]);
        *(there[i] ? made : &lack) += sizes[i];
    }
    uint64_t room = lack ? make_room(cache, lack) : 0;
    for (size_t i = 0; i < count; i++) {
        if (there[i] || sizes[i] > room)
            continue;
        int rc = add_marks(cache, format, stamps[i], sizes[i]);
        if (rc)
            return error_set(err, rc,
                             "marks of pictures cannot be kept in %s: %s; they are "
                             "decoded without",
                             cache->path, strerror(-rc));
        room -= sizes[i];
        *made += sizes[i];
    }
    return 0;
}
