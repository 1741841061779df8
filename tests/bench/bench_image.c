/* Pictures from memory on one thread: decoding and transforming them against libjpeg-turbo's full
 * decode of the same files in the same run.
 *
 *   bench_image FOLDER [REPETITIONS [METHOD [SHARE]]]
 *
 * For each file and method the least processor time of the repetitions counts. Methods take turns
 * by the folder, so that no file is decoded twice in a row: branches would be known from the first
 * time. Rows go to places as many as a few batches have, not to one that stays in the cache.
 * METHOD: name or number of one, run alone, for counting instructions; "all". SHARE: of the index
 * of marks in the bytes of the files, in thousandths; it is recorded in decodings with other crops.
 * Their instructions do not count where those of one repetition are taken from those of two. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "image/decoder.h"
#include "image/geometry.h"
#include "image/jpeg.h"
#include "image/jpeg_marks.h"
#include "image/resample.h"

enum { FILES_MAX = 2000, ROW = 640 << 10, ROWS = 256, ROOM = ROW * ROWS, EPOCHS = 10 };

struct file {
    uint8_t *bytes;
    size_t size;
    struct jpeg_marks_entry marks, none; /* as recorded; room that stays empty */
};

static struct file files[FILES_MAX];
static size_t nfiles;
static struct decoder *decoder;
static uint8_t *room;

static const struct method {
    const char *name, *preset;
    enum pixels pixels;
    bool turbo;       /* libjpeg-turbo alone */
    bool decode_only; /* the box that the preset needs */
    bool fast;
    enum { PLAIN, RECORDED, MARKED } marks;
} methods[] = {
    {"full decode", "none", 0, true, true},
    {"our full decode", "none", 0, false, true},
    {"box of train", "train", 0, false, true},
    {"box of eval", "eval", 0, false, true},
    {"train by libjpeg", "train", PIXELS_U8_NHWC, true, false},
    {"train uint8_nhwc", "train", PIXELS_U8_NHWC},
    {"train uint8_nchw", "train", PIXELS_U8_NCHW},
    {"train float32_nchw", "train", PIXELS_F32_NCHW},
    {"train float16_nchw", "train", PIXELS_F16_NCHW},
    {"train bfloat16_nchw", "train", PIXELS_BF16_NCHW},
    {"eval uint8_nhwc", "eval", PIXELS_U8_NHWC},
    {"eval float32_nchw", "eval", PIXELS_F32_NCHW},
    {"train uint8_nhwc fast", "train", PIXELS_U8_NHWC, .fast = true},
    {"train uint8_nchw fast", "train", PIXELS_U8_NCHW, .fast = true},
    {"train float32_nchw fast", "train", PIXELS_F32_NCHW, .fast = true},
    {"eval uint8_nhwc fast", "eval", PIXELS_U8_NHWC, .fast = true},
    {"eval float32_nchw fast", "eval", PIXELS_F32_NCHW, .fast = true},
    {"train, index recorded", "train", PIXELS_U8_NHWC, .marks = RECORDED},
    {"train with index", "train", PIXELS_U8_NHWC, .marks = MARKED},
    {"eval with index", "eval", PIXELS_U8_NHWC, .marks = MARKED},
};
enum { METHODS = sizeof methods / sizeof methods[0] };

static void read_files(const char *folder)
{
    struct dirent **entries;
    int count =
        scandir(folder, &entries, NULL, alphasort); /* draws depend on the number of a file */
    for (int i = 0; i < count && nfiles < FILES_MAX; i++) {
        cleanup_free struct dirent *entry = entries[i];
        cleanup_free char *path = mem_format("%s/%s", folder, entry->d_name);
        FILE *stream = entry->d_name[0] == '.' ? NULL : fopen(path, "rb");
        if (!stream)
            continue;
        struct file *file = &files[nfiles++];
        fseek(stream, 0, SEEK_END);
        file->size = (size_t)ftell(stream);
        rewind(stream);
        file->bytes = mem_new(file->size + 1);
        file->size = fread(file->bytes, 1, file->size, stream);
        fclose(stream);
    }
    if (count >= 0)
        free(entries);
}

/* By name or number. */
static int method_of(const char *text)
{
    for (int m = 0; m < METHODS; m++)
        if (strcmp(methods[m].name, text) == 0)
            return m;
    int number = atoi(text);
    return number < METHODS ? number : 0;
}

static struct transform transform_of(const struct method *method)
{
    static const float mean[3] = {0.485F, 0.456F, 0.406F}, std[3] = {0.229F, 0.224F, 0.225F};
    struct transform transform = {0};
    transform_preset(&transform, method->preset, NULL);
    transform.pixels = method->pixels;
    transform.turbo = method->turbo;
    transform.fast = method->fast;
    memcpy(transform.mean, mean, sizeof mean);
    memcpy(transform.std, std, sizeof std);
    transform_check(&transform, NULL);
    return transform;
}

