#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jpeg_maker.h"
#include "scratch.h"
#include "store/dataset.h"
#include "tar_maker.h"

static const char *const image_from[] = {"jpg", "jpeg"};
static const char *const label_from[] = {"cls"};
static const struct dataset_field fields[] = {{.name = "image", .from = image_from, .nfrom = 2},
                                              {.name = "label", .from = label_from, .nfrom = 1}};

static struct scratch scratch;
static struct error err;

static void set_up(void)
{
    scratch_make(&scratch);
    err = (struct error){0};
}

static void tear_down(void)
{
    scratch_remove(&scratch);
}

/* Shard with samples from..to-1 of sizes 10 + i; the caller may add to it and writes it. */
static struct tarm *samples(int from, int to)
{
    struct tarm *tar = tarm_new();
    for (int i = from; i < to; i++) {
        char name[40], bytes[1000];
        memset(bytes, 'a' + i % 26, sizeof bytes);
        snprintf(name, sizeof name, "%04d.jpg", i);
        tarm_file(tar, name, bytes, (size_t)(10 + i));
        snprintf(name, sizeof name, "%04d.cls", i);
        tarm_text(tar, name, "7");
    }
    return tar;
}

static const char *put(const char *name, struct tarm *tar)
{
    const char *path = scratch_at(&scratch, name);
    tarm_end(tar);
    ck_assert_int_eq(tarm_write(tar, path), 0);
    tarm_free(tar);
    return path;
}

static int try_open(const char *pattern, bool folder, const char *cache, struct dataset **out)
{
    struct dataset_options options = {
        .name = "feed-1",
        .source = {.patterns = &pattern, .count = 1, .folder = folder},
        .fields = fields,
        .nfields = 2,
        .cache_dir = cache,
        .cache_bytes = 1 << 20,
        .threads = 3};
    *out = NULL;
    return dataset_open(&options, out, &err);
}

static struct dataset *opened(const char *pattern)
{
    struct dataset *dataset;
    int rc = try_open(pattern, false, NULL, &dataset);
    ck_assert_msg(rc == 0, "%s", err.text);
    return dataset;
}

static void refused(const char *pattern, int code, const char *word)
{
    struct dataset *dataset;
    int rc = try_open(pattern, false, NULL, &dataset);
    ck_assert_msg(rc == code, "%d: %s", rc, err.text);
    ck_assert_msg(strstr(err.text, word) && strstr(err.text, "feed-1"), "%s", err.text);
    ck_assert_ptr_null(dataset);
}

static bool noted(const struct dataset *dataset, const char *word)
{
    for (uint32_t i = 0; i < dataset_notes(dataset); i++)
        if (strstr(dataset_note(dataset, i), word))
            return true;
    return false;
}

START_TEST(records_of_two_shards)
{
    put("a.tar", samples(0, 3));
    put("b.tar", samples(3, 5));
    struct dataset *dataset = opened(scratch_at(&scratch, "*.tar"));
    ck_assert_uint_eq(dataset_shards(dataset), 2);
    ck_assert_str_eq(dataset_shard_path(dataset, 1), scratch_at(&scratch, "b.tar"));
    ck_assert_uint_eq(dataset_records(dataset), 5);
    ck_assert_uint_eq(dataset_shard_records(dataset, 0), 3);
    ck_assert_uint_eq(dataset_bytes(dataset), 5 * 11 + 10);
    ck_assert_uint_eq(dataset_shard_bytes(dataset, 1), 14 + 15);
    ck_assert_uint_eq(dataset_span_bytes(dataset, 0, 1, 2), 12 + 13);
    ck_assert_uint_eq(dataset_part_max(dataset, 0), 14);
    ck_assert_uint_eq(dataset_part_max(dataset, 1), 1);
    struct dataset_record record;
    dataset_record(dataset, 1, 1, &record);
    ck_assert_uint_eq(record.id, 4);
    ck_assert_uint_eq(record.shard, 1);
    ck_assert_uint_eq(record.number, 1);
    ck_assert_str_eq(record.key, "0004");
    ck_assert_str_eq(record.parts[0].suffix, "jpg");
    ck_assert_uint_eq(record.parts[0].size, 14);
    ck_assert_str_eq(record.parts[1].suffix, "cls");
    ck_assert_uint_eq(dataset_faults(dataset), 0);
    ck_assert_uint_eq(dataset_notes(dataset), 0);
    dataset_unref(dataset);
}
END_TEST

