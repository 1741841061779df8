/* store/dataset_marks.c, store/marks.h: each part has a place of its own, and what is kept there is
 * read again later. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "scratch.h"
#include "store/dataset.h"
#include "tar_maker.h"

enum { RECORDS = 40, SHARDS = 3 };

static const char *const image_from[] = {"jpg"}, *const label_from[] = {"cls"};
static const struct dataset_field fields[] = {
    {.name = "label", .from = label_from, .nfrom = 1},
    {.name = "image", .from = image_from, .nfrom = 1, .marks = true}};

static struct scratch scratch;

/* Records of sizes that differ, some too small for marks; no two shards are copies. */
static void put(int shard)
{
    static char bytes[4000];
    char name[40];
    struct tarm *tar = tarm_new();
    memset(bytes, shard, sizeof bytes);
    for (int i = 0; i < RECORDS; i++) {
        snprintf(name, sizeof name, "%04d.cls", i);
        tarm_text(tar, name, "7");
        snprintf(name, sizeof name, "%04d.jpg", i);
        tarm_file(tar, name, bytes, (size_t)(i * 97 % sizeof bytes));
    }
    tarm_end(tar);
    snprintf(name, sizeof name, "%d.tar", shard);
    ck_assert_int_eq(tarm_write(tar, scratch_at(&scratch, name)), 0);
    tarm_free(tar);
}

static void set_up(void)
{
    scratch_make(&scratch);
    for (int s = 0; s < SHARDS; s++)
        put(s);
}

static void tear_down(void)
{
    scratch_remove(&scratch);
}

static struct dataset *opened(bool cache, bool marks)
{
    const char *pattern = scratch_at(&scratch, "?.tar");
    struct error err = {0};
    struct dataset *dataset = NULL;
    struct dataset_options options = {.name = "feed",
                                      .source = {.patterns = &pattern, .count = 1},
                                      .fields = fields,
                                      .nfields = 2,
                                      .cache_dir = cache ? scratch_at(&scratch, "cache") : NULL,
                                      .cache_bytes = 1 << 20,
                                      .marks = marks,
                                      .threads = 2};
    ck_assert_msg(dataset_open(&options, &dataset, &err) == 0, "%s", err.text);
    return dataset;
}

static struct marks_place place_of(const struct dataset *dataset, uint32_t shard, uint64_t j)
{
    struct dataset_record record;
    dataset_record(dataset, shard, j, &record);
    ck_assert_uint_eq(record.parts[0].marks.room, 0);
    return record.parts[1].marks;
}

START_TEST(places)
{
    uint64_t before = 0, end = 0;
    for (uint64_t size = 0; size < 3000000; size += 1 + size / 3) {
        struct marks_place place = marks_place(before, size);
        ck_assert_uint_ge(place.offset, end);
        ck_assert_uint_le(place.room, marks_share(size));
        ck_assert(size < 1000 || place.room > 0);
        ck_assert_uint_le(place.room, MARKS_ROOM_MAX);
        before += size;
        end = place.offset + place.room;
        ck_assert_uint_le(end, marks_share(before) + 1);
    }
    ck_assert_uint_gt(marks_share(UINT64_MAX / 16), UINT64_MAX / 16 / 1000 * 13);
}
END_TEST

/* What record j of a shard has there. */
static void fill(uint8_t *marks, uint64_t room, uint32_t shard, uint64_t j)
{
    for (uint64_t i = 0; i < room; i++)
        marks[i] = (uint8_t)(1 + shard * 50 + j + i);
}

START_TEST(kept_and_read)
{
    static uint8_t marks[MARKS_ROOM_MAX], got[MARKS_ROOM_MAX];
    struct dataset *dataset = opened(true, true);
    ck_assert_uint_gt(dataset_marks_bytes(dataset), 0);
    for (uint32_t s = 0; s < SHARDS; s++)
        for (uint64_t j = 0; j < RECORDS; j++) {
            struct marks_place place = place_of(dataset, s, j);
            fill(marks, place.room, s, j);
            ck_assert(!place.room || dataset_keep_marks(dataset, s, &place, marks));
        }
    dataset_unref(dataset);
    dataset = opened(true, true);
    for (uint32_t s = 0; s < SHARDS; s++) {
        struct shard *shard;
        ck_assert_int_eq(shard_open(dataset, s, &shard, NULL), 0);
        for (uint64_t j = 0; j < RECORDS; j++) {
            struct marks_place place = place_of(dataset, s, j);
            fill(marks, place.room, s, j);
            shard_read_marks(shard, &place, got);
            ck_assert(memcmp(got, marks, place.room) == 0);
        }
        shard_close(shard);
    }
    dataset_unref(dataset);
}
END_TEST

START_TEST(not_kept)
{
    struct dataset *dataset = opened(true, false);
    ck_assert_uint_eq(dataset_marks_bytes(dataset), 0);
    ck_assert_uint_eq(place_of(dataset, 0, RECORDS - 1).room, 0);
    dataset_unref(dataset);
    dataset = opened(false, true);
    ck_assert_uint_eq(dataset_marks_bytes(dataset), 0);
    ck_assert_uint_eq(place_of(dataset, 0, RECORDS - 1).room, 0);
    dataset_unref(dataset);
}
END_TEST

/* The directory goes while the data set is open. */
START_TEST(files_gone)
{
    static uint8_t marks[MARKS_ROOM_MAX], got[MARKS_ROOM_MAX];
    struct dataset *dataset = opened(true, true);
    struct marks_place place = place_of(dataset, 1, RECORDS - 1);
    struct shard *shard;
    char command[6000];
    ck_assert_uint_gt(place.room, 0);
    snprintf(command, sizeof command, "rm -r '%s'", scratch_at(&scratch, "cache"));
    ck_assert_int_eq(system(command), 0);
    memset(got, 0xAA, sizeof got);
    ck_assert(!dataset_keep_marks(dataset, 1, &place, marks));
    ck_assert_int_eq(shard_open(dataset, 1, &shard, NULL), 0);
    shard_read_marks(shard, &place, got);
    for (uint64_t i = 0; i < place.room; i++)
        ck_assert_uint_eq(got[i], 0);
    ck_assert_uint_eq(got[place.room], 0xAA);
    shard_close(shard);
    dataset_unref(dataset);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dataset_marks");
    TCase *tests = tcase_create("dataset_marks");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, places);
    tcase_add_test(tests, kept_and_read);
    tcase_add_test(tests, not_kept);
    tcase_add_test(tests, files_gone);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
