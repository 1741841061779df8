/* What the records of files that a user has given may take of memory. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scratch.h"
#include "store/dataset.h"
#include "store/files.h"
#include "tar_maker.h"

#define RECORDS 4000
#define KIB 1024ULL
#define PLENTY (1ULL << 30)

static const char *const from[] = {"cls"}, *const lacking[] = {"json"};
static struct scratch scratch;
static struct files_owner *owner;
static struct dataset *dataset;
static struct error err;

static void set_up(void)
{
    scratch_make(&scratch);
    owner = files_owner_new(1000);
    err = (struct error){0};
}

static void tear_down(void)
{
    files_owner_unref(owner);
    scratch_remove(&scratch);
}

static const char *write_shard(struct tarm *tar, const char *name)
{
    const char *path = scratch_at(&scratch, name);
    tarm_end(tar);
    ck_assert_int_eq(tarm_write(tar, path), 0);
    tarm_free(tar);
    return path;
}

static const char *make_shard(const char *name, int begin, int count)
{
    struct tarm *tar = tarm_new();
    for (int i = begin; i < begin + count; i++) {
        char member[32];
        snprintf(member, sizeof member, "%06d.cls", i);
        tarm_text(tar, member, "1");
    }
    return write_shard(tar, name);
}

static int open_shards(const char *const *paths, size_t count, const char *const *part,
                       const char *cache)
{
    struct dataset_field field = {.name = "label", .from = part, .nfrom = 1};
    struct files *files = files_new(owner);
    for (size_t i = 0; i < count; i++) {
        int fd = open(paths[i], O_RDONLY);
        ck_assert_int_ge(fd, 0);
        files_add(files, fd, paths[i]);
    }
    struct dataset_options options = {.name = "~1000/mine",
                                      .source = {.files = files},
                                      .fields = &field,
                                      .nfields = 1,
                                      .cache_dir = cache,
                                      .cache_bytes = PLENTY,
                                      .threads = 2};
    int rc = dataset_open(&options, &dataset, &err);
    files_unref(files);
    return rc;
}

static void check_refused(int rc)
{
    ck_assert_int_eq(rc, -E2BIG);
    ck_assert_msg(strstr(err.text, "feed '~1000/mine'") &&
                      strstr(err.text, "own feeds are too many"),
                  "%s", err.text);
    /* A thread may still be at its end. */
    for (int i = 0; i < 200 && files_owner_memory(owner); i++)
        usleep(10000);
    ck_assert_uint_eq(files_owner_memory(owner), 0);
}

START_TEST(counts_as_long_as_it_is_open)
{
    const char *cache = _i ? scratch_at(&scratch, "cache") : NULL;
    const char *shard = make_shard("a", 0, RECORDS);
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(open_shards(&shard, 1, from, cache), 0);
        ck_assert_uint_ge(files_owner_memory(owner), RECORDS * 40);
        ck_assert_uint_le(files_owner_memory(owner), RECORDS * 120);
        dataset_unref(dataset);
        ck_assert_uint_eq(files_owner_memory(owner), 0);
    }
}
END_TEST

START_TEST(one_shard_of_too_many)
{
    const char *shard = make_shard("a", 0, RECORDS);
    files_owner_allow(owner, 100 * KIB);
    check_refused(open_shards(&shard, 1, from, NULL));
    files_owner_allow(owner, PLENTY);
    ck_assert_int_eq(open_shards(&shard, 1, from, NULL), 0);
    dataset_unref(dataset);
}
END_TEST

/* Each would fit, also those that are in the cache. */
START_TEST(many_shards_together)
{
    const char *cache = scratch_at(&scratch, "cache"), *shards[8];
    for (int i = 0; i < 8; i++) {
        char name[8];
        snprintf(name, sizeof name, "s%d", i);
        shards[i] = make_shard(name, i * RECORDS, RECORDS);
    }
    if (_i) {
        ck_assert_int_eq(open_shards(shards, 8, from, cache), 0);
        dataset_unref(dataset);
    }
    files_owner_allow(owner, 1500 * KIB);
    check_refused(open_shards(shards, 8, from, cache));
    ck_assert_int_eq(open_shards(shards, 2, from, cache), 0);
    dataset_unref(dataset);
}
END_TEST

/* Why each is left out takes more than the index. */
START_TEST(records_that_lack_a_part)
{
    struct tarm *tar = tarm_new();
    for (int i = 0; i < RECORDS; i++) {
        char member[64];
        snprintf(member, sizeof member, "%06d.%020d", i, i);
        tarm_text(tar, member, "1");
    }
    tarm_text(tar, "last.json", "1");
    const char *shard = write_shard(tar, "a");
    ck_assert_int_eq(open_shards(&shard, 1, lacking, scratch_at(&scratch, "cache")), 0);
    uint64_t all = files_owner_memory(owner);
    dataset_unref(dataset);
    ck_assert_uint_eq(files_owner_memory(owner), 0);
    files_owner_allow(owner, all - 100);
    check_refused(open_shards(&shard, 1, lacking, scratch_at(&scratch, "cache")));
}
END_TEST

/* Where members lie is kept for the links, and no record comes of any. */
START_TEST(links_without_records)
{
    struct tarm *tar = tarm_new();
    if (_i)
        tarm_link(tar, '1', "link.cls", "nowhere.cls");
    for (int i = 0; i < RECORDS; i++) {
        char member[64];
        snprintf(member, sizeof member, "._%06d.cls", i);
        tarm_text(tar, member, "1");
    }
    if (!_i)
        tarm_link(tar, '1', "link.cls", "nowhere.cls");
    const char *shard = write_shard(tar, "a");
    files_owner_allow(owner, 64 * KIB);
    check_refused(open_shards(&shard, 1, from, NULL));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("files_memory");
    TCase *tests = tcase_create("files_memory");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, counts_as_long_as_it_is_open, 0, 2);
    tcase_add_test(tests, one_shard_of_too_many);
    tcase_add_loop_test(tests, many_shards_together, 0, 2);
    tcase_add_test(tests, records_that_lack_a_part);
    tcase_add_loop_test(tests, links_without_records, 0, 2);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