/* Records 1, 2 and 5 of 7 lack a part, in one shard. */
static struct dataset *with_gaps(void)
{
    struct tarm *tar = samples(0, 1);
    tarm_text(tar, "x.jpg", "12345");
    tarm_text(tar, "y.cls", "1");
    tarm_text(tar, "y.txt", "1");
    struct tarm *more = samples(1, 3);
    tarm_raw(tar, tarm_bytes(more), tarm_size(more));
    tarm_free(more);
    tarm_text(tar, "z.png", "123456789");
    tarm_text(tar, "z.cls", "1");
    tarm_text(tar, "last.jpeg", "123");
    tarm_text(tar, "last.jpg", "1234");
    tarm_text(tar, "last.cls", "12");
    put("gaps.tar", tar);
    return opened(scratch_at(&scratch, "gaps.tar"));
}

START_TEST(records_without_a_part_are_left_out)
{
    struct dataset *dataset = with_gaps();
    static const char *const keys[] = {"0000", "0001", "0002", "last"};
    static const uint64_t ids[] = {0, 3, 4, 6}, bytes[] = {11, 12, 13, 9};
    ck_assert_uint_eq(dataset_records(dataset), 4);
    ck_assert_uint_eq(dataset_bytes(dataset), 45);
    for (uint64_t j = 0; j < 4; j++) {
        struct dataset_record record;
        dataset_record(dataset, 0, j, &record);
        ck_assert_str_eq(record.key, keys[j]);
        ck_assert_uint_eq(record.id, ids[j]);
        for (uint64_t count = 0, sum = 0; j + count <= 4; count++) {
            ck_assert_uint_eq(dataset_span_bytes(dataset, 0, j, count), sum);
            sum += j + count < 4 ? bytes[j + count] : 0;
        }
    }
    struct dataset_record record;
    dataset_record(dataset, 0, 3, &record);
    ck_assert_str_eq(record.parts[0].suffix, "jpg"); /* first in `from`, not first in the shard */
    ck_assert_uint_eq(record.parts[0].size, 4);
    dataset_unref(dataset);
}
END_TEST

START_TEST(faults_say_what_and_where)
{
    struct dataset *dataset = with_gaps();
    static const char *const keys[] = {"x", "y", "z"}, *const words[] = {"cls", "jpg, jpeg", "png"};
    ck_assert_uint_eq(dataset_faults(dataset), 3);
    for (uint32_t i = 0; i < 3; i++) {
        struct bad_report report = dataset_fault(dataset, i);
        ck_assert_int_eq((int)report.cls, BAD_PART_MISSING);
        ck_assert_str_eq(report.shard, scratch_at(&scratch, "gaps.tar"));
        ck_assert_str_eq(report.key, keys[i]);
        ck_assert_msg(strstr(report.reason, words[i]) != NULL, "%s", report.reason);
        ck_assert_uint_gt(report.offset, 0);
    }
    ck_assert(noted(dataset, "3 x PART-MISSING"));
    dataset_unref(dataset);
}
END_TEST

