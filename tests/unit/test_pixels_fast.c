/* `pixels: fast` through the whole decoder: how near it is to the exact way on photographs, and
 * which pictures are exact all the same. */
#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "image/decoder.h"
#include "image/planes.h"
#include "jpeg_maker.h"

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

enum { ROOM = 3 * 600 * 600, FILE_MAX = 4 << 20 };

static struct decoder *decoder;
static struct decoder_result result;
static uint8_t *rows[2]; /* exact, fast */

static void setup(void)
{
    const struct decoder_limits limits = {.share = 64 << 20, .max = 64 << 20};
    decoder = decoder_new(&limits);
    rows[0] = malloc(ROOM);
    rows[1] = malloc(ROOM);
}

static void teardown(void)
{
    decoder_free(decoder);
    free(rows[0]);
    free(rows[1]);
}

static struct transform preset(const char *name)
{
    struct transform transform = {0};
    require(transform_preset(&transform, name, NULL) == 0 &&
            transform_check(&transform, NULL) == 0);
    return transform;
}

/* Both ways. Returns the number of values; 0: no picture. */
static size_t run(const uint8_t *bytes, size_t size, struct transform transform, uint64_t id)
{
    for (int fast = 0; fast < 2; fast++) {
        transform.fast = fast;
        decoder_run(decoder, bytes, size, &transform, 1, 2, id, rows[fast], ROOM, &result);
        if (result.cls != BAD_NONE)
            return 0;
    }
    return 3 * (size_t)result.width * (size_t)result.height;
}

static bool same(size_t values)
{
    return memcmp(rows[0], rows[1], values) == 0;
}

/* ------- photographs ------- */

struct fidelity {
    int pictures;
    double sum, worst, bias; /* dB, dB, levels */
};

static void add_picture(struct fidelity *all, size_t values)
{
    double squares = 0, sum = 0;
    for (size_t i = 0; i < values; i++) {
        int difference = rows[1][i] - rows[0][i];
        squares += difference * difference;
        sum += difference;
    }
    double db = 10 * log10(255.0 * 255.0 * (double)values / (squares > 0 ? squares : 1));
    all->worst = all->pictures++ && all->worst < db ? all->worst : db;
    all->sum += db;
    all->bias += sum / (double)values;
}

static void add_folder(struct fidelity *all, const char *path, const struct transform *transform)
{
    static uint8_t bytes[FILE_MAX];
    DIR *folder = opendir(path);
    uint64_t id = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder)); id++) {
        char name[1200];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(name, "rb");
        size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0, values;
        if (file)
            fclose(file);
        if (size && (values = run(bytes, size, *transform, id)))
            add_picture(all, values);
    }
    if (folder)
        closedir(folder);
}

struct bounds {
    double mean, worst, bias;
};

static void check_fidelity(const char *path, const char *name, enum filter filter,
                           const struct bounds *bounds)
{
    struct transform transform = preset(name);
    struct fidelity all = {0};
    transform.ops[0].filter = filter;
    add_folder(&all, path, &transform);
    printf("%s %s, %d pictures: PSNR of fast against exact %.2f dB on average, %.2f dB the worst "
           "picture; mean difference %+.4f levels\n",
           name, filter == FILTER_BICUBIC ? "bicubic" : "bilinear", all.pictures,
           all.sum / all.pictures, all.worst, all.bias / all.pictures);
    ck_assert_int_ge(all.pictures, 20);
    ck_assert_double_ge(all.sum / all.pictures, bounds->mean);
    ck_assert_double_ge(all.worst, bounds->worst);
    ck_assert_double_le(fabs(all.bias / all.pictures), bounds->bias);
}

static void check_all(const char *path, const struct bounds *bounds)
{
    check_fidelity(path, "train", FILTER_BILINEAR, bounds);
    check_fidelity(path, "eval", FILTER_BILINEAR, bounds);
    check_fidelity(path, "train", FILTER_BICUBIC, bounds);
    check_fidelity(path, "eval", FILTER_BICUBIC, bounds);
}

