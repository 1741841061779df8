#include "store/source.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

#define PATHS_MAX 1000000
#define DIGITS_MAX 18
#define BRACES_MAX 8 /* in one pattern */
#define NOTES_MAX 10

struct expansion {
    struct source *source;
    size_t room;
    const char *pattern; /* as written, for texts */
    struct error *err;
};

/* Takes path. */
static int add_path(struct expansion *to, char *path)
{
    struct source *source = to->source;
    if (source->count >= PATHS_MAX) {
        free(path);
        return error_set(to->err, -E2BIG, "source '%s' gives more than %d shards", to->pattern,
                         PATHS_MAX);
    }
    if (source->count == to->room) {
        to->room = to->room ? to->room * 2 : 64;
        source->paths = mem_grow(source->paths, to->room, sizeof *source->paths);
    }
    source->paths[source->count++] = path;
    return 0;
}

static int missing(struct expansion *to, const char *path, int code)
{
    bool same = !strcmp(path, to->pattern);
    return error_set(to->err, code, "shard %s%s%s%s does not exist or cannot be looked at: %s",
                     path, same ? "" : " (of source '", same ? "" : to->pattern, same ? "" : "')",
                     strerror(-code));
}

static __thread struct {
    char path[256];
    int code;
} glob_trouble;

static int note_trouble(const char *path, int code)
{
    snprintf(glob_trouble.path, sizeof glob_trouble.path, "%.255s", path);
    glob_trouble.code = code;
    return 1;
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_glob(struct expansion *to, const char *path)
{
    glob_t found = {0};
    glob_trouble.code = 0;
    int rc = glob(path, GLOB_NOSORT | GLOB_ERR, note_trouble, &found);
    int result = 0;
    if (rc == GLOB_ABORTED)
        result = error_set(to->err, -glob_trouble.code, "source '%s': cannot read directory %s: %s",
                           to->pattern, glob_trouble.path, strerror(glob_trouble.code));
    else if (rc == GLOB_NOMATCH)
        result = error_set(to->err, -ENOENT, "source '%s' matches no file (%s)", to->pattern,
                           strerror(ENOENT));
    else if (rc)
        result = error_set(to->err, -ENOMEM, "source '%s': no memory for its matches", to->pattern);
    if (!rc)
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_strings);
    for (size_t i = 0; !rc && !result && i < found.gl_pathc; i++)
        result = add_path(to, mem_string(found.gl_pathv[i]));
    globfree(&found);
    return result;
}

/* A path without braces. */
static int add_plain(struct expansion *to, const char *path)
{
    struct stat stat_;
    if (stat(path, &stat_) == 0)
        return add_path(to, mem_string(path));
    int code = -errno;
    return strpbrk(path, "*?[") ? add_glob(to, path) : missing(to, path, code);
}

static int expand(struct expansion *to, const char *path, int depth);

static int expand_with(struct expansion *to, const char *head, size_t head_size, const char *middle,
                       const char *tail, int depth)
{
    cleanup_free char *path = mem_format("%.*s%s%s", (int)head_size, head, middle, tail);
    return expand(to, path, depth);
}

static bool number(const char *text, size_t size, uint64_t *out)
{
    *out = 0;
    if (size == 0 || size > DIGITS_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *out = *out * 10 + (uint64_t)(text[i] - '0');
    }
    return true;
}

struct braces {
    const char *open, *close; /* at the brackets */
    size_t head;              /* bytes before them */
};

static int expand_range(struct expansion *to, const char *path, const struct braces *at,
                        const char *dots, int depth)
{
    const char *first = at->open + 1;
    size_t first_size = (size_t)(dots - first), last_size = (size_t)(at->close - dots - 2);
    uint64_t from, until;
    if (!number(first, first_size, &from) || !number(dots + 2, last_size, &until) || from > until ||
        until - from >= PATHS_MAX)
        return error_set(to->err, -EINVAL,
                         "source '%s': '%.*s' is no range like {000..123}, counting up and of at "
                         "most %d numbers",
                         to->pattern, (int)(at->close + 1 - at->open), at->open, PATHS_MAX);
    bool padded = first[0] == '0' || dots[2] == '0';
    int width = padded ? (int)(first_size > last_size ? first_size : last_size) : 1;
    int rc = 0;
    for (uint64_t i = from; i <= until && !rc; i++) {
        char digits[DIGITS_MAX + 2];
        snprintf(digits, sizeof digits, "%0*" PRIu64, width, i);
        rc = expand_with(to, path, at->head, digits, at->close + 1, depth);
    }
    return rc;
}

