#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "scratch.h"
#include "store/index_cache.h"

static struct scratch scratch;
static struct index_cache *cache;
static struct error err;

static void set_up(void)
{
    scratch_make(&scratch);
    err = (struct error){0};
    ck_assert_int_eq(index_cache_open(scratch_at(&scratch, "deep/er"), 1 << 20, &cache, &err), 0);
}

static void tear_down(void)
{
    index_cache_close(cache);
    scratch_remove(&scratch);
}

static struct index_stamp stamp_of(uint64_t number)
{
    return (struct index_stamp){
        .size = 1000 + number, .mtime_ns = 5, .inode = 6, .content = 0x7777 * number};
}

static struct index *made(uint64_t number, const char *key)
{
    struct index *index;
    struct index_stamp stamp = stamp_of(number);
    struct index_builder *builder = index_builder_new();
    index_builder_part(builder, key, "jpg", PART_STORED, 512, number);
    ck_assert_int_eq(index_builder_finish(builder, &stamp, &index), 0);
    return index;
}

static void put(uint64_t number, const char *key)
{
    struct index *index = made(number, key);
    ck_assert_int_eq(index_cache_put(cache, "tar", index, &err), 0);
    index_free(index);
}

static int get(uint64_t number, struct index **out)
{
    struct index_stamp stamp = stamp_of(number);
    *out = NULL;
    err = (struct error){0};
    return index_cache_get(cache, "tar", &stamp, out, &err);
}

static bool has(uint64_t number)
{
    struct index *index;
    int rc = get(number, &index);
    index_free(index);
    return rc == 0;
}

/* Path of the only file with that ending in the cache, else NULL. */
static const char *only_file(const char *ending)
{
    static char path[5000];
    unsigned found = 0;
    DIR *directory = opendir(scratch_at(&scratch, "deep/er/index"));
    for (struct dirent *entry; (entry = readdir(directory));)
        if (strstr(entry->d_name, ending)) {
            snprintf(path, sizeof path, "%s/deep/er/index/%s", scratch.path, entry->d_name);
            found++;
        }
    closedir(directory);
    return found == 1 ? path : NULL;
}

START_TEST(kept_and_found)
{
    struct index *index;
    ck_assert_int_eq(get(1, &index), -ENOENT);
    put(1, "one");
    put(2, "two");
    ck_assert_int_eq(get(1, &index), 0);
    ck_assert_str_eq(index_key(index, 0), "one");
    index_free(index);
    ck_assert_int_eq(get(2, &index), 0);
    ck_assert_str_eq(index_key(index, 0), "two");
    index_free(index);
    ck_assert_int_eq(get(3, &index), -ENOENT);
    ck_assert_ptr_null(only_file(".tmp"));
}
END_TEST

START_TEST(identity_is_all_but_the_inode)
{
    struct index *index;
    put(1, "one");
    struct index_stamp stamp = stamp_of(1);
    stamp.inode++;
    ck_assert_int_eq(index_cache_get(cache, "tar", &stamp, &index, &err), 0);
    index_free(index);
    ck_assert_int_eq(index_cache_get(cache, "folder", &stamp, &index, &err), -ENOENT);
    stamp.mtime_ns++;
    ck_assert_int_eq(index_cache_get(cache, "tar", &stamp, &index, &err), -ENOENT);
    stamp = stamp_of(1);
    stamp.content++;
    ck_assert_int_eq(index_cache_get(cache, "tar", &stamp, &index, &err), -ENOENT);
    stamp = stamp_of(1);
    stamp.size++;
    ck_assert_int_eq(index_cache_get(cache, "tar", &stamp, &index, &err), -ENOENT);
}
END_TEST

START_TEST(an_index_of_another_shard_is_not_used)
{
    struct index *index;
    char name[5000];
    put(1, "one");
    snprintf(name, sizeof name, "%s", only_file(".index"));
    ck_assert_int_eq(rename(name, scratch_at(&scratch, "deep/er/index/other")), 0);
    put(2, "two");
    ck_assert_int_eq(rename(only_file(".index"), name), 0); /* that of 2 under the name of 1 */
    ck_assert_int_eq(get(1, &index), -ESTALE);
    ck_assert_ptr_nonnull(strstr(err.text, "another shard"));
    ck_assert_ptr_null(index);
    ck_assert_int_eq(get(1, &index), -ENOENT); /* it was removed */
}
END_TEST

