/* Reading through the feed's own way (plan, reader, spans, shuffle buffer) with workers that only
 * throw the records away, against memcpy of as many bytes and pread of 1 MiB at a time, in turns.
 *
 * bench_read warm FOLDER [ROUNDS]   the page cache has all: GB/s of the reader's processor time
 * bench_read slow FOLDER MS [BATCH] each request to storage takes MS: MB/s, and how many at a time
 *
 * FOLDER gets about 2 GB of shards, which are used again. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "feed/reader.h"
#include "feed/row.h"
#include "tar_maker.h"

#define FILES 8U
#define ALIASES 32U /* names of each file: a data set of 16 GiB, so that its runs are of 4 MiB */
#define FILE_BYTES (64ULL << 20)
#define SLOTS 4U
#define MIB (1ULL << 20)

/* ---- storage, counted and made slow ---- */

static _Atomic uint64_t calls, advices;
static _Atomic int at_once, most_at_once;
static uint64_t slow_ns;
static uint32_t batch_rows = 256;

static void storage(void)
{
    atomic_fetch_add(&calls, 1);
    if (!slow_ns)
        return;
    int now = atomic_fetch_add(&at_once, 1) + 1;
    if (now > atomic_load(&most_at_once))
        atomic_store(&most_at_once, now);
    struct timespec time = {0, (long)slow_ns};
    nanosleep(&time, NULL);
    atomic_fetch_sub(&at_once, 1);
}

/* These stand before libc's. */
ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    storage();
    return syscall(SYS_pread64, fd, to, size, at);
}

ssize_t preadv(int fd, const struct iovec *pieces, int count, off_t at)
{
    storage();
    return syscall(SYS_preadv, fd, pieces, count, at, 0);
}

int posix_fadvise(int fd, off_t at, off_t size, int advice)
{
    atomic_fetch_add(&advices, 1);
    return slow_ns ? 0 : (int)syscall(SYS_fadvise64, fd, at, size, advice);
}

/* ---- data ---- */

static void write_shard(const char *path, uint64_t each)
{
    struct tarm *tar = tarm_new();
    cleanup_free uint32_t *bytes = mem_array(each / 4 + 1, 4);
    uint32_t state = 1;
    for (uint64_t i = 0; i < each / 4; i++)
        bytes[i] = state = state * 1664525 + 1013904223;
    for (uint64_t number = 0; tarm_size(tar) < FILE_BYTES; number++) {
        char name[32];
        snprintf(name, sizeof name, "%08" PRIu64 ".bin", number);
        bytes[0] = (uint32_t)number;
        tarm_file(tar, name, bytes, each - number % 7 * (each / 20));
    }
    tarm_end(tar);
    if (tarm_write(tar, path))
        exit((perror(path), 1));
    tarm_free(tar);
}

static char *file_path(const char *folder, uint64_t each, uint32_t number, uint32_t alias)
{
    return mem_format("%s/%" PRIu64 "-%02u-%02u.tar", folder, each, alias, number);
}

static char *make_data(const char *folder, uint64_t each)
{
    for (uint32_t f = 0; f < FILES; f++) {
        cleanup_free char *first = file_path(folder, each, f, 0);
        if (access(first, R_OK))
            write_shard(first, each);
        for (uint32_t a = 1; a < ALIASES; a++) {
            cleanup_free char *path = file_path(folder, each, f, a);
            (void)!link(first, path);
        }
    }
    return mem_format("%s/%" PRIu64 "-{00..%02u}-{00..%02u}.tar", folder, each, ALIASES - 1,
                      FILES - 1);
}

static struct dataset *open_data(const char *folder, const char *pattern)
{
    const char *bin[] = {"bin"};
    struct dataset_field field = {"bytes", bin, 1};
    struct dataset_options options = {.name = "bench",
                                      .source = {&pattern, 1, false},
                                      .fields = &field,
                                      .nfields = 1,
                                      .threads = 2,
                                      .cache_dir = folder,
                                      .cache_bytes = 1ULL << 32};
    struct dataset *dataset;
    struct error err;
    if (dataset_open(&options, &dataset, &err))
        exit((fprintf(stderr, "%s\n", err.text), 1));
    return dataset;
}

/* ---- a reader, and what takes its batches ---- */

