#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/dataset_own.h"
#include "store/index_cache.h"
#include "store/stamp.h"

struct shard {
    int fd;
    struct dataset *dataset; /* the opener's reference */
    uint32_t number;
    dev_t device;
    int marks; /* descriptor; negative: there are none */
};

/* Without reading: the very file that was indexed, unchanged. A directory is told by its inode
 * here, and its files by their size when they are read. */
static bool is_untouched(const struct format *format, int fd, const struct index_stamp *stamp)
{
    struct stat stat;
    if (stamp_look(fd, &stat) || stat.st_ino != stamp->inode)
        return false;
    int64_t mtime_ns = (int64_t)stat.st_mtim.tv_sec * 1000000000 + stat.st_mtim.tv_nsec;
    return format->stamp != stamp_file ||
           ((uint64_t)stat.st_size == stamp->size && mtime_ns == stamp->mtime_ns);
}

/* The same data, perhaps as another copy. */
static bool is_equal(const struct format *format, int fd, const char *path,
                     const struct index_stamp *stamp)
{
    struct index_stamp now;
    return format->stamp(fd, path, NULL, &now, NULL) == 0 && stamp_same(&now, stamp);
}

static int open_file(const struct dataset *dataset, uint32_t number)
{
    return files_open(dataset->files, number, dataset->shards[number].path,
                      dataset->format->open_flags);
}

int shard_open(const struct dataset *dataset, uint32_t number, struct shard **out,
               struct error *err)
{
    const struct dataset_shard *from = &dataset->shards[number];
    int fd = open_file(dataset, number);
    if (fd < 0)
        return error_set(err, -errno, "cannot open shard %s: %s", from->path, strerror(errno));
    if (!is_untouched(dataset->format, fd, &from->stamp) &&
        !is_equal(dataset->format, fd, from->path, &from->stamp)) {
        close(fd);
        return error_set(err, -ESTALE,
                         "shard %s changed since it was indexed: its samples are not read; a new "
                         "job takes the new state",
                         from->path);
    }
    struct stat stat = {0};
    stamp_look(fd, &stat);
    *out = mem_new(sizeof **out);
    **out = (struct shard){.fd = fd,
                           .dataset = (struct dataset *)dataset,
                           .number = number,
                           .device = stat.st_dev,
                           .marks = -ENOENT};
    if (dataset->marks)
        (*out)->marks = index_cache_open_marks(dataset->marks, dataset->space, &from->stamp, false);
    return 0;
}

void shard_close(struct shard *shard)
{
    if (!shard)
        return;
    close(shard->fd);
    if (shard->marks >= 0)
        close(shard->marks);
    free(shard);
}

/* What is changed inside a file of a folder leaves no trace in the folder's stamp. Once met, the
 * next job gets a new index. */
static void set_outdated(struct dataset *dataset, const struct index_stamp *stamp)
{
    struct index_cache *cache;
    if (atomic_exchange(&dataset->outdated, true) || !dataset->cache_dir ||
        index_cache_open(dataset->cache_dir, dataset->cache_bytes, &cache, NULL))
        return;
    index_cache_forget(cache, dataset->space, stamp);
    index_cache_close(cache);
}

dev_t shard_device(const struct shard *shard)
{
    return shard->device;
}

void shard_read(struct shard *shard, struct format_read *reads, size_t count)
{
    struct dataset *dataset = shard->dataset;
    const struct dataset_shard *from = &dataset->shards[shard->number];
    dataset->format->read(shard->fd, from->index, reads, count);
    for (size_t i = 0; i < count; i++)
        if (reads[i].error == -ESTALE)
            set_outdated(dataset, &from->stamp);
}

void shard_read_marks(const struct shard *shard, const struct marks_place *place, void *dst)
{
    ssize_t got =
        shard->marks < 0 ? 0 : pread(shard->marks, dst, place->room, (off_t)place->offset);
    size_t have = got > 0 ? (size_t)got : 0;
    memset((char *)dst + have, 0, place->room - have);
}

void shard_advise(struct shard *shard, uint64_t offset, uint64_t size)
{
    posix_fadvise(shard->fd, (off_t)offset, (off_t)size, POSIX_FADV_WILLNEED);
}

bool dataset_current(const struct dataset *dataset)
{
    bool current =
        !dataset->outdated &&
        (!dataset->exclude || exclude_current(dataset->exclude, &dataset->exclude_stamp));
    for (uint32_t s = 0; s < dataset->nshards && current; s++) {
        const struct dataset_shard *shard = &dataset->shards[s];
        bool file = dataset->format->stamp == stamp_file;
        cleanup_close int fd = open_file(dataset, s);
        current = fd >= 0 && ((file && is_untouched(dataset->format, fd, &shard->stamp)) ||
                              is_equal(dataset->format, fd, shard->path, &shard->stamp));
    }
    return current;
}