/* Those of the sample generator where there are no others: they have more noise, and in colours so
 * strong that many values lie beyond 0..255, where the order of cutting and averaging counts. */
START_TEST(photographs)
{
    const char *shared = getenv("DATALOADD_SHARED");
    char path[600], own[] = "/tmp/test_pixels_fast.XXXXXX", command[800];
    snprintf(path, sizeof path, "%s/data/imagenet-300", shared ? shared : SOURCE_DIR "/../shared");
    if (access(path, R_OK) == 0) {
        const struct bounds bounds = {48, 40, 0.02};
        check_all(path, &bounds);
        return;
    }
    ck_assert_ptr_nonnull(mkdtemp(own));
    snprintf(command, sizeof command,
             BINARY_DIR "/daemon/dataload-pack sample %s/f --images 60 --classes 1 --seed 3 "
                        "--folder 2>/dev/null && mv %s/f/* %s/pictures",
             own, own, own);
    ck_assert_int_eq(system(command), 0);
    snprintf(path, sizeof path, "%s/pictures", own);
    const struct bounds bounds = {46.5, 34.5, 0.12};
    check_all(path, &bounds);
    snprintf(command, sizeof command, "rm -r %s", own);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* ------- which way ------- */

static const struct {
    const char *what;
    struct jpeg_recipe recipe;
    const char *preset;
    bool turbo, exif, fast;
} ways[] = {
    {"the usual kind", {.width = 400, .height = 300, .h_samp = 2, .v_samp = 2}, "eval", .fast = 1},
    {"grey", {.width = 400, .height = 300, .colour = JPEG_MAKER_GREY}, "eval", .fast = 1},
    {"enlarged", {.width = 100, .height = 130, .h_samp = 2}, "train", .fast = 1},
    {"orientation ignored", {.width = 400, .height = 300, .orientation = 6}, "eval", .fast = 1},
    {"turned", {.width = 400, .height = 300, .orientation = 6}, "eval", .exif = 1},
    {"turbo", {.width = 400, .height = 300}, "eval", .turbo = 1},
    {"progressive", {.width = 400, .height = 300, .progressive = 1}, "eval"},
    {"in red, green, blue", {.width = 400, .height = 300, .colour = JPEG_MAKER_RGB}, "eval"},
    {"not resized", {.width = 400, .height = 300}, "none"},
    {"four pixels wide", {.width = 4, .height = 300, .h_samp = 2}, "train"},
};

START_TEST(way_of_kinds)
{
    struct transform transform = preset(ways[_i].preset);
    size_t size;
    uint8_t *bytes = jpeg_maker_make(&ways[_i].recipe, &size);
    transform.turbo = ways[_i].turbo;
    transform.exif = ways[_i].exif;
    size_t values = run(bytes, size, transform, 1);
    ck_assert_uint_gt(values, 0);
    ck_assert_msg(same(values) == !(ways[_i].fast && planes_best()), "%s", ways[_i].what);
    free(bytes);
}
END_TEST

/* A window that reaches beyond the picture, and two steps of resizing. */
START_TEST(way_of_transforms)
{
    const struct jpeg_recipe recipe = {.width = 400, .height = 300, .h_samp = 2, .v_samp = 2};
    struct transform padded = {
        .count = 2, .ops = {{OP_RESIZE, .height = 100}, {OP_CENTER_CROP, .height = 120}}};
    struct transform twice = {.count = 2,
                              .ops = {{OP_RESIZE, .height = 200}, {OP_RESIZE, .height = 90}}};
    size_t size;
    uint8_t *bytes = jpeg_maker_make(&recipe, &size);
    require(transform_check(&padded, NULL) == 0 && transform_check(&twice, NULL) == 0);
    size_t values = run(bytes, size, padded, 1);
    require(values && same(values));
    values = run(bytes, size, twice, 1);
    require(values && same(values));
    free(bytes);
}
END_TEST

/* Damage is met half way: all rows come from libjpeg-turbo, which tells of it. */
START_TEST(damage)
{
    const struct jpeg_recipe recipe = {.width = 400, .height = 300, .h_samp = 2, .v_samp = 2};
    size_t size;
    uint8_t *bytes = jpeg_maker_damaged(3, &size);
    size_t values = run(bytes, size, preset("eval"), 1);
    require(values && result.damaged && same(values));
    free(bytes);
    bytes = jpeg_maker_make(&recipe, &size);
    struct transform transform = preset("eval");
    transform.fast = true;
    decoder_run(decoder, bytes, size / 2, &transform, 1, 2, 3, rows[0], ROOM, &result);
    ck_assert_int_eq(result.cls, BAD_TRUNC);
    free(bytes);
}
END_TEST

/* What came before leaves nothing behind. */
START_TEST(no_memory_of_others)
{
    static const struct jpeg_recipe recipes[] = {
        {.width = 400, .height = 300, .h_samp = 2, .v_samp = 2},
        {.width = 57, .height = 411, .h_samp = 1, .v_samp = 2},
        {.width = 333, .height = 200, .colour = JPEG_MAKER_GREY},
        {.width = 200, .height = 222}};
    enum { COUNT = sizeof recipes / sizeof recipes[0] };
    struct transform transform = preset("train");
    uint8_t *alone[COUNT], *bytes[COUNT];
    size_t sizes[COUNT], values = (size_t)3 * 224 * 224;
    transform.fast = true;
    for (int i = 0; i < COUNT; i++) {
        teardown();
        setup();
        bytes[i] = jpeg_maker_make(&recipes[i], &sizes[i]);
        alone[i] = malloc(values);
        decoder_run(decoder, bytes[i], sizes[i], &transform, 1, 2, 3, alone[i], values, &result);
        require(result.cls == BAD_NONE);
    }
    for (int i = 0; i < 3 * COUNT; i++) {
        int which = (i * 7 + i / COUNT) % COUNT;
        decoder_run(decoder, bytes[which], sizes[which], &transform, 1, 2, 3, rows[0], values,
                    &result);
        require(memcmp(rows[0], alone[which], values) == 0);
    }
    for (int i = 0; i < COUNT; i++) {
        free(bytes[i]);
        free(alone[i]);
    }
}
END_TEST

static uint64_t borrowed, most_borrowed;

static bool borrow(void *context, uint64_t bytes)
{
    (void)context;
    borrowed += bytes;
    most_borrowed = borrowed > most_borrowed ? borrowed : most_borrowed;
    return true;
}

static void give_back(void *context, uint64_t bytes)
{
    (void)context;
    borrowed -= bytes;
}

/* No picture of the crop is held. */
START_TEST(memory)
{
    const struct decoder_limits limits = {1, 64 << 20, borrow, give_back, NULL};
    const struct jpeg_recipe recipe = {.width = 2000, .height = 1500, .h_samp = 2, .v_samp = 2};
    struct transform transform = preset("eval");
    size_t size;
    uint64_t most[2];
    uint8_t *bytes = jpeg_maker_make(&recipe, &size);
    struct decoder *poor = decoder_new(&limits);
    for (int fast = 0; fast < 2; fast++) {
        most_borrowed = 0;
        transform.fast = fast;
        decoder_run(poor, bytes, size, &transform, 1, 2, 3, rows[0], ROOM, &result);
        require(result.cls == BAD_NONE && borrowed == 0);
        most[fast] = most_borrowed;
    }
    if (planes_best())
        ck_assert_uint_lt(most[1], most[0] / 4);
    decoder_free(poor);
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pixels_fast");
    TCase *tests = tcase_create("pixels_fast");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, photographs);
    tcase_add_loop_test(tests, way_of_kinds, 0, sizeof ways / sizeof ways[0]);
    tcase_add_test(tests, way_of_transforms);
    tcase_add_test(tests, damage);
    tcase_add_test(tests, no_memory_of_others);
    tcase_add_test(tests, memory);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
