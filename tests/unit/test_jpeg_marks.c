/* image/jpeg_marks.c, by way of image/jpeg.h: pixels with marks are those without, whatever an
 * entry holds, and marks serve only the bytes that they were recorded from. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/philox.h"
#include "image/decoder.h"
#include "image/jpeg.h"
#include "image/jpeg_marks.h"
#include "image/simd.h"
#include "jpeg_maker.h"

#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

#ifdef SANITIZED
enum { ROUNDS = 6, EVERY = 30, FLIPS = 5 };
#else
enum { ROUNDS = 40, EVERY = 4, FLIPS = 1 };
#endif
enum { CHECK = 8, SLACK = 8, FAST_ROW = 224 * 224 * 3 };

struct picture {
    uint8_t *bytes, *want; /* libjpeg-turbo's pixels */
    size_t size;
    struct jpeg_image_header header;
};

static struct jpeg_image *image;
static struct philox draws;
static uint8_t room[JPEG_MARKS_ROOM];
static struct jpeg_marks_entry entry;

static void setup(void)
{
    image = jpeg_image_new();
    philox_start(&draws, 1, PHILOX_DRAW, 0, 0, 0);
    memset(room, 0, sizeof room);
    entry = (struct jpeg_marks_entry){.bytes = room, .room = sizeof room};
}

static void teardown(void)
{
    jpeg_image_free(image);
}

static int32_t below(int32_t n)
{
    return (int32_t)philox_below(&draws, (uint32_t)n);
}

static bool finish(struct picture *picture)
{
    bool done = false;
    if (jpeg_image_open(image, picture->bytes, picture->size, JPEG_TURBO, &picture->header)) {
        size_t row = 3 * (size_t)picture->header.width;
        picture->want = malloc(row * (size_t)picture->header.height);
        const struct jpeg_box all = {0, 0, picture->header.width, picture->header.height};
        done = jpeg_image_read(image, &all, picture->want, row);
    }
    jpeg_image_close(image);
    return done;
}

static struct picture make(const struct jpeg_recipe *recipe)
{
    struct picture picture = {0};
    picture.bytes = jpeg_maker_make(recipe, &picture.size);
    require(finish(&picture));
    return picture;
}

static void drop(struct picture *picture)
{
    free(picture->bytes);
    free(picture->want);
}

/* With the entry; what becomes of it is in its flags. */
static void read_box(const struct picture *picture, const struct jpeg_box *box)
{
    size_t row = 3 * (size_t)box->width, stride = 3 * (size_t)picture->header.width;
    uint8_t *got = malloc(row * (size_t)box->height);
    struct jpeg_image_header header;
    require(jpeg_image_open(image, picture->bytes, picture->size, JPEG_AUTO, &header));
    jpeg_image_mark(image, &entry);
    require(jpeg_image_read(image, box, got, row));
    jpeg_image_close(image);
    for (int32_t y = 0; y < box->height; y++)
        if (memcmp(got + (size_t)y * row,
                   picture->want + (size_t)(box->y + y) * stride + 3 * (size_t)box->x, row) != 0)
            ck_abort_msg("box %d,%d %dx%d of %dx%d: row %d differs", box->x, box->y, box->width,
                         box->height, header.width, header.height, y);
    free(got);
}

static struct jpeg_box all_of(const struct picture *picture)
{
    return (struct jpeg_box){0, 0, picture->header.width, picture->header.height};
}

static struct jpeg_box draw_box(const struct picture *picture)
{
    const struct jpeg_image_header *header = &picture->header;
    struct jpeg_box box = {.width = 1 + below(header->width), .height = 1 + below(header->height)};
    box.x = below(header->width - box.width + 1);
    box.y = below(header->height - box.height + 1);
    return box;
}

static struct jpeg_marks_head head_of(void)
{
    struct jpeg_marks_head head;
    memcpy(&head, room, sizeof head);
    return head;
}

static size_t entry_size(void)
{
    struct jpeg_marks_head head = head_of();
    size_t width = 0;
    for (int f = 0; f < JPEG_MARKS_FIELDS; f++)
        width += head.bits[f];
    return sizeof head + (head.count * width + 7) / 8 + SLACK;
}

/* As if it had been recorded so. */
static void seal(void)
{
    uint64_t check = XXH3_64bits_withSeed(room + CHECK, entry_size() - CHECK, 1);
    memcpy(room, &check, sizeof check);
}