struct way {
    struct feed_spec spec;
    struct tally tally;
    struct recipe recipe;
    struct budget *budget;
    struct ration *ration;
    struct slots *slots;
    struct arena *arena;
    struct belt *belt;
    struct workers *workers;
    struct workers_queue *queue;
    struct reader *reader;
    sem_t news;
    uint64_t bytes; /* taken */
};

static void news(void *context)
{
    sem_post(&((struct way *)context)->news);
}

static bool run_row(void *context, void *item, struct decoder *decoder)
{
    (void)context, (void)decoder;
    row_drop(item);
    return true;
}

static void rows_done(void *context, void **items, uint32_t count, uint64_t ns)
{
    (void)context, (void)ns;
    for (uint32_t i = 0; i < count; i++) {
        struct batch *batch = ((struct row *)items[i])->batch;
        if (batch_rows_done(batch, 1))
            belt_complete(batch->belt, batch);
    }
}

static void drop_row(void *context, void *item)
{
    (void)context;
    row_drop(item);
}

static uint32_t ahead(void *context)
{
    (void)context;
    return 0;
}

static const struct workers_work work = {run_row, rows_done, drop_row, ahead};

static void failed(void *context, const struct error *err)
{
    (void)context;
    exit((fprintf(stderr, "%s\n", err->text), 1));
}

static struct way *way_new(struct dataset *dataset, uint64_t shuffle)
{
    struct way *way = mem_new(sizeof *way);
    struct error err;
    way->spec = (struct feed_spec){
        .name = (char *)"bench", .nfields = 1, .shuffle = shuffle, .lanes = 64, .tail = TAIL_DROP};
    way->recipe = (struct recipe){.spec = &way->spec,
                                  .dataset = dataset,
                                  .source = recipe_source(dataset),
                                  .order = {.seed = 1, .shuffle = shuffle, .lanes = 64},
                                  .world = 1,
                                  .batch = batch_rows,
                                  .record_limit = 1 << 30,
                                  .tally = &way->tally};
    sem_init(&way->news, 0, 0);
    way->budget = budget_new(4ULL << 30, 0);
    way->slots = slots_new(SLOTS);
    way->belt = belt_new(&way->recipe, SLOTS, (struct feed_place){0}, news, way);
    way->workers = workers_new(1, NULL, way->budget);
    way->queue = workers_queue_new(way->workers, &work, way, false);
    if (ration_new(way->budget, 8 << 20, 2ULL << 30, &way->ration, &err) ||
        arena_new(way->budget, NULL, SLOTS, 4096, &way->arena, &err))
        failed(NULL, &err);
    struct reader_params params = {.recipe = &way->recipe,
                                   .ration = way->ration,
                                   .belt = way->belt,
                                   .slots = way->slots,
                                   .arena = way->arena,
                                   .queue = way->queue,
                                   .nslots = SLOTS,
                                   .mean_bytes = dataset_bytes(dataset) / dataset_records(dataset),
                                   .failed = failed};
    if (reader_new(&params, &way->reader, &err))
        failed(NULL, &err);
    for (uint32_t s = 0; s < SLOTS; s++)
        slots_reserved(way->slots, s);
    reader_start(way->reader);
    return way;
}

static void way_free(struct way *way)
{
    reader_stop(way->reader);
    reader_free(way->reader);
    workers_queue_free(way->queue);
    workers_free(way->workers);
    arena_free(way->arena);
    belt_free(way->belt);
    slots_free(way->slots);
    ration_free(way->ration);
    budget_free(way->budget);
    free(way);
}

static void take_batches(struct way *way, uint64_t count)
{
    while (count) {
        struct batch *batch = belt_take(way->belt);
        if (!batch) {
            sem_wait(&way->news);
            continue;
        }
        uint32_t slot = batch->slot;
        slots_ready(way->slots, slot);
        belt_put(way->belt, batch);
        slots_drop(way->slots, slot);
        count--;
    }
}

/* ---- measuring ---- */

static uint64_t thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

/* Processor time and page faults of the threads of this name, which may come and go. */
struct usage {
    uint64_t ns, faults;
};