START_TEST(faults_of_several_shards)
{
    struct tarm *cut = samples(0, 3);
    tarm_cut(cut, tarm_size(cut) - 1000);
    ck_assert_int_eq(tarm_write(cut, scratch_at(&scratch, "a.tar")), 0);
    tarm_free(cut);
    put("b.tar", tarm_new());
    scratch_file(&scratch, "c.tar", "\x1f\x8b\x08 gzip", 8);
    struct tarm *tar = samples(5, 7);
    tarm_text(tar, "0006.jpg", "again");
    tarm_text(tar, "0005.json", "split");
    put("d.tar", tar);
    put("e.tar", samples(8, 9));
    struct dataset *dataset = opened(scratch_at(&scratch, "?.tar"));
    static const struct {
        enum bad_class cls;
        const char *shard, *key;
    } expected[] = {{BAD_SHARD_TRUNC, "a.tar", ""},   {BAD_PART_MISSING, "a.tar", "0002"},
                    {BAD_SHARD_EMPTY, "b.tar", ""},   {BAD_SHARD_TYPE, "c.tar", ""},
                    {BAD_KEY_SPLIT, "d.tar", "0005"}, {BAD_KEY_DUP, "d.tar", "0006"},
                    {BAD_KEY_SPLIT, "d.tar", "0005"}};
    ck_assert_uint_eq(dataset_records(dataset), 2 + 0 + 0 + 0 + 1);
    ck_assert_uint_eq(dataset_faults(dataset), 7);
    for (uint32_t i = 0; i < 7; i++) {
        struct bad_report report = dataset_fault(dataset, i);
        ck_assert_int_eq((int)report.cls, (int)expected[i].cls);
        ck_assert_str_eq(report.shard, scratch_at(&scratch, expected[i].shard));
        ck_assert_str_eq(report.key, expected[i].key);
    }
    ck_assert(noted(dataset, "gunzip"));
    ck_assert(noted(dataset, "SHARD-EMPTY"));
    struct dataset_record record;
    dataset_record(dataset, 4, 0, &record);
    ck_assert_str_eq(record.key, "0008");
    ck_assert_uint_eq(record.id, 3 + 3); /* records of a and of d before it, the bad ones too */
    dataset_unref(dataset);
}
END_TEST

START_TEST(nothing_to_use_is_an_error)
{
    refused(scratch_at(&scratch, "none-*.tar"), -ENOENT, "none-*.tar");
    put("a.tar", samples(0, 1));
    refused(scratch_at(&scratch, "{a,b}.tar"), -ENOENT, "b.tar");
    scratch_file(&scratch, "zip.tar", "PK\x03\x04", 4);
    refused(scratch_at(&scratch, "zip.tar"), -ENODATA, "SHARD-TYPE");
    struct tarm *tar = tarm_new();
    tarm_text(tar, "a.txt", "x");
    put("texts.tar", tar);
    refused(scratch_at(&scratch, "texts.tar"), -ENODATA, "'image'");
    put("empty.tar", tarm_new());
    refused(scratch_at(&scratch, "empty.tar"), -ENODATA, "SHARD-EMPTY");
    mkdir(scratch_at(&scratch, "dir.tar"), 0755);
    refused(scratch_at(&scratch, "dir.tar"), -EISDIR, "folder:");
    mkfifo(scratch_at(&scratch, "fifo.tar"), 0644);
    refused(scratch_at(&scratch, "fifo.tar"), -EINVAL, "fifo.tar");
}
END_TEST

START_TEST(listed_twice_is_used_twice_and_noted)
{
    const char *path = put("a.tar", samples(0, 2));
    char pattern[1000];
    snprintf(pattern, sizeof pattern, "%s::%s", path, path);
    struct dataset *dataset = opened(pattern);
    ck_assert_uint_eq(dataset_records(dataset), 4);
    ck_assert(noted(dataset, "twice"));
    dataset_unref(dataset);
}
END_TEST

static void fingerprint_of(const char *pattern, char out[33])
{
    struct dataset *dataset = opened(pattern);
    strcpy(out, dataset_fingerprint(dataset));
    ck_assert_uint_eq(strlen(out), 32);
    dataset_unref(dataset);
}

START_TEST(the_fingerprint_is_of_the_records_in_the_plan)
{
    char first[33], other[33];
    fingerprint_of(put("a.tar", samples(0, 3)), first);
    mkdir(scratch_at(&scratch, "copy"), 0755);
    fingerprint_of(put("copy/b.tar", samples(0, 3)), other);
    ck_assert_str_eq(first, other); /* no paths, times, inodes */

    struct tarm *tar = samples(0, 3);
    tarm_text(tar, "no-label.jpg", "x");
    fingerprint_of(put("b.tar", tar), other);
    ck_assert_str_eq(first, other); /* nor what is left out */

    fingerprint_of(put("b.tar", samples(0, 4)), other);
    ck_assert_str_ne(first, other);
    fingerprint_of(put("b.tar", samples(1, 4)), other);
    ck_assert_str_ne(first, other);
    tar = samples(0, 2);
    tarm_text(tar, "0002.jpg", "123456789012"); /* the same key and parts, size as before */
    tarm_text(tar, "0002.cls", "7");
    fingerprint_of(put("b.tar", tar), other);
    ck_assert_str_eq(first, other);
    tar = samples(0, 2);
    tarm_text(tar, "0002.jpg", "12345678901");
    tarm_text(tar, "0002.cls", "7");
    fingerprint_of(put("b.tar", tar), other);
    ck_assert_str_ne(first, other);
}
END_TEST

