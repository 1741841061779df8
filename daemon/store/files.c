#include "store/files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"
#include "store/stamp.h"

#define HUNG_MAX 2 /* of one user */
#define MB 1e6
#define NO_STDIO 3 /* the lowest descriptor for a duplicate */

struct file {
    struct file *next; /* of those to be closed */
    _Atomic unsigned references;
    int fd;
    char *name;
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified;
};

struct files {
    _Atomic unsigned references;
    struct files_owner *owner;
    struct file **files;
    uint32_t count, room;
};

struct files_owner {
    _Atomic unsigned references;
    uid_t uid;
    _Atomic uint32_t held;
    _Atomic uint64_t memory, allowed;
    _Atomic int hung; /* indexings that were given up, and not all of whose threads have ended */
    pthread_mutex_t lock; /* of what follows */
    struct file *closing;
    bool closer; /* a thread is at it */
};

struct files_owner *files_owner_new(uid_t uid)
{
    struct files_owner *owner = mem_new(sizeof *owner);
    owner->references = 1;
    owner->uid = uid;
    pthread_mutex_init(&owner->lock, NULL);
    return owner;
}

struct files_owner *files_owner_ref(struct files_owner *owner)
{
    atomic_fetch_add(&owner->references, 1);
    return owner;
}

void files_owner_unref(struct files_owner *owner)
{
    if (!owner || atomic_fetch_sub(&owner->references, 1) != 1)
        return;
    pthread_mutex_destroy(&owner->lock);
    free(owner);
}

uid_t files_owner_uid(const struct files_owner *owner)
{
    return owner->uid;
}

uint32_t files_owner_held(struct files_owner *owner)
{
    return owner->held;
}

static struct file *take_closing(struct files_owner *owner)
{
    pthread_mutex_lock(&owner->lock);
    struct file *file = owner->closing;
    if (file)
        owner->closing = file->next;
    else
        owner->closer = false;
    pthread_mutex_unlock(&owner->lock);
    return file;
}

static void close_file(struct files_owner *owner, struct file *file)
{
    close(file->fd);
    free(file->name);
    free(file);
    atomic_fetch_sub(&owner->held, 1);
}

static void *close_them(void *context)
{
    struct files_owner *owner = context;
    struct file *file;
    while ((file = take_closing(owner)))
        close_file(owner, file);
    files_owner_unref(owner);
    return NULL;
}

void files_owner_tidy(struct files_owner *owner)
{
    struct error err;
    pthread_t thread;
    pthread_mutex_lock(&owner->lock);
    bool begin = owner->closing && !owner->closer;
    owner->closer |= begin;
    pthread_mutex_unlock(&owner->lock);
    if (!begin)
        return;
    files_owner_ref(owner);
    if (thread_try("close", close_them, owner, &thread, &err) == 0) {
        pthread_detach(thread);
        return;
    }
    pthread_mutex_lock(&owner->lock);
    owner->closer = false;
    pthread_mutex_unlock(&owner->lock);
    files_owner_unref(owner);
}

static void unref_file(struct files_owner *owner, struct file *file)
{
    if (atomic_fetch_sub(&file->references, 1) != 1)
        return;
    pthread_mutex_lock(&owner->lock);
    file->next = owner->closing;
    owner->closing = file;
    pthread_mutex_unlock(&owner->lock);
}

struct files *files_new(struct files_owner *owner)
{
    struct files *files = mem_new(sizeof *files);
    files->references = 1;
    files->owner = files_owner_ref(owner);
    return files;
}

struct files *files_ref(struct files *files)
{
    if (files)
        atomic_fetch_add(&files->references, 1);
    return files;
}

void files_unref(struct files *files)
{
    if (!files || atomic_fetch_sub(&files->references, 1) != 1)
        return;
    for (uint32_t i = 0; i < files->count; i++)
        unref_file(files->owner, files->files[i]);
    files_owner_tidy(files->owner);
    files_owner_unref(files->owner);
    free(files->files);
    free(files);
}

const struct files_owner *files_owner(const struct files *files)
{
    return files->owner;
}

static void append(struct files *files, struct file *file)
{
    if (files->count == files->room) {
        files->room = files->room ? 2 * files->room : 32;
        files->files = mem_grow(files->files, files->room, sizeof *files->files);
    }
    files->files[files->count++] = file;
}

void files_add(struct files *files, int fd, const char *name)
{
    struct file *file = mem_new(sizeof *file);
    file->references = 1;
    file->fd = fd;
    file->name = mem_string(name);
    atomic_fetch_add(&files->owner->held, 1);
    append(files, file);
}