START_TEST(damaged_files_are_removed)
{
    struct index *index;
    put(1, "one");
    ck_assert_int_eq(truncate(only_file(".index"), 100), 0);
    ck_assert_int_eq(get(1, &index), -EBADMSG);
    ck_assert_int_eq(get(1, &index), -ENOENT);
    put(1, "one");
    ck_assert(has(1));
}
END_TEST

START_TEST(files_that_others_could_change_are_not_used)
{
    struct index *index;
    put(1, "one");
    ck_assert_int_eq(chmod(only_file(".index"), 0666), 0);
    ck_assert_int_eq(get(1, &index), -EPERM);
    put(1, "one");
    ck_assert_int_eq(link(only_file(".index"), scratch_at(&scratch, "second")), 0);
    ck_assert_int_eq(get(1, &index), -EPERM);
    if (geteuid() == 0) {
        put(1, "one");
        ck_assert_int_eq(chown(only_file(".index"), 65534, 65534), 0);
        ck_assert_int_eq(get(1, &index), -EPERM);
    }
    ck_assert_int_eq(get(1, &index), -ENOENT);
}
END_TEST

START_TEST(links_are_not_followed)
{
    struct index *index;
    char name[5000];
    put(1, "one");
    snprintf(name, sizeof name, "%s", only_file(".index"));
    const char *aside = scratch_at(&scratch, "aside");
    ck_assert_int_eq(rename(name, aside), 0);
    ck_assert_int_eq(symlink(aside, name), 0);
    ck_assert_int_eq(get(1, &index), -ELOOP);
    struct stat stat_;
    ck_assert_int_eq(stat(aside, &stat_), 0); /* only the link is removed */
    ck_assert_int_ne(lstat(name, &stat_), 0);
    ck_assert_int_eq(mkfifo(name, 0600), 0); /* does not hang */
    ck_assert_int_eq(get(1, &index), -EPERM);
}
END_TEST

START_TEST(a_directory_of_others_is_refused)
{
    struct index_cache *other = NULL;
    const char *path = scratch_at(&scratch, "open");
    mkdir(path, 0755);
    mkdir(scratch_at(&scratch, "open/index"), 0700);
    chmod(scratch_at(&scratch, "open/index"), 0777);
    ck_assert_int_eq(index_cache_open(path, 1, &other, &err), -EPERM);
    ck_assert_ptr_nonnull(strstr(err.text, "open/index"));
    scratch_file(&scratch, "file", "x", 1);
    ck_assert_int_eq(index_cache_open(scratch_at(&scratch, "file"), 1, &other, &err), -ENOTDIR);
    ck_assert_ptr_null(other);
}
END_TEST

START_TEST(the_least_used_go_first)
{
    uint64_t each = 0;
    for (uint64_t i = 1; i <= 4; i++) {
        put(i, "key");
        usleep(20000); /* times of files have the grain of a tick */
        each = index_cache_trim(cache) / i;
    }
    ck_assert(has(1)); /* is used, so it is the youngest now */
    index_cache_close(cache);
    ck_assert_int_eq(index_cache_open(scratch_at(&scratch, "deep/er"), each * 2, &cache, &err), 0);
    ck_assert_uint_eq(index_cache_trim(cache), each * 2);
    ck_assert(has(1));
    ck_assert(!has(2));
    ck_assert(!has(3));
    ck_assert(has(4));
}
END_TEST

START_TEST(leftovers_are_removed)
{
    const char *old = scratch_file(&scratch, "deep/er/index/1-1.tmp", "x", 1);
    const char *young = scratch_file(&scratch, "deep/er/index/1-2.tmp", "x", 1);
    const char *foreign = scratch_file(&scratch, "deep/er/index/README", "x", 1);
    struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    utimensat(AT_FDCWD, old, long_ago, 0);
    utimensat(AT_FDCWD, foreign, long_ago, 0);
    index_cache_trim(cache);
    ck_assert_int_ne(access(old, F_OK), 0);
    ck_assert_int_eq(access(young, F_OK), 0);
    ck_assert_int_eq(access(foreign, F_OK), 0);
}
END_TEST

START_TEST(one_lock_a_set)
{
    int first = index_cache_try_lock(cache, 1, &err);
    ck_assert_int_ge(first, 0);
    ck_assert_int_eq(index_cache_try_lock(cache, 1, &err), -EAGAIN);
    int other = index_cache_try_lock(cache, 2, &err);
    ck_assert_int_ge(other, 0);
    close(first);
    int again = index_cache_try_lock(cache, 1, &err);
    ck_assert_int_ge(again, 0);
    close(again);
    close(other);
}
END_TEST

