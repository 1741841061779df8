/* Runs the decoder for the oracle scripts. Commands on stdin, one a line; each is answered by a
 * line and as many bytes as that says: run FILE OPS PIXELS EXIF SEED EPOCH ID -> class damaged
 * turned width height bytes reason make NUMBER                            -> bytes (0 after the
 * last recipe) rss                                    -> kilobytes of anonymous memory */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bad.h"
#include "image/decoder.h"
#include "jpeg_maker.h"

enum { OUT_BYTES = 512 << 20 };

static const struct jpeg_recipe recipes[] = {
    {.width = 227, .height = 149, .h_samp = 2, .v_samp = 2},
    {.width = 227, .height = 149, .h_samp = 2, .v_samp = 1, .quality = 50},
    {.width = 226, .height = 151, .h_samp = 1, .v_samp = 2},
    {.width = 133, .height = 77, .h_samp = 4, .v_samp = 1},
    {.width = 133, .height = 77, .h_samp = 4, .v_samp = 2},
    {.width = 133, .height = 77, .h_samp = 1, .v_samp = 4},
    {.width = 133, .height = 77, .h_samp = 3, .v_samp = 1},
    {.width = 133, .height = 77, .h_samp = 3, .v_samp = 2},
    {.width = 200, .height = 99, .colour = JPEG_MAKER_RGB, .quality = 95},
    {.width = 200, .height = 99, .colour = JPEG_MAKER_RGB, .h_samp = 2, .v_samp = 2},
    {.width = 201, .height = 99, .colour = JPEG_MAKER_GREY},
    {.width = 201, .height = 99, .colour = JPEG_MAKER_GREY, .h_samp = 2, .v_samp = 2},
    {.width = 201, .height = 99, .colour = JPEG_MAKER_GREY, .progressive = true},
    {.width = 100, .height = 101, .colour = JPEG_MAKER_CMYK},
    {.width = 100, .height = 101, .colour = JPEG_MAKER_CMYK, .h_samp = 2, .v_samp = 1},
    {.width = 100, .height = 101, .colour = JPEG_MAKER_YCCK},
    {.width = 100, .height = 101, .colour = JPEG_MAKER_YCCK, .h_samp = 2, .v_samp = 2},
    {.width = 100, .height = 101, .colour = JPEG_MAKER_YCCK, .progressive = true},
    {.width = 227, .height = 149, .progressive = true, .h_samp = 2, .v_samp = 2},
    {.width = 227, .height = 149, .arithmetic = true, .h_samp = 2, .v_samp = 2},
    {.width = 227, .height = 149, .arithmetic = true, .progressive = true},
    {.width = 227, .height = 149, .optimize = true, .restart = 5},
    {.width = 227, .height = 149, .separate_scans = true, .h_samp = 2, .v_samp = 2},
    {.width = 227, .height = 149, .no_tables = true},
    {.width = 1, .height = 1},
    {.width = 1, .height = 1000, .colour = JPEG_MAKER_GREY},
    {.width = 1000, .height = 1, .h_samp = 2, .v_samp = 2},
    {.width = 3, .height = 7, .h_samp = 2, .v_samp = 2, .progressive = true},
    {.width = 60, .height = 40, .orientation = 6, .exif_big_endian = true},
    {.width = 60, .height = 40, .orientation = 3, .comment = 70000},
};

