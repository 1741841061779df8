/* An image folder in place, with the class numbers of torchvision's ImageFolder: the number of a
 * class is its place among the sorted names of the directories in the root. One shard; a record is
 * one file with an image extension: its key is the path relative to the root, records are sorted
 * bytewise by it, and part "cls" is the class number. Files in the root itself have no class. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "base/plural.h"
#include "store/file_window.h"
#include "store/folder_walk.h"
#include "store/format.h"
#include "store/names.h"

struct entry {
    uint64_t name; /* offset into the names' text */
    uint64_t size;
};

struct tally {
    uint64_t count;
    char first[200];
    const char *what;
};

struct folder {
    char *text; /* names of files, NUL-terminated */
    uint64_t text_size, text_room;
    struct entry *files;
    uint64_t nfiles, files_room;
    char **classes; /* directories in the root */
    uint64_t nclasses, classes_room;
    struct tally others, strange;
    struct format_progress *progress;
};

static const char *const extensions[] = {"jpg", "jpeg", "png",  "ppm", "bmp",
                                         "pgm", "tif",  "tiff", "webp"};

/* The extension in lower case, or NULL when it is none of an image. */
static const char *image_extension(const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *dot = strrchr(base, '.');
    if (!dot || !strncmp(base, "._", 2))
        return NULL;
    for (size_t i = 0; i < sizeof extensions / sizeof *extensions; i++)
        if (!strcasecmp(dot + 1, extensions[i]))
            return extensions[i];
    return NULL;
}

static void count(struct tally *tally, const char *name, const char *what)
{
    if (tally->count++ == 0) {
        snprintf(tally->first, sizeof tally->first, "%.199s", name);
        tally->what = what;
    }
}

static int take_directory(void *context, const char *name, int64_t mtime_ns)
{
    struct folder *folder = context;
    (void)mtime_ns;
    if (!*name || strchr(name, '/'))
        return 0;
    if (!array_room(&folder->classes, folder->nclasses, &folder->classes_room,
                    sizeof *folder->classes))
        return -ENOMEM;
    folder->classes[folder->nclasses++] = mem_string(name);
    return 0;
}

static bool keep_name(struct folder *folder, const char *name)
{
    size_t size = strlen(name) + 1;
    if (folder->text_size + size > folder->text_room) {
        uint64_t wanted = (folder->text_size + size) * 2;
        char *grown = realloc(folder->text, wanted);
        if (!grown)
            return false;
        folder->text = grown;
        folder->text_room = wanted;
    }
    memcpy(folder->text + folder->text_size, name, size);
    folder->text_size += size;
    return true;
}

static int take_file(void *context, const char *name, uint64_t size)
{
    struct folder *folder = context;
    folder->progress->bytes++; /* it moves */
    if (!image_extension(name)) {
        count(&folder->others, name, "no image");
        return 0;
    }
    struct entry entry = {.name = folder->text_size, .size = size};
    if (!array_room(&folder->files, folder->nfiles, &folder->files_room, sizeof entry) ||
        !keep_name(folder, name))
        return -ENOMEM;
    folder->files[folder->nfiles++] = entry;
    folder->progress->records = folder->nfiles;
    return 0;
}

static int take_other(void *context, const char *name, const char *what)
{
    struct folder *folder = context;
    count(&folder->strange, name, what);
    return 0;
}

