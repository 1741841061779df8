#include "store/stamp.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "store/file_window.h"

#define LOOK ((uint64_t)64 << 10)

int stamp_look(int fd, struct stat *out)
{
    struct statx known;
    if (fstat(fd, out) == 0)
        return 0;
    int why = errno;
    if (why != EACCES && why != EPERM && why != EKEYEXPIRED)
        return -1;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &known)) {
        errno = why;
        return -1;
    }
    *out = (struct stat){.st_dev = makedev(known.stx_dev_major, known.stx_dev_minor),
                         .st_ino = known.stx_ino,
                         .st_mode = known.stx_mode,
                         .st_size = (off_t)known.stx_size,
                         .st_mtim = {known.stx_mtime.tv_sec, known.stx_mtime.tv_nsec}};
    return 0;
}

static int check_kind(const struct stat *stat, const char *path, struct error *err)
{
    if (S_ISREG(stat->st_mode))
        return 0;
    if (S_ISDIR(stat->st_mode))
        return error_set(err, -EISDIR,
                         "%s is a directory: name its shards (%s/*.tar), or use `folder:` for an "
                         "image folder",
                         path, path);
    return error_set(err, -EINVAL, "%s is no regular file", path);
}

static int hash_ends(int fd, uint64_t size, uint64_t *out)
{
    cleanup_free char *ends = mem_new(2 * LOOK);
    uint64_t head = size < LOOK ? size : LOOK;
    uint64_t tail = size - head < LOOK ? size - head : LOOK;
    int64_t got = file_read(fd, ends, 0, head);
    int64_t more = got < 0 ? 0 : file_read(fd, ends + got, size - tail, tail);
    if (got < 0 || more < 0)
        return (int)(got < 0 ? got : more);
    *out = XXH3_64bits(ends, (size_t)(got + more));
    return 0;
}

int stamp_file(int fd, const char *path, struct format_progress *progress, struct index_stamp *out,
               struct error *err)
{
    struct stat stat;
    (void)progress; /* two short reads */
    if (stamp_look(fd, &stat))
        return error_set(err, -errno, "cannot look at %s: %s", path, strerror(errno));
    int rc = check_kind(&stat, path, err);
    if (rc)
        return rc;
    *out = (struct index_stamp){.size = (uint64_t)stat.st_size,
                                .mtime_ns = (int64_t)stat.st_mtim.tv_sec * 1000000000 +
                                            stat.st_mtim.tv_nsec,
                                .inode = stat.st_ino};
    rc = hash_ends(fd, out->size, &out->content);
    return rc ? error_set(err, rc, "cannot read %s: %s", path, strerror(-rc)) : 0;
}

bool stamp_same(const struct index_stamp *a, const struct index_stamp *b)
{
    return a->size == b->size && a->mtime_ns == b->mtime_ns && a->content == b->content;
}
