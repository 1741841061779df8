/* image/jpeg_partial.c: a box of a picture against the same box of libjpeg-turbo's decoding. */
#include <check.h>
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "image/jpeg.h"
#include "image/jpeg_partial.h"
#include "jpeg_maker.h"

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

enum { GAP = 5 };
/* Sanitizers take their time. */
#ifdef SANITIZED
enum { STEP = 3, ROUNDS = 10, EVERY = 10 };
#else
enum { STEP = 1, ROUNDS = 60, EVERY = 1 };
#endif

static struct jpeg_partial *partials[2]; /* plain, vector */
static struct jpeg_image *image;
static struct philox draws;

static void setup(void)
{
    image = jpeg_image_new();
    partials[0] = jpeg_partial_new(false);
    partials[1] = jpeg_partial_new(true);
    philox_start(&draws, 1, PHILOX_DRAW, 0, 0, 0);
}

static void teardown(void)
{
    jpeg_image_free(image);
    jpeg_partial_free(partials[0]);
    jpeg_partial_free(partials[1]);
}

/* libjpeg-turbo's; NULL: refused or with a warning. */
static uint8_t *reference(const uint8_t *bytes, size_t size)
{
    struct jpeg_image_header header;
    uint8_t *pixels = NULL;
    if (jpeg_image_open(image, bytes, size, JPEG_TURBO, &header)) {
        pixels = malloc(3 * (size_t)header.width * (size_t)header.height);
        const struct jpeg_box all = {0, 0, header.width, header.height};
        if (!jpeg_image_read(image, &all, pixels, 3 * (size_t)header.width) ||
            jpeg_image_fault(image)->damaged) {
            free(pixels);
            pixels = NULL;
        }
    }
    jpeg_image_close(image);
    return pixels;
}

static int32_t below(int32_t n)
{
    return (int32_t)philox_below(&draws, (uint32_t)n);
}

/* Both ways, in a room of exactly its size. Returns how many were decoded. */
static int check_box(const struct jpeg_header *header, const struct jpeg_box *box,
                     const uint8_t *want, const char *name)
{
    size_t row = 3 * (size_t)box->width, stride = row + GAP;
    size_t bytes = stride * (size_t)box->height;
    uint8_t *got = malloc(bytes);
    int done = 0;
    for (int way = 0; way < 2; way++) {
        memset(got, 0xA5, bytes);
        if (!jpeg_partial_read(partials[way], header, box, got, stride))
            continue;
        done++;
        require(want != NULL);
        for (int32_t y = 0; y < box->height; y++) {
            const uint8_t *line = got + (size_t)y * stride;
            const uint8_t *from =
                want + 3 * ((size_t)(box->y + y) * (size_t)header->width + (size_t)box->x);
            if (memcmp(line, from, row) != 0) {
                size_t at = 0;
                while (line[at] == from[at])
                    at++;
                ck_abort_msg("%s: box %d,%d %dx%d of %dx%d, way %d: row %d byte %zu is %d, not %d",
                             name, box->x, box->y, box->width, box->height, header->width,
                             header->height, way, y, at, line[at], from[at]);
            }
            for (size_t i = row; i < stride; i++)
                require(line[i] == 0xA5);
        }
    }
    free(got);
    return done;
}

static struct jpeg_box draw_box(const struct jpeg_header *header)
{
    struct jpeg_box box = {.width = 1 + below(header->width), .height = 1 + below(header->height)};
    box.x = below(header->width - box.width + 1);
    box.y = below(header->height - box.height + 1);
    return box;
}

/* The whole and some boxes. Returns how many are decoded, of 2 * (boxes + 1). */
static int check_file(const uint8_t *bytes, size_t size, int boxes, const char *name)
{
    struct jpeg_header header;
    if (!jpeg_header_parse(&header, bytes, size))
        return 0;
    uint8_t *want = reference(bytes, size);
    const struct jpeg_box whole = {0, 0, header.width, header.height};
    int done = check_box(&header, &whole, want, name);
    for (int i = 0; i < boxes; i++) {
        struct jpeg_box box = draw_box(&header);
        done += check_box(&header, &box, want, name);
    }
    free(want);
    return done;
}

static int check_recipe(const struct jpeg_recipe *recipe, int boxes)
{
    size_t size;
    char name[200];
    snprintf(name, sizeof name, "colour %d, %dx%d, quality %d, restart %u, seed %u",
             (int)recipe->colour, recipe->h_samp, recipe->v_samp, recipe->quality, recipe->restart,
             recipe->seed);
    uint8_t *bytes = jpeg_maker_make(recipe, &size);
    int done = check_file(bytes, size, boxes, name);
    free(bytes);
    return done;
}