static int compare_files(const void *a, const void *b, void *text)
{
    const struct entry *left = a, *right = b;
    return strcmp((const char *)text + left->name, (const char *)text + right->name);
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Number of the class that the name lies in; false: it lies in the root. */
static bool class_of(const struct folder *folder, const char *name, uint64_t *number)
{
    const char *slash = strchr(name, '/');
    if (!slash)
        return false;
    cleanup_free char *first = mem_format("%.*s", (int)(slash - name), name);
    char **found = bsearch(&first, folder->classes, folder->nclasses, sizeof *folder->classes,
                           compare_strings);
    if (found)
        *number = (uint64_t)(found - folder->classes);
    return found != NULL;
}

static int add_records(const struct folder *folder, struct index_builder *builder)
{
    int rc = 0;
    for (uint64_t i = 0; i < folder->nfiles && !rc; i++) {
        const struct entry *file = &folder->files[i];
        const char *name = folder->text + file->name;
        uint64_t class;
        rc = index_builder_part(builder, name, image_extension(name), PART_STORED, 0, file->size);
        if (!rc && class_of(folder, name, &class))
            rc = index_builder_part(builder, name, "cls", PART_VALUE, class, 0);
    }
    return rc;
}

static void add_notes(const struct folder *folder, struct index_builder *builder)
{
    if (folder->others.count)
        index_builder_fault(builder, BAD_NONE, 0,
                            "%" PRIu64 " file%s without an image extension left out "
                            "(first: '%s')",
                            folder->others.count, plural(folder->others.count),
                            folder->others.first);
    if (folder->strange.count)
        index_builder_fault(builder, BAD_NONE, 0, "%" PRIu64 " entr%s left out (first: '%s', %s)",
                            folder->strange.count, folder->strange.count == 1 ? "y" : "ies",
                            folder->strange.first, folder->strange.what);
    if (!folder->nfiles)
        index_builder_fault(
            builder, BAD_SHARD_EMPTY, 0,
            "no file with an image extension (jpg, jpeg, png, webp, ...) in it; tar "
            "shards are named with source");
}

static void folder_done(struct folder *folder)
{
    for (uint64_t i = 0; i < folder->nclasses; i++)
        free(folder->classes[i]);
    free(folder->classes);
    free(folder->files);
    free(folder->text);
}

static int folder_list(int fd, const char *path, struct index_builder *builder,
                       struct format_progress *progress, struct error *err)
{
    struct folder folder = {.progress = progress};
    struct folder_walk_events events = {.directory = take_directory,
                                        .file = take_file,
                                        .other = take_other,
                                        .context = &folder,
                                        .stat = true,
                                        .cancel = &progress->cancel};
    int rc = folder_walk(fd, path, &events, err);
    if (!rc) {
        if (folder.nfiles)
            qsort_r(folder.files, folder.nfiles, sizeof *folder.files, compare_files, folder.text);
        if (folder.nclasses)
            qsort(folder.classes, folder.nclasses, sizeof *folder.classes, compare_strings);
        rc = add_records(&folder, builder);
        add_notes(&folder, builder);
    }
    if (rc && (!err || !err->code))
        error_set(err, rc, "cannot list %s: %s", path, strerror(-rc));
    folder_done(&folder);
    return rc;
}

struct tree { /* the directories, in no order */
    uint64_t directories;
    uint64_t names; /* sum of hashes of name and time: independent of the order */
    int64_t newest;
    struct format_progress *progress; /* may be NULL */
};

static int stamp_directory(void *context, const char *name, int64_t mtime_ns)
{
    struct tree *tree = context;
    tree->directories++;
    tree->names += XXH3_64bits_withSeed(name, strlen(name), (XXH64_hash_t)mtime_ns);
    if (mtime_ns > tree->newest)
        tree->newest = mtime_ns;
    return 0;
}

static int stamp_file_name(void *context, const char *name, uint64_t size)
{
    struct tree *tree = context;
    (void)name, (void)size;
    if (tree->progress)
        tree->progress->bytes++;
    return 0;
}

static int stamp_other(void *context, const char *name, const char *what)
{
    (void)context, (void)name, (void)what;
    return 0;
}

/* A file that is added, renamed or removed changes the time of its directory. What changes inside a
 * file is found when it is read, by its size. */
static int folder_stamp(int fd, const char *path, struct format_progress *progress,
                        struct index_stamp *out, struct error *err)
{
    struct tree tree = {.progress = progress};
    struct folder_walk_events events = {.directory = stamp_directory,
                                        .file = stamp_file_name,
                                        .other = stamp_other,
                                        .context = &tree,
                                        .cancel = progress ? &progress->cancel : NULL};
    struct stat stat;
    if (fstat(fd, &stat))
        return error_set(err, -errno, "cannot look at %s: %s", path, strerror(errno));
    int rc = folder_walk(fd, path, &events, err);
    *out = (struct index_stamp){.size = tree.directories,
                                .mtime_ns = tree.newest,
                                .inode = stat.st_ino,
                                .content = tree.names};
    return rc;
}

/* The file must still have the size that the index knows. */
static int64_t read_file(int fd, const char *name, uint64_t indexed, struct format_read *read)
{
    cleanup_close int file = openat(fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat stat;
    if (file < 0 || fstat(file, &stat))
        return -errno;
    if (!S_ISREG(stat.st_mode))
        return -EINVAL;
    if ((uint64_t)stat.st_size != indexed)
        return -ESTALE;
    return file_read(file, read->dst, read->offset, read->size);
}

static void folder_read(int fd, const struct index *index, struct format_read *reads, size_t number)
{
    for (size_t i = 0; i < number; i++) {
        uint32_t record = reads[i].record;
        int64_t got =
            read_file(fd, index_key(index, record), index_parts(index, record)->size, &reads[i]);
        reads[i].error = got < 0 ? (int)got : 0;
        reads[i].got = got < 0 ? 0 : (uint64_t)got;
    }
}

const struct format format_folder = {.name = "folder",
                                     .open_flags = O_DIRECTORY,
                                     .stamp = folder_stamp,
                                     .list = folder_list,
                                     .read = folder_read};
