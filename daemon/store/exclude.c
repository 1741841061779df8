#include "store/exclude.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

struct exclude {
    struct exclude_stamp stamp;
    char *text;  /* the file, its lines ended by NUL */
    char **keys; /* sorted */
    _Atomic bool *met;
    uint64_t count;
};

static struct exclude_stamp stamp_of(const struct stat *st)
{
    return (struct exclude_stamp){.inode = st->st_ino,
                                  .size = (uint64_t)st->st_size,
                                  .mtime_ns =
                                      st->st_mtim.tv_sec * 1000000000LL + st->st_mtim.tv_nsec};
}

static int fail(struct error *err, const char *path, int code)
{
    return error_set(err, code, "cannot read the list of excluded keys %s: %s", path,
                     strerror(-code));
}

/* The whole file; what grows meanwhile is read as far as it was. */
static int read_text(int fd, struct exclude *exclude)
{
    uint64_t size = exclude->stamp.size, got = 0;
    exclude->text = malloc(size + 1);
    if (!exclude->text)
        return -ENOMEM;
    while (got < size) {
        ssize_t n = read(fd, exclude->text + got, size - got);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            break;
        got += n > 0 ? (uint64_t)n : 0;
    }
    exclude->stamp.size = got;
    exclude->text[got] = '\0';
    return memchr(exclude->text, '\0', got) ? -EINVAL : 0;
}

static int compare(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static uint64_t count_lines(const char *text)
{
    uint64_t lines = 1;
    while ((text = strchr(text, '\n'))) {
        lines++;
        text++;
    }
    return lines;
}

static int split(struct exclude *exclude)
{
    uint64_t lines = count_lines(exclude->text), kept = 0;
    char *next = exclude->text, *line;
    exclude->keys = malloc(lines * sizeof *exclude->keys);
    exclude->met = calloc(lines, sizeof *exclude->met);
    if (!exclude->keys || !exclude->met)
        return -ENOMEM;
    while ((line = strsep(&next, "\n")))
        if (*line)
            exclude->keys[exclude->count++] = line;
    qsort(exclude->keys, exclude->count, sizeof *exclude->keys, compare);
    for (uint64_t i = 0; i < exclude->count; i++)
        if (i == 0 || strcmp(exclude->keys[i], exclude->keys[kept - 1]) != 0)
            exclude->keys[kept++] = exclude->keys[i];
    exclude->count = kept;
    return 0;
}

int exclude_read(const char *path, struct exclude **out, struct error *err)
{
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return fail(err, path, -errno);
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > EXCLUDE_FILE_MAX)
        return error_set(err, -EINVAL, "cannot read the list of excluded keys %s: %s", path,
                         S_ISREG(st.st_mode) ? "larger than 1 GiB" : "not a regular file");
    struct exclude *exclude = mem_new(sizeof *exclude);
    exclude->stamp = stamp_of(&st);
    int rc = read_text(fd, exclude);
    if (!rc)
        rc = split(exclude);
    if (!rc) {
        *out = exclude;
        return 0;
    }
    exclude_free(exclude);
    if (rc == -EINVAL)
        return error_set(err, rc,
                         "the list of excluded keys %s has a NUL byte: it is a text with one key a "
                         "line",
                         path);
    return fail(err, path, rc);
}

void exclude_free(struct exclude *exclude)
{
    if (!exclude)
        return;
    free(exclude->text);
    free(exclude->keys);
    free((void *)exclude->met);
    free(exclude);
}

struct exclude_stamp exclude_stamp(const struct exclude *exclude)
{
    return exclude->stamp;
}

bool exclude_current(const char *path, const struct exclude_stamp *stamp)
{
    struct stat st;
    if (stat(path, &st))
        return false;
    struct exclude_stamp now = stamp_of(&st);
    return now.inode == stamp->inode && now.size == stamp->size && now.mtime_ns == stamp->mtime_ns;
}

bool exclude_has(struct exclude *exclude, const char *key)
{
    char **found = bsearch(&key, exclude->keys, exclude->count, sizeof *exclude->keys, compare);
    if (found)
        exclude->met[found - exclude->keys] = true;
    return found;
}

uint64_t exclude_keys(const struct exclude *exclude)
{
    return exclude->count;
}

uint64_t exclude_unmet(const struct exclude *exclude, const char **first)
{
    uint64_t unmet = 0;
    *first = NULL;
    for (uint64_t i = 0; i < exclude->count; i++) {
        if (exclude->met[i])
            continue;
        if (unmet++ == 0)
            *first = exclude->keys[i];
    }
    return unmet;
}