START_TEST(where_shards_begin_counts)
{
    char whole[33], parts[33];
    put("a.tar", samples(0, 4));
    put("p-0.tar", samples(0, 2));
    put("p-1.tar", samples(2, 4));
    fingerprint_of(scratch_at(&scratch, "a.tar"), whole);
    fingerprint_of(scratch_at(&scratch, "p-*.tar"), parts);
    ck_assert_str_ne(whole, parts);
    put("p-0a.tar", tarm_new()); /* an empty one does not: the plan is the same */
    fingerprint_of(scratch_at(&scratch, "p-*.tar"), whole);
    ck_assert_str_eq(whole, parts);
}
END_TEST

START_TEST(image_folder)
{
    scratch_file(&scratch, "set/cat/1.jpg", "1234", 4);
    scratch_file(&scratch, "set/dog/2.jpeg", "12345", 5);
    scratch_file(&scratch, "set/dog/3.png", "123456", 6);
    struct dataset *dataset;
    int rc = try_open(scratch_at(&scratch, "set"), true, NULL, &dataset);
    ck_assert_msg(rc == 0, "%s", err.text);
    ck_assert_uint_eq(dataset_records(dataset), 2);
    ck_assert_uint_eq(dataset_shards(dataset), 1);
    struct dataset_record record;
    dataset_record(dataset, 0, 1, &record);
    ck_assert_str_eq(record.key, "dog/2.jpeg");
    ck_assert_uint_eq(record.parts[1].flags, PART_VALUE);
    ck_assert_uint_eq(record.parts[1].offset, 1);
    ck_assert_uint_eq(dataset_faults(dataset), 1);
    ck_assert(noted(dataset, "dataload-pack"));
    ck_assert(dataset_current(dataset));
    usleep(20000);
    scratch_file(&scratch, "set/dog/4.jpg", "1", 1);
    ck_assert(!dataset_current(dataset));
    dataset_unref(dataset);
    ck_assert_int_eq(try_open(scratch_at(&scratch, "nowhere"), true, NULL, &dataset), -ENOENT);
    ck_assert_int_eq(try_open(scratch_at(&scratch, "set/cat/1.jpg"), true, NULL, &dataset),
                     -ENOTDIR);
    scratch_file(&scratch, "texts/a/b.txt", "1", 1);
    ck_assert_int_eq(try_open(scratch_at(&scratch, "texts"), true, NULL, &dataset), -ENODATA);
    ck_assert_ptr_nonnull(strstr(err.text, "texts"));
    ck_assert_ptr_null(strstr(err.text, "CLASS"));
    scratch_file(&scratch, "flat/1.jpg", "1234", 4);
    ck_assert_int_eq(try_open(scratch_at(&scratch, "flat"), true, NULL, &dataset), -ENODATA);
    ck_assert_msg(strstr(err.text, "none of 1 record in 1 shard can") &&
                      strstr(err.text, "FOLDER/CLASS/NAME.jpg"),
                  "%s", err.text);
}
END_TEST

START_TEST(reading_a_shard)
{
    put("a.tar", samples(0, 20));
    struct dataset *dataset = opened(scratch_at(&scratch, "a.tar"));
    struct shard *shard;
    ck_assert_int_eq(shard_open(dataset, 0, &shard, &err), 0);
    shard_advise(shard, 0, 1 << 20);
    struct format_read reads[20];
    char bytes[20][64] = {{0}};
    for (uint32_t j = 0; j < 20; j++) {
        struct dataset_record record;
        dataset_record(dataset, 0, j, &record);
        reads[j] = (struct format_read){.record = record.number,
                                        .offset = record.parts[0].offset,
                                        .size = record.parts[0].size,
                                        .dst = bytes[j]};
    }
    shard_read(shard, reads, 20);
    for (int j = 0; j < 20; j++) {
        ck_assert_uint_eq(reads[j].got, 10 + j);
        for (int i = 0; i < 10 + j; i++)
            ck_assert_int_eq(bytes[j][i], 'a' + j);
    }
    shard_close(shard);
    dataset_unref(dataset);
}
END_TEST