START_TEST(no_room)
{
    struct index *index = made(1, "key");
    chmod(scratch_at(&scratch, "deep/er/index"), 0500);
    bool root = geteuid() == 0;
    ck_assert(!root || seteuid(65534) == 0);
    ck_assert_int_eq(index_cache_put(cache, "tar", index, &err), -EACCES);
    ck_assert_ptr_nonnull(strstr(err.text, "deep/er/index"));
    ck_assert(!root || seteuid(0) == 0);
    chmod(scratch_at(&scratch, "deep/er/index"), 0700);
    index_free(index);
}
END_TEST

/* ------- marks ------- */

enum { MARKS = 4 };

/* Of shards 1 to count. Returns the bytes that are there. */
static uint64_t make_marks(size_t count, uint64_t size)
{
    struct index_stamp stamps[MARKS];
    const struct index_stamp *at[MARKS];
    uint64_t sizes[MARKS], bytes;
    for (size_t i = 0; i < count; i++) {
        stamps[i] = stamp_of(i + 1);
        at[i] = &stamps[i];
        sizes[i] = size;
    }
    err = (struct error){0};
    ck_assert_int_eq(index_cache_make_marks(cache, "tar", at, sizes, count, &bytes, &err), 0);
    return bytes;
}

static int open_marks(uint64_t number, bool writing)
{
    struct index_stamp stamp = stamp_of(number);
    return index_cache_open_marks(cache, "tar", &stamp, writing);
}

static bool has_marks(uint64_t number)
{
    int fd = open_marks(number, false);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void age(const char *path)
{
    struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, long_ago, 0), 0);
}

/* All marks were used so long ago. */
static void use_marks(time_t ago)
{
    struct timespec then[2] = {{.tv_sec = time(NULL) - ago}, {.tv_sec = time(NULL) - ago}};
    DIR *directory = opendir(scratch_at(&scratch, "deep/er/index"));
    for (struct dirent *entry; (entry = readdir(directory));)
        if (strstr(entry->d_name, ".marks"))
            ck_assert_int_eq(utimensat(dirfd(directory), entry->d_name, then, 0), 0);
    closedir(directory);
}

static void bound(uint64_t bytes)
{
    index_cache_close(cache);
    ck_assert_int_eq(index_cache_open(scratch_at(&scratch, "deep/er"), bytes, &cache, &err), 0);
}

START_TEST(marks_are_kept)
{
    struct stat stat_;
    char text[8] = "";
    ck_assert_int_eq(open_marks(1, false), -ENOENT);
    ck_assert_uint_eq(make_marks(1, 100000), 100000);
    ck_assert_int_eq(stat(only_file(".marks"), &stat_), 0);
    ck_assert_int_eq(stat_.st_size, 100000);
    ck_assert_int_eq(stat_.st_blocks, 0);
    ck_assert_int_eq(stat_.st_mode & 0777, 0600);
    int fd = open_marks(1, true);
    ck_assert_int_eq(pwrite(fd, "marks", 5, 5000), 5);
    close(fd);
    ck_assert_uint_eq(make_marks(2, 100000), 200000);
    fd = open_marks(1, false);
    ck_assert_int_eq(pread(fd, text, 5, 5000), 5);
    ck_assert_str_eq(text, "marks");
    close(fd);
    struct index_stamp stamp = stamp_of(1);
    index_cache_forget(cache, "tar", &stamp);
    ck_assert(!has_marks(1));
    ck_assert(has_marks(2));
}
END_TEST

START_TEST(marks_of_another_size_are_made_anew)
{
    struct stat stat_;
    make_marks(1, 1000);
    ck_assert_int_eq(truncate(only_file(".marks"), 500), 0);
    ck_assert_uint_eq(make_marks(1, 1000), 1000);
    ck_assert_int_eq(stat(only_file(".marks"), &stat_), 0);
    ck_assert_int_eq(stat_.st_size, 1000);
}
END_TEST

