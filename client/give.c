#include "client/give.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client_parts.h"
#include "proto/frames.h"

#define VERSION_WANTED 2U
#define NAMES_BYTES (DLP_FRAME_TO_DAEMON_MAX - 1024U) /* of one message */
#define NAME_OVERHEAD 8U                              /* bytes beside a name's own, at most */
#define OPENING_NS (CLIENT_SECOND / 10) /* of slow storage fewer shards make a portion */

struct given_file {
    char *path;
    off_t size;
    struct timespec modified;
};

struct giving {
    char *recipe;
    struct given_file *files;
    uint32_t nfiles;
    uint32_t taken;   /* the daemon has them */
    uint32_t portion; /* and so many are on their way */
    int64_t reported; /* when the caller was last told */
};

void give_free(struct giving *giving)
{
    if (!giving)
        return;
    for (uint32_t i = 0; i < giving->nfiles; i++)
        free(giving->files[i].path);
    free(giving->files);
    free(giving->recipe);
    free(giving);
}

static int check(struct dataload *handle, const char *feed, const dataload_options *options)
{
    size_t size = strlen(options->recipe);
    if (feed)
        return handle_fail(handle, -EINVAL,
                           "feed %.200s: with options.recipe it is NULL, the recipe has its name",
                           feed);
    if (size == 0 || size > DLP_RECIPE_MAX)
        return handle_fail(handle, -EINVAL, "recipe: 1 to %u bytes are possible, these are %zu",
                           DLP_RECIPE_MAX, size);
    if (!options->files || options->nfiles == 0 || options->nfiles > DLP_FILES_MAX)
        return handle_fail(handle, -EINVAL,
                           "files: a feed of one's own has 1 to %u shards, not %zu", DLP_FILES_MAX,
                           options->files ? options->nfiles : 0);
    return 0;
}

/* The working directory may be another one when the daemon comes back. */
static int keep_path(struct dataload *handle, const char *folder, const char *path)
{
    struct giving *giving = handle->giving;
    char *made;
    if (*path != '/' && !*folder)
        return handle_fail(handle, -ENOENT,
                           "shard %.500s: there is no working directory that it could be in", path);
    if (asprintf(&made, *path == '/' ? "%s%s" : "%s/%s", *path == '/' ? "" : folder, path) < 0)
        return handle_fail(handle, -ENOMEM, "out of memory");
    giving->files[giving->nfiles++].path = made;
    return 0;
}

static int keep_paths(struct dataload *handle, const char *const *files, size_t nfiles)
{
    char folder[PATH_MAX];
    int r = 0;
    if (!getcwd(folder, sizeof folder))
        folder[0] = '\0';
    for (size_t i = 0; i < nfiles && r == 0; i++) {
        if (!files[i] || !*files[i] || strlen(files[i]) >= PATH_MAX)
            return handle_fail(handle, -EINVAL, "files[%zu]: a path has 1 to %d bytes", i,
                               PATH_MAX - 1);
        r = keep_path(handle, folder, files[i]);
    }
    return r;
}

int give_keep(struct dataload *handle, const char *feed, const dataload_options *options)
{
    if (!options->recipe && (options->files || options->nfiles))
        return handle_fail(handle, -EINVAL, "options.files are given without options.recipe");
    if (!options->recipe)
        return 0;
    int r = check(handle, feed, options);
    if (r < 0)
        return r;
    struct giving *giving = handle->giving = calloc(1, sizeof *giving);
    if (!giving)
        return handle_fail(handle, -ENOMEM, "out of memory");
    giving->recipe = strdup(options->recipe);
    giving->files = calloc(options->nfiles, sizeof *giving->files);
    if (!giving->recipe || !giving->files)
        return handle_fail(handle, -ENOMEM, "out of memory");
    return keep_paths(handle, options->files, options->nfiles);
}

/* What can be done about a shard that cannot be opened. */
static const char *remedy(int code)
{
    return code == EACCES   ? ": this user has to be able to read it"
           : code == ENOENT ? ": it has to be there on this node"
                            : "";
}