static void decode(struct jpeg_image *image, size_t number, const struct transform *transform)
{
    struct jpeg_image_header header;
    struct geometry geometry;
    enum jpeg_way way = transform->turbo ? JPEG_TURBO : JPEG_AUTO;
    if (jpeg_image_open(image, files[number].bytes, files[number].size, way, &header) &&
        (uint64_t)header.width * 3 * (uint64_t)header.height <= ROOM) {
        geometry_draw(transform, header.width, header.height, 1, 1, number, &geometry);
        const struct geometry_step *first = &geometry.steps[0];
        struct resample_reach reach = resampler_reach(first);
        const struct jpeg_box box = {first->box_x + reach.x, first->box_y + reach.y, reach.width,
                                     reach.height};
        jpeg_image_read(image, &box, room, 3 * (size_t)box.width);
    }
    jpeg_image_close(image);
}

static void run(size_t number, const struct transform *transform, uint64_t epoch,
                struct jpeg_marks_entry *marks)
{
    struct decoder_result result;
    if (marks)
        decoder_mark(decoder, marks);
    decoder_run(decoder, files[number].bytes, files[number].size, transform, 1, epoch, number,
                room + number % ROWS * ROW, ROW, &result);
}

static void make_marks(unsigned share)
{
    struct transform transform = transform_of(&methods[METHODS - 2]);
    uint64_t bytes = 0, index = 0, step = 0, marked = 0;
    for (size_t i = 0; i < nfiles; i++) {
        struct file *file = &files[i];
        size_t entry = file->size * share / 1000 + 1;
        file->marks = (struct jpeg_marks_entry){.bytes = mem_new(entry), .room = entry};
        file->none = (struct jpeg_marks_entry){.bytes = mem_new(entry), .room = entry};
        for (uint64_t epoch = 2; epoch < 2 + EPOCHS; epoch++)
            run(i, &transform, epoch, &file->marks);
        struct jpeg_marks_head head = {0};
        if (entry >= sizeof head)
            memcpy(&head, file->marks.bytes, sizeof head);
        bytes += file->size;
        index += entry;
        step += head.count ? head.step : 0;
        marked += head.count > 0;
    }
    printf("index: %.2f %% of the bytes, %zu of %zu files, a mark each %.1f MCUs\n",
           100.0 * (double)index / (double)bytes, (size_t)marked, nfiles,
           (double)step / (double)marked);
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

static uint64_t measure(struct jpeg_image *image, size_t number, const struct method *method)
{
    struct transform transform = transform_of(method);
    struct file *file = &files[number];
    struct jpeg_marks_entry *marks[] = {NULL, &file->none, &file->marks};
    if (method->marks == RECORDED)
        memset(file->none.bytes, 0, file->none.room);
    uint64_t begin = cpu_ns();
    if (method->decode_only)
        decode(image, number, &transform);
    else
        run(number, &transform, 1, marks[method->marks]);
    return cpu_ns() - begin;
}

int main(int argc, char **argv)
{
    static uint64_t least[METHODS][FILES_MAX];
    const struct decoder_limits limits = {.share = 1 << 28, .max = 1 << 28};
    int repetitions = argc > 2 ? atoi(argv[2]) : 5;
    bool one = argc > 3 && strcmp(argv[3], "all") != 0;
    int first = one ? method_of(argv[3]) : 0, end = one ? first + 1 : METHODS;
    uint64_t sums[METHODS] = {0};
    if (argc > 1)
        read_files(argv[1]);
    if (nfiles == 0) {
        fprintf(stderr, "usage: bench_image FOLDER_OF_JPEGS [REPETITIONS [METHOD [SHARE]]]\n");
        return 64;
    }
    struct jpeg_image *image = jpeg_image_new();
    decoder = decoder_new(&limits);
    room = mem_new(ROOM);
    memset(least, 0xFF, sizeof least);
    if (!one || methods[first].marks)
        make_marks(argc > 4 ? (unsigned)atoi(argv[4]) : 14);
    for (int r = 0; r < repetitions; r++)
        for (int m = first; m < end; m++)
            for (size_t i = 0; i < nfiles; i++) {
                uint64_t taken = measure(image, i, &methods[m]);
                least[m][i] = taken < least[m][i] ? taken : least[m][i];
            }
    printf("%zu files, least of %d\n", nfiles, repetitions);
    for (int m = first; m < end; m++) {
        for (size_t i = 0; i < nfiles; i++)
            sums[m] += least[m][i];
        printf("%-24s %8.1f us/picture %8.0f pictures/s  %.3f of full decode\n", methods[m].name,
               (double)sums[m] / 1e3 / (double)nfiles, 1e9 * (double)nfiles / (double)sums[m],
               (double)sums[first] / (double)sums[m]);
    }
    jpeg_image_free(image);
    decoder_free(decoder);
    free(room);
    for (size_t i = 0; i < nfiles; i++) {
        free(files[i].bytes);
        free(files[i].marks.bytes);
        free(files[i].none.bytes);
    }
    return 0;
}
