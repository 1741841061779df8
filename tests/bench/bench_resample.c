/* Resampling alone, one thread: every kernel of this machine on the same decoded pictures, with
 * libjpeg-turbo's full decode of the same files beside them.
 *
 *   bench_resample FOLDER [REPETITIONS [KERNEL]]
 *
 * For each file and kernel the least time of the repetitions counts; kernels take turns. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "image/jpeg.h"
#include "image/resample.h"
#include "image/simd.h"

enum { FILES_MAX = 2000, ROOM = 64 << 20, KERNELS = SIMD_AVX512 + 1, PRESETS = 2 };

struct file {
    uint8_t *bytes;
    size_t size;
    uint64_t decode_ns, least_ns[PRESETS][KERNELS];
};

static const char *const presets[PRESETS] = {"train", "eval"};
static struct file files[FILES_MAX];
static size_t nfiles;
static struct resampler *resamplers[KERNELS]; /* NULL: not measured */
static struct jpeg_image *image;
static uint8_t *room, *scratch, *out;

static void read_file(const char *path)
{
    struct file *file = &files[nfiles];
    FILE *stream = fopen(path, "rb");
    if (!stream)
        return;
    fseek(stream, 0, SEEK_END);
    file->size = (size_t)ftell(stream);
    rewind(stream);
    file->bytes = mem_new(file->size + 1);
    file->size = fread(file->bytes, 1, file->size, stream);
    fclose(stream);
    nfiles++;
}

static void read_files(const char *folder)
{
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && nfiles < FILES_MAX && (entry = readdir(directory));) {
        cleanup_free char *path = mem_format("%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            read_file(path);
    }
    if (directory)
        closedir(directory);
}

static void make_resamplers(const char *only)
{
    static const struct resample_kernels *const kernels[KERNELS] = {&resample_plain,
#ifdef SIMD_X86
                                                                    &resample_sse4, &resample_avx2,
                                                                    &resample_avx512
#endif
    };
    for (enum simd level = 0; level <= simd_level(); level++)
        if (!only || strcmp(only, simd_name(level)) == 0)
            resamplers[level] = resampler_new(kernels[level]);
}

static void keep(uint64_t *least, uint64_t begin)
{
    uint64_t taken = clock_ns() - begin;
    if (*least == 0 || taken < *least)
        *least = taken;
}

static void measure_steps(struct file *file, const struct jpeg_image_header *header, int preset)
{
    struct transform transform = {0};
    struct geometry geometry;
    transform_preset(&transform, presets[preset], NULL);
    transform_check(&transform, NULL);
    geometry_draw(&transform, header->width, header->height, 1, 1, (uint64_t)(file - files),
                  &geometry);
    const struct geometry_step *step = &geometry.steps[0];
    size_t stride = 3 * (size_t)header->width;
    struct resample_reach reach = resampler_reach(step);
    const uint8_t *src =
        room + (size_t)(step->box_y + reach.y) * stride + 3 * (size_t)(step->box_x + reach.x);
    for (int k = 0; k < KERNELS; k++) {
        uint64_t begin = clock_ns();
        if (resamplers[k] &&
            resampler_run(resamplers[k], step, src, stride, NULL, out, scratch) == 0)
            keep(&file->least_ns[preset][k], begin);
    }
}

static void measure(struct file *file)
{
    struct jpeg_image_header header;
    uint64_t begin = clock_ns();
    if (jpeg_image_open(image, file->bytes, file->size, JPEG_TURBO, &header) &&
        (uint64_t)header.width * 3 * (uint64_t)header.height <= ROOM) {
        const struct jpeg_box all = {0, 0, header.width, header.height};
        jpeg_image_read(image, &all, room, 3 * (size_t)header.width);
    }
    jpeg_image_close(image);
    keep(&file->decode_ns, begin);
    for (int p = 0; p < PRESETS; p++)
        measure_steps(file, &header, p);
}

static double mean_us(int preset, int kernel)
{
    double sum = 0;
    for (size_t i = 0; i < nfiles; i++)
        sum += (double)files[i].least_ns[preset][kernel];
    return sum / 1e3 / (double)nfiles;
}

static void report(int preset, int kernel, double decode)
{
    double us = mean_us(preset, kernel);
    if (!resamplers[kernel])
        return;
    printf("%-6s %-9s %8.1f us/picture  %.3f of full decode", presets[preset],
           simd_name((enum simd)kernel), us, us / decode);
    if (resamplers[SIMD_NONE])
        printf("  %5.2f times plain C", mean_us(preset, SIMD_NONE) / us);
    printf("\n");
}

static void report_all(int repetitions)
{
    double decode = 0;
    for (size_t i = 0; i < nfiles; i++)
        decode += (double)files[i].decode_ns / 1e3 / (double)nfiles;
    printf("%zu files, least of %d\n%-16s %8.1f us/picture\n", nfiles, repetitions, "full decode",
           decode);
    for (int p = 0; p < PRESETS; p++)
        for (int k = 0; k < KERNELS; k++)
            report(p, k, decode);
}

int main(int argc, char **argv)
{
    int repetitions = argc > 2 ? atoi(argv[2]) : 5;
    if (argc > 1)
        read_files(argv[1]);
    if (nfiles == 0) {
        fprintf(stderr, "usage: bench_resample FOLDER_OF_JPEGS [REPETITIONS [KERNEL]]\n");
        return 64;
    }
    make_resamplers(argc > 3 ? argv[3] : NULL);
    image = jpeg_image_new();
    room = mem_new(ROOM);
    scratch = mem_new(ROOM);
    out = mem_new(ROOM);
    for (int r = 0; r < repetitions; r++)
        for (size_t i = 0; i < nfiles; i++)
            measure(&files[i]);
    report_all(repetitions);
    for (int k = 0; k < KERNELS; k++)
        resampler_free(resamplers[k]);
    jpeg_image_free(image);
    for (size_t i = 0; i < nfiles; i++)
        free(files[i].bytes);
    free(room);
    free(scratch);
    free(out);
    return 0;
}
