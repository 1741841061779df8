#include <check.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/philox.h"
#include "image/jpeg.h"
#include "image/simd.h"
#include "jpeg_maker.h"

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

static struct jpeg_image *image;
static struct jpeg_image_header header;
static struct jpeg_image_fault fault;

static enum jpeg_way way;

static void setup(void)
{
    image = jpeg_image_new();
    way = JPEG_AUTO;
}

static void setup_turbo(void)
{
    setup();
    way = JPEG_TURBO;
}

static void teardown(void)
{
    jpeg_image_free(image);
}

static bool read_all(uint8_t *pixels)
{
    const struct jpeg_box all = {0, 0, header.width, header.height};
    return jpeg_image_read(image, &all, pixels, 3 * (size_t)header.width);
}

/* Decodes a copy of exactly `size` bytes; pixels to be freed, NULL where it fails (see fault). */
static uint8_t *decode(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size), *pixels = NULL;
    memcpy(copy, bytes, size);
    if (jpeg_image_open(image, copy, size, way, &header)) {
        pixels = malloc(3 * (size_t)header.width * (size_t)header.height);
        if (!read_all(pixels)) {
            free(pixels);
            pixels = NULL;
        }
    }
    fault = *jpeg_image_fault(image);
    jpeg_image_close(image);
    require((pixels == NULL) == (fault.cls != BAD_NONE));
    require(fault.cls == BAD_NONE || fault.reason[0]);
    free(copy);
    return pixels;
}

static uint8_t *decode_recipe(const struct jpeg_recipe *recipe)
{
    size_t size;
    uint8_t *bytes = jpeg_maker_make(recipe, &size), *pixels = decode(bytes, size);
    free(bytes);
    return pixels;
}

/* Mean difference of two pictures of 64x64. */
static double difference(const uint8_t *a, const uint8_t *b)
{
    double sum = 0;
    for (int i = 0; i < 64 * 64 * 3; i++)
        sum += abs(a[i] - b[i]);
    return sum / (64 * 64 * 3);
}

/* All are the same picture, or nearly. */
static const struct jpeg_recipe kinds[] = {
    {.quality = 95, .colour = JPEG_MAKER_RGB},
    {.quality = 95, .progressive = true},
    {.quality = 95, .arithmetic = true},
    {.quality = 95, .arithmetic = true, .progressive = true},
    {.quality = 95, .optimize = true, .restart = 3},
    {.quality = 95, .separate_scans = true},
    {.quality = 95, .no_tables = true},
    {.quality = 95, .comment = 100000, .orientation = 5},
    {.quality = 95, .h_samp = 2, .v_samp = 2},
    {.quality = 95, .h_samp = 4},
    {.quality = 95, .h_samp = 3, .v_samp = 2},
};

START_TEST(every_kind_is_read)
{
    const struct jpeg_recipe plain = {.quality = 95};
    uint8_t *want = decode_recipe(&plain), *got = decode_recipe(&kinds[_i]);
    require(want && got);
    ck_assert(header.width == 64 && header.height == 64 && !fault.damaged);
    ck_assert_double_lt(difference(want, got), _i == 0 ? 5 : _i < 8 ? 0.01 : 12);
    free(want);
    free(got);
}
END_TEST

START_TEST(grey_and_cmyk_become_rgb)
{
    const struct jpeg_recipe grey = {.colour = JPEG_MAKER_GREY};
    const struct jpeg_recipe cmyk = {.colour = JPEG_MAKER_CMYK, .quality = 100, .flat = true};
    const struct jpeg_recipe ycck = {.colour = JPEG_MAKER_YCCK, .quality = 100, .flat = true};
    uint8_t *pixels = decode_recipe(&grey);
    bool varies = false;
    for (int i = 0; i < 64 * 64 * 3; i += 3) {
        require(pixels[i] == pixels[i + 1] && pixels[i] == pixels[i + 2]);
        varies |= pixels[i] != pixels[0];
    }
    ck_assert(varies);
    free(pixels);
    /* The file holds C, M, Y, K as Adobe inverts them: red = K - (255 - C) * K / 255. */
    pixels = decode_recipe(&cmyk);
    uint8_t *other = decode_recipe(&ycck);
    ck_assert_double_lt(difference(pixels, other), 2);
    ck_assert(pixels[0] != pixels[1] && pixels[1] != pixels[2]);
    free(pixels);
    free(other);
}
END_TEST