static struct usage usage_of(const char *wanted)
{
    struct usage usage = {0};
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(tasks));) {
        char path[300], name[64] = "";
        uint64_t ns = 0, faults = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        if (fscanf(file, "%" SCNu64, &ns) != 1)
            ns = 0;
        fclose(file);
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", entry->d_name);
        file = fopen(path, "r");
        if (!file)
            continue;
        if (fscanf(file, "%*d (%63[^)]) %*c %*d %*d %*d %*d %*d %*u %" SCNu64, name, &faults) != 2)
            faults = 0;
        fclose(file);
        if (strcmp(name, wanted) == 0) {
            usage.ns += ns;
            usage.faults += faults;
        }
    }
    closedir(tasks);
    return usage;
}

struct figures {
    double reader, wall, copy, pread_, spread, calls_, advices_, faults;
};

static double rate(uint64_t bytes, uint64_t ns)
{
    return ns ? (double)bytes / (double)ns : 0;
}

static struct figures measure(struct way *way, uint64_t batches)
{
    uint64_t read = tally_get(&way->tally.read_bytes);
    struct usage reader = usage_of("reader");
    uint64_t calls_ = calls, advices_ = advices, start = clock_ns();
    take_batches(way, batches);
    while (atomic_load(&way->tally.reader.at) != FEED_WAITS_SLOT)
        usleep(200);
    uint64_t wall = clock_ns() - start;
    read = tally_get(&way->tally.read_bytes) - read;
    struct usage reader_now = usage_of("reader");
    return (struct figures){.reader = rate(read, reader_now.ns - reader.ns),
                            .wall = rate(read, wall),
                            .calls_ = (double)(calls - calls_) / (double)read * (double)MIB,
                            .advices_ = (double)(advices - advices_) / (double)read * (double)MIB,
                            .faults = (double)(reader_now.faults - reader.faults) / (double)read *
                                      (double)MIB};
}

static uint8_t *source, *target;
#define SOURCE (1ULL << 30)
#define TARGET (512ULL << 20)

static double measure_copy(uint64_t each)
{
    uint64_t start = thread_ns();
    uint64_t at = 0;
    for (uint64_t from = 0; from + each <= SOURCE; from += each) {
        if (at + each > TARGET)
            at = 0;
        memcpy(target + at, source + from, each);
        at += each;
    }
    return rate(SOURCE, thread_ns() - start);
}

static double measure_pread(const char *folder, uint64_t each)
{
    uint64_t bytes = 0, at = 0, ns = 0;
    for (uint32_t f = 0; f < FILES; f++) {
        cleanup_free char *path = file_path(folder, each, f, 0);
        cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
        uint64_t start = thread_ns();
        for (ssize_t got, from = 0; (got = pread(fd, target + at, MIB, from)) > 0; from += got) {
            bytes += (uint64_t)got;
            at = (at + MIB) % TARGET;
        }
        ns += thread_ns() - start;
    }
    return rate(bytes, ns);
}

