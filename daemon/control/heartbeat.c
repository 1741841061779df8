#include "control/heartbeat.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "proto/counters.h"

#define SNAPSHOT_NS CLOCK_SECOND
#define COST_SHARE 1000 /* a snapshot is followed by so many times its own time without one */

struct heartbeat {
    char path[DLP_COUNTERS_PATH_MAX];
    dev_t dev;
    ino_t ino;
    struct dlp_counters_page *page;
    uint64_t begun, next; /* ns */
    size_t used;          /* of the snapshot in the making */
};

static struct dlp_counters_buffer *buffer_of(struct heartbeat *heartbeat, uint64_t turn)
{
    return &heartbeat->page->buffers[turn % 2];
}

static uint8_t *bytes_of(const struct heartbeat *heartbeat, uint64_t turn)
{
    return (uint8_t *)heartbeat->page + DLP_COUNTERS_PAGE + turn % 2 * DLP_COUNTERS_ROOM;
}

static uint64_t wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

/* A file that only we write; its bytes are there. */
static int make_file(const char *path, struct error *err)
{
    if (unlink(path) < 0 && errno != ENOENT)
        return error_set(err, -errno, "counters file %s cannot be replaced: %s", path,
                         strerror(errno));
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_set(err, -errno, "counters file %s cannot be made: %s", path, strerror(errno));
    if (fallocate(fd, 0, 0, DLP_COUNTERS_BYTES) == 0)
        return fd;
    int rc = error_set(err, -errno, "counters file %s of %u bytes cannot be reserved: %s", path,
                       DLP_COUNTERS_BYTES, strerror(errno));
    unlink(path);
    close(fd);
    return rc;
}

/* Who may connect, that is write to the socket, may read. */
static void share_with(int fd, const char *socket_path)
{
    struct stat st, made;
    if (stat(socket_path, &st) < 0 || fstat(fd, &made) < 0)
        return;
    mode_t others = (st.st_mode & (S_IWGRP | S_IWOTH)) << 1;
    /* The service must not call fchown at all, and has the socket's group. */
    bool ours = made.st_gid == st.st_gid || fchown(fd, (uid_t)-1, st.st_gid) == 0;
    (void)!fchmod(fd, S_IRUSR | S_IWUSR | (ours ? others : others & S_IROTH));
}

struct heartbeat *heartbeat_new(const char *socket_path, struct error *err)
{
    struct heartbeat *heartbeat = mem_new(sizeof *heartbeat);
    dlp_counters_path(socket_path, heartbeat->path);
    cleanup_close int fd = make_file(heartbeat->path, err);
    void *memory = fd < 0
                       ? MAP_FAILED
                       : mmap(NULL, DLP_COUNTERS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        if (fd >= 0) {
            error_set(err, -errno, "counters file %s cannot be mapped: %s", heartbeat->path,
                      strerror(errno));
            unlink(heartbeat->path);
        }
        free(heartbeat);
        return NULL;
    }
    struct stat st = {0};
    fstat(fd, &st);
    heartbeat->dev = st.st_dev;
    heartbeat->ino = st.st_ino;
    share_with(fd, socket_path);
    heartbeat->page = memory;
    heartbeat->page->version = DLP_COUNTERS_VERSION;
    heartbeat->page->pid = (uint32_t)getpid();
    heartbeat->page->room = DLP_COUNTERS_ROOM;
    heartbeat_beat(heartbeat, 0, 0);
    atomic_store(&heartbeat->page->magic, DLP_COUNTERS_MAGIC);
    return heartbeat;
}

void heartbeat_remove(struct heartbeat *heartbeat)
{
    struct stat st;
    if (!heartbeat || !heartbeat->ino)
        return;
    if (lstat(heartbeat->path, &st) == 0 && st.st_dev == heartbeat->dev &&
        st.st_ino == heartbeat->ino)
        unlink(heartbeat->path);
    heartbeat->ino = 0;
}

void heartbeat_free(struct heartbeat *heartbeat)
{
    if (!heartbeat)
        return;
    heartbeat_remove(heartbeat);
    munmap(heartbeat->page, DLP_COUNTERS_BYTES);
    free(heartbeat);
}

void heartbeat_beat(struct heartbeat *heartbeat, uint64_t instance, uint64_t stuck_ns)
{
    struct dlp_counters_page *page = heartbeat->page;
    page->instance = instance;
    atomic_store(&page->stuck_ns, stuck_ns);
    atomic_store(&page->beat_wall_ns, wall_ns());
    atomic_store(&page->beat_ns, clock_ns());
}

bool heartbeat_due(const struct heartbeat *heartbeat, uint64_t now)
{
    return now >= heartbeat->next;
}

void heartbeat_begin(struct heartbeat *heartbeat)
{
    heartbeat->begun = clock_ns();
    heartbeat->used = 0;
}

/* Packed messages one after the other are one message: lists go on, single values are the last. */
bool heartbeat_add(struct heartbeat *heartbeat, const Dlp__StatusReply *part)
{
    size_t size = dlp__status_reply__get_packed_size(part);
    if (size > DLP_COUNTERS_ROOM - heartbeat->used)
        return false;
    uint8_t *bytes = bytes_of(heartbeat, heartbeat->page->turn + 1);
    heartbeat->used += dlp__status_reply__pack(part, bytes + heartbeat->used);
    return true;
}

void heartbeat_show(struct heartbeat *heartbeat, uint64_t left_out)
{
    uint64_t turn = heartbeat->page->turn + 1, now = clock_ns();
    struct dlp_counters_buffer *buffer = buffer_of(heartbeat, turn);
    buffer->size = heartbeat->used;
    buffer->sum = dlp_counters_sum(bytes_of(heartbeat, turn), heartbeat->used);
    buffer->taken_ns = now;
    buffer->left_out = left_out;
    atomic_store(&heartbeat->page->turn, turn);
    uint64_t rest = (now - heartbeat->begun) * COST_SHARE;
    heartbeat->next = heartbeat->begun + (rest > SNAPSHOT_NS ? rest : SNAPSHOT_NS / 2);
}