static bool has_own(void)
{
    return simd_level() >= SIMD_AVX2;
}

/* ------- any boxes, one after the other ------- */

static void check_boxes(const struct picture *picture, size_t bytes, int boxes)
{
    memset(room, 0, sizeof room);
    entry.room = bytes;
    for (int i = 0; i < boxes; i++) {
        struct jpeg_box box = draw_box(picture);
        uint32_t had = head_of().count;
        read_box(picture, &box);
        require(!entry.wrong && entry.used == (had > 0));
        require(entry.changed == (head_of().count > had));
    }
    if (bytes < sizeof room)
        require(room[bytes] == 0);
}

static const struct {
    enum jpeg_maker_colour colour;
    int h, v;
} kinds[] = {{JPEG_MAKER_YCC, 1, 1}, {JPEG_MAKER_YCC, 2, 1},  {JPEG_MAKER_YCC, 2, 2},
             {JPEG_MAKER_YCC, 1, 2}, {JPEG_MAKER_GREY, 1, 1}, {JPEG_MAKER_RGB, 2, 2}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };
static const size_t rooms[] = {JPEG_MARKS_ROOM, 2000, 300, 90, 57, 48, 0};
enum { ROOMS = sizeof rooms / sizeof rooms[0] };

START_TEST(made_pictures)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const struct jpeg_recipe recipe = {.width = 1 + (uint32_t)below(300),
                                           .height = 1 + (uint32_t)below(300),
                                           .colour = kinds[_i].colour,
                                           .h_samp = kinds[_i].h,
                                           .v_samp = kinds[_i].v,
                                           .quality = 1 + below(100),
                                           .optimize = below(2),
                                           .flat = below(8) == 0,
                                           .restart = below(4) ? 0 : 1 + (unsigned)below(20),
                                           .seed = i};
        struct picture picture = make(&recipe);
        for (int r = 0; r < ROOMS; r++)
            check_boxes(&picture, rooms[r], 6);
        drop(&picture);
    }
}
END_TEST

START_TEST(photographs)
{
    const char *shared = getenv("DATALOADD_SHARED");
    char path[600];
    snprintf(path, sizeof path, "%s/data/imagenet-300", shared ? shared : SOURCE_DIR "/../shared");
    DIR *directory = opendir(path);
    int files = 0;
    for (struct dirent *found; directory && (found = readdir(directory));) {
        static uint8_t bytes[4 << 20];
        char name[1200];
        snprintf(name, sizeof name, "%s/%s", path, found->d_name);
        FILE *file = found->d_name[0] == '.' || files++ % EVERY ? NULL : fopen(name, "rb");
        if (!file)
            continue;
        struct picture picture = {.bytes = bytes, .size = fread(bytes, 1, sizeof bytes, file)};
        fclose(file);
        if (finish(&picture)) {
            check_boxes(&picture, picture.size * 14 / 1000, 8);
            check_boxes(&picture, picture.size * 3 / 1000, 4);
            check_boxes(&picture, sizeof room, 4);
        }
        free(picture.want);
    }
    if (directory)
        closedir(directory);
}
END_TEST

/* ------- what marks are for ------- */

START_TEST(grows_with_deeper_boxes)
{
    struct picture picture = make(&(struct jpeg_recipe){.width = 400, .height = 400});
    struct jpeg_box box = {10, 0, 300, 100};
    entry.room = 1000;
    uint32_t count = 0;
    for (; has_own() && box.height <= 400; box.height += 100) {
        read_box(&picture, &box);
        require(entry.changed && head_of().count > count);
        require(entry.used == (count > 0));
        count = head_of().count;
        require(entry_size() <= entry.room);
        read_box(&picture, &box);
        require(!entry.changed && entry.used);
    }
    /* Each but the last, which may lie at the end. */
    ck_assert_uint_ge((count + 2) * (has_own() ? head_of().step : 0), has_own() ? 2500 : 0);
    drop(&picture);
}
END_TEST

/* ------- what must not be trusted ------- */

