#include "pack/sample_set.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/plural.h"
#include "pack/pack_jobs.h"
#include "pack/pack_write.h"
#include "pack/picture.h"
#include "pack/picture_jpeg.h"

enum { IMAGES_A_SHARD = 64, SHARDS_MAX = 64 };

struct sample_set {
    const struct sample_set_options *options;
    struct pack_set set;
    uint32_t shards;
    char **classes;
};

static uint8_t *draw(const struct sample_set_options *options, uint32_t number, size_t *size)
{
    struct picture picture;
    picture_draw(&picture, options->seed, number, number % options->classes, options->classes);
    uint8_t *jpeg = picture_jpeg(&picture, size);
    picture_drop(&picture);
    return jpeg;
}

static uint32_t first_of_shard(const struct sample_set *sample, uint32_t shard)
{
    return (uint32_t)((uint64_t)sample->options->images * shard / sample->shards);
}

static int fill_shard(struct pack_jobs *jobs, uint32_t number, struct pack_shard *shard,
                      struct error *err)
{
    const struct sample_set *sample = jobs->context;
    int rc = 0;
    for (uint32_t at = first_of_shard(sample, number);
         rc == 0 && at < first_of_shard(sample, number + 1); at++) {
        size_t size;
        cleanup_free uint8_t *jpeg = draw(sample->options, at, &size);
        cleanup_free char *key = mem_format("%06" PRIu32, at);
        rc = pack_shard_record(shard, key, jpeg, size, at % sample->options->classes, err);
        if (rc == 0)
            rc = pack_jobs_tick(jobs, size, err);
    }
    return rc;
}

static int make_shard(struct pack_jobs *jobs, uint32_t number, struct error *err)
{
    const struct sample_set *sample = jobs->context;
    struct pack_shard *shard = NULL;
    int rc = pack_shard_open(&sample->set, number, &shard, err);
    if (rc)
        return rc;
    rc = fill_shard(jobs, number, shard, err);
    int closed = pack_shard_close(shard, rc ? NULL : err);
    return rc ? rc : closed;
}

static int make_shards(struct sample_set *sample, struct error *err)
{
    uint32_t images = sample->options->images;
    sample->shards = (images + IMAGES_A_SHARD - 1) / IMAGES_A_SHARD;
    if (sample->shards > SHARDS_MAX)
        sample->shards = SHARDS_MAX;
    struct pack_jobs jobs = {.count = sample->shards,
                             .run = make_shard,
                             .context = sample,
                             .doing = "drawing",
                             .images = images};
    int rc = pack_jobs_run(&jobs, err);
    if (rc == 0)
        rc = pack_set_publish(&sample->set, sample->shards, sample->classes,
                              sample->options->classes, err);
    if (rc) {
        pack_set_discard(&sample->set, sample->shards);
        return rc;
    }
    fprintf(stderr,
            "%" PRIu32 " image%s of %" PRIu32 " class%s, %.1f MB, in %" PRIu32 " shard%s in %s\n",
            images, plural(images), sample->options->classes,
            sample->options->classes == 1 ? "" : "es", (double)jobs.bytes_done / 1e6,
            sample->shards, plural(sample->shards), sample->set.dir);
    pack_set_print_feed(&sample->set, "sample", sample->shards, sample->options->classes);
    return 0;
}

static char *file_path(const struct sample_set *sample, uint32_t number)
{
    return mem_format("%s/%s/%06" PRIu32 ".jpg", sample->set.dir,
                      sample->classes[number % sample->options->classes], number);
}

static char *class_path(const struct sample_set *sample, uint32_t cls)
{
    return mem_format("%s/%s", sample->set.dir, sample->classes[cls]);
}

static int make_file(struct pack_jobs *jobs, uint32_t number, struct error *err)
{
    const struct sample_set *sample = jobs->context;
    size_t size;
    cleanup_free uint8_t *jpeg = draw(sample->options, number, &size);
    cleanup_free char *path = file_path(sample, number);
    FILE *file = fopen(path, "wxe");
    bool good = file && fwrite(jpeg, size, 1, file) == 1;
    if (file && fclose(file) != 0)
        good = false;
    if (!good)
        return error_set(err, -errno, "cannot write %s: %s", path, strerror(errno));
    return pack_jobs_tick(jobs, size, err);
}

/* Of the first classes, which we made. */
static void remove_folders(const struct sample_set *sample, uint32_t classes)
{
    for (uint32_t cls = 0; cls < classes; cls++) {
        cleanup_free char *path = class_path(sample, cls);
        rmdir(path);
    }
}

static void remove_files(const struct sample_set *sample)
{
    for (uint32_t number = 0; number < sample->options->images; number++) {
        cleanup_free char *path = file_path(sample, number);
        unlink(path);
    }
}

static int make_class_folders(const struct sample_set *sample, struct error *err)
{
    for (uint32_t cls = 0; cls < sample->options->classes; cls++) {
        cleanup_free char *path = class_path(sample, cls);
        if (mkdir(path, 0777) == 0)
            continue;
        int rc = error_set(err, -errno, "cannot make directory %s: %s", path, strerror(errno));
        remove_folders(sample, cls);
        return rc;
    }
    return 0;
}

/* The directories of the classes are all made by us, so what is in them is ours. */
static int make_folder(struct sample_set *sample, struct error *err)
{
    struct pack_jobs jobs = {.count = sample->options->images,
                             .run = make_file,
                             .context = sample,
                             .doing = "drawing",
                             .images = sample->options->images};
    int rc = make_class_folders(sample, err);
    if (rc)
        return rc;
    rc = pack_jobs_run(&jobs, err);
    if (rc) {
        remove_files(sample);
        remove_folders(sample, sample->options->classes);
        return rc;
    }
    fprintf(stderr, "%" PRIu32 " image%s of %" PRIu32 " class%s, %.1f MB, in %s\n",
            sample->options->images, plural(sample->options->images), sample->options->classes,
            sample->options->classes == 1 ? "" : "es", (double)jobs.bytes_done / 1e6,
            sample->set.dir);
    return rc;
}

/* class0 .. class9, class00 .. class99: bytewise order is the order of the numbers. */
static char **name_classes(uint32_t count)
{
    char **names = mem_array(count, sizeof *names);
    int digits = snprintf(NULL, 0, "%" PRIu32, count - 1);
    for (uint32_t i = 0; i < count; i++)
        names[i] = mem_format("class%0*" PRIu32, digits, i);
    return names;
}

int sample_set_make(const struct sample_set_options *options, struct error *err)
{
    struct sample_set sample = {.options = options, .classes = name_classes(options->classes)};
    int rc = pack_set_open(&sample.set, options->target, err);
    if (rc == 0)
        rc = options->folder ? make_folder(&sample, err) : make_shards(&sample, err);
    pack_set_close(&sample.set);
    for (uint32_t i = 0; i < options->classes; i++)
        free(sample.classes[i]);
    free(sample.classes);
    return rc;
}
