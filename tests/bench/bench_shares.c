/* Whether a storage that several users read is shared by weight, and what that costs.
 *
 *   bench_shares SECONDS      of each case
 *   bench_shares turns        ns of a turn where one user reads, 1 to 16 threads
 *   bench_shares crowd        reads/s of 8 users who wait, 16 reads of each stream, and what they
 * cost
 *
 * Streams as the reader makes them (rounds of 16 reads of 1 MiB, by a crew; the next round when all
 * have ended) on a stand-in for a storage: reads one after the other at one rate in all, and each
 * takes a while besides. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "feed/crew.h"
#include "feed/storage.h"

enum { STREAMS_MAX = 8, ROUND = 16, READ_BYTES = 1 << 20, TURNS = 1000000, CROWD = 128 };
#define MB 1e6

struct device {
    dev_t number;
    double rate; /* bytes/s in all */
    uint64_t latency_ns;
    _Atomic uint64_t busy_until;
};

struct kind { /* of a user's streams */
    uint32_t uid, weight, streams;
    double needs; /* bytes/s; 0 = all there is */
    uint64_t slower_ns;
    struct device *device;
};

struct stream {
    const struct kind *kind;
    struct storage_member member;
    struct storage_waits waits;
    pthread_t thread;
    _Atomic uint64_t bytes;
};

static _Atomic bool over, never;

static void sleep_until(uint64_t ns)
{
    struct timespec time = {(time_t)(ns / CLOCK_SECOND), (long)(ns % CLOCK_SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL))
        continue;
}

static void device_read(struct device *device, uint64_t slower_ns)
{
    uint64_t busy = atomic_load(&device->busy_until), now = clock_ns(), end;
    do {
        end = (busy > now ? busy : now) + (uint64_t)(READ_BYTES / device->rate * 1e9);
    } while (!atomic_compare_exchange_weak(&device->busy_until, &busy, end));
    sleep_until(end + device->latency_ns + slower_ns);
}

static void read_one(void *context, size_t number)
{
    struct stream *stream = context;
    struct storage_turn turn;
    (void)number;
    if (atomic_load(&over) || !storage_begin(&turn, &stream->member, READ_BYTES, &over))
        return;
    device_read(stream->kind->device, stream->kind->slower_ns);
    storage_end(&turn);
    stream->bytes += READ_BYTES;
}

static void nothing(void *context, size_t number)
{
    (void)context, (void)number;
}

static void *stream_main(void *context)
{
    struct stream *stream = context;
    _Atomic uint64_t cpu_ns = 0;
    struct crew *crew = crew_new(&cpu_ns);
    uint64_t next = clock_ns();
    while (!over) {
        crew_run(crew, ROUND, read_one, nothing, stream);
        if (stream->kind->needs > 0) {
            next += (uint64_t)(ROUND * READ_BYTES / stream->kind->needs * 1e9);
            if (next > clock_ns() && !over)
                sleep_until(next);
        }
    }
    crew_free(crew);
    return NULL;
}

static uint32_t open_streams(struct stream *streams, const struct kind *kinds, uint32_t nkinds)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < nkinds; k++)
        for (uint32_t i = 0; i < kinds[k].streams; i++, count++) {
            streams[count].kind = &kinds[k];
            struct share_terms terms = {
                .uid = kinds[k].uid, .user_weight = kinds[k].weight, .job = count};
            storage_join(kinds[k].device->number, &terms, &streams[count].waits,
                         &streams[count].member);
            streams[count].thread = thread_start("stream", stream_main, &streams[count]);
        }
    return count;
}

/* Bytes/s of each kind, after a while. */
static void measure(const struct kind *kinds, uint32_t nkinds, double seconds, double *rates)
{
    cleanup_free struct stream *streams = mem_array(STREAMS_MAX, sizeof *streams);
    uint64_t before[STREAMS_MAX], begin;
    over = false;
    uint32_t count = open_streams(streams, kinds, nkinds);
    usleep((useconds_t)(seconds * 1e6 / 2));
    begin = clock_ns();
    for (uint32_t i = 0; i < count; i++)
        before[i] = streams[i].bytes;
    usleep((useconds_t)(seconds * 1e6));
    double took = (double)(clock_ns() - begin) / 1e9;
    for (uint32_t k = 0; k < nkinds; k++)
        rates[k] = 0;
    for (uint32_t i = 0; i < count; i++)
        rates[streams[i].kind - kinds] += (double)(streams[i].bytes - before[i]) / took;
    over = true;
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(streams[i].thread, NULL);
        storage_leave(&streams[i].member);
    }
}

static void show(const char *what, const struct kind *a, const struct kind *b, double seconds)
{
    const struct kind kinds[] = {*a, *b};
    double rates[2], alone[2];
    measure(a, 1, seconds, &alone[0]);
    measure(b, 1, seconds, &alone[1]);
    measure(kinds, 2, seconds, rates);
    printf("%-44s alone %6.0f %6.0f   together %6.0f %6.0f MB/s   %.2f of both\n", what,
           alone[0] / MB, alone[1] / MB, rates[0] / MB, rates[1] / MB,
           rates[0] / (rates[0] + rates[1]));
}

