/* What the pool of decode threads costs, and what goes through it.
 *
 *   bench_pool rows WORK_NS THREADS...
 *   bench_pool queues QUEUES...
 *   bench_pool feed FIELD THREADS SECONDS SHARD.tar...
 *   bench_pool memory THREADS FILE.jpg...
 *
 * rows: rows that only take WORK_NS of processor time each. For each number of threads: processor
 * ns a row beside that, rows/s, waits (voluntary context switches) in 1000 rows.
 *
 * queues: rows in which nothing is done, of so many queues of 8 users. For each number of queues,
 * on 2 threads: processor ns a row, and the most that a task of 256 of them costs beside one of a
 * single queue.
 *
 * feed: a whole feed, and a trainer that gives each batch back at once. FIELD: jpg (train 224), or
 * a part's suffix, taken as bytes; THREADS such as 2p: pinned. Rows/s, processor us a row of all
 * threads, and the shares of wall time in which the workers ran, were ready to run, and waited.
 *
 * memory: RssAnon of workers before, with and after a huge picture. */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "config.h"
#include "feed/feed.h"
#include "jpeg_maker.h"

enum { ROWS = 1000000, THREADS_MAX = 1024, HUGE_SIDE = 8000, SPIN_TURNS = 100000 };

static uint64_t work_ns, turns_a_row;
/* One cache line a thread: what is counted must cost no more than what is measured. */
static struct counter {
    _Alignas(128) _Atomic uint64_t rows;
} counters[THREADS_MAX];
static _Atomic unsigned ncounters;
static _Thread_local struct counter *own;

static uint64_t rows_done(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < THREADS_MAX; i++)
        sum += atomic_load_explicit(&counters[i].rows, memory_order_relaxed);
    return sum;
}

static void count_rows(uint64_t rows)
{
    if (!own)
        own = &counters[atomic_fetch_add(&ncounters, 1) % THREADS_MAX];
    atomic_store_explicit(&own->rows, own->rows + rows, memory_order_relaxed);
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

static uint64_t thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

/* A chain of multiplications, so that its time is that of the processor alone. */
static void spin(uint64_t turns)
{
    uint64_t x = turns;
    for (uint64_t i = 0; i < turns; i++) {
        x = x * 0x9e3779b97f4a7c15ULL + 1;
        __asm__ volatile("" : "+r"(x));
    }
}

static void calibrate(void)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        uint64_t begin = thread_ns();
        spin(SPIN_TURNS);
        uint64_t took = thread_ns() - begin;
        least = took < least ? took : least;
    }
    turns_a_row = work_ns * SPIN_TURNS / least;
}

static bool run_empty(void *context, void *item, struct decoder *decoder)
{
    (void)context, (void)item, (void)decoder;
    spin(turns_a_row);
    return true;
}

static void rows_done_by(void *context, void **items, uint32_t count, uint64_t ns)
{
    (void)context, (void)items, (void)ns;
    count_rows(count);
}

static void drop(void *context, void *item)
{
    (void)context, (void)item;
}

static uint32_t none_ahead(void *context)
{
    (void)context;
    return 0;
}

static const struct workers_work empty_work = {run_empty, rows_done_by, drop, none_ahead};

static long waits(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}

static void bench_rows(unsigned threads)
{
    struct budget *budget = budget_new(64ULL << 20, 0);
    struct workers *workers = workers_new(threads, NULL, budget);
    struct workers_queue *queue = workers_queue_new(workers, &empty_work, NULL, false);
    uint64_t rows = work_ns > 1000 ? ROWS / 10 : ROWS;
    cleanup_free void **items = mem_array(rows, sizeof *items);
    uint64_t before = rows_done(), cpu = cpu_ns(), begin = clock_ns();
    long waited = waits();
    workers_push(queue, items, (uint32_t)rows);
    while (rows_done() < before + rows)
        usleep(1000);
    double took = (double)(clock_ns() - begin), spent = (double)(cpu_ns() - cpu);
    waited = waits() - waited - (long)(took / 1e6);
    printf("%4u threads: %7.1f ns a row, %9.0f rows/s, %7.3f waits in 1000 rows\n", threads,
           spent / (double)rows - (double)work_ns, (double)rows / took * 1e9,
           waited > 0 ? (double)waited * 1000 / (double)rows : 0);
    workers_queue_free(queue);
    workers_free(workers);
    budget_free(budget);
}

enum { USERS = 8, TASK_ROWS = 256 };

static double ns_a_row(unsigned nqueues)
{
    struct budget *budget = budget_new(64ULL << 20, 0);
    struct workers *workers = workers_new(2, NULL, budget);
    cleanup_free struct workers_queue **queues = mem_array(nqueues, sizeof *queues);
    uint32_t each = 4 * ROWS / nqueues;
    cleanup_free void **items = mem_array(each, sizeof *items);
    for (unsigned i = 0; i < nqueues; i++) {
        const struct share_terms terms = {.uid = i % USERS, .job = i};
        queues[i] = workers_queue_new(workers, &empty_work, NULL, false);
        workers_queue_set_terms(queues[i], &terms);
    }
    uint64_t before = rows_done(), cpu = cpu_ns();
    for (unsigned i = 0; i < nqueues; i++)
        workers_push(queues[i], items, each);
    while (rows_done() < before + (uint64_t)each * nqueues)
        usleep(1000);
    double ns = (double)(cpu_ns() - cpu) / each / nqueues;
    for (unsigned i = 0; i < nqueues; i++)
        workers_queue_free(queues[i]);
    workers_free(workers);
    budget_free(budget);
    return ns;
}