START_TEST(only_the_box_is_written)
{
    const struct jpeg_recipe recipes[] = {{.h_samp = 2, .v_samp = 2},
                                          {.colour = JPEG_MAKER_CMYK},
                                          {.colour = JPEG_MAKER_GREY, .progressive = true}};
    for (int k = 0; k < 3; k++)
        for (int32_t y = 0; y < 64; y += 9) {
            size_t size;
            uint8_t *bytes = jpeg_maker_make(&recipes[k], &size), *all = decode(bytes, size);
            struct jpeg_box box = {0, y, 64, y > 40 ? 64 - y : 21};
            if (y % 2)
                box = (struct jpeg_box){y / 2, y, 64 - y, box.height};
            uint8_t part[64 * 200];
            memset(part, 0xA5, sizeof part);
            require(jpeg_image_open(image, bytes, size, way, &header));
            require(jpeg_image_read(image, &box, part, 200));
            jpeg_image_close(image);
            size_t row = 3 * (size_t)box.width;
            for (int32_t i = 0; i < 64; i++) {
                const uint8_t *line = part + (size_t)i * 200;
                require(i >= box.height ||
                        memcmp(line, all + (box.y + i) * 192 + 3 * box.x, row) == 0);
                require(line[row] == 0xA5 && (i < box.height || line[0] == 0xA5));
            }
            free(bytes);
            free(all);
        }
}
END_TEST

/* Wherever it is cut, it is not delivered. */
START_TEST(cut_files)
{
    const struct jpeg_recipe recipes[] = {{.width = 40, .height = 40, .orientation = 6},
                                          {.width = 40, .height = 40, .progressive = true},
                                          {.width = 40, .height = 40, .arithmetic = true}};
    for (int k = 0; k < 3; k++) {
        size_t size;
        uint8_t *bytes = jpeg_maker_make(&recipes[k], &size);
        for (size_t cut = 2; cut < size; cut++) {
            require(decode(bytes, cut) == NULL);
            require(fault.cls == BAD_TRUNC);
        }
        uint8_t *pixels = decode(bytes, size);
        ck_assert_ptr_nonnull(pixels);
        free(pixels);
        free(bytes);
    }
}
END_TEST

START_TEST(cut_in_the_picture_names_the_row)
{
    size_t size;
    uint8_t *bytes = jpeg_maker_plain(300, 200, 1, &size);
    require(decode(bytes, size * 3 / 4) == NULL);
    ck_assert_msg(strstr(fault.reason, "300x200") && strstr(fault.reason, "at row 1"), "%s",
                  fault.reason);
    free(bytes);
}
END_TEST

/* As Pillow has it: with a few bytes more in the place of the end marker the last block can be
 * read, and the picture is whole; the end in the middle of another marker is no loss either. */
START_TEST(only_the_end_marker_is_missing)
{
    static const struct {
        const char *bytes;
        size_t size;
    } tails[] = {{"\0\0\0\0\0\0\0\0", 8}, {"hello", 5}, {"\xff\xfe\xff\xff\0", 5}};
    size_t size;
    uint8_t *bytes = jpeg_maker_plain(40, 40, 1, &size), *whole = decode(bytes, size);
    uint8_t *longer = malloc(size + 6);
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        memcpy(longer, bytes, size - 2);
        memcpy(longer + size - 2, tails[i].bytes, tails[i].size);
        uint8_t *pixels = decode(longer, size - 2 + tails[i].size);
        ck_assert_msg(pixels != NULL, "%zu: %s", i, fault.reason);
        ck_assert(fault.damaged);
        ck_assert_msg(strstr(fault.reason, "Premature end") != NULL, "%s", fault.reason);
        ck_assert_int_eq(memcmp(pixels, whole, 40 * 40 * 3), 0);
        free(pixels);
    }
    free(longer);
    free(whole);
    free(bytes);
}
END_TEST

START_TEST(damage_is_told_but_delivered)
{
    size_t size;
    uint8_t *bytes = jpeg_maker_damaged(3, &size), *pixels = decode(bytes, size);
    ck_assert_ptr_nonnull(pixels);
    ck_assert(fault.damaged);
    ck_assert_msg(strstr(fault.reason, "9 extraneous bytes"), "%s", fault.reason);
    free(pixels);
    free(bytes);
}
END_TEST

/* Our own decoder does not look at what the box does not need, libjpeg-turbo at all. */
START_TEST(damage_outside_of_the_box)
{
    uint8_t row[64 * 3 * 8];
    size_t size;
    uint8_t *bytes = jpeg_maker_damaged(3, &size);
    for (int32_t y = 0; y < 64; y += 8) {
        const struct jpeg_box box = {0, y, 64, 8};
        require(jpeg_image_open(image, bytes, size, way, &header));
        require(jpeg_image_read(image, &box, row, 64 * 3));
        bool damaged = jpeg_image_fault(image)->damaged;
        jpeg_image_close(image);
        if (way == JPEG_TURBO || simd_level() < SIMD_AVX2)
            require(damaged);
        else if (y == 0 || y == 56)
            require(!damaged);
    }
    free(bytes);
}
END_TEST