static void cases(double seconds)
{
    struct device disk = {.number = 1, .rate = 200 * MB},
                  far = {.number = 2, .rate = 1e12, .latency_ns = 50 * CLOCK_MS},
                  other = {.number = 3, .rate = 200 * MB};
    const struct kind four = {.uid = 1, .weight = 1, .streams = 4, .device = &disk};
    const struct kind one = {.uid = 2, .weight = 1, .streams = 1, .device = &disk};
    struct kind same = one, heavy = one, little = one, there = one, slow = one, more = four;
    struct kind far_four = four, far_one = one, far_little;
    same.uid = four.uid;
    heavy.weight = more.weight = 3;
    little.needs = 20 * MB;
    there.device = &other;
    slow.slower_ns = 500 * CLOCK_MS;
    far_four.device = far_one.device = &far;
    far_little = far_one;
    far_little.needs = 20 * MB;
    show("4 streams and 1, of one user", &four, &same, seconds);
    show("4 streams and 1, of two users", &four, &one, seconds);
    show("weights 1 and 3", &four, &heavy, seconds);
    show("weights 3 and 1", &more, &one, seconds);
    show("the other needs 20 MB/s", &four, &little, seconds);
    show("the other is on another storage", &four, &there, seconds);
    show("the other's reads take 0.5 s longer", &four, &slow, seconds);
    show("50 ms a read, no limit in all", &far_four, &far_one, seconds);
    show("the same, the other needs 20 MB/s", &far_four, &far_little, seconds);
}

struct turner {
    struct storage_member member;
    struct storage_waits waits;
    pthread_t thread;
    _Atomic uint64_t turns;
};

static void *turn_main(void *context)
{
    struct turner *turner = context;
    for (uint32_t i = 0; i < TURNS; i++) {
        struct storage_turn turn;
        storage_begin(&turn, &turner->member, READ_BYTES, &never);
        storage_end(&turn);
    }
    return NULL;
}

static void turns(void)
{
    for (uint32_t threads = 1; threads <= 16; threads *= 4) {
        struct turner turners[16] = {0};
        uint64_t begin = clock_ns();
        for (uint32_t i = 0; i < threads; i++) {
            storage_join(1, &(struct share_terms){.uid = 1}, &turners[i].waits, &turners[i].member);
            turners[i].thread = thread_start("turns", turn_main, &turners[i]);
        }
        for (uint32_t i = 0; i < threads; i++)
            pthread_join(turners[i].thread, NULL);
        printf("%2u threads: %.0f ns a turn\n", threads,
               (double)(clock_ns() - begin) / TURNS / threads);
        for (uint32_t i = 0; i < threads; i++)
            storage_leave(&turners[i].member);
    }
}

static void *crowd_main(void *context)
{
    static struct device disk = {.rate = 4000.0 * READ_BYTES};
    struct turner *turner = context;
    struct storage_turn turn;
    while (storage_begin(&turn, &turner->member, READ_BYTES, &over)) {
        device_read(&disk, 0);
        atomic_fetch_add(&turner->turns, 1);
        storage_end(&turn);
        if (over)
            break;
    }
    return NULL;
}

static uint64_t all_turns(struct turner *turners, uint32_t count)
{
    uint64_t turns = 0;
    for (uint32_t i = 0; i < count; i++)
        turns += atomic_load(&turners[i].turns);
    return turns;
}

static void crowd_of(uint32_t streams)
{
    static pthread_t threads[CROWD * ROUND];
    struct turner *turners = mem_array(streams, sizeof *turners);
    over = false;
    for (uint32_t i = 0; i < streams; i++) {
        storage_join(1, &(struct share_terms){.uid = i % 8, .job = i}, &turners[i].waits,
                     &turners[i].member);
        for (uint32_t t = 0; t < ROUND; t++)
            threads[i * ROUND + t] = thread_start("crowd", crowd_main, &turners[i]);
    }
    uint64_t before = all_turns(turners, streams), begin = clock_ns();
    uint64_t cpu = clock_read(CLOCK_PROCESS_CPUTIME_ID);
    sleep(3);
    double turns = (double)(all_turns(turners, streams) - before);
    printf("%3u streams: %5.0f reads/s of 4000, %.1f us of processor time a read\n", streams,
           turns * 1e9 / (double)(clock_ns() - begin),
           (double)(clock_read(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e3 / turns);
    over = true;
    for (uint32_t i = 0; i < streams * ROUND; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < streams; i++)
        storage_leave(&turners[i].member);
    free(turners);
}

static void crowd(void)
{
    for (uint32_t streams = 8; streams <= CROWD; streams *= 4)
        crowd_of(streams);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2 && strcmp(argv[1], "turns") == 0)
        turns();
    else if (argc == 2 && strcmp(argv[1], "crowd") == 0)
        crowd();
    else if (argc == 2 && atof(argv[1]) > 0)
        cases(atof(argv[1]));
    else
        return fprintf(stderr, "usage: see the head of tests/bench/bench_shares.c\n"), 64;
    return 0;
}
