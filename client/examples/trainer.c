/* A trainer without a model: reads one epoch of a feed and prints the rate.
 *
 *   trainer FEED [BATCH] [RANK WORLD]        cc trainer.c $(pkg-config --cflags --libs dataload)
 */
#include <dataload.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Here a real trainer copies the batch to its device and makes a step. */
static int train(const dataload_batch *batch, uint64_t *checksum)
{
    dataload_tensor image;
    int r = dataload_batch_tensor(batch, "image", &image);
    if (r == -ENOENT) /* a feed without images */
        r = dataload_batch_tensor_at(batch, 0, &image);
    if (r < 0)
        return r;
    for (uint64_t i = 0; i < image.bytes; i += 4096)
        *checksum += ((const uint8_t *)image.data)[i];
    return 0;
}

static int run_epoch(dataload *loader, uint64_t *checksum)
{
    for (;;) {
        dataload_batch *batch;
        int r = dataload_next(loader, DATALOAD_FOREVER, &batch);
        if (r == DATALOAD_EPOCH_END)
            return 0;
        if (r < 0)
            return r;
        r = train(batch, checksum);
        dataload_release(loader, batch);
        if (r < 0)
            return r;
    }
}

static void describe(dataload *loader)
{
    dataload_info info = {.size = sizeof info};
    dataload_get_info(loader, &info);
    printf("rank %u of %u in job %s: steps %lld, batch %u, plan %s\n%s\n", info.rank, info.world,
           info.job, (long long)dataload_steps(loader, info.epoch), info.batch, info.plan_id,
           info.transform);
    for (uint32_t i = 0; dataload_note(loader, i); i++)
        printf("note: %s\n", dataload_note(loader, i));
}

static void report(dataload *loader, uint64_t checksum)
{
    dataload_stats stats = {.size = sizeof stats};
    dataload_get_stats(loader, &stats);
    double seconds = (double)stats.elapsed_ns / 1e9;
    printf("batches %llu, samples %llu in %.2f s: %.0f samples/s, %.1f MB/s, waited %.1f %% of the "
           "time (checksum %llu)\n",
           (unsigned long long)stats.batches, (unsigned long long)stats.samples, seconds,
           (double)stats.samples / seconds, (double)stats.bytes / seconds / 1e6,
           (double)stats.wait_ns / (double)stats.elapsed_ns * 100, (unsigned long long)checksum);
}

static void progress(void *context, const char *text, uint64_t done, uint64_t total)
{
    (void)context;
    fprintf(stderr, "%s: %llu of %llu\n", text, (unsigned long long)done,
            (unsigned long long)total);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc == 4 || argc > 5) {
        fprintf(stderr, "usage: trainer FEED [BATCH] [RANK WORLD]\n");
        return 64;
    }
    dataload_options options = DATALOAD_OPTIONS_INIT;
    options.progress = progress;
    if (argc > 2)
        options.batch = atoll(argv[2]);
    if (argc > 4) {
        options.rank = atoll(argv[3]);
        options.world = atoll(argv[4]);
    }
    dataload *loader;
    uint64_t checksum = 0;
    int r = dataload_attach(argv[1], &options, &loader);
    if (r == 0) {
        describe(loader);
        r = run_epoch(loader, &checksum);
    }
    if (r == 0)
        report(loader, checksum);
    else
        fprintf(stderr, "trainer: %s\n", dataload_error(loader));
    dataload_detach(loader);
    return r < 0;
}
