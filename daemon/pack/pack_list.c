#include "pack/pack_list.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/folder_walk.h"

static bool is_jpeg(const char *path)
{
    const char *suffix = strrchr(path, '.');
    return suffix && (strcasecmp(suffix, ".jpg") == 0 || strcasecmp(suffix, ".jpeg") == 0);
}

/* True where an array of this many items has to grow before the next: at powers of two. */
static bool full(uint32_t count)
{
    return (count & (count - 1)) == 0;
}

static int take_directory(void *context, const char *name, int64_t mtime_ns)
{
    (void)mtime_ns;
    struct pack_list *list = context;
    if (!*name || strchr(name, '/'))
        return 0;
    if (full(list->nclasses))
        list->classes = mem_grow(list->classes, 2 * (size_t)list->nclasses + 1, sizeof(char *));
    list->classes[list->nclasses++] = mem_string(name);
    return 0;
}

/* A line of classes.txt, and of what is said of it. */
static int check_classes(const struct pack_list *list, struct error *err)
{
    for (uint32_t i = 0; i < list->nclasses; i++)
        for (const char *at = list->classes[i]; *at; at++)
            if (iscntrl((unsigned char)*at))
                return error_set(err, -EINVAL,
                                 "a class folder in %s has a control character in its name, "
                                 "'%.*s' and then byte %u: rename it",
                                 list->dir, (int)(at - list->classes[i]), list->classes[i],
                                 (unsigned char)*at);
    return 0;
}

static void report(struct pack_list *list)
{
    if (clock_ns() < list->report)
        return;
    list->report += CLOCK_SECOND;
    fprintf(stderr, "listing %s: %" PRIu32 " images so far\n", list->dir, list->count);
}

static int take_file(void *context, const char *name, uint64_t size)
{
    struct pack_list *list = context;
    report(list);
    if (!strchr(name, '/') || !is_jpeg(name)) {
        list->others++;
        return 0;
    }
    if (list->count == INT32_MAX)
        return -E2BIG;
    if (full(list->count))
        list->images = mem_grow(list->images, 2 * (size_t)list->count + 1, sizeof *list->images);
    list->images[list->count++] = (struct pack_image){mem_string(name), size, 0};
    return 0;
}

static int take_other(void *context, const char *name, const char *what)
{
    struct pack_list *list = context;
    fprintf(stderr, "left out: %s/%s is %s\n", list->dir, name, what);
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct pack_image *)a)->path, ((const struct pack_image *)b)->path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void number_classes(struct pack_list *list)
{
    qsort(list->classes, list->nclasses, sizeof *list->classes, by_name);
    for (uint32_t i = 0; i < list->count; i++) {
        char *path = list->images[i].path;
        char *slash = strchr(path, '/');
        *slash = '\0';
        char **found =
            bsearch(&path, list->classes, list->nclasses, sizeof *list->classes, by_name);
        list->images[i].cls = (uint32_t)(found - list->classes);
        *slash = '/';
    }
    qsort(list->images, list->count, sizeof *list->images, by_path);
}

int pack_list_read(struct pack_list *list, const char *dir, struct error *err)
{
    *list = (struct pack_list){.dir = realpath(dir, NULL), .report = clock_ns() + CLOCK_SECOND};
    cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!list->dir || fd < 0)
        return error_set(err, -errno, "cannot read folder %s: %s", dir, strerror(errno));
    const struct folder_walk_events events = {.directory = take_directory,
                                              .file = take_file,
                                              .other = take_other,
                                              .context = list,
                                              .stat = true};
    int rc = folder_walk(fd, list->dir, &events, err);
    if (rc == -E2BIG)
        return error_set(err, rc, "%s holds more than 2^31 images", list->dir);
    if (!rc)
        rc = check_classes(list, err);
    if (rc)
        return rc;
    if (list->count == 0)
        return error_set(err, -ENOENT,
                         "%s has no images: files named DIR/CLASS/NAME.jpg or .jpeg are wanted",
                         dir);
    number_classes(list);
    return 0;
}

void pack_list_drop(struct pack_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        free(list->images[i].path);
    for (uint32_t i = 0; i < list->nclasses; i++)
        free(list->classes[i]);
    free(list->images);
    free(list->classes);
    free(list->dir);
}