/* Offset of the first marker of a kind. */
static size_t find(const uint8_t *bytes, size_t size, uint8_t marker)
{
    for (size_t i = 2; i + 1 < size; i++)
        if (bytes[i] == 0xFF && bytes[i + 1] == marker)
            return i;
    ck_abort_msg("no marker");
    return 0;
}

/* Changes of the frame header: at is counted from the marker. */
static const struct {
    int at;
    uint8_t bytes[4];
    int count;
    enum bad_class cls;
    const char *says;
} headers[] = {
    {4, {12}, 1, BAD_UNSUP, "precision 12"},
    {5, {0, 0}, 2, BAD_UNSUP, "DNL"},
    {5, {0xFF, 0xFF, 0xFF, 0xFF}, 4, BAD_SIZE, "65500"},
    {1, {0xC3}, 1, BAD_UNSUP, "0xc3"}, /* lossless */
    {11, {0}, 1, BAD_CORRUPT, "sampling"},
    {2, {0, 9}, 2, BAD_CORRUPT, "length"},
    {12, {3}, 1, BAD_CORRUPT, "Quantization"},
};

START_TEST(frame_headers)
{
    size_t size;
    uint8_t *bytes = jpeg_maker_plain(64, 64, 1, &size);
    memcpy(bytes + find(bytes, size, 0xC0) + headers[_i].at, headers[_i].bytes,
           (size_t)headers[_i].count);
    ck_assert_ptr_null(decode(bytes, size));
    ck_assert_msg(fault.cls == headers[_i].cls && strstr(fault.reason, headers[_i].says), "%s: %s",
                  bad_name(fault.cls), fault.reason);
    free(bytes);
}
END_TEST

START_TEST(two_components_are_not_supported)
{
    const struct jpeg_recipe recipe = {.quality = 90};
    size_t size;
    uint8_t *bytes = jpeg_maker_make(&recipe, &size);
    size_t frame = find(bytes, size, 0xC0), scan = find(bytes, size, 0xDA);
    bytes[frame + 3] = 8 + 2 * 3;
    bytes[frame + 9] = 2;
    memmove(bytes + frame + 16, bytes + frame + 19, size - frame - 19);
    scan -= 3;
    bytes[scan + 3] = 6 + 2 * 2;
    bytes[scan + 4] = 2;
    memmove(bytes + scan + 9, bytes + scan + 11, size - scan - 14);
    ck_assert_ptr_null(decode(bytes, size - 5));
    ck_assert_msg(fault.cls == BAD_UNSUP && strstr(fault.reason, "2 colour"), "%s", fault.reason);
    free(bytes);
}
END_TEST

START_TEST(scans_are_bounded)
{
    struct jpeg_recipe recipe = {
        .colour = JPEG_MAKER_GREY, .extra_scans = JPEG_SCANS_MAX, .flat = true};
    uint8_t *pixels = decode_recipe(&recipe);
    ck_assert_msg(pixels != NULL, "%s", fault.reason);
    free(pixels);
    recipe.extra_scans = JPEG_SCANS_MAX + 1;
    ck_assert_ptr_null(decode_recipe(&recipe));
    ck_assert_int_eq(fault.cls, BAD_SIZE);
    ck_assert_ptr_nonnull(strstr(fault.reason, "scans"));
}
END_TEST

/* Tables of an earlier file must not be used for one that brings none. */
START_TEST(nothing_is_left_from_one_file_to_the_next)
{
    const struct jpeg_recipe own = {.optimize = true, .seed = 9};
    const struct jpeg_recipe none = {.no_tables = true, .seed = 4};
    uint8_t *first = decode_recipe(&none), *between = decode_recipe(&own);
    uint8_t *again = decode_recipe(&none);
    require(first && between && again);
    ck_assert_mem_eq(first, again, 64 * 64 * 3);
    free(first);
    free(between);
    free(again);
}
END_TEST

START_TEST(flipped_bits_do_no_harm)
{
    struct philox draws;
    philox_start(&draws, 1, PHILOX_DRAW, 0, 0, 0);
    int good = 0, bad = 0, rounds = getenv("DATALOADD_LONG") ? 30000 : 1500;
    for (int i = 0; i < rounds; i++) {
        struct jpeg_recipe recipe = kinds[philox_below(&draws, 7)];
        recipe.width = recipe.height = 24;
        size_t size;
        uint8_t *bytes = jpeg_maker_make(&recipe, &size);
        for (int k = 0; k < 3; k++)
            bytes[2 + philox_below(&draws, size - 2)] ^= (uint8_t)(1 << philox_below(&draws, 8));
        if (jpeg_image_open(image, bytes, size, way, &header) && header.width <= 500 &&
            header.height <= 500) {
            uint8_t *pixels = malloc(3 * (size_t)header.width * (size_t)header.height);
            bool done = read_all(pixels);
            good += done;
            bad += !done;
            free(pixels);
        }
        jpeg_image_close(image);
        free(bytes);
    }
    ck_assert_int_gt(good, rounds / 10);
    ck_assert_int_gt(bad, rounds / 10);
}
END_TEST