/* A shard renamed over, cut, touched, copied, deleted. */
START_TEST(changed_shards)
{
    const char *path = put("a.tar", samples(0, 5));
    const char *new = put("new.tar", samples(0, 6));
    struct dataset *dataset = opened(path);
    struct shard *open, *late;
    struct stat stat_;
    ck_assert(dataset_current(dataset));
    ck_assert_int_eq(shard_open(dataset, 0, &open, &err), 0);
    stat(path, &stat_);
    struct timespec times[2] = {stat_.st_mtim, stat_.st_mtim};

    /* A copy with the time of the original is the same shard. */
    struct tarm *copy = samples(0, 5);
    put("copy.tar", copy);
    utimensat(AT_FDCWD, scratch_at(&scratch, "copy.tar"), times, 0);
    rename(scratch_at(&scratch, "copy.tar"), path);
    ck_assert_int_eq(shard_open(dataset, 0, &late, &err), 0);
    shard_close(late);
    ck_assert(dataset_current(dataset));

    rename(new, path);
    ck_assert_int_eq(shard_open(dataset, 0, &late, &err), -ESTALE);
    ck_assert_ptr_nonnull(strstr(err.text, path));
    ck_assert(!dataset_current(dataset));

    /* Another content of the same size and time. */
    struct tarm *other = samples(0, 4);
    tarm_text(other, "0004.jpg", "other bytes..x");
    tarm_text(other, "0004.cls", "9");
    put("other.tar", other);
    utimensat(AT_FDCWD, scratch_at(&scratch, "other.tar"), times, 0);
    rename(scratch_at(&scratch, "other.tar"), path);
    ck_assert_int_eq(shard_open(dataset, 0, &late, &err), -ESTALE);

    unlink(path);
    ck_assert_int_eq(shard_open(dataset, 0, &late, &err), -ENOENT);
    ck_assert(!dataset_current(dataset));

    /* The one that is open is read to its end as it was. */
    struct dataset_record record;
    char bytes[64];
    dataset_record(dataset, 0, 4, &record);
    struct format_read read = {.offset = record.parts[0].offset, .size = 14, .dst = bytes};
    shard_read(open, &read, 1);
    ck_assert_uint_eq(read.got, 14);
    ck_assert_int_eq(bytes[13], 'e');
    shard_close(open);
    dataset_unref(dataset);
}
END_TEST

/* A shard whose ends and size are the same with any middle. */
static void put_large(const char *name, const char *middle)
{
    struct tarm *tar = tarm_new();
    char *bulk = calloc(1, 200000);
    tarm_file(tar, "0.jpg", bulk, 200000);
    tarm_text(tar, "0.cls", "1");
    tarm_text(tar, middle, "1");
    tarm_text(tar, "2.cls", "1");
    tarm_file(tar, "2.jpg", bulk, 200000);
    free(bulk);
    const char *path = put(name, tar);
    struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    utimensat(AT_FDCWD, path, times, 0);
}

START_TEST(indexes_are_kept)
{
    struct dataset *dataset;
    const char *cache = scratch_at(&scratch, "cache"), *pattern = scratch_at(&scratch, "?.tar");
    put_large("a.tar", "2.png");
    put("b.tar", samples(3, 5));
    ck_assert_int_eq(try_open(pattern, false, cache, &dataset), 0);
    ck_assert_uint_eq(dataset_faults(dataset), 0);
    dataset_unref(dataset);
    /* The second opening reads no headers: what has size, time and both ends of before is not
     * looked at again. */
    put_large("a.tar", "2.cls");
    ck_assert_int_eq(try_open(pattern, false, cache, &dataset), 0);
    ck_assert_uint_eq(dataset_faults(dataset), 0);
    dataset_unref(dataset);
    ck_assert_int_eq(try_open(pattern, false, NULL, &dataset), 0);
    ck_assert_uint_eq(dataset_faults(dataset), 1);
    dataset_unref(dataset);
    /* Shards that change places: each keeps its own index. */
    rename(scratch_at(&scratch, "a.tar"), scratch_at(&scratch, "t"));
    rename(scratch_at(&scratch, "b.tar"), scratch_at(&scratch, "a.tar"));
    rename(scratch_at(&scratch, "t"), scratch_at(&scratch, "b.tar"));
    ck_assert_int_eq(try_open(pattern, false, cache, &dataset), 0);
    struct dataset_record record;
    dataset_record(dataset, 0, 0, &record);
    ck_assert_str_eq(record.key, "0003");
    dataset_unref(dataset);
}
END_TEST