static const struct {
    enum jpeg_maker_colour colour;
    int h, v;
} kinds[] = {{JPEG_MAKER_YCC, 1, 1}, {JPEG_MAKER_YCC, 2, 1},  {JPEG_MAKER_YCC, 2, 2},
             {JPEG_MAKER_YCC, 1, 2}, {JPEG_MAKER_GREY, 1, 1}, {JPEG_MAKER_GREY, 2, 2},
             {JPEG_MAKER_RGB, 1, 1}, {JPEG_MAKER_RGB, 2, 2}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

START_TEST(every_small_size)
{
    for (uint32_t width = 1; width <= 40; width += STEP)
        for (uint32_t height = 1; height <= 40; height += STEP) {
            const struct jpeg_recipe recipe = {.width = width,
                                               .height = height,
                                               .colour = kinds[_i].colour,
                                               .h_samp = kinds[_i].h,
                                               .v_samp = kinds[_i].v,
                                               .seed = width * height};
            require(check_recipe(&recipe, 2) == 6);
        }
}
END_TEST

START_TEST(quality_restart_and_boxes)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const struct jpeg_recipe recipe = {.width = 20 + (uint32_t)below(200),
                                           .height = 20 + (uint32_t)below(200),
                                           .colour = kinds[_i].colour,
                                           .h_samp = kinds[_i].h,
                                           .v_samp = kinds[_i].v,
                                           .quality = 1 + below(100),
                                           .optimize = below(2),
                                           .restart = below(3) ? 0 : 1 + (unsigned)below(20),
                                           .seed = i};
        require(check_recipe(&recipe, 10) == 22);
    }
}
END_TEST

/* Every so many files of a folder of the handed data. Returns how many were decoded. */
static int check_folder(const char *folder, int every, int *files)
{
    const char *shared = getenv("DATALOADD_SHARED");
    char path[600];
    snprintf(path, sizeof path, "%s/%s", shared ? shared : SOURCE_DIR "/../shared", folder);
    DIR *directory = opendir(path);
    int done = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        static uint8_t bytes[4 << 20];
        char name[1200];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(name, "rb");
        if (!file)
            continue;
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        if ((*files)++ % every)
            continue;
        done += check_file(bytes, size, 4, entry->d_name) == 10;
    }
    if (directory)
        closedir(directory);
    return done;
}

START_TEST(photographs)
{
    int files = 0, done = check_folder("data/imagenet-300", EVERY, &files);
    printf("photographs: %d of %d by our own decoder\n", done, files);
    ck_assert_int_ge(done, files / EVERY * 9 / 10);
}
END_TEST

START_TEST(strange_files)
{
    int files = 0, done = check_folder("cases/jpeg", 1, &files);
    printf("strange files: %d of %d by our own decoder\n", done, files);
    ck_assert(files == 0 || done > 0);
}
END_TEST

#ifndef SANITIZED
/* Bytes in blocks that are mapped one by one, as large ones are. */
static size_t mapped(void)
{
    return mallinfo2().hblkhd;
}

START_TEST(memory_is_let_go)
{
    const struct jpeg_recipe recipe = {.width = 30000, .height = 8, .flat = true};
    struct jpeg_header header;
    size_t size, row = 3 * 30000;
    uint8_t *bytes = jpeg_maker_make(&recipe, &size), *pixels = malloc(row * 8);
    require(jpeg_header_parse(&header, bytes, size));
    const struct jpeg_box all = {0, 0, 30000, 8}, part = {100, 0, 20, 8};
    size_t before = mapped();
    require(jpeg_partial_read(partials[0], &header, &part, pixels, row));
    ck_assert_uint_eq(mapped(), before);
    require(jpeg_partial_read(partials[0], &header, &all, pixels, row));
    ck_assert_uint_gt(mapped(), before + (512 << 10));
    ck_assert_uint_lt(mapped(), before + (1 << 20));
    jpeg_partial_trim(partials[0]);
    ck_assert_uint_eq(mapped(), before);
    require(jpeg_partial_read(partials[0], &header, &part, pixels, row));
    free(bytes);
    free(pixels);
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("jpeg_partial");
    TCase *tests = tcase_create("jpeg_partial");
    tcase_set_timeout(tests, 250);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, every_small_size, 0, KINDS);
    tcase_add_loop_test(tests, quality_restart_and_boxes, 0, KINDS);
#ifndef SANITIZED
    tcase_add_test(tests, memory_is_let_go);
#endif
    tcase_add_test(tests, photographs);
    tcase_add_test(tests, strange_files);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
