#include "store/folder_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 100
#define DIRECTORIES_MAX (1U << 22) /* links among directories can give any number of paths */

struct walk {
    const struct folder_walk_events *events;
    const char *root;
    struct error *err;
    char name[PATH_MAX]; /* of what is looked at, relative to the root */
    size_t length;
    struct {
        dev_t device;
        ino_t inode;
    } inside[DEPTH_MAX]; /* the directories that we are in */
    unsigned depth;
    unsigned directories; /* so far */
};

static int walk_directory(struct walk *walk, int fd);

static int fail(struct walk *walk, int rc, const char *what)
{
    return error_set(walk->err, rc, "cannot %s %s%s%s: %s", what, walk->root,
                     walk->length ? "/" : "", walk->name, strerror(-rc));
}

static bool is_inside(const struct walk *walk, const struct stat *stat)
{
    for (unsigned i = 0; i < walk->depth; i++)
        if (walk->inside[i].device == stat->st_dev && walk->inside[i].inode == stat->st_ino)
            return true;
    return false;
}

static int64_t mtime_of(const struct stat *stat)
{
    return (int64_t)stat->st_mtim.tv_sec * 1000000000 + stat->st_mtim.tv_nsec;
}

/* Takes fd. */
static int enter(struct walk *walk, int fd)
{
    const struct folder_walk_events *events = walk->events;
    struct stat stat;
    int rc = 0;
    if (fstat(fd, &stat)) {
        rc = fail(walk, -errno, "look at");
    } else if (is_inside(walk, &stat)) {
        rc = events->other(events->context, walk->name, "a link to a directory that it is in");
    } else if (walk->depth == DEPTH_MAX || ++walk->directories > DIRECTORIES_MAX) {
        rc = fail(walk, -ELOOP, "go into");
    } else {
        walk->inside[walk->depth].device = stat.st_dev;
        walk->inside[walk->depth].inode = stat.st_ino;
        walk->depth++;
        rc = events->directory(events->context, walk->name, mtime_of(&stat));
        if (!rc)
            return walk_directory(walk, fd);
    }
    close(fd);
    return rc;
}

static int enter_named(struct walk *walk, int parent, const char *base)
{
    int fd = openat(parent, base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? fail(walk, -errno, "open directory") : enter(walk, fd);
}

/* Looks at the entry itself, through a link. */
static int take_looked_at(struct walk *walk, int parent, const char *base)
{
    const struct folder_walk_events *events = walk->events;
    struct stat stat;
    if (fstatat(parent, base, &stat, 0)) {
        if (errno == ENOENT || errno == ELOOP)
            return events->other(events->context, walk->name, "a link to nothing");
        return fail(walk, -errno, "look at");
    }
    if (S_ISDIR(stat.st_mode))
        return enter_named(walk, parent, base);
    if (S_ISREG(stat.st_mode))
        return events->file(events->context, walk->name, (uint64_t)stat.st_size);
    return events->other(events->context, walk->name, "a device, pipe or socket");
}

static int take_entry(struct walk *walk, int parent, const struct dirent *entry)
{
    const struct folder_walk_events *events = walk->events;
    if (entry->d_type == DT_DIR)
        return enter_named(walk, parent, entry->d_name);
    if (entry->d_type == DT_REG && !events->stat)
        return events->file(events->context, walk->name, 0);
    return take_looked_at(walk, parent, entry->d_name);
}

static int named_entry(struct walk *walk, int parent, const struct dirent *entry)
{
    size_t length = walk->length;
    int added = snprintf(walk->name + length, sizeof walk->name - length, "%s%s", length ? "/" : "",
                         entry->d_name);
    if ((size_t)added >= sizeof walk->name - length) {
        walk->name[length] = '\0';
        return fail(walk, -ENAMETOOLONG, "list");
    }
    walk->length += (size_t)added;
    int rc = take_entry(walk, parent, entry);
    walk->length = length;
    walk->name[length] = '\0';
    return rc;
}

/* Takes fd; the caller has put it into `inside`. */
static int walk_directory(struct walk *walk, int fd)
{
    DIR *directory = fdopendir(fd);
    int rc = 0;
    if (!directory) {
        close(fd);
        return fail(walk, -errno, "list");
    }
    while (!rc) {
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (walk->events->cancel && *walk->events->cancel)
            rc = fail(walk, -ECANCELED, "go on listing");
        else if (!entry && errno)
            rc = fail(walk, -errno, "list");
        else if (!entry)
            break;
        else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = named_entry(walk, dirfd(directory), entry);
    }
    closedir(directory);
    walk->depth--;
    return rc;
}

int folder_walk(int fd, const char *path, const struct folder_walk_events *events,
                struct error *err)
{
    struct walk walk = {.events = events, .root = path, .err = err};
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return own < 0 ? fail(&walk, -errno, "open directory") : enter(&walk, own);
}