START_TEST(any_byte_changed)
{
    struct picture picture = make(&(struct jpeg_recipe){.width = 300, .height = 200});
    struct jpeg_box all = all_of(&picture), box = {150, 100, 100, 90};
    static uint8_t good[JPEG_MARKS_ROOM];
    entry.room = 400;
    read_box(&picture, &all);
    memcpy(good, room, sizeof good);
    size_t size = has_own() ? entry_size() : 0;
    for (size_t i = 0; i < size; i += FLIPS) {
        memcpy(room, good, sizeof good);
        room[i] ^= (uint8_t)(1 + below(255));
        read_box(&picture, &box);
        require(entry.wrong && !entry.used && entry.changed);
        read_box(&picture, &box);
        require(!entry.wrong && entry.used && !entry.changed);
    }
    drop(&picture);
}
END_TEST

START_TEST(cut_anywhere)
{
    struct picture picture = make(&(struct jpeg_recipe){.width = 300, .height = 200});
    struct jpeg_box all = all_of(&picture), box = {150, 100, 100, 90};
    static uint8_t good[JPEG_MARKS_ROOM];
    entry.room = 400;
    read_box(&picture, &all);
    memcpy(good, room, sizeof good);
    size_t size = has_own() ? entry_size() - SLACK : 0;
    for (size_t i = 0; i < size; i += FLIPS) {
        memcpy(room, good, sizeof good);
        memset(room + i, 0, sizeof room - i);
        if (memcmp(room, good, sizeof good) == 0)
            continue;
        read_box(&picture, &box);
        require(!entry.used && entry.changed && entry.wrong == (i > 0));
    }
    drop(&picture);
}
END_TEST

/* One picture's entry beside another's bytes, and beside its own with one bit changed: in the scan,
 * in a table, behind the end. */
START_TEST(of_other_bytes)
{
    struct picture first = make(&(struct jpeg_recipe){.width = 300, .height = 200, .seed = 1});
    struct picture second = make(&(struct jpeg_recipe){.width = 300, .height = 200, .seed = 2});
    struct jpeg_box all = all_of(&first);
    entry.room = 400;
    read_box(&first, &all);
    read_box(&second, &all);
    require(entry.wrong == has_own() && !entry.used);
    read_box(&first, &all);
    require(entry.wrong == has_own() && !entry.used);
    read_box(&first, &all);
    require(!entry.wrong && entry.used == has_own());
    for (size_t back = first.size / 2; back > 1; back /= 2) {
        struct picture changed = {.bytes = malloc(first.size), .size = first.size};
        memcpy(changed.bytes, first.bytes, first.size);
        changed.bytes[first.size - back] ^= 1;
        require(finish(&changed));
        read_box(&changed, &all);
        require(!entry.used);
        read_box(&first, &all);
        drop(&changed);
    }
    drop(&first);
    drop(&second);
}
END_TEST

/* Marks that say something else than what decoding comes to: the sums are right. Only a wrong count
 * of zeros is not seen, where there is no jump by it. */
START_TEST(misleading)
{
    struct picture picture = make(&(struct jpeg_recipe){.width = 300, .height = 200});
    struct jpeg_box all = all_of(&picture);
    static uint8_t good[JPEG_MARKS_ROOM];
    entry.room = 400;
    read_box(&picture, &all);
    memcpy(good, room, sizeof good);
    size_t size = has_own() ? entry_size() - SLACK : 0;
    int tried = 0, seen = 0;
    for (size_t i = sizeof(struct jpeg_marks_head); i + 1 < size; i += FLIPS, tried++) {
        memcpy(room, good, sizeof good);
        room[i] ^= (uint8_t)(1 << below(8));
        seal();
        read_box(&picture, &all); /* crosses all marks, jumps to none */
        require(entry.wrong != entry.used);
        require(entry.changed == entry.wrong);
        seen += entry.wrong;
    }
    ck_assert_int_ge(seen, tried * 3 / 4);
    drop(&picture);
}
END_TEST

