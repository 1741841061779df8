/* The reference of the end-to-end figure: the same decoder on the same encoded bytes from memory,
 * in a loop without queues, slots or trainers.
 *
 *   bench_loop [full] THREADS SECONDS SHARD.tar...
 *
 * full: libjpeg-turbo decodes the whole picture, and nothing else is done. Prints samples/s of all
 * threads together, and the processor time of one, us. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "image/decoder.h"
#include "image/jpeg.h"
#include "store/dataset.h"

struct picture {
    uint8_t *bytes;
    uint64_t size;
};

static struct picture *pictures;
static uint64_t npictures;
static _Atomic uint64_t next_picture, done;
static uint64_t end_ns;
static struct transform transform;
static bool full;

static void load_shard(const struct dataset *dataset, uint32_t number)
{
    struct shard *shard;
    struct error err;
    if (shard_open(dataset, number, &shard, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    for (uint64_t j = 0; j < dataset_shard_records(dataset, number); j++) {
        struct dataset_record record;
        dataset_record(dataset, number, j, &record);
        struct picture *picture = &pictures[npictures++];
        *picture = (struct picture){malloc(record.parts[0].size), record.parts[0].size};
        struct format_read read = {
            record.number, record.parts[0].offset, record.parts[0].size, picture->bytes, 0, 0};
        shard_read(shard, &read, 1);
    }
    shard_close(shard);
}

static void decode_full(const struct picture *picture, struct jpeg_image *image, uint8_t **room,
                        size_t *size)
{
    struct jpeg_image_header header;
    if (jpeg_image_open(image, picture->bytes, picture->size, JPEG_TURBO, &header)) {
        const struct jpeg_box box = {0, 0, header.width, header.height};
        size_t stride = 3 * (size_t)header.width, bytes = stride * (size_t)header.height;
        if (bytes > *size)
            *room = mem_grow(*room, *size = bytes, 1);
        jpeg_image_read(image, &box, *room, stride);
    }
    jpeg_image_close(image);
}

static void *loop_full(void *argument)
{
    (void)argument;
    struct jpeg_image *image = jpeg_image_new();
    uint8_t *room = NULL;
    size_t size = 0;
    while (clock_ns() < end_ns) {
        decode_full(&pictures[atomic_fetch_add(&next_picture, 1) % npictures], image, &room, &size);
        atomic_fetch_add(&done, 1);
    }
    free(room);
    jpeg_image_free(image);
    return NULL;
}

static void *loop(void *argument)
{
    (void)argument;
    struct decoder_limits limits = {.share = 256U << 20, .max = 256U << 20};
    struct decoder *decoder = decoder_new(&limits);
    size_t capacity = 3UL * transform.height * transform.width;
    uint8_t *row = malloc(capacity);
    while (clock_ns() < end_ns) {
        uint64_t at = atomic_fetch_add(&next_picture, 1);
        struct picture *picture = &pictures[at % npictures];
        struct decoder_result result;
        decoder_run(decoder, picture->bytes, picture->size, &transform, 0, at / npictures,
                    at % npictures, row, capacity, &result);
        atomic_fetch_add(&done, 1);
    }
    free(row);
    decoder_free(decoder);
    return NULL;
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / (double)CLOCK_SECOND;
}

int main(int argc, char **argv)
{
    full = argc > 1 && strcmp(argv[1], "full") == 0;
    argv += full;
    argc -= full;
    if (argc < 4) {
        fprintf(stderr, "usage: bench_loop [full] THREADS SECONDS SHARD.tar...\n");
        return 64;
    }
    unsigned threads = (unsigned)atoi(argv[1]);
    const char *jpg[] = {"jpg", "jpeg"};
    struct dataset_field field = {"image", jpg, 2};
    struct dataset_options options = {
        .name = "bench",
        .source = {(const char *const *)argv + 3, (size_t)argc - 3, false},
        .fields = &field,
        .nfields = 1,
        .threads = threads};
    struct dataset *dataset;
    struct error err;
    if (dataset_open(&options, &dataset, &err) || transform_preset(&transform, "train", &err) ||
        transform_check(&transform, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    pictures = calloc(dataset_records(dataset), sizeof *pictures);
    for (uint32_t shard = 0; shard < dataset_shards(dataset); shard++)
        load_shard(dataset, shard);
    double before = cpu_seconds();
    uint64_t start = clock_ns();
    end_ns = start + (uint64_t)(atof(argv[2]) * (double)CLOCK_SECOND);
    pthread_t *ids = calloc(threads, sizeof *ids);
    for (unsigned i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, full ? loop_full : loop, NULL);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    double seconds = (double)(clock_ns() - start) / (double)CLOCK_SECOND;
    printf("%.1f %.1f\n", (double)done / seconds, (cpu_seconds() - before) * 1e6 / (double)done);
    for (uint64_t i = 0; i < npictures; i++)
        free(pictures[i].bytes);
    free(pictures);
    free(ids);
    dataset_unref(dataset);
    return 0;
}