START_TEST(a_cache_that_cannot_be_is_no_error)
{
    struct dataset *dataset;
    put("a.tar", samples(0, 3));
    scratch_file(&scratch, "file", "x", 1);
    ck_assert_int_eq(
        try_open(scratch_at(&scratch, "a.tar"), false, scratch_at(&scratch, "file"), &dataset), 0);
    ck_assert_uint_eq(dataset_records(dataset), 3);
    dataset_unref(dataset);
}
END_TEST

START_TEST(turned_pictures_are_noted)
{
    struct tarm *tar = tarm_new();
    for (int i = 0; i < 8; i++) {
        size_t size;
        char name[32];
        uint8_t *jpeg =
            jpeg_maker_make(&(struct jpeg_recipe){.orientation = i % 4 == 1 ? 6 : 1}, &size);
        snprintf(name, sizeof name, "%d.jpg", i);
        tarm_file(tar, name, jpeg, size);
        snprintf(name, sizeof name, "%d.cls", i);
        tarm_text(tar, name, "1");
        free(jpeg);
    }
    struct dataset *dataset = opened(put("a.tar", tar));
    ck_assert(noted(dataset, "2 of 8"));
    ck_assert(noted(dataset, "25.0 %"));
    dataset_unref(dataset);
}
END_TEST

START_TEST(references)
{
    struct dataset *dataset = opened(put("a.tar", samples(0, 3)));
    ck_assert_ptr_eq(dataset_ref(dataset), dataset);
    dataset_unref(dataset);
    ck_assert_uint_eq(dataset_records(dataset), 3);
    dataset_unref(dataset);
    dataset_unref(NULL);
}
END_TEST

START_TEST(many_shards_in_parallel)
{
    for (int i = 0; i < 60; i++) {
        char name[32];
        snprintf(name, sizeof name, "m-%02d.tar", i);
        put(name, samples(i * 10, i * 10 + 1 + i % 10));
    }
    struct dataset *dataset, *again;
    const char *pattern = scratch_at(&scratch, "m-{00..59}.tar");
    ck_assert_int_eq(try_open(pattern, false, scratch_at(&scratch, "cache"), &dataset), 0);
    ck_assert_uint_eq(dataset_records(dataset), 6 * 55);
    struct dataset_record record;
    dataset_record(dataset, 59, 9, &record);
    ck_assert_str_eq(record.key, "0599");
    ck_assert_uint_eq(record.id, 329);
    ck_assert_int_eq(try_open(pattern, false, scratch_at(&scratch, "cache"), &again), 0);
    ck_assert_str_eq(dataset_fingerprint(dataset), dataset_fingerprint(again));
    dataset_unref(dataset);
    dataset_unref(again);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dataset");
    TCase *tests = tcase_create("dataset");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, records_of_two_shards);
    tcase_add_test(tests, records_without_a_part_are_left_out);
    tcase_add_test(tests, faults_say_what_and_where);
    tcase_add_test(tests, faults_of_several_shards);
    tcase_add_test(tests, nothing_to_use_is_an_error);
    tcase_add_test(tests, listed_twice_is_used_twice_and_noted);
    tcase_add_test(tests, the_fingerprint_is_of_the_records_in_the_plan);
    tcase_add_test(tests, where_shards_begin_counts);
    tcase_add_test(tests, image_folder);
    tcase_add_test(tests, reading_a_shard);
    tcase_add_test(tests, changed_shards);
    tcase_add_test(tests, indexes_are_kept);
    tcase_add_test(tests, a_cache_that_cannot_be_is_no_error);
    tcase_add_test(tests, turned_pictures_are_noted);
    tcase_add_test(tests, references);
    tcase_add_test(tests, many_shards_in_parallel);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