static int expand_list(struct expansion *to, const char *path, const struct braces *at, int depth)
{
    int rc = 0;
    for (const char *item = at->open + 1; item <= at->close && !rc;) {
        size_t size = strcspn(item, ",}");
        cleanup_free char *middle = mem_format("%.*s", (int)size, item);
        rc = expand_with(to, path, at->head, middle, at->close + 1, depth);
        item += size + 1;
    }
    return rc;
}

/* Expands the first pair of braces; what it gives is expanded in turn. */
static int expand(struct expansion *to, const char *path, int depth)
{
    struct braces at = {.open = strchr(path, '{')};
    struct stat stat_;
    if (!at.open || (depth == 0 && stat(path, &stat_) == 0)) /* a name may hold braces */
        return add_plain(to, path);
    at.head = (size_t)(at.open - path);
    at.close = strchr(at.open, '}');
    const char *inner = strchr(at.open + 1, '{');
    if (!at.close || (inner && inner < at.close) || depth == BRACES_MAX)
        return error_set(to->err, -EINVAL, "source '%s': braces do not match, or too many of them",
                         to->pattern);
    const char *dots = strstr(at.open, "..");
    if (dots && dots < at.close)
        return expand_range(to, path, &at, dots, depth + 1);
    return expand_list(to, path, &at, depth + 1);
}

static int expand_pattern(struct expansion *to, const char *pattern)
{
    int rc = 0;
    for (const char *at = pattern; at && !rc;) {
        const char *next = strstr(at, "::");
        size_t size = next ? (size_t)(next - at) : strlen(at);
        cleanup_free char *one = mem_format("%.*s", (int)size, at);
        to->pattern = one;
        if (size == 0)
            return error_set(to->err, -EINVAL, "source '%s' has an empty path", pattern);
        rc = expand(to, one, 0);
        at = next ? next + 2 : NULL;
    }
    return rc;
}

struct identity {
    dev_t device;
    ino_t inode;
    const char *path;
};

static int compare_identity(const void *a, const void *b)
{
    const struct identity *left = a, *right = b;
    if (left->device != right->device)
        return left->device < right->device ? -1 : 1;
    return (left->inode > right->inode) - (left->inode < right->inode);
}

static void add_note(struct source *source, char *note)
{
    source->notes = mem_grow(source->notes, source->nnotes + 1, sizeof *source->notes);
    source->notes[source->nnotes++] = note;
}

/* A note for each further listing of a file, under whatever path. */
static void note_repeats(struct source *source)
{
    cleanup_free struct identity *all = mem_array(source->count, sizeof *all);
    size_t known = 0, repeats = 0;
    struct stat stat_;
    for (size_t i = 0; i < source->count; i++)
        if (stat(source->paths[i], &stat_) == 0)
            all[known++] = (struct identity){stat_.st_dev, stat_.st_ino, source->paths[i]};
    qsort(all, known, sizeof *all, compare_identity);
    for (size_t i = 1; i < known; i++) {
        if (compare_identity(&all[i - 1], &all[i]) || repeats++ >= NOTES_MAX)
            continue;
        bool same = !strcmp(all[i - 1].path, all[i].path);
        add_note(source,
                 mem_format("shard %s is listed twice%s%s; its samples are used twice", all[i].path,
                            same ? "" : ", also as ", same ? "" : all[i - 1].path));
    }
    if (repeats > NOTES_MAX)
        add_note(source, mem_format("%zu shards are listed more than once", repeats));
}

int source_expand(const char *const *patterns, size_t count, struct source *out, struct error *err)
{
    struct expansion to = {.source = out, .err = err};
    int rc = 0;
    *out = (struct source){0};
    for (size_t i = 0; i < count && !rc; i++)
        rc = expand_pattern(&to, patterns[i]);
    if (!rc && !out->count)
        rc = error_set(err, -EINVAL, "the source names no shard");
    if (rc)
        source_done(out);
    else
        note_repeats(out);
    return rc;
}

void source_done(struct source *source)
{
    for (size_t i = 0; i < source->count; i++)
        free(source->paths[i]);
    for (size_t i = 0; i < source->nnotes; i++)
        free(source->notes[i]);
    free(source->paths);
    free(source->notes);
    *source = (struct source){0};
}
