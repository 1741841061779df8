/* Many reads at a time: threads with pread against io_uring, on the same pieces of the same files.
 *
 * bench_uring FILE...   cold (the files' pages are dropped) and warm, pieces
 *                       of 128 KiB and 1 MiB in random order, 16 and 64 at a time
 *
 * Prints MB/s and processor microseconds a piece of the whole process, kernel workers included. */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define DEPTH_MOST 64U
#define PIECE_MOST (1U << 20)

struct piece {
    int fd;
    uint64_t offset;
};

static struct piece *pieces;
static size_t npieces;
static uint32_t piece_bytes;
static uint8_t *buffers; /* one for each that is under way */

static void list_pieces(char **paths, int npaths, uint32_t bytes)
{
    uint32_t state = 1;
    npieces = 0;
    piece_bytes = bytes;
    for (int i = 0; i < npaths; i++) {
        struct stat stat;
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &stat))
            exit((perror(paths[i]), 1));
        uint64_t count = (uint64_t)stat.st_size / bytes;
        pieces = mem_grow(pieces, npieces + count, sizeof *pieces);
        for (uint64_t p = 0; p < count; p++)
            pieces[npieces++] = (struct piece){fd, p * bytes};
    }
    for (size_t i = npieces; i > 1; i--) {
        state = state * 1664525 + 1013904223;
        size_t other = (state >> 4) % i;
        struct piece piece = pieces[i - 1];
        pieces[i - 1] = pieces[other];
        pieces[other] = piece;
    }
}

static void drop_pages(void)
{
    for (size_t i = 0; i < npieces; i++)
        if (pieces[i].offset == 0)
            posix_fadvise(pieces[i].fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* ---- threads ---- */

static _Atomic size_t next_piece;
static _Atomic unsigned next_thread;

static void *read_pieces(void *context)
{
    (void)context;
    uint8_t *buffer = buffers + (size_t)atomic_fetch_add(&next_thread, 1) * PIECE_MOST;
    for (size_t i; (i = atomic_fetch_add(&next_piece, 1)) < npieces;)
        if (pread(pieces[i].fd, buffer, piece_bytes, (off_t)pieces[i].offset) != piece_bytes)
            exit((perror("pread"), 1));
    return NULL;
}

static void run_threads(unsigned depth)
{
    pthread_t threads[DEPTH_MOST];
    next_piece = 0;
    next_thread = 0;
    for (unsigned i = 0; i < depth; i++)
        pthread_create(&threads[i], NULL, read_pieces, NULL);
    for (unsigned i = 0; i < depth; i++)
        pthread_join(threads[i], NULL);
}

/* ---- io_uring, by its system calls ---- */

struct ring {
    int fd;
    unsigned mask;
    _Atomic unsigned *submit_tail, *complete_head, *complete_tail;
    unsigned *submit_array, submit_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *results;
};

static void *map_ring(int fd, size_t size, off_t what)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
    if (memory == MAP_FAILED)
        exit((perror("io_uring mmap"), 1));
    return memory;
}

static struct ring ring_open(unsigned depth)
{
    struct io_uring_params params = {.flags =
                                         IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN};
    int fd = (int)syscall(SYS_io_uring_setup, depth, &params);
    if (fd < 0)
        exit((perror("io_uring_setup"), 1));
    char *submit = map_ring(fd, params.sq_off.array + params.sq_entries * sizeof(unsigned),
                            IORING_OFF_SQ_RING);
    char *complete =
        map_ring(fd, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
                 IORING_OFF_CQ_RING);
    return (struct ring){
        .fd = fd,
        .mask = *(unsigned *)(void *)(complete + params.cq_off.ring_mask),
        .submit_tail = (void *)(submit + params.sq_off.tail),
        .submit_mask = *(unsigned *)(void *)(submit + params.sq_off.ring_mask),
        .submit_array = (void *)(submit + params.sq_off.array),
        .complete_head = (void *)(complete + params.cq_off.head),
        .complete_tail = (void *)(complete + params.cq_off.tail),
        .results = (void *)(complete + params.cq_off.cqes),
        .entries = map_ring(fd, params.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES)};
}

static void submit(struct ring *ring, const struct piece *piece, unsigned buffer)
{
    unsigned tail = *ring->submit_tail;
    unsigned at = tail & ring->submit_mask;
    ring->entries[at] =
        (struct io_uring_sqe){.opcode = IORING_OP_READ,
                              .fd = piece->fd,
                              .off = piece->offset,
                              .addr = (uintptr_t)(buffers + buffer * (size_t)PIECE_MOST),
                              .len = piece_bytes,
                              .user_data = buffer};
    ring->submit_array[at] = at;
    atomic_store(ring->submit_tail, tail + 1);
}

static void run_uring(unsigned depth)
{
    struct ring ring = ring_open(depth);
    size_t next = 0, done = 0;
    unsigned fresh = 0;
    for (; fresh < depth && next < npieces; fresh++)
        submit(&ring, &pieces[next++], fresh);
    while (done < npieces) {
        if (syscall(SYS_io_uring_enter, ring.fd, fresh, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0 &&
            errno != EINTR)
            exit((perror("io_uring_enter"), 1));
        fresh = 0;
        unsigned head = *ring.complete_head;
        for (; head != atomic_load(ring.complete_tail); head++, done++) {
            const struct io_uring_cqe *result = &ring.results[head & ring.mask];
            if (result->res != (int)piece_bytes)
                exit((fprintf(stderr, "io_uring read: %d\n", result->res), 1));
            if (next < npieces)
                submit(&ring, &pieces[next++], (unsigned)result->user_data), fresh++;
        }
        atomic_store(ring.complete_head, head);
    }
    close(ring.fd);
}

/* ---- measuring ---- */

static uint64_t process_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

static void measure(const char *name, void (*run)(unsigned depth), unsigned depth, bool cold)
{
    if (cold)
        drop_pages();
    uint64_t start = clock_ns(), used = process_ns();
    run(depth);
    uint64_t wall = clock_ns() - start;
    used = process_ns() - used;
    printf("| %s | %u KiB | %u | %s | %.0f | %.1f |\n", cold ? "cold" : "warm", piece_bytes >> 10,
           depth, name, (double)npieces * piece_bytes * 1e3 / (double)wall,
           (double)used / 1e3 / (double)npieces);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return fprintf(stderr, "usage: %s FILE...\n", argv[0]), 64;
    buffers = malloc((size_t)DEPTH_MOST * PIECE_MOST);
    memset(buffers, 1, (size_t)DEPTH_MOST * PIECE_MOST);
    printf("| page cache | piece | at a time | way | MB/s | CPU us a piece |\n");
    for (uint32_t bytes = 128 << 10; bytes <= PIECE_MOST; bytes *= 8) {
        list_pieces(argv + 1, argc - 1, bytes);
        for (int round = 0; round < 8; round++) {
            bool cold = round % 2 == 0;
            if (round % 4 < 2)
                measure("threads", run_threads, 16, cold);
            measure("io_uring", run_uring, 16, cold);
            if (round % 4 >= 2)
                measure("threads", run_threads, 16, cold);
            measure("threads", run_threads, 64, cold);
            measure("io_uring", run_uring, 64, cold);
        }
        measure("pread", run_threads, 1, true);
        measure("pread", run_threads, 1, false);
    }
    return 0;
}
