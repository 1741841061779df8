#include "pack/pack_write.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "pack/pack_tar.h"

struct pack_shard {
    FILE *file;
    char *path;
};

static char *final_path(const struct pack_set *set, uint32_t number)
{
    return mem_format("%s/shard-%06" PRIu32 ".tar", set->dir, number);
}

static char *partial_path(const struct pack_set *set, uint32_t number)
{
    return mem_format("%s/.shard-%06" PRIu32 ".tar.partial", set->dir, number);
}

static char *classes_path(const struct pack_set *set)
{
    return mem_format("%s/classes.txt", set->dir);
}

static int failed(struct error *err, const char *doing, const char *path)
{
    int code = errno ? -errno : -EIO;
    return error_set(err, code, "cannot %s %s: %s", doing, path, strerror(-code));
}

static int make_directories(const char *dir, struct error *err)
{
    cleanup_free char *path = mem_string(dir);
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return failed(err, "make directory", path);
        *at = '/';
    }
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return failed(err, "make directory", path);
    return 0;
}

static int is_tar(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > 4 && strcmp(entry->d_name + length - 4, ".tar") == 0;
}

static int check_no_tar(const char *dir, struct error *err)
{
    struct dirent **entries;
    int count = scandir(dir, &entries, is_tar, alphasort);
    if (count < 0)
        return failed(err, "read directory", dir);
    int rc = 0;
    if (count > 0)
        rc = error_set(err, -EEXIST,
                       "%s holds tar files already (%s): a set needs a directory of its own", dir,
                       entries[0]->d_name);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return rc;
}

static int check_path(const char *path, struct error *err)
{
    if (!strpbrk(path, "{}*?[]\\\n") && !strstr(path, "::"))
        return 0;
    return error_set(err, -EINVAL,
                     "%s: a source pattern would expand { } * ? [ ] \\ and :: in this path; take "
                     "another directory",
                     path);
}

int pack_set_open(struct pack_set *set, const char *dir, struct error *err)
{
    set->dir = NULL;
    int rc = check_path(dir, err);
    if (rc == 0)
        rc = make_directories(dir, err);
    if (rc)
        return rc;
    set->dir = realpath(dir, NULL);
    if (!set->dir)
        return failed(err, "find directory", dir);
    rc = check_path(set->dir, err);
    return rc ? rc : check_no_tar(set->dir, err);
}

void pack_set_close(struct pack_set *set)
{
    free(set->dir);
    set->dir = NULL;
}

static int write_classes(const struct pack_set *set, char *const *classes, uint32_t nclasses,
                         struct error *err)
{
    cleanup_free char *path = classes_path(set);
    FILE *file = fopen(path, "we");
    if (!file)
        return failed(err, "write", path);
    for (uint32_t i = 0; i < nclasses; i++)
        fprintf(file, "%s\n", classes[i]);
    int bad = ferror(file);
    if (fclose(file) != 0 || bad)
        return failed(err, "write", path);
    return 0;
}

int pack_set_publish(const struct pack_set *set, uint32_t shards, char *const *classes,
                     uint32_t nclasses, struct error *err)
{
    int rc = write_classes(set, classes, nclasses, err);
    for (uint32_t number = 0; rc == 0 && number < shards; number++) {
        cleanup_free char *from = partial_path(set, number);
        cleanup_free char *to = final_path(set, number);
        if (rename(from, to) < 0)
            rc = failed(err, "name", to);
    }
    return rc;
}

void pack_set_discard(const struct pack_set *set, uint32_t shards)
{
    cleanup_free char *classes = classes_path(set);
    unlink(classes);
    for (uint32_t number = 0; number < shards; number++) {
        cleanup_free char *partial = partial_path(set, number);
        cleanup_free char *final = final_path(set, number);
        unlink(partial);
        unlink(final);
    }
}

/* Inside double quotes of YAML; pack_set_open has refused backslashes and line feeds. */
static void print_quoted(const char *text)
{
    for (; *text; text++)
        printf("%s%c", *text == '"' ? "\\" : "", *text);
}

void pack_set_print_feed(const struct pack_set *set, const char *name, uint32_t shards,
                         uint32_t nclasses)
{
    printf("feeds:\n  - name: \"%s\"\n    source: \"", name);
    print_quoted(set->dir);
    if (shards > 1)
        printf("/shard-{000000..%06" PRIu32 "}.tar\"\n", shards - 1);
    else
        printf("/shard-000000.tar\"\n");
    printf("    fields:\n"
           "      - { name: image, from: [jpg], kind: image }\n"
           "      - { name: label, from: [cls], kind: int, classes: %" PRIu32 " }\n"
           "    transform: train\n"
           "    batch: 64\n",
           nclasses);
}

int pack_shard_open(const struct pack_set *set, uint32_t number, struct pack_shard **out,
                    struct error *err)
{
    cleanup_free char *path = partial_path(set, number);
    FILE *file = fopen(path, "we");
    if (!file)
        return failed(err, "write", path);
    struct pack_shard *shard = mem_new(sizeof *shard);
    *shard = (struct pack_shard){file, mem_string(path)};
    *out = shard;
    return 0;
}

int pack_shard_record(struct pack_shard *shard, const char *key, const void *jpeg, uint64_t size,
                      uint32_t cls, struct error *err)
{
    cleanup_free char *image = mem_format("%s.jpg", key);
    cleanup_free char *label = mem_format("%s.cls", key);
    char number[12];
    int digits = snprintf(number, sizeof number, "%" PRIu32, cls);
    if (pack_tar_member(shard->file, image, jpeg, size) < 0 ||
        pack_tar_member(shard->file, label, number, (uint64_t)digits) < 0)
        return failed(err, "write", shard->path);
    return 0;
}

int pack_shard_close(struct pack_shard *shard, struct error *err)
{
    if (!shard)
        return 0;
    int rc = 0;
    if (pack_tar_end(shard->file) < 0 || fflush(shard->file) != 0 || fsync(fileno(shard->file)) < 0)
        rc = failed(err, "write", shard->path);
    if (fclose(shard->file) != 0 && rc == 0)
        rc = failed(err, "write", shard->path);
    free(shard->path);
    free(shard);
    return rc;
}

uint64_t pack_record_bytes(size_t key_length, uint64_t size)
{
    size_t name_length = key_length + strlen(".jpg");
    return pack_tar_bytes(name_length, size) + pack_tar_bytes(name_length, 1);
}
