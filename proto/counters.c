#include "proto/counters.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/frames.h"

#define TRIES 10

static_assert(sizeof(struct dlp_counters_page) <= DLP_COUNTERS_PAGE, "it fits");

char *dlp_counters_path(const char *socket_path, char out[DLP_COUNTERS_PATH_MAX])
{
    snprintf(out, DLP_COUNTERS_PATH_MAX, "%.*s.counters", (int)DLP_SOCKET_PATH_MAX, socket_path);
    return out;
}

/* FNV-1a, a word at a time. */
uint64_t dlp_counters_sum(const uint8_t *bytes, size_t size)
{
    uint64_t sum = 0xcbf29ce484222325ULL ^ size;
    for (size_t at = 0; at < size; at += sizeof sum) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, size - at < sizeof word ? size - at : sizeof word);
        sum = (sum ^ word) * 0x100000001b3ULL;
        sum ^= sum >> 29;
    }
    return sum;
}

static int parse_snapshot(const uint8_t *bytes, const struct dlp_counters_buffer *buffer,
                          uint64_t room, struct dlp_counters *out)
{
    if (buffer->size > room || dlp_counters_sum(bytes, buffer->size) != buffer->sum)
        return -EAGAIN;
    out->status =
        dlp_unpack(&dlp__status_reply__descriptor, bytes, buffer->size, DLP_UNPACK_TO_CLIENT_MAX);
    out->taken_ns = buffer->taken_ns;
    out->left_out = buffer->left_out;
    return out->status ? 0 : -EPROTO;
}

int dlp_counters_parse(const uint8_t *copy, size_t size, struct dlp_counters *out)
{
    struct dlp_counters_page page;
    *out = (struct dlp_counters){0};
    if (size < DLP_COUNTERS_PAGE)
        return -EPROTO;
    memcpy(&page, copy, sizeof page);
    if (page.magic != DLP_COUNTERS_MAGIC)
        return -EPROTO;
    if (page.version != DLP_COUNTERS_VERSION)
        return -EPROTONOSUPPORT;
    if (page.room > (size - DLP_COUNTERS_PAGE) / 2)
        return -EPROTO;
    *out = (struct dlp_counters){.pid = page.pid,
                                 .instance = page.instance,
                                 .beat_ns = page.beat_ns,
                                 .beat_wall_ns = page.beat_wall_ns,
                                 .stuck_ns = page.stuck_ns};
    size_t last = page.turn % 2;
    if (page.turn == 0)
        return 0;
    return parse_snapshot(copy + DLP_COUNTERS_PAGE + last * page.room, &page.buffers[last],
                          page.room, out);
}

/* Of a folder in which nobody else may write: so he could put a socket of his own there as well. */
static bool owns_folder(uid_t user, const char *socket_path)
{
    char folder[DLP_COUNTERS_PATH_MAX];
    struct stat st;
    snprintf(folder, sizeof folder, "%s", socket_path);
    char *name = strrchr(folder, '/');
    strcpy(name ? name + 1 : folder, ".");
    return stat(folder, &st) == 0 && st.st_uid == user && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* The service manager may have opened the socket, as another user than the daemon's. */
static bool is_trusted(int fd, const char *socket_path)
{
    struct stat file, socket;
    if (fstat(fd, &file) < 0)
        return false;
    bool same = stat(socket_path, &socket) < 0 ? file.st_uid == geteuid() || file.st_uid == 0
                                               : file.st_uid == socket.st_uid;
    return same || owns_folder(file.st_uid, socket_path);
}

static int open_file(const char *socket_path)
{
    char path[DLP_COUNTERS_PATH_MAX];
    struct stat st;
    int fd = open(dlp_counters_path(socket_path, path),
                  O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    int rc = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ? -EPROTO : 0;
    if (rc == 0 && !is_trusted(fd, socket_path))
        rc = -EPERM;
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

int dlp_counters_read(const char *socket_path, struct dlp_counters *out)
{
    *out = (struct dlp_counters){0};
    int fd = open_file(socket_path), rc = -EAGAIN;
    if (fd < 0)
        return fd;
    uint8_t *copy = malloc(DLP_COUNTERS_BYTES);
    for (int tries = 0; copy && tries < TRIES && rc == -EAGAIN; tries++) {
        ssize_t got = pread(fd, copy, DLP_COUNTERS_BYTES, 0);
        rc = got < 0 ? -errno : dlp_counters_parse(copy, (size_t)got, out);
    }
    free(copy);
    close(fd);
    return copy ? rc : -ENOMEM;
}

void dlp_counters_free(struct dlp_counters *counters)
{
    dlp_unpacked_free(counters->status);
    counters->status = NULL;
}
