#include "device/arena.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOT_BYTES (1ULL << 20)
#define SLOTS 4

static struct budget *budget;
static struct orphans *orphans;
static struct arena *arena;
static struct error err;

static void setup(void)
{
    budget = budget_new(64 << 20, 0);
    ck_assert_int_eq(arena_new(budget, NULL, SLOTS, SLOT_BYTES, &arena, &err), 0);
}

static void teardown(void)
{
    arena_free(arena);
    ck_assert_uint_eq(budget_used(budget, BUDGET_USES), 0);
    budget_free(budget);
}

static void setup_shared(void)
{
    budget = budget_new(64 << 20, 0);
    orphans = orphans_new(budget);
    ck_assert_int_eq(arena_new(budget, orphans, SLOTS, SLOT_BYTES, &arena, &err), 0);
    for (uint32_t i = 0; i < SLOTS; i++) {
        ck_assert_int_eq(arena_reserve(arena, i, &err), 0);
        memset(arena_slot(arena, i), 0xab, SLOT_BYTES);
    }
}

static void teardown_shared(void)
{
    arena_free(arena);
    orphans_free(orphans);
    ck_assert_uint_eq(budget_used(budget, BUDGET_USES), 0);
    budget_free(budget);
}

static uint64_t file_bytes(int fd)
{
    struct stat status;
    ck_assert_int_eq(fstat(fd, &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

START_TEST(size_and_places)
{
    struct stat status;
    fstat(arena_fd(arena), &status);
    ck_assert_uint_eq((uint64_t)status.st_size, SLOTS * SLOT_BYTES);
    ck_assert_ptr_eq(arena_slot(arena, 3), arena_slot(arena, 0) + 3 * SLOT_BYTES);
    ck_assert_uint_eq(budget_used(budget, BUDGET_SLOTS), SLOTS * SLOT_BYTES);
    ck_assert_uint_eq(file_bytes(arena_fd(arena)), 0); /* nothing reserved yet */
}
END_TEST

/* Whoever has had memory before, and whatever he has left in it. */
START_TEST(begins_clear)
{
    for (int turn = 0; turn < 3; turn++) {
        struct arena *next;
        ck_assert_int_eq(arena_new(budget, NULL, SLOTS, SLOT_BYTES, &next, &err), 0);
        const uint8_t *bytes = arena_slot(next, 0);
        for (uint32_t slot = 0; slot < SLOTS; slot++)
            ck_assert_int_eq(arena_reserve(next, slot, &err), 0);
        uint64_t clear = 0;
        while (clear < SLOTS * SLOT_BYTES && !bytes[clear])
            clear++;
        ck_assert_uint_eq(clear, SLOTS * SLOT_BYTES);
        memset(arena_slot(next, 0), 0xab, SLOTS * SLOT_BYTES);
        arena_free(next);
    }
}
END_TEST

START_TEST(sealed_before_it_leaves)
{
    int fd = arena_fd(arena);
    int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    ck_assert_int_eq(fcntl(fd, F_GET_SEALS) & wanted, wanted);
    ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, 0), -1);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_eq(ftruncate(fd, 1 << 30), -1);
    ck_assert_int_eq(fallocate(fd, 0, 0, 1 << 30), -1);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    ck_assert_int_eq(errno, EPERM);
    int other = memfd_create("probe", MFD_CLOEXEC | 0x0008U /* MFD_NOEXEC_SEAL */);
    if (other >= 0) { /* the kernel knows it: ours can never be made executable */
        ck_assert_int_eq(fchmod(fd, 0777), -1);
        close(other);
    }
}
END_TEST

START_TEST(reserve_brings_the_pages_of_one_slot)
{
    unsigned char resident[SLOT_BYTES / 4096];
    ck_assert_int_eq(arena_reserve(arena, 2, &err), 0);
    ck_assert_uint_eq(file_bytes(arena_fd(arena)), SLOT_BYTES);
    ck_assert_int_eq(mincore(arena_slot(arena, 2), SLOT_BYTES, resident), 0);
    for (size_t i = 0; i < sizeof resident; i++)
        ck_assert_int_eq(resident[i] & 1, 1);
    ck_assert_int_eq(mincore(arena_slot(arena, 1), SLOT_BYTES, resident), 0);
    for (size_t i = 0; i < sizeof resident; i++)
        ck_assert_int_eq(resident[i] & 1, 0);
    ck_assert_int_eq(arena_reserve(arena, 0, &err), 0);
    ck_assert_uint_eq(file_bytes(arena_fd(arena)), 2 * SLOT_BYTES);
}
END_TEST

/* Where the kernel knows of nodes and lets us say so; node 0 is always there. */
START_TEST(pages_prefer_a_node)
{
    int mode = -1;
    unsigned long nodes[16] = {0};
    arena_prefer(arena, -1);
    arena_prefer(arena, 1 << 20);
    arena_prefer(arena, 0);
    ck_assert_int_eq(arena_reserve(arena, 1, &err), 0);
    if (syscall(SYS_get_mempolicy, &mode, nodes, 1024, arena_slot(arena, 1), MPOL_F_ADDR) < 0 ||
        syscall(SYS_mbind, arena_slot(arena, 0), SLOT_BYTES, MPOL_DEFAULT, NULL, 0, 0) < 0)
        return;
    ck_assert_int_eq(mode, MPOL_PREFERRED);
    ck_assert_uint_eq(nodes[0], 1);
}
END_TEST

/* A client that keeps its mapping: sees the bytes, says so, and after the daemon's end of the lease
 * finds zeros. Exit status: 0 fine, else the step that failed. */
static int peer(int fd, int say, int hear)
{
    char byte;
    const uint8_t *map = mmap(NULL, SLOTS * SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return 1;
    for (uint64_t i = 0; i < SLOTS * SLOT_BYTES; i += 4096)
        if (map[i] != 0xab)
            return 2;
    if (write(say, "r", 1) != 1 || read(hear, &byte, 1) != 1)
        return 3;
    struct stat status;
    if (fstat(fd, &status) < 0 || status.st_blocks != 0)
        return 4;
    for (uint64_t i = 0; i < SLOTS * SLOT_BYTES; i += 4096)
        if (map[i] != 0)
            return 5;
    return 0;
}

START_TEST(punched_out_under_a_peer_that_still_maps_it)
{
    int up[2], down[2], status;
    char byte;
    for (uint32_t i = 0; i < SLOTS; i++) {
        ck_assert_int_eq(arena_reserve(arena, i, &err), 0);
        memset(arena_slot(arena, i), 0xab, SLOT_BYTES);
    }
    int kept = dup(arena_fd(arena));
    ck_assert_int_eq(pipe(up), 0);
    ck_assert_int_eq(pipe(down), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(peer(kept, up[1], down[0]));
    close(up[1]);
    ck_assert_int_eq((int)read(up[0], &byte, 1), 1);
    ck_assert_uint_eq(file_bytes(kept), SLOTS * SLOT_BYTES);
    arena_free(arena);
    arena = NULL;
    ck_assert_uint_eq(file_bytes(kept), 0);
    ck_assert_uint_eq(budget_used(budget, BUDGET_SLOTS), 0);
    ck_assert_int_eq((int)write(down[1], "x", 1), 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    close(kept);
}
END_TEST

/* A daemon that ends: its peers read on what they hold. */
START_TEST(kept_bytes_outlive_the_arena)
{
    ck_assert_int_eq(arena_reserve(arena, 1, &err), 0);
    memset(arena_slot(arena, 1), 0xab, SLOT_BYTES);
    int fd = dup(arena_fd(arena));
    const uint8_t *map = mmap(NULL, SLOTS * SLOT_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    arena_keep(arena);
    arena_free(arena);
    arena = NULL;
    ck_assert_uint_eq(budget_used(budget, BUDGET_SLOTS), 0);
    ck_assert_uint_eq(file_bytes(fd), SLOT_BYTES);
    for (uint64_t i = 0; i < SLOT_BYTES; i += 4096)
        ck_assert_uint_eq(map[SLOT_BYTES + i], 0xab);
    munmap((void *)(uintptr_t)map, SLOTS * SLOT_BYTES);
    close(fd);
}
END_TEST

/* Another process of our user tries all that it may with the descriptor it was given. Exit status:
 * 0 fine, else what it could do. */
static int intruder(pid_t owner, int fd)
{
    const int hole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    char path[64];
    if (mmap(NULL, SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED)
        return 1;
    uint8_t *map = mmap(NULL, SLOT_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED || map[0] != 0xab)
        return 2;
    if (mprotect(map, SLOT_BYTES, PROT_READ | PROT_WRITE) == 0)
        return 3;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)owner, fd);
    int again = open(path, O_RDWR | O_CLOEXEC);
    if (again < 0)
        return 0;
    if (mmap(NULL, SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) != MAP_FAILED)
        return 4;
    if (write(again, "x", 1) == 1 || fallocate(again, hole, 0, SLOT_BYTES) == 0)
        return 5;
    return map[0] == 0xab ? 0 : 6;
}

START_TEST(shared_memory_is_read_only_for_all_others)
{
    int fd = arena_fd(arena), status;
    const int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE;
    ck_assert_int_eq(fcntl(fd, F_GET_SEALS) & wanted, wanted);
    ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    pid_t owner = getpid(), pid = fork();
    if (pid == 0)
        _exit(intruder(owner, fd));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

/* Maps the memory, unmaps it when told to, and lives on. */
static int member(int fd, int say, int hear)
{
    char byte;
    uint8_t *map = mmap(NULL, SLOTS * SLOT_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED || close(fd) < 0 || write(say, "r", 1) != 1 || read(hear, &byte, 1) != 1)
        return 1;
    for (uint64_t i = 0; i < SLOTS * SLOT_BYTES; i += 4096)
        if (map[i] != 0xab) /* as ever, though its arena has ended */
            return 2;
    munmap(map, SLOTS * SLOT_BYTES);
    return write(say, "r", 1) == 1 && read(hear, &byte, 1) == 1 ? 0 : 3;
}

static int up[2], down[2];

static pid_t start_member(void)
{
    char byte;
    ck_assert_int_eq(pipe(up), 0);
    ck_assert_int_eq(pipe(down), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(member(arena_fd(arena), up[1], down[0]));
    close(up[1]);
    ck_assert_int_eq((int)read(up[0], &byte, 1), 1);
    return pid;
}

static void end_shared(void)
{
    arena_free(arena);
    arena = NULL;
    ck_assert_uint_eq(budget_used(budget, BUDGET_SLOTS), 0);
}

START_TEST(orphaned_until_it_is_unmapped)
{
    int status;
    char byte;
    pid_t pid = start_member();
    end_shared();
    ck_assert_uint_eq(budget_used(budget, BUDGET_ORPHANED), SLOTS * SLOT_BYTES);
    ck_assert(!orphans_poll(orphans));
    ck_assert_uint_eq(budget_used(budget, BUDGET_USES), SLOTS * SLOT_BYTES);
    ck_assert_int_eq((int)write(down[1], "x", 1), 1);
    ck_assert_int_eq((int)read(up[0], &byte, 1), 1);
    ck_assert(orphans_poll(orphans));
    ck_assert_uint_eq(budget_used(budget, BUDGET_USES), 0);
    ck_assert(!orphans_poll(orphans));
    ck_assert_int_eq((int)write(down[1], "x", 1), 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

START_TEST(orphaned_until_its_process_ends)
{
    struct arena *other;
    pid_t pid = start_member();
    end_shared();
    ck_assert_int_eq(arena_new(budget, orphans, SLOTS, SLOT_BYTES, &other, &err), 0);
    int fd = dup(arena_fd(other)); /* not mapped, but it could be */
    arena_free(other);
    ck_assert_uint_eq(budget_used(budget, BUDGET_ORPHANED), 2 * SLOTS * SLOT_BYTES);
    ck_assert(!orphans_poll(orphans));
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert(orphans_poll(orphans));
    ck_assert_uint_eq(budget_used(budget, BUDGET_ORPHANED), SLOTS * SLOT_BYTES);
    close(fd);
    ck_assert(orphans_poll(orphans));
    ck_assert_uint_eq(budget_used(budget, BUDGET_USES), 0);
}
END_TEST

START_TEST(shared_memory_that_nobody_maps_is_given_back_at_once)
{
    end_shared();
    ck_assert_uint_eq(budget_used(budget, BUDGET_USES), 0);
}
END_TEST

START_TEST(kept_shared_memory_is_no_orphan)
{
    int fd = dup(arena_fd(arena));
    arena_keep(arena);
    end_shared();
    ck_assert_uint_eq(budget_used(budget, BUDGET_USES), 0);
    ck_assert_uint_eq(file_bytes(fd), SLOTS * SLOT_BYTES);
    close(fd);
}
END_TEST

START_TEST(orphans_end_with_the_daemon)
{
    int fd = dup(arena_fd(arena));
    end_shared();
    ck_assert_uint_gt(budget_used(budget, BUDGET_ORPHANED), 0);
    orphans_free(orphans);
    orphans = NULL;
    ck_assert_uint_eq(budget_used(budget, BUDGET_USES), 0);
    close(fd);
}
END_TEST

START_TEST(refused_by_the_budget)
{
    struct arena *other = NULL;
    ck_assert_int_eq(arena_new(budget, NULL, 61, SLOT_BYTES, &other, &err), -ENOMEM);
    ck_assert_ptr_null(other);
    ck_assert_ptr_nonnull(strstr(err.text, "64.0 MB (63963136 bytes) asked"));
    ck_assert_ptr_nonnull(strstr(err.text, "4.2 MB of 67.1 MB in use"));
    ck_assert_uint_eq(budget_used(budget, BUDGET_SLOTS), SLOTS * SLOT_BYTES);
    ck_assert_int_eq(arena_new(budget, NULL, 60, SLOT_BYTES, &other, &err), 0);
    arena_free(other);
}
END_TEST

START_TEST(refused_by_the_machine)
{
    struct budget *large = budget_new(1ULL << 60, 0);
    struct arena *other = NULL;
    ck_assert_int_eq(arena_new(large, NULL, 4, 1ULL << 50, &other, &err), -ENOMEM);
    ck_assert_ptr_null(other);
    ck_assert_ptr_nonnull(strstr(err.text, "(4503599627370496 bytes) asked"));
    ck_assert_ptr_nonnull(strstr(err.text, "MB free on this machine or under its cgroup limits"));
    ck_assert_uint_eq(budget_used(large, BUDGET_USES), 0);
    budget_free(large);
}
END_TEST

START_TEST(sizes_that_are_none)
{
    static const struct {
        uint32_t slots;
        uint64_t bytes;
    } sizes[] = {{0, 4096}, {1, 0}, {1, 4097}, {2, 1ULL << 62}, {64, 1ULL << 63}};
    struct arena *other = NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        ck_assert_int_eq(arena_new(budget, NULL, sizes[i].slots, sizes[i].bytes, &other, &err),
                         -EINVAL);
    ck_assert_uint_eq(budget_used(budget, BUDGET_SLOTS), SLOTS * SLOT_BYTES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tests = tcase_create("arena");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, size_and_places);
    tcase_add_test(tests, begins_clear);
    tcase_add_test(tests, sealed_before_it_leaves);
    tcase_add_test(tests, reserve_brings_the_pages_of_one_slot);
    tcase_add_test(tests, pages_prefer_a_node);
    tcase_add_test(tests, punched_out_under_a_peer_that_still_maps_it);
    tcase_add_test(tests, kept_bytes_outlive_the_arena);
    tcase_add_test(tests, refused_by_the_budget);
    tcase_add_test(tests, refused_by_the_machine);
    tcase_add_test(tests, sizes_that_are_none);
    suite_add_tcase(suite, tests);
    TCase *shared = tcase_create("shared");
    tcase_add_checked_fixture(shared, setup_shared, teardown_shared);
    tcase_add_test(shared, shared_memory_is_read_only_for_all_others);
    tcase_add_test(shared, orphaned_until_it_is_unmapped);
    tcase_add_test(shared, orphaned_until_its_process_ends);
    tcase_add_test(shared, shared_memory_that_nobody_maps_is_given_back_at_once);
    tcase_add_test(shared, kept_shared_memory_is_no_orphan);
    tcase_add_test(shared, orphans_end_with_the_daemon);
    suite_add_tcase(suite, shared);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