static void bench_queues(unsigned nqueues)
{
    double one = ns_a_row(1), many = ns_a_row(nqueues);
    printf("%4u queues: %5.1f ns a row, of one queue %5.1f: %6.0f ns a task more\n", nqueues, many,
           one, (many - one) * TASK_ROWS);
}

/* ------- a whole feed ------- */

struct trainer {
    uv_loop_t loop;
    uv_timer_t end;
    struct feed *feed;
    uint64_t rows;
    bool closed;
};

static void on_ready(void *context, const struct feed_batch *batch)
{
    struct trainer *trainer = context;
    trainer->rows += batch->rows;
    feed_hold(trainer->feed, batch->slot, batch->generation);
    feed_release(trainer->feed, batch->slot, batch->generation);
}

static void on_failed(void *context, const struct feed_batch *batch, const char *text)
{
    (void)text;
    on_ready(context, batch);
}

static void on_bad(void *context, const struct bad_report *report, struct feed_place place)
{
    (void)context, (void)report, (void)place;
}

static void on_stopped(void *context, const struct error *err)
{
    (void)context;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static void on_closed(void *context)
{
    struct trainer *trainer = context;
    trainer->closed = true;
    uv_stop(&trainer->loop);
}

static void on_end(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void run_for(struct trainer *trainer, uint64_t ms)
{
    uv_timer_start(&trainer->end, on_end, ms, 0);
    uv_run(&trainer->loop, UV_RUN_DEFAULT);
}

static struct config *configure(const char *field, char **shards)
{
    bool image = strcmp(field, "jpg") == 0;
    char *text = mem_format("feeds: [ { name: bench, batch: %d, shuffle: 4096, fields: [ { name: "
                            "it, from: %s, kind: %s } ], source: [",
                            image ? 32 : 256, field, image ? "image" : "bytes, max_bytes: 64KiB");
    for (uint32_t i = 0; shards[i]; i++) {
        char *longer = mem_format("%s%s \"%s\"", text, i ? "," : "", shards[i]);
        free(text);
        text = longer;
    }
    char *all = mem_format("%s ] } ]\n", text);
    struct config *config;
    struct error err;
    if (config_parse("bench", all, strlen(all), &config, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    free(text);
    free(all);
    return config;
}

/* Time of the workers, ns: on a processor, and ready for one. */
static void worker_times(uint64_t *ran, uint64_t *ready)
{
    DIR *tasks = opendir("/proc/self/task");
    *ran = *ready = 0;
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        char name[32] = "", path[300];
        unsigned long long on = 0, off = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        bool worker = file && fscanf(file, "%31s", name) == 1 && strncmp(name, "decode-", 7) == 0;
        if (file)
            fclose(file);
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
        file = worker ? fopen(path, "r") : NULL;
        if (file && fscanf(file, "%llu %llu", &on, &off) == 2) {
            *ran += on;
            *ready += off;
        }
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
}

static void measure(struct trainer *trainer, unsigned threads, double seconds)
{
    run_for(trainer, 500);
    uint64_t rows = trainer->rows, cpu = cpu_ns(), begin = clock_ns(), ran, ready, ran2, ready2;
    worker_times(&ran, &ready);
    run_for(trainer, (uint64_t)(seconds * 1000));
    worker_times(&ran2, &ready2);
    double took = (double)(clock_ns() - begin);
    rows = trainer->rows - rows;
    double running = (double)(ran2 - ran) / took / threads;
    double wanting = (double)(ready2 - ready) / took / threads;
    printf("%.0f rows/s %.2f us ran %.3f ready %.3f waited %.3f\n", (double)rows / took * 1e9,
           (double)(cpu_ns() - cpu) / 1e3 / (double)rows, running, wanting,
           1 - running - wanting > 0 ? 1 - running - wanting : 0);
}

static int bench_feed(const char *field, const char *number, double seconds, char **shards)
{
    unsigned threads = (unsigned)atoi(number);
    bool pinned = strchr(number, 'p') != NULL;
    struct config *config = configure(field, shards);
    const struct feed_spec *spec = config->feeds[0];
    struct dataset *dataset;
    struct error err;
    if (spec_open_dataset(spec, NULL, 0, false, 2, NULL, NULL, &dataset, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    struct trainer trainer = {0};
    uv_loop_init(&trainer.loop);
    uv_timer_init(&trainer.loop, &trainer.end);
    struct budget *budget = budget_new(4ULL << 30, 0);
    struct mailbox *mailbox = mailbox_new(&trainer.loop);
    cleanup_free struct cpus *cpus = cpus_allowed(threads);
    struct workers *workers = workers_new(threads, pinned ? cpus : NULL, budget);
    struct feed_params params = {.spec = spec,
                                 .dataset = dataset,
                                 .world = 1,
                                 .batch = spec->batch,
                                 .slots = spec->slots,
                                 .workers = workers,
                                 .budget = budget,
                                 .mailbox = mailbox,
                                 .events = {.ready = on_ready,
                                            .failed = on_failed,
                                            .bad = on_bad,
                                            .stopped = on_stopped,
                                            .closed = on_closed},
                                 .context = &trainer};
    if (feed_open(&params, &trainer.feed, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    feed_start(trainer.feed);
    measure(&trainer, threads, seconds);
    feed_close(trainer.feed);
    while (!trainer.closed)
        uv_run(&trainer.loop, UV_RUN_DEFAULT);
    workers_free(workers);
    dataset_unref(dataset);
    config_free(config);
    return 0;
}

/* ------- memory ------- */

struct picture {
    uint8_t *bytes;
    size_t size;
};

static struct transform transform;

static bool run_picture(void *context, void *item, struct decoder *decoder)
{
    static _Thread_local uint8_t row[224 * 224 * 3];
    const struct picture *picture = item;
    struct decoder_result result;
    (void)context;
    decoder_run(decoder, picture->bytes, picture->size, &transform, 0, 0, picture->size, row,
                sizeof row, &result);
    if (result.busy)
        return false;
    if (result.cls)
        fprintf(stderr, "not decoded: %s\n", result.reason);
    return true;
}

static const struct workers_work picture_work = {run_picture, rows_done_by, drop, none_ahead};

static double anonymous(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[200];
    unsigned long kib = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %lu", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return (double)kib / 1024;
}

/* All of them `rounds` times; returns the most that was seen, MiB. */
static double decode_all(struct workers_queue *queue, struct picture *pictures, uint32_t count,
                         uint32_t rounds)
{
    uint64_t end = rows_done() + (uint64_t)rounds * count;
    double most = 0;
    for (uint32_t r = 0; r < rounds; r++)
        for (uint32_t i = 0; i < count; i++)
            workers_push(queue, (void *[]){&pictures[i]}, 1);
    while (rows_done() < end) {
        double now = anonymous();
        most = now > most ? now : most;
        usleep(500);
    }
    return most;
}

static struct picture load(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct picture picture = {0};
    if (!file)
        exit(1);
    fseek(file, 0, SEEK_END);
    picture.size = (size_t)ftell(file);
    picture.bytes = malloc(picture.size);
    rewind(file);
    if (fread(picture.bytes, 1, picture.size, file) != picture.size)
        exit(1);
    fclose(file);
    return picture;
}

static void bench_memory(unsigned threads, uint32_t count, char **files)
{
    struct error err;
    transform_preset(&transform, "train", &err);
    transform_check(&transform, &err);
    cleanup_free struct picture *pictures = mem_array(count, sizeof *pictures);
    for (uint32_t i = 0; i < count; i++)
        pictures[i] = load(files[i]);
    struct jpeg_recipe recipe = {.width = HUGE_SIDE, .height = HUGE_SIDE};
    struct picture huge = {0};
    huge.bytes = jpeg_maker_make(&recipe, &huge.size);
    mem_trim();
    struct budget *budget = budget_new(4ULL << 30, 2ULL << 30);
    double before = anonymous();
    struct workers *workers = workers_new(threads, NULL, budget);
    struct workers_queue *queue = workers_queue_new(workers, &picture_work, NULL, false);
    double usual = decode_all(queue, pictures, count, 4);
    double most = decode_all(queue, &huge, 1, 1);
    decode_all(queue, pictures, count, 4);
    printf("%u workers: %.1f MiB each with %u pictures, %.1f MiB more with one of %dx%d, %.1f MiB "
           "each after it\n",
           threads, (usual - before) / threads, count, most - usual, HUGE_SIDE, HUGE_SIDE,
           (anonymous() - before) / threads);
    workers_queue_free(queue);
    workers_free(workers);
    budget_free(budget);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 3 && strcmp(argv[1], "rows") == 0) {
        work_ns = strtoull(argv[2], NULL, 10);
        calibrate();
        for (int i = 3; i < argc; i++)
            bench_rows((unsigned)atoi(argv[i]));
        return 0;
    }
    for (int i = 2; i < argc && strcmp(argv[1], "queues") == 0; i++)
        bench_queues((unsigned)atoi(argv[i]));
    if (argc > 2 && strcmp(argv[1], "queues") == 0)
        return 0;
    if (argc > 5 && strcmp(argv[1], "feed") == 0)
        return bench_feed(argv[2], argv[3], atof(argv[4]), argv + 5);
    if (argc > 3 && strcmp(argv[1], "memory") == 0) {
        bench_memory((unsigned)atoi(argv[2]), (uint32_t)argc - 3, argv + 3);
        return 0;
    }
    fprintf(stderr, "usage: see the head of tests/bench/bench_pool.c\n");
    return 64;
}
