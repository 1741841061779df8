#include "pack/pack_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/philox.h"
#include "base/plural.h"
#include "pack/pack_jobs.h"
#include "pack/pack_list.h"
#include "pack/pack_write.h"

struct packing {
    struct pack_list list;
    struct pack_set set;
    uint32_t *order; /* place in the set -> place in the list */
    uint32_t *cut;   /* first place of each shard; one more: the number of images */
    uint32_t shards;
    int digits; /* of the numbers in keys */
};

struct bytes {
    uint8_t *data;
    size_t room;
};

/* Number in writing order, and the path with all that could end a key or need quoting as '_'. */
static char *key_of(const struct packing *packing, uint32_t place)
{
    const char *path = packing->list.images[packing->order[place]].path;
    const char *suffix = strrchr(path, '.');
    char *key =
        mem_format("%0*" PRIu32 "_%.*s", packing->digits, place, (int)(suffix - path), path);
    for (char *at = key; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-", *at))
            *at = '_';
    return key;
}

static void decide_order(struct packing *packing, const struct pack_folder_options *options)
{
    uint32_t count = packing->list.count;
    packing->order = mem_array(count, sizeof *packing->order);
    for (uint32_t i = 0; i < count; i++)
        packing->order[i] = i;
    struct philox stream;
    philox_start(&stream, options->seed, PHILOX_PACK, 0, 0, 0);
    if (options->shuffle)
        philox_permute(&stream, packing->order, count);
    packing->digits = snprintf(NULL, 0, "%" PRIu32, count - 1);
    if (packing->digits < 6)
        packing->digits = 6;
}

static uint64_t tar_bytes(const struct packing *packing, uint32_t place)
{
    cleanup_free char *key = key_of(packing, place);
    return pack_record_bytes(strlen(key), packing->list.images[packing->order[place]].size);
}

/* Shard s of n ends with the last record whose middle lies at or before s + 1 parts of n of all
 * bytes: no end is off by more than half a record. A shard that would be empty is left out. */
static void cut_shards(struct packing *packing, uint64_t total, uint32_t shards)
{
    packing->cut = mem_array((size_t)shards + 1, sizeof *packing->cut);
    uint64_t before = 0;
    uint32_t place = 0;
    for (uint32_t shard = 0; shard < shards; shard++) {
        uint64_t end = (uint64_t)((unsigned __int128)total * (shard + 1) / shards);
        uint32_t first = place;
        for (; place < packing->list.count; place++) {
            uint64_t bytes = tar_bytes(packing, place);
            if (before + bytes / 2 > end)
                break;
            before += bytes;
        }
        if (place > first)
            packing->cut[++packing->shards] = place;
    }
}

static int decide_shards(struct packing *packing, const struct pack_folder_options *options,
                         struct error *err)
{
    uint64_t total = 0;
    for (uint32_t place = 0; place < packing->list.count; place++)
        total += tar_bytes(packing, place);
    uint64_t shards = options->shards;
    if (shards == 0)
        shards = total / options->shard_bytes + (total % options->shard_bytes != 0);
    if (shards > packing->list.count)
        return error_set(err, -EINVAL,
                         "%" PRIu64 " shards are more than the %" PRIu32
                         " images; ask for fewer or larger ones",
                         shards, packing->list.count);
    cut_shards(packing, total, (uint32_t)shards);
    return 0;
}

static int read_image(const struct packing *packing, const struct pack_image *image,
                      struct bytes *bytes, uint64_t *size, struct error *err)
{
    cleanup_free char *path = mem_format("%s/%s", packing->list.dir, image->path);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
    *size = (uint64_t)status.st_size;
    if (*size > bytes->room) {
        free(bytes->data);
        bytes->room = *size;
        bytes->data = malloc(*size);
        if (!bytes->data) {
            bytes->room = 0;
            return error_set(err, -ENOMEM, "no memory for the %" PRIu64 " bytes of %s", *size,
                             path);
        }
    }
    for (uint64_t got = 0; got < *size;) {
        ssize_t n = read(fd, bytes->data + got, *size - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_set(err, n < 0 ? -errno : -EIO, "cannot read %s: %s", path,
                             n < 0 ? strerror(errno) : "it became shorter meanwhile");
        got += (uint64_t)n;
    }
    return 0;
}

static int pack_images(struct pack_jobs *jobs, uint32_t number, struct pack_shard *shard,
                       struct error *err)
{
    const struct packing *packing = jobs->context;
    struct bytes bytes = {0};
    int rc = 0;
    for (uint32_t at = packing->cut[number]; rc == 0 && at < packing->cut[number + 1]; at++) {
        const struct pack_image *image = &packing->list.images[packing->order[at]];
        cleanup_free char *key = key_of(packing, at);
        uint64_t size = 0;
        rc = read_image(packing, image, &bytes, &size, err);
        if (rc == 0)
            rc = pack_shard_record(shard, key, bytes.data, size, image->cls, err);
        if (rc == 0)
            rc = pack_jobs_tick(jobs, size, err);
    }
    free(bytes.data);
    return rc;
}

static int pack_one_shard(struct pack_jobs *jobs, uint32_t number, struct error *err)
{
    const struct packing *packing = jobs->context;
    struct pack_shard *shard = NULL;
    int rc = pack_shard_open(&packing->set, number, &shard, err);
    if (rc)
        return rc;
    rc = pack_images(jobs, number, shard, err);
    int closed = pack_shard_close(shard, rc ? NULL : err);
    return rc ? rc : closed;
}

/* The folder's name as a feed may be called. */
static char *feed_name(const char *dir)
{
    char *name = mem_format("%.128s", strrchr(dir, '/') + 1);
    for (char *at = name; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *at))
            *at = '-';
    if (!*name) {
        free(name);
        return mem_string("images");
    }
    return name;
}

/* Whatever of the path is there already; what is not can be in no other place. */
static char *existing_part(const char *path)
{
    cleanup_free char *part = mem_string(path);
    for (;;) {
        char *found = realpath(part, NULL), *slash = strrchr(part, '/');
        if (found || errno != ENOENT || slash == part)
            return found;
        if (!slash)
            return realpath(".", NULL);
        *slash = '\0';
    }
}

/* In there it would be a class, of the next packing and of a feed that reads the folder. */
static int check_outside(const char *source, const char *target, struct error *err)
{
    cleanup_free char *part = existing_part(target);
    size_t length = strlen(source);
    if (!part || strncmp(part, source, length) != 0 || (part[length] && part[length] != '/'))
        return 0;
    return error_set(err, -EINVAL,
                     "%s lies in the folder to be packed, %s, and would count as a class of it: "
                     "take another directory",
                     target, source);
}

static int write_set(struct packing *packing, struct error *err)
{
    struct pack_jobs jobs = {.count = packing->shards,
                             .run = pack_one_shard,
                             .context = packing,
                             .doing = "packing",
                             .images = packing->list.count};
    int rc = pack_jobs_run(&jobs, err);
    if (rc == 0)
        rc = pack_set_publish(&packing->set, packing->shards, packing->list.classes,
                              packing->list.nclasses, err);
    if (rc) {
        pack_set_discard(&packing->set, packing->shards);
        return rc;
    }
    fprintf(stderr,
            "%" PRIu32 " image%s of %" PRIu32 " class%s, %.1f MB, in %" PRIu32 " shard%s in %s\n",
            packing->list.count, plural(packing->list.count), packing->list.nclasses,
            packing->list.nclasses == 1 ? "" : "es", (double)jobs.bytes_done / 1e6, packing->shards,
            plural(packing->shards), packing->set.dir);
    cleanup_free char *name = feed_name(packing->list.dir);
    pack_set_print_feed(&packing->set, name, packing->shards, packing->list.nclasses);
    return 0;
}

int pack_folder(const struct pack_folder_options *options, struct error *err)
{
    struct packing packing = {0};
    int rc = pack_list_read(&packing.list, options->source, err);
    if (rc == 0)
        rc = check_outside(packing.list.dir, options->target, err);
    if (rc == 0)
        rc = pack_set_open(&packing.set, options->target, err);
    if (rc == 0) {
        if (packing.list.others > 0)
            fprintf(stderr,
                    "files left out: %" PRIu64
                    " (only .jpg and .jpeg below a class's folder are packed)\n",
                    packing.list.others);
        decide_order(&packing, options);
        rc = decide_shards(&packing, options, err);
    }
    if (rc == 0)
        rc = write_set(&packing, err);
    free(packing.order);
    free(packing.cut);
    pack_set_close(&packing.set);
    pack_list_drop(&packing.list);
    return rc;
}