void files_drop(void *owner, const int *fds, size_t count)
{
    struct files *files = files_new(owner);
    for (size_t i = 0; i < count; i++)
        files_add(files, fds[i], "");
    files_unref(files);
}

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode)    ? "a directory"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISCHR(mode)  ? "a character device"
           : S_ISBLK(mode)  ? "a block device"
                            : "no file";
}

int files_look(struct files *files, uint32_t number, struct error *err)
{
    struct file *file = files->files[number];
    struct stat stat;
    int flags = fcntl(file->fd, F_GETFL);
    if (flags < 0)
        return error_set(err, -errno, "file %s: %s", file->name, strerror(errno));
    if ((flags & O_ACCMODE) == O_WRONLY || flags & O_PATH)
        return error_set(err, -EACCES, "file %s is not open for reading: open it with O_RDONLY",
                         file->name);
    if (flags & O_DIRECT)
        return error_set(err, -EINVAL,
                         "file %s is open with O_DIRECT, which takes reads of whole blocks only: "
                         "open it without",
                         file->name);
    if (stamp_look(file->fd, &stat))
        return error_set(err, -errno, "file %s: the daemon cannot look at it: %s", file->name,
                         strerror(errno));
    if (!S_ISREG(stat.st_mode))
        return error_set(err, -EINVAL,
                         "file %s is %s: the shards of a feed of one's own are regular files",
                         file->name, kind_of(stat.st_mode));
    file->device = stat.st_dev;
    file->inode = stat.st_ino;
    file->size = stat.st_size;
    file->modified = stat.st_mtim;
    return 0;
}

static bool same(const struct file *a, const struct file *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec;
}

void files_share(struct files *files, const struct files *known, uint32_t first)
{
    for (uint32_t i = 0; i < files->count && first + i < known->count; i++) {
        struct file *ours = files->files[i], *theirs = known->files[first + i];
        if (!same(ours, theirs))
            continue;
        atomic_fetch_add(&theirs->references, 1);
        files->files[i] = theirs;
        close_file(files->owner, ours);
    }
}

void files_join(struct files *files, const struct files *from)
{
    for (uint32_t i = 0; i < from->count; i++) {
        atomic_fetch_add(&from->files[i]->references, 1);
        append(files, from->files[i]);
    }
}

bool files_equal(const struct files *a, const struct files *b)
{
    bool equal = a->count == b->count;
    for (uint32_t i = 0; equal && i < a->count; i++)
        equal = same(a->files[i], b->files[i]);
    return equal;
}

uint32_t files_count(const struct files *files)
{
    return files->count;
}

const char *files_name(const struct files *files, uint32_t number)
{
    return files->files[number]->name;
}

int files_open(const struct files *files, uint32_t number, const char *path, int flags)
{
    if (files)
        return fcntl(files->files[number]->fd, F_DUPFD_CLOEXEC, NO_STDIO);
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
}

void files_leave_behind(const struct files *files, int more)
{
    atomic_fetch_add(&files->owner->hung, more);
}

int files_may_hang(const struct files *files, struct error *err)
{
    int hung = files->owner->hung;
    if (hung < HUNG_MAX)
        return 0;
    return error_set(err, -EBUSY,
                     "%d indexings of files of uid %u were given up and still hang in their "
                     "storage: no further one is begun until it answers",
                     hung, files->owner->uid);
}

void files_owner_allow(struct files_owner *owner, uint64_t bytes)
{
    owner->allowed = bytes;
}

uint64_t files_owner_memory(const struct files_owner *owner)
{
    return owner->memory;
}

int files_too_much(const struct files *files, struct error *err)
{
    const struct files_owner *owner = files->owner;
    return error_set(err, -E2BIG,
                     "the records of uid %u's own feeds are too many: to know them takes more than "
                     "the %.1f MB that one user may have for it (an eighth of memory); detach from "
                     "others of these feeds, give fewer shards, or have the feed configured",
                     owner->uid, (double)owner->allowed / MB);
}

int files_take_memory(const struct files *files, int64_t bytes, struct error *err)
{
    if (!files)
        return 0;
    struct files_owner *owner = files->owner;
    uint64_t now = atomic_fetch_add(&owner->memory, (uint64_t)bytes) + (uint64_t)bytes;
    uint64_t allowed = owner->allowed;
    bool fits = bytes <= 0 || !allowed || now <= allowed;
    return fits ? 0 : files_too_much(files, err);
}

char *files_space(const struct files *files, const char *format, char text[FILES_SPACE_MAX])
{
    if (files)
        snprintf(text, FILES_SPACE_MAX, "%.20s of uid %u", format, files->owner->uid);
    else
        snprintf(text, FILES_SPACE_MAX, "%.39s", format);
    return text;
}