/* The connection ends too: the daemon has others who give this feed wait for us. */
static void give_up(struct dataload *handle, int code, const char *text)
{
    handle_end(handle, code, "%s", text);
    request_close(handle);
}

/* Ends the attachment for a shard's sake. */
static int bad_shard(struct dataload *handle, const struct given_file *file, const char *what)
{
    char text[DLP_TEXT_MAX + 1];
    snprintf(text, sizeof text, "%sshard %.500s %s%s",
             handle->attached ? "dataloadd has come back, but " : "", file->path, what,
             handle->attached ? "; attach again" : "");
    give_up(handle, handle->attached ? -ESTALE : -EIO, text);
    return -EIO;
}

static bool changed(const struct given_file *file, const struct stat *now)
{
    return now->st_size != file->size || now->st_mtim.tv_sec != file->modified.tv_sec ||
           now->st_mtim.tv_nsec != file->modified.tv_nsec;
}

/* At the first attach it is noted what the file is, later on it has to be that still. */
static int look(struct dataload *handle, struct given_file *file, int fd)
{
    struct stat now;
    char text[200];
    if (fstat(fd, &now) < 0) {
        snprintf(text, sizeof text, "cannot be looked at: %s", strerror(errno));
        return bad_shard(handle, file, text);
    }
    if (!S_ISREG(now.st_mode))
        return bad_shard(handle, file,
                         "is no regular file: a feed of one's own has tar shards, which "
                         "dataload-pack makes of a folder");
    if (handle->attached && changed(file, &now)) {
        snprintf(text, sizeof text, "has changed since it was given (%lld bytes, now %lld)",
                 (long long)file->size, (long long)now.st_size);
        return bad_shard(handle, file, text);
    }
    file->size = now.st_size;
    file->modified = now.st_mtim;
    return 0;
}

/* A descriptor; -EMFILE; or another error, by which the attachment has ended. */
static int open_shard(struct dataload *handle, struct given_file *file)
{
    int fd, code;
    do
        fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    code = errno;
    if (fd < 0 && code == EMFILE)
        return -EMFILE;
    if (fd < 0) {
        char text[200];
        snprintf(text, sizeof text, "cannot be opened: %s%s", strerror(code), remedy(code));
        return bad_shard(handle, file, text);
    }
    if (look(handle, file, fd) == 0)
        return fd;
    close(fd);
    return -EIO;
}

/* What the daemon calls it: the end of a long path. */
static char *name_of(const struct given_file *file)
{
    size_t size = strlen(file->path);
    return file->path + (size > DLP_TEXT_MAX ? size - DLP_TEXT_MAX : 0);
}

/* Sends the names of the next shards with their descriptors. */
static int send_files(struct dataload *handle, const int *fds, uint32_t count)
{
    struct giving *giving = handle->giving;
    char *names[DLP_FDS_MAX];
    for (uint32_t i = 0; i < count; i++)
        names[i] = name_of(&giving->files[giving->taken + i]);
    Dlp__GiveFiles files = DLP__GIVE_FILES__INIT;
    files.names = names;
    files.n_names = count;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = handle->last_id + 1;
    env.body_case = DLP__ENVELOPE__BODY_GIVE_FILES;
    env.give_files = &files;
    int r = dlp_channel_queue(handle->channel, &env, fds, count);
    if (r < 0)
        return r;
    handle->awaited = handle->last_id = env.id;
    giving->portion = count;
    dlp_channel_flush(handle->channel); /* a peer that has gone is noticed by the next read */
    return 0;
}

/* How many of the next shards one message takes, `most` at most. */
static uint32_t fitting(const struct giving *giving, uint32_t most)
{
    uint32_t count = 0;
    size_t bytes = 0;
    while (count < most && giving->taken + count < giving->nfiles) {
        bytes += strlen(name_of(&giving->files[giving->taken + count])) + NAME_OVERHEAD;
        if (bytes > NAMES_BYTES)
            break;
        count++;
    }
    return count;
}