static bool parse_op(char *text, struct transform_op *op)
{
    char *words[12] = {NULL}, *rest = NULL;
    int n = 0;
    for (char *word = strtok_r(text, ":", &rest); word && n < 12; word = strtok_r(NULL, ":", &rest))
        words[n++] = word;
    for (enum transform_kind kind = 0; kind < TRANSFORM_KINDS; kind++)
        if (n && strcmp(words[0], transform_name(kind)) == 0)
            *op = (struct transform_op){.kind = kind};
    double v[11] = {0};
    for (int i = 1; i < n; i++)
        v[i - 1] = atof(words[i]);
    if (op->kind == OP_FLIP) {
        op->probability = v[0];
    } else if (op->kind == OP_NORMALIZE) {
        for (int c = 0; c < 3; c++) {
            op->mean[c] = (float)v[c];
            op->std[c] = (float)v[3 + c];
        }
    } else {
        op->height = (uint32_t)v[0];
        op->width = (uint32_t)v[1];
        op->filter = v[2] != 0;
        op->max_size = op->kind == OP_RESIZE ? (uint32_t)v[3] : 0;
        for (int i = 0; op->kind == OP_RANDOM_RESIZED_CROP && i < 2; i++) {
            op->scale[i] = v[3 + i];
            op->ratio[i] = v[5 + i];
        }
    }
    return n > 0;
}

static bool parse_transform(char *text, struct transform *transform)
{
    char *rest = NULL;
    struct error err = {0};
    if (transform_preset(transform, text, &err) < 0)
        for (char *op = strtok_r(text, ",", &rest); op; op = strtok_r(NULL, ",", &rest))
            if (!parse_op(op, &transform->ops[transform->count++]))
                return false;
    return true;
}

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    long end = ftell(file);
    rewind(file);
    uint8_t *bytes = malloc((size_t)end); /* exact: a read beyond it is seen by ASan */
    *size = fread(bytes, 1, (size_t)end, file);
    fclose(file);
    return bytes;
}

static void run(char *line, struct decoder *decoder, uint8_t *out)
{
    char path[1024], ops[1024];
    int pixels, exif;
    uint64_t seed, epoch, id;
    size_t size = 0;
    struct transform transform = {.count = 0};
    struct decoder_result result;
    struct error err = {0};
    if (sscanf(line, "run %1023s %1023s %d %d %" SCNu64 " %" SCNu64 " %" SCNu64, path, ops, &pixels,
               &exif, &seed, &epoch, &id) != 7 ||
        !parse_transform(ops, &transform)) {
        printf("? 0 0 0 0 0 bad command\n");
        return;
    }
    transform.pixels = (enum pixels)pixels;
    transform.exif = exif;
    uint8_t *bytes = read_file(path, &size);
    if (!bytes || transform_check(&transform, &err) < 0) {
        printf("? 0 0 0 0 0 %s\n", bytes ? err.text : "no file");
    } else {
        decoder_run(decoder, bytes, size, &transform, seed, epoch, id, out, OUT_BYTES, &result);
        size_t n = result.cls ? 0
                              : (size_t)result.width * 3 * (size_t)result.height *
                                    pixels_size(transform.pixels);
        printf("%s %d %d %d %d %zu %s\n", bad_name(result.cls), result.damaged, result.turned,
               result.width, result.height, n, result.reason);
        fwrite(out, 1, n, stdout);
    }
    free(bytes);
}

static void make(const char *line)
{
    size_t number = strtoul(line + 5, NULL, 10), size = 0;
    uint8_t *bytes = NULL;
    if (number < sizeof recipes / sizeof recipes[0])
        bytes = jpeg_maker_make(&recipes[number], &size);
    printf("%zu\n", size);
    if (bytes)
        fwrite(bytes, 1, size, stdout);
    free(bytes);
}

static void rss(void)
{
    long kilobytes = 0;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "RssAnon: %ld", &kilobytes);
    if (file)
        fclose(file);
#endif
    printf("%ld\n", kilobytes);
}

int main(int argc, char **argv)
{
    uint64_t max = argc > 1 ? strtoull(argv[1], NULL, 10) : 1ULL << 30;
    const struct decoder_limits limits = {.share = max, .max = max};
    struct decoder *decoder = decoder_new(&limits);
    uint8_t *out = malloc(OUT_BYTES);
    char line[4096];
    while (out && fgets(line, sizeof line, stdin)) {
        if (strncmp(line, "run ", 4) == 0)
            run(line, decoder, out);
        else if (strncmp(line, "make ", 5) == 0)
            make(line);
        else
            rss();
        fflush(stdout);
    }
    free(out);
    decoder_free(decoder);
    return 0;
}