START_TEST(marks_that_others_could_change)
{
    make_marks(1, 1000);
    ck_assert_int_eq(chmod(only_file(".marks"), 0622), 0);
    ck_assert_int_eq(open_marks(1, false), -EPERM);
    ck_assert_uint_eq(make_marks(1, 1000), 1000);
    ck_assert(has_marks(1));
    char name[5000];
    snprintf(name, sizeof name, "%s", only_file(".marks"));
    const char *aside = scratch_file(&scratch, "aside", "x", 1);
    ck_assert_int_eq(unlink(name), 0);
    ck_assert_int_eq(symlink(aside, name), 0);
    ck_assert_int_eq(open_marks(1, true), -ELOOP);
    ck_assert_uint_eq(make_marks(1, 1000), 1000);
    ck_assert(has_marks(1));
    ck_assert_int_eq(access(aside, F_OK), 0);
}
END_TEST

START_TEST(marks_within_the_bound)
{
    put(9, "index");
    age(only_file(".index"));
    uint64_t index = index_cache_trim(cache);
    bound(index + 3000);
    ck_assert_uint_eq(make_marks(4, 1000), 3000);
    ck_assert(has_marks(3) && !has_marks(4));
    /* All are in use, so none goes for the other. */
    ck_assert_uint_eq(make_marks(4, 1000), 3000);
    ck_assert(!has_marks(4));
    /* Over the bound marks go first, however old the index is. */
    use_marks(60);
    bound(index + 1500);
    ck_assert_uint_eq(index_cache_trim(cache), index + 1000);
    ck_assert(has(9));
    bound(index + 100);
    ck_assert_uint_eq(make_marks(1, 1000), 1000 * has_marks(1));
    ck_assert(has(9));
}
END_TEST

/* An index that another data set brings takes no marks from one that has just begun to use them. */
START_TEST(marks_in_use_stay)
{
    make_marks(2, 1000);
    use_marks(-60); /* however slow this machine is */
    bound(2000);
    put(9, "index");
    uint64_t all = index_cache_trim(cache);
    ck_assert_uint_gt(all, 2000);
    ck_assert(has_marks(1) && has_marks(2) && has(9));
    use_marks(60);
    ck_assert_uint_eq(index_cache_trim(cache), all - 1000);
    ck_assert(has(9));
}
END_TEST

START_TEST(old_marks_make_room)
{
    bound(2500);
    struct index_stamp old = stamp_of(77);
    const struct index_stamp *at = &old;
    uint64_t size = 2000, bytes;
    ck_assert_int_eq(index_cache_make_marks(cache, "tar", &at, &size, 1, &bytes, &err), 0);
    age(only_file(".marks"));
    ck_assert_uint_eq(make_marks(2, 1000), 2000);
    ck_assert(!has_marks(77));
    ck_assert(has_marks(1) && has_marks(2));
}
END_TEST

START_TEST(marks_cannot_be_made)
{
    struct index_stamp stamp = stamp_of(1);
    const struct index_stamp *at = &stamp;
    uint64_t size = 1000, bytes;
    bool root = geteuid() == 0;
    chmod(scratch_at(&scratch, "deep/er/index"), 0500);
    ck_assert(!root || seteuid(65534) == 0);
    ck_assert_int_eq(index_cache_make_marks(cache, "tar", &at, &size, 1, &bytes, &err), -EACCES);
    ck_assert_ptr_nonnull(strstr(err.text, "deep/er/index"));
    ck_assert_uint_eq(bytes, 0);
    ck_assert(!root || seteuid(0) == 0);
    chmod(scratch_at(&scratch, "deep/er/index"), 0700);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("index_cache");
    TCase *tests = tcase_create("index_cache");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, kept_and_found);
    tcase_add_test(tests, identity_is_all_but_the_inode);
    tcase_add_test(tests, an_index_of_another_shard_is_not_used);
    tcase_add_test(tests, damaged_files_are_removed);
    tcase_add_test(tests, files_that_others_could_change_are_not_used);
    tcase_add_test(tests, links_are_not_followed);
    tcase_add_test(tests, a_directory_of_others_is_refused);
    tcase_add_test(tests, the_least_used_go_first);
    tcase_add_test(tests, leftovers_are_removed);
    tcase_add_test(tests, one_lock_a_set);
    tcase_add_test(tests, no_room);
    tcase_add_test(tests, marks_are_kept);
    tcase_add_test(tests, marks_of_another_size_are_made_anew);
    tcase_add_test(tests, marks_that_others_could_change);
    tcase_add_test(tests, marks_within_the_bound);
    tcase_add_test(tests, marks_in_use_stay);
    tcase_add_test(tests, old_marks_make_room);
    tcase_add_test(tests, marks_cannot_be_made);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