/* 0, or -EMFILE: nothing is sent; or another error. */
static int try_portion(struct dataload *handle, uint32_t count)
{
    struct giving *giving = handle->giving;
    int fds[DLP_FDS_MAX], r = 0;
    uint32_t opened = 0;
    int64_t until = handle_now() + OPENING_NS;
    while (opened < count && r >= 0 && (opened == 0 || handle_now() < until)) {
        r = open_shard(handle, &giving->files[giving->taken + opened]);
        if (r >= 0)
            fds[opened++] = r;
    }
    if (r >= 0)
        r = send_files(handle, fds, opened);
    while (opened)
        close(fds[--opened]);
    return r;
}

/* Fewer at a time where the process may open no more files. */
static void give_portion(struct dataload *handle)
{
    struct giving *giving = handle->giving;
    uint32_t most = DLP_FDS_MAX;
    int r;
    do
        r = try_portion(handle, fitting(giving, most));
    while (r == -EMFILE && (most /= 2) > 0);
    attach_alive(handle);
    if (r == 0 || handle->phase == PHASE_ENDED)
        return;
    char text[DLP_TEXT_MAX + 1];
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    snprintf(text, sizeof text,
             "shard %.500s cannot be passed to dataloadd: %s (this process may open %llu files, "
             "see ulimit -n)",
             giving->files[giving->taken].path, strerror(-r), (unsigned long long)limit.rlim_cur);
    give_up(handle, r, text);
}

void give_begin(struct dataload *handle, uint32_t version)
{
    struct giving *giving = handle->giving;
    if (version < VERSION_WANTED) {
        handle_end(handle, -EOPNOTSUPP,
                   "dataloadd at %s is too old to be given a feed (it speaks version %u of the "
                   "protocol, this takes %u): upgrade it, or name a feed of its configuration",
                   handle->peer, version, VERSION_WANTED);
        return;
    }
    Dlp__GiveFeed feed = DLP__GIVE_FEED__INIT;
    feed.recipe = giving->recipe;
    feed.files = giving->nfiles;
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.body_case = DLP__ENVELOPE__BODY_GIVE_FEED;
    env.give_feed = &feed;
    giving->taken = giving->portion = 0;
    giving->reported = handle_now();
    handle->phase = PHASE_GIVE;
    handle->awaited = request_send(handle, &env);
}

/* A name stays where it is: the caller may have it from dataload_get_info. */
static bool take_name(struct dataload *handle, const char *name)
{
    char *feed = handle->attached ? NULL : strdup(name);
    if (feed) {
        free(handle->feed);
        handle->feed = feed;
    }
    return strcmp(handle->feed, name) == 0;
}

void give_named(struct dataload *handle, const Dlp__GiveFeedReply *reply)
{
    bool good = reply->feed[0] == DLP_OWN_FEED && dlp_feed_name_valid(reply->feed);
    if (handle->giving->portion || !good)
        handle_protocol(handle, "GiveFeedReply: %s", good ? "was not asked for" : "it has no name");
    else if (!take_name(handle, reply->feed))
        handle_protocol(handle, "GiveFeedReply: not of %s", handle->feed);
    else
        give_portion(handle);
}

void give_taken(struct dataload *handle, const Dlp__GiveFilesReply *reply)
{
    struct giving *giving = handle->giving;
    if (!giving->portion || reply->taken != giving->taken + giving->portion) {
        handle_protocol(handle, "GiveFilesReply: %u files taken of %u", reply->taken,
                        giving->taken + giving->portion);
        return;
    }
    giving->taken = reply->taken;
    if (handle_now() - giving->reported >= CLIENT_SECOND) {
        giving->reported = handle_now();
        attach_report(handle, "giving shards", giving->taken, giving->nfiles);
    }
    if (giving->taken < giving->nfiles)
        give_portion(handle);
    else
        attach_send(handle);
}
