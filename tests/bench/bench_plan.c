/* The order of one epoch of a vast data set that exists in numbers only.
 *   bench_plan [SHARDS [RECORDS_A_SHARD]]      default 10^4 shards of 10^4 records of 110 kB
 * prints CPU time of the plan, peak memory of the process, CPU time of one place. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "store/plan.h"

#define RECORD_BYTES 110000
#define PLACES 100000

static uint64_t records_of(const void *context, uint32_t shard)
{
    (void)shard;
    return *(const uint64_t *)context;
}

static uint64_t span_bytes(const void *context, uint32_t shard, uint64_t first, uint64_t count)
{
    (void)context, (void)shard, (void)first;
    return count * RECORD_BYTES;
}

static uint64_t bytes_of(const void *context, uint32_t shard)
{
    return span_bytes(context, shard, 0, records_of(context, shard));
}

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

int main(int argc, char **argv)
{
    uint32_t shards = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 10000;
    uint64_t records = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000;
    struct plan_source source = {shards, records_of, bytes_of, span_bytes, &records};
    struct plan_settings settings = {1, 16384, 64};
    double began = cpu_seconds();
    struct plan *plan = plan_new(&source, &settings, 0);
    double planned = cpu_seconds() - began;
    if (!plan || plan_records(plan) == 0) {
        fprintf(stderr, "no plan\n");
        return 1;
    }
    began = cpu_seconds();
    uint64_t sum = 0;
    for (uint64_t i = 0; i < PLACES; i++)
        sum += plan_at(plan, i * 7919 % plan_records(plan)).record;
    double found = cpu_seconds() - began;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%llu records, %u runs: %.3f s, %.1f MiB; a place %.2f us (checksum %llu)\n",
           (unsigned long long)plan_records(plan), plan_runs(plan), planned,
           (double)usage.ru_maxrss / 1024, found * 1e6 / PLACES, (unsigned long long)sum);
    plan_free(plan);
    return 0;
}