/* What reading alone comes to: 1 MiB at a time, in pieces of a record that lie here and there. */
static double measure_spread(const char *folder, uint64_t each)
{
    static struct iovec pieces[1024];
    uint64_t bytes = 0, ns = 0, place = 0, places = TARGET / each;
    int count = (int)((MIB + each - 1) / each);
    for (uint32_t f = 0; f < FILES; f++) {
        cleanup_free char *path = file_path(folder, each, f, 0);
        cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
        uint64_t start = thread_ns();
        for (ssize_t got = 1, from = 0; got > 0; from += got) {
            for (int i = 0; i < count; i++) {
                place = (place + places * 5 / 13) % places;
                pieces[i] = (struct iovec){target + place * each, each};
            }
            got = preadv(fd, pieces, count, from);
            bytes += (uint64_t)got;
        }
        ns += thread_ns() - start;
    }
    return rate(bytes, ns);
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(const struct figures *all, uint32_t count,
                     double (*of)(const struct figures *))
{
    double values[64];
    for (uint32_t i = 0; i < count; i++)
        values[i] = of(&all[i]);
    qsort(values, count, sizeof values[0], compare);
    return values[count / 2];
}

#define FIGURE(name, expression)                                                                   \
    static double name(const struct figures *it)                                                   \
    {                                                                                              \
        return expression;                                                                         \
    }
FIGURE(of_reader, it->reader)
FIGURE(of_wall, it->wall)
FIGURE(of_copy, it->copy)
FIGURE(of_pread, it->pread_)
FIGURE(of_ratio, it->reader / it->copy)
FIGURE(of_spread, it->spread)
FIGURE(of_spread_ratio, it->reader / it->spread)
FIGURE(of_pread_ratio, it->reader / it->pread_)
FIGURE(of_calls, it->calls_)
FIGURE(of_advices, it->advices_)
FIGURE(of_faults, it->faults)

/* Batches of so many bytes. */
static uint64_t batches_of(const struct dataset *dataset, uint64_t bytes)
{
    return bytes / batch_rows * dataset_records(dataset) / dataset_bytes(dataset) + 1;
}

static void warm(const char *folder, uint64_t each, uint64_t shuffle, uint32_t rounds)
{
    cleanup_free char *pattern = make_data(folder, each);
    struct dataset *dataset = open_data(folder, pattern);
    struct figures all[64] = {0};
    measure_pread(folder, each);
    struct way *way = way_new(dataset, shuffle);
    measure(way, batches_of(dataset, 1 << 30));
    for (uint32_t i = 0; i < rounds; i++) {
        all[i] = measure(way, batches_of(dataset, 1 << 29));
        all[i].copy = measure_copy(each);
        all[i].pread_ = measure_pread(folder, each);
        all[i].spread = measure_spread(folder, each);
    }
    printf("| %" PRIu64 " B | %" PRIu64
           " | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.1f | %.2f | %.2f | %.2f |\n",
           each, shuffle, median(all, rounds, of_ratio), median(all, rounds, of_pread_ratio),
           median(all, rounds, of_spread_ratio), median(all, rounds, of_reader),
           median(all, rounds, of_copy), median(all, rounds, of_pread),
           median(all, rounds, of_spread), median(all, rounds, of_wall),
           median(all, rounds, of_calls), median(all, rounds, of_advices),
           median(all, rounds, of_faults));
    fflush(stdout);
    way_free(way);
    dataset_unref(dataset);
}

static void slow(const char *folder, uint64_t each, uint64_t shuffle)
{
    cleanup_free char *pattern = make_data(folder, each);
    uint64_t ns = slow_ns;
    slow_ns = 0;
    struct dataset *dataset = open_data(folder, pattern);
    slow_ns = ns;
    most_at_once = 0;
    uint64_t start = clock_ns();
    struct way *way = way_new(dataset, shuffle);
    take_batches(way, 1);
    double first = (double)(clock_ns() - start) / 1e9;
    struct figures fill = measure(way, batches_of(dataset, 64 << 20));
    struct figures steady = measure(way, batches_of(dataset, 256 << 20));
    printf("| %" PRIu64 " B | %" PRIu64 " | %.2f | %.0f | %.0f | %d |\n", each, shuffle, first,
           fill.wall * 1000, steady.wall * 1000, most_at_once);
    fflush(stdout);
    way_free(way);
    dataset_unref(dataset);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return fprintf(stderr, "usage: %s warm|slow FOLDER [ROUNDS|MS [BATCH]]\n", argv[0]), 64;
    static const uint64_t kinds[][2] = {{110000, 4096}, {110000, 0}, {2000, 65536}, {2000, 0}};
    uint64_t number = argc > 3 ? strtoull(argv[3], NULL, 10) : 5;
    const char *only = getenv("KIND");
    if (argc > 4)
        batch_rows = (uint32_t)atoi(argv[4]);
    mem_keep(UINT64_MAX);
    if (strcmp(argv[1], "warm") == 0) {
        source = malloc(SOURCE), target = malloc(TARGET);
        memset(source, 1, SOURCE), memset(target, 1, TARGET);
        printf("| records | shuffle | reader/memcpy | reader/pread | reader/spread | reader GB/s | "
               "memcpy | pread 1 MiB | spread | wall | reads/MiB | advice/MiB | faults/MiB |\n");
    }
    slow_ns = strcmp(argv[1], "slow") == 0 ? number * CLOCK_MS : 0;
    if (slow_ns)
        printf("| records | shuffle | first batch s | filling MB/s | then MB/s | at a time |\n");
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (only && (size_t)atoi(only) != k)
            continue;
        if (slow_ns)
            slow(argv[2], kinds[k][0], kinds[k][1]);
        else
            warm(argv[2], kinds[k][0], kinds[k][1], number > 60 ? 60 : (uint32_t)number);
    }
    return 0;
}