/* Marks that lead anywhere may cost pixels only where the sums are right, and never more. */
START_TEST(wild_jumps)
{
    struct picture picture = make(&(struct jpeg_recipe){.width = 300, .height = 200});
    struct jpeg_box all = all_of(&picture);
    static uint8_t good[JPEG_MARKS_ROOM], pixels[3 * 300 * 200];
    entry.room = 400;
    read_box(&picture, &all);
    memcpy(good, room, sizeof good);
    size_t size = has_own() ? entry_size() - SLACK : 0;
    for (int i = 0; size && i < 200; i++) {
        struct jpeg_box box = draw_box(&picture);
        struct jpeg_image_header header;
        memcpy(room, good, sizeof good);
        for (int n = 0; n < 4; n++) {
            size_t at = 16 + (size_t)below((int32_t)size - 16);
            room[at] ^= (uint8_t)(1 << below(8));
        }
        if (entry_size() > entry.room)
            continue;
        seal();
        require(jpeg_image_open(image, picture.bytes, picture.size, JPEG_AUTO, &header));
        jpeg_image_mark(image, &entry);
        require(jpeg_image_read(image, &box, pixels, 3 * (size_t)box.width));
        jpeg_image_close(image);
    }
    drop(&picture);
}
END_TEST

/* What warns or is refused gets no marks. */
START_TEST(damaged)
{
    struct picture picture = {0};
    picture.bytes = jpeg_maker_damaged(1, &picture.size);
    require(finish(&picture));
    struct jpeg_box all = all_of(&picture);
    read_box(&picture, &all);
    require(!entry.used && !entry.wrong && !entry.changed);
    drop(&picture);
}
END_TEST

/* ------- pixels: fast ------- */

static void decode_fast(struct decoder *decoder, const struct picture *picture,
                        const struct transform *transform, uint64_t id, uint8_t *row)
{
    struct decoder_result result;
    decoder_run(decoder, picture->bytes, picture->size, transform, 1, 0, id, row, FAST_ROW,
                &result);
    require(result.cls == BAD_NONE);
}

/* Planes are read by marks too; misleading ones cost neither bytes nor the fast way. */
START_TEST(fast_pixels)
{
    static uint8_t want[FAST_ROW], got[FAST_ROW], good[JPEG_MARKS_ROOM];
    struct picture picture =
        make(&(struct jpeg_recipe){.width = 300, .height = 200, .h_samp = 2, .v_samp = 2});
    struct decoder *decoder =
        decoder_new(&(struct decoder_limits){.share = 1 << 26, .max = 1 << 26});
    struct transform train = {0};
    struct transform whole = {.count = 1, .ops = {{OP_RESIZE, .height = 64}}, .fast = true};
    require(transform_preset(&train, "train", NULL) == 0);
    train.fast = true;
    require(transform_check(&train, NULL) == 0 && transform_check(&whole, NULL) == 0);
    entry.room = 400;
    uint32_t used = 0, wrong = 0;
    for (uint64_t id = 0; id < 20; id++) {
        decode_fast(decoder, &picture, &train, id, want);
        decoder_mark(decoder, &entry);
        decode_fast(decoder, &picture, &train, id, got);
        require(memcmp(got, want, sizeof got) == 0 && !entry.wrong);
        used += entry.used;
    }
    decode_fast(decoder, &picture, &whole, 0, want);
    decoder_mark(decoder, &entry);
    decode_fast(decoder, &picture, &whole, 0, got);
    require(memcmp(got, want, sizeof got) == 0);
    memcpy(good, room, sizeof good);
    size_t size = has_own() ? entry_size() - SLACK : 0;
    for (size_t i = sizeof(struct jpeg_marks_head); i + 1 < size; i++) {
        memcpy(room, good, sizeof good);
        room[i] ^= (uint8_t)(1 << below(8));
        seal();
        decoder_mark(decoder, &entry);
        decode_fast(decoder, &picture, &whole, 0, got); /* crosses all marks, jumps to none */
        require(memcmp(got, want, sizeof got) == 0);
        wrong += entry.wrong;
    }
    require(!has_own() || (used > 10 && wrong > size / 2));
    decoder_free(decoder);
    drop(&picture);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jpeg_marks");
    TCase *tests = tcase_create("jpeg_marks");
    tcase_set_timeout(tests, 250);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, made_pictures, 0, KINDS);
    tcase_add_test(tests, photographs);
    tcase_add_test(tests, grows_with_deeper_boxes);
    tcase_add_test(tests, any_byte_changed);
    tcase_add_test(tests, cut_anywhere);
    tcase_add_test(tests, of_other_bytes);
    tcase_add_test(tests, misleading);
    tcase_add_test(tests, wild_jumps);
    tcase_add_test(tests, damaged);
    tcase_add_test(tests, fast_pixels);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
