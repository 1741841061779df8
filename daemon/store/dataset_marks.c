#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/dataset_own.h"
#include "store/index_cache.h"

static bool has_marks(const struct dataset *dataset)
{
    for (size_t f = 0; f < dataset->nfields; f++)
        if (dataset->fields[f].marks)
            return true;
    return false;
}

static uint64_t size_of(const struct dataset_shard *shard)
{
    const struct index *index = shard->index;
    return marks_share(index_record(index, index_records(index))->bytes_before) + 1;
}

/* Those that the bound has room for. */
static void make_files(struct dataset *dataset, struct error *err)
{
    uint32_t count = dataset->nshards;
    cleanup_free const struct index_stamp **stamps = mem_array(count, sizeof *stamps);
    cleanup_free uint64_t *sizes = mem_array(count, sizeof *sizes);
    uint64_t all = 0;
    for (uint32_t s = 0; s < count; s++) {
        stamps[s] = &dataset->shards[s].stamp;
        sizes[s] = size_of(&dataset->shards[s]);
        all += sizes[s];
    }
    int rc = index_cache_make_marks(dataset->marks, dataset->space, stamps, sizes, count,
                                    &dataset->marks_bytes, err);
    if (!rc && dataset->marks_bytes < all)
        dataset_add_note(dataset,
                         mem_format("the cache has room for marks of %.0f %% of the data, all else "
                                    "is decoded without: all take %.1f MB, so raise cache: bytes, "
                                    "now %.1f MB, or set cache: marks: off",
                                    100.0 * (double)dataset->marks_bytes / (double)all,
                                    (double)all / 1e6, (double)dataset->cache_bytes / 1e6));
}

void dataset_make_marks(struct dataset *dataset, const struct dataset_options *options)
{
    struct error trouble = {0};
    if (!options->marks || !dataset->cache_dir || !has_marks(dataset))
        return;
    /* That the directory cannot be used has been logged by the indexer. */
    if (index_cache_open(dataset->cache_dir, dataset->cache_bytes, &dataset->marks, &trouble) ==
        0) {
        make_files(dataset, &trouble);
        if (trouble.code)
            log_event(LOG_WARNING, log_about(LOG_CACHE_FAILED, .feed = options->name), "%s",
                      trouble.text);
    }
    if (trouble.code)
        dataset_add_note(dataset, mem_string(trouble.text));
    if (dataset->marks_bytes)
        return;
    index_cache_close(dataset->marks);
    dataset->marks = NULL;
}

uint64_t dataset_marks_bytes(const struct dataset *dataset)
{
    return dataset->marks_bytes;
}

/* A file that was removed is no fault. */
static int write_marks(const struct dataset *dataset, uint32_t shard,
                       const struct marks_place *place, const void *marks)
{
    cleanup_close int fd =
        index_cache_open_marks(dataset->marks, dataset->space, &dataset->shards[shard].stamp, true);
    if (fd < 0)
        return fd;
    ssize_t put = pwrite(fd, marks, place->room, (off_t)place->offset);
    if (put < 0)
        return -errno;
    return (size_t)put < place->room ? -ENOSPC : 0;
}

/* The file was removed, or descriptors or memory are short at this moment. */
static bool passes(int rc)
{
    return rc == -ENOENT || rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -EINTR;
}

int dataset_marks_failed(const struct dataset *dataset)
{
    return dataset->marks_failed;
}

bool dataset_keep_marks(struct dataset *dataset, uint32_t shard, const struct marks_place *place,
                        const void *marks)
{
    if (dataset->marks_failed)
        return false;
    int rc = write_marks(dataset, shard, place, marks);
    if (rc && !passes(rc) && !atomic_exchange(&dataset->marks_failed, rc))
        log_event(LOG_WARNING, log_about(LOG_CACHE_FAILED),
                  "marks of pictures cannot be kept in %s any more: %s; those that lack them "
                  "are decoded without",
                  dataset->cache_dir, strerror(-rc));
    return rc == 0;
}