/* Else a picture near the limit would be good on one machine and BAD-SIZE on another. */
START_TEST(memory_is_the_same_on_both_ways)
{
    for (int i = 0; i < 32; i++) {
        bool grey = i >= 16;
        const struct jpeg_recipe recipe = {.width = 100 + (uint32_t)i,
                                           .colour = grey ? JPEG_MAKER_GREY : JPEG_MAKER_YCC,
                                           .h_samp = 1 + i % (grey ? 4 : 2),
                                           .v_samp = 1 + i / 4 % (grey ? 4 : 2)};
        struct jpeg_image_header own, turbo;
        size_t size;
        uint8_t *bytes = jpeg_maker_make(&recipe, &size);
        require(jpeg_image_open(image, bytes, size, JPEG_AUTO, &own));
        jpeg_image_close(image);
        require(jpeg_image_open(image, bytes, size, JPEG_TURBO, &turbo));
        jpeg_image_close(image);
        ck_assert_uint_eq(own.memory, turbo.memory);
        free(bytes);
    }
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static unsigned long address_space(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%lu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (unsigned long)sysconf(_SC_PAGESIZE);
}

/* Exit status: 0 decoded, 1 BAD-SIZE for want of memory, 2 anything else. */
static int decode_within(const uint8_t *bytes, size_t size, double share)
{
    static uint8_t row[3 * 3000];
    require(jpeg_image_open(image, bytes, size, way, &header));
    unsigned long most = address_space() + (unsigned long)(share * (double)header.memory);
    const struct rlimit limit = {most, most};
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_AS, &limit);
        const struct jpeg_box box = {0, 0, header.width, 1};
        bool done = jpeg_image_read(image, &box, row, sizeof row);
        _exit(done ? 0 : jpeg_image_fault(image)->cls == BAD_SIZE ? 1 : 2);
    }
    int status = 0;
    waitpid(child, &status, 0);
    jpeg_image_close(image);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

/* What the header says is enough, and not far more than enough. */
START_TEST(memory_is_known_from_the_header)
{
    const struct jpeg_recipe recipes[] = {
        {.width = 3000, .height = 2000, .progressive = true, .flat = true},
        {.width = 2001,
         .height = 1501,
         .h_samp = 2,
         .v_samp = 2,
         .progressive = true,
         .flat = true},
        {.width = 2001, .height = 1501, .arithmetic = true, .separate_scans = true, .flat = true},
    };
    mallopt(M_MMAP_THRESHOLD, 65536); /* no room of earlier work is left to be used again */
    for (int i = 0; i < 3; i++) {
        size_t size;
        uint8_t *bytes = jpeg_maker_make(&recipes[i], &size);
        ck_assert_int_eq(decode_within(bytes, size, 1.0), 0);
        ck_assert_int_eq(decode_within(bytes, size, 0.8), 1);
        free(bytes);
    }
}
END_TEST
#endif

static TCase *make_tests(const char *name, void (*start)(void))
{
    TCase *tests = tcase_create(name);
    tcase_add_checked_fixture(tests, start, teardown);
    tcase_add_loop_test(tests, every_kind_is_read, 0, sizeof kinds / sizeof kinds[0]);
    tcase_add_test(tests, grey_and_cmyk_become_rgb);
    tcase_add_test(tests, only_the_box_is_written);
    tcase_add_test(tests, cut_files);
    tcase_add_test(tests, cut_in_the_picture_names_the_row);
    tcase_add_test(tests, only_the_end_marker_is_missing);
    tcase_add_test(tests, damage_is_told_but_delivered);
    tcase_add_test(tests, damage_outside_of_the_box);
    tcase_add_loop_test(tests, frame_headers, 0, sizeof headers / sizeof headers[0]);
    tcase_add_test(tests, two_components_are_not_supported);
    tcase_add_test(tests, scans_are_bounded);
    tcase_add_test(tests, nothing_is_left_from_one_file_to_the_next);
    tcase_add_test(tests, flipped_bits_do_no_harm);
    tcase_add_test(tests, memory_is_the_same_on_both_ways);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(tests, memory_is_known_from_the_header);
#endif
    return tests;
}

int main(void)
{
    Suite *suite = suite_create("jpeg");
    suite_add_tcase(suite, make_tests("auto", setup));
    suite_add_tcase(suite, make_tests("turbo", setup_turbo));
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
