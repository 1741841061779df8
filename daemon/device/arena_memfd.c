#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/numa.h"
#include "base/system.h"
#include "device/arena.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif

#define MB 1e6

struct arena {
    struct budget *budget;
    struct orphans *orphans; /* NULL: not shared */
    int fd, readers, probe;  /* the last two: read-only openings of a shared one */
    uint8_t *base;
    uint64_t slot_bytes, bytes;
    uid_t owner;
    bool kept;
};

/* The budget knows our own use only; without this the kernel would kill instead of refuse. */
static int check_room(uint64_t bytes, struct error *err)
{
    uint64_t room = system_memory_free();
    if (bytes <= room)
        return 0;
    return error_set(err, -ENOMEM,
                     "no memory for slots: %.1f MB (%" PRIu64 " bytes) asked, %.1f MB free on this "
                     "machine or under its cgroup limits: lower slots or batch, or raise the "
                     "cgroup's memory limit",
                     (double)bytes / MB, bytes, (double)room / MB);
}

static int make_file(void)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create("dataloadd-arena", flags | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("dataloadd-arena", flags);
    return fd;
}

static int make_mapping(struct arena *arena, struct error *err)
{
    arena->fd = make_file();
    if (arena->fd < 0)
        return error_set(err, -errno, "cannot make shared memory: %s", strerror(errno));
    if (ftruncate(arena->fd, (off_t)arena->bytes) < 0)
        return error_set(err, -errno, "cannot size shared memory to %" PRIu64 " bytes: %s",
                         arena->bytes, strerror(errno));
    void *base = mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd, 0);
    if (base == MAP_FAILED)
        return error_set(err, -errno, "cannot map %" PRIu64 " bytes of shared memory: %s",
                         arena->bytes, strerror(errno));
    arena->base = base;
    return 0;
}

static int seal(const struct arena *arena, struct error *err)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (fcntl(arena->fd, F_ADD_SEALS, seals | (arena->orphans ? F_SEAL_FUTURE_WRITE : 0)) == 0)
        return 0;
    return error_set(err, -errno, "cannot seal shared memory%s: %s",
                     arena->orphans ? " of a mirror (needs Linux 5.1)" : "", strerror(errno));
}

/* An opening of its own, so that the kernel's count of those who read is of others than us. */
static int open_to_read(const struct arena *arena, int *out, struct error *err)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", arena->fd);
    *out = open(path, O_RDONLY | O_CLOEXEC);
    if (*out >= 0)
        return 0;
    return error_set(err, -errno, "cannot open %s, by which a mirror's memory is read-only: %s%s",
                     path, strerror(errno), errno == ENOENT ? ": mount /proc" : "");
}

static int make(struct arena *arena, struct error *err)
{
    int code = make_mapping(arena, err);
    if (code == 0)
        code = seal(arena, err);
    if (code == 0 && arena->orphans)
        code = open_to_read(arena, &arena->readers, err);
    if (code == 0 && arena->orphans)
        code = open_to_read(arena, &arena->probe, err);
    return code;
}

int arena_new(struct budget *budget, struct orphans *orphans, uint32_t slots, uint64_t slot_bytes,
              struct arena **out, struct error *err)
{
    uint64_t bytes;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (slots == 0 || slot_bytes == 0 || slot_bytes % page != 0 ||
        __builtin_mul_overflow(slot_bytes, slots, &bytes) || bytes > INT64_MAX)
        return error_set(err, -EINVAL, "%u slots of %" PRIu64 " bytes: not a size of an arena",
                         slots, slot_bytes);
    int code = budget_take(budget, BUDGET_SLOTS, bytes, err);
    if (code < 0)
        return code;
    struct arena *arena = mem_new(sizeof *arena);
    *arena = (struct arena){.budget = budget,
                            .orphans = orphans,
                            .fd = -1,
                            .readers = -1,
                            .probe = -1,
                            .slot_bytes = slot_bytes,
                            .bytes = bytes};
    code = check_room(bytes, err);
    if (code == 0)
        code = make(arena, err);
    if (code < 0)
        arena_free(arena);
    else
        *out = arena;
    return code;
}

/* The policy is that of the file, so it holds for fallocate too. */
void arena_prefer(struct arena *arena, int node)
{
    numa_prefer(arena->base, arena->bytes, node);
}

static int allocate(int fd, int mode, uint64_t offset, uint64_t bytes)
{
    while (fallocate(fd, mode, (off_t)offset, (off_t)bytes) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

/* Puts the pages into our page table; a kernel before 5.14 does it at the first write instead. */
static int populate(uint8_t *slot, uint64_t bytes)
{
    while (madvise(slot, bytes, MADV_POPULATE_WRITE) < 0) {
        if (errno == EINVAL)
            return 0;
        if (errno != EINTR && errno != EAGAIN)
            return -errno;
    }
    return 0;
}

int arena_reserve(struct arena *arena, uint32_t slot, struct error *err)
{
    int code = check_room(arena->slot_bytes, err);
    if (code < 0)
        return code;
    code = allocate(arena->fd, 0, slot * arena->slot_bytes, arena->slot_bytes);
    if (code == 0)
        code = populate(arena_slot(arena, slot), arena->slot_bytes);
    if (code < 0)
        return error_set(err, code, "cannot reserve slot %u (%" PRIu64 " bytes): %s", slot,
                         arena->slot_bytes, strerror(-code));
    return 0;
}

void arena_keep(struct arena *arena)
{
    arena->kept = true;
}

void arena_set_owner(struct arena *arena, uid_t uid)
{
    arena->owner = uid;
}

static void punch_out(const struct arena *arena)
{
    int code = allocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, arena->bytes);
    if (code < 0)
        log_error("cannot punch out an arena of %" PRIu64 " bytes: %s", arena->bytes,
                  strerror(-code));
}

static void close_one(int fd)
{
    if (fd >= 0)
        close(fd);
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    if (arena->base) {
        if (!arena->kept && !arena->orphans)
            punch_out(arena);
        munmap(arena->base, arena->bytes);
    }
    close_one(arena->fd);
    close_one(arena->readers);
    if (arena->probe >= 0 && !arena->kept) {
        orphans_adopt(arena->orphans, arena->probe, arena->bytes, arena->owner);
    } else {
        close_one(arena->probe);
        budget_give(arena->budget, BUDGET_SLOTS, arena->bytes);
    }
    free(arena);
}

int arena_fd(const struct arena *arena)
{
    return arena->orphans ? arena->readers : arena->fd;
}

uint8_t *arena_slot(const struct arena *arena, uint32_t slot)
{
    return arena->base + slot * arena->slot_bytes;
}
