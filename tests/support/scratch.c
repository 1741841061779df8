#include "scratch.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void require(int condition, const char *what)
{
    if (!condition) {
        perror(what);
        abort();
    }
}

void scratch_make(struct scratch *scratch)
{
    const char *under = getenv("TMPDIR");
    snprintf(scratch->path, sizeof scratch->path, "%s/scratch-XXXXXX", under ? under : "/tmp");
    require(mkdtemp(scratch->path) != NULL, "mkdtemp");
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
    (void)stat, (void)kind, (void)place;
    return remove(path);
}

void scratch_remove(struct scratch *scratch)
{
    nftw(scratch->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_at(const struct scratch *scratch, const char *name)
{
    static char paths[16][5000];
    static unsigned next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof *paths, "%s/%s", scratch->path, name);
    return path;
}

const char *scratch_file(const struct scratch *scratch, const char *name, const void *bytes,
                         size_t size)
{
    const char *path = scratch_at(scratch, name);
    char parent[5000];
    snprintf(parent, sizeof parent, "%s", path);
    for (char *at = strchr(parent + strlen(scratch->path) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(parent, 0755);
        *at = '/';
    }
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    require(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && close(fd) == 0, path);
    return path;
}
