#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "store/dataset.h"
#include "store/format.h"
#include "store/stamp.h"

static struct scratch scratch;
static struct error err;
static struct format_progress progress;

static void set_up(void)
{
    scratch_make(&scratch);
    err = (struct error){0};
    progress = (struct format_progress){0};
}

static void tear_down(void)
{
    scratch_remove(&scratch);
}

static void put(const char *name)
{
    scratch_file(&scratch, name, name, strlen(name));
}

static int open_folder(void)
{
    int fd = open(scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static struct index_stamp stamp(void)
{
    struct index_stamp out;
    int fd = open_folder();
    ck_assert_int_eq(format_folder.stamp(fd, scratch.path, &progress, &out, &err), 0);
    close(fd);
    return out;
}

static struct index *list(void)
{
    struct index *index = NULL;
    struct index_builder *builder = index_builder_new();
    struct index_stamp now = stamp();
    int fd = open_folder();
    int rc = format_folder.list(fd, scratch.path, builder, &progress, &err);
    ck_assert_msg(rc == 0, "%s", err.text);
    close(fd);
    ck_assert_int_eq(index_builder_finish(builder, &now, &index), 0);
    return index;
}

/* "key=class" of all records; "key" without a class. */
static const char *text_of(const struct index *index)
{
    static char text[4096];
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < index_records(index); i++) {
        const struct index_part *parts = index_parts(index, i);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "",
                                 index_key(index, i));
        if (index_record(index, i)->parts == 2) {
            ck_assert_uint_eq(parts[1].flags, PART_VALUE);
            ck_assert_str_eq(index_suffix(index, parts[1].suffix), "cls");
            used += (size_t)snprintf(text + used, sizeof text - used, "=%llu",
                                     (unsigned long long)parts[1].offset);
        }
    }
    return text;
}

static const char *first_reason(const struct index *index, enum bad_class cls)
{
    for (uint32_t i = 0; i < index_faults(index); i++)
        if (index_fault(index, i)->cls == cls)
            return index_text(index, index_fault(index, i)->reason);
    return "";
}

START_TEST(classes_are_numbered_as_torchvision_does)
{
    put("dog/1.jpg");
    put("cat/2.JPEG");
    put("cat/1.png");
    put("Zebra/x.y.webp");
    mkdir(scratch_at(&scratch, "bird"), 0755); /* counts, though it is empty */
    put("dog/deep/er/0.jpg");
    put("dog.1/a.jpg");
    struct index *index = list();
    ck_assert_str_eq(text_of(index), "Zebra/x.y.webp=0 cat/1.png=2 cat/2.JPEG=2 dog.1/a.jpg=4 "
                                     "dog/1.jpg=3 dog/deep/er/0.jpg=3");
    const struct index_part *part = index_parts(index, 2);
    ck_assert_str_eq(index_suffix(index, part->suffix), "jpeg");
    ck_assert_uint_eq(part->size, strlen("cat/2.JPEG"));
    ck_assert_uint_eq(index_faults(index), 0);
    index_free(index);
}
END_TEST

START_TEST(files_in_the_root_have_no_class)
{
    put("b.jpg");
    put("a/a.jpg");
    struct index *index = list();
    ck_assert_str_eq(text_of(index), "a/a.jpg=0 b.jpg");
    index_free(index);
}
END_TEST

START_TEST(other_files_are_counted)
{
    put("a/1.jpg");
    put("a/notes.txt");
    put("a/jpg");
    put("a/._1.jpg");
    put(".DS_Store");
    struct index *index = list();
    ck_assert_str_eq(text_of(index), "a/1.jpg=0");
    ck_assert_ptr_nonnull(strstr(first_reason(index, BAD_NONE), "4 files"));
    index_free(index);
}
END_TEST

START_TEST(nothing_in_it)
{
    put("a/notes.txt");
    struct index *index = list();
    ck_assert_uint_eq(index_records(index), 0);
    ck_assert_str_ne(first_reason(index, BAD_SHARD_EMPTY), "");
    ck_assert_ptr_nonnull(strstr(first_reason(index, BAD_NONE), "notes.txt"));
    index_free(index);
}
END_TEST

START_TEST(links)
{
    struct scratch other;
    scratch_make(&other);
    scratch_file(&other, "real.jpg", "12345", 5);
    scratch_file(&other, "class/1.jpg", "1", 1);
    put("a/1.jpg");
    ck_assert_int_eq(symlink(scratch_at(&other, "real.jpg"), scratch_at(&scratch, "a/2.jpg")), 0);
    ck_assert_int_eq(symlink(scratch_at(&other, "class"), scratch_at(&scratch, "b")), 0);
    ck_assert_int_eq(symlink("..", scratch_at(&scratch, "a/up")), 0);
    ck_assert_int_eq(symlink(".", scratch_at(&scratch, "a/self")), 0);
    ck_assert_int_eq(symlink("nowhere", scratch_at(&scratch, "a/3.jpg")), 0);
    ck_assert_int_eq(symlink("/dev/zero", scratch_at(&scratch, "a/4.jpg")), 0);
    ck_assert_int_eq(mkfifo(scratch_at(&scratch, "a/5.jpg"), 0644), 0);
    struct index *index = list();
    ck_assert_str_eq(text_of(index), "a/1.jpg=0 a/2.jpg=0 b/1.jpg=1");
    ck_assert_uint_eq(index_parts(index, 1)->size, 5);
    ck_assert_ptr_nonnull(strstr(first_reason(index, BAD_NONE), "5 entries"));
    index_free(index);
    scratch_remove(&other);
}
END_TEST

START_TEST(reads)
{
    put("a/1.jpg");
    put("a/22.jpg");
    put("b/3.jpg");
    struct index *index = list();
    int fd = open_folder();
    char bytes[3][100] = {0};
    struct format_read wanted[3];
    for (uint32_t i = 0; i < 3; i++)
        wanted[i] = (struct format_read){
            .record = i, .size = index_parts(index, i)->size, .dst = bytes[i], .error = 1};
    format_folder.read(fd, index, wanted, 3);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(wanted[i].error, 0);
        ck_assert_uint_eq(wanted[i].got, wanted[i].size);
        ck_assert_str_eq(bytes[i], index_key(index, i));
    }
    /* Changed, gone, and replaced by something that would hang or never end. */
    scratch_file(&scratch, "a/1.jpg", "longer than before", 18);
    unlink(scratch_at(&scratch, "a/22.jpg"));
    unlink(scratch_at(&scratch, "b/3.jpg"));
    mkfifo(scratch_at(&scratch, "b/3.jpg"), 0644);
    format_folder.read(fd, index, wanted, 3);
    ck_assert_int_eq(wanted[0].error, -ESTALE);
    ck_assert_int_eq(wanted[1].error, -ENOENT);
    ck_assert_int_eq(wanted[2].error, -EINVAL);
    ck_assert_uint_eq(wanted[0].got + wanted[1].got + wanted[2].got, 0);
    close(fd);
    index_free(index);
}
END_TEST

START_TEST(the_stamp_tells_additions)
{
    put("a/1.jpg");
    put("b/deep/2.jpg");
    struct index_stamp before = stamp(), same = stamp();
    ck_assert(stamp_same(&before, &same));
    usleep(20000);
    put("b/deep/3.jpg");
    struct index_stamp added = stamp();
    ck_assert(!stamp_same(&before, &added));
    usleep(20000);
    rename(scratch_at(&scratch, "b/deep/3.jpg"), scratch_at(&scratch, "b/deep/4.jpg"));
    struct index_stamp renamed = stamp();
    ck_assert(!stamp_same(&added, &renamed));
    rename(scratch_at(&scratch, "b"), scratch_at(&scratch, "c"));
    struct index_stamp moved = stamp();
    ck_assert(!stamp_same(&renamed, &moved));
}
END_TEST

static struct dataset *open_set(void)
{
    static const char *const image[] = {"jpg"};
    static const struct dataset_field fields[] = {{"image", image, 1}};
    const char *pattern = scratch_at(&scratch, "set");
    const struct dataset_options options = {.name = "test",
                                            .source = {&pattern, 1, true},
                                            .fields = fields,
                                            .nfields = 1,
                                            .cache_dir = scratch_at(&scratch, "cache"),
                                            .cache_bytes = 1 << 20,
                                            .threads = 1};
    struct dataset *dataset = NULL;
    ck_assert_msg(dataset_open(&options, &dataset, &err) == 0, "%s", err.text);
    return dataset;
}

static struct format_read read_first(const struct dataset *dataset)
{
    static char bytes[100];
    struct dataset_record record;
    struct shard *shard;
    dataset_record(dataset, 0, 0, &record);
    struct format_read read = {.record = record.number, .size = record.parts[0].size, .dst = bytes};
    ck_assert_int_eq(shard_open(dataset, 0, &shard, &err), 0);
    shard_read(shard, &read, 1);
    shard_close(shard);
    return read;
}

/* Its directory's time says nothing of it, so the stamp is the same. */
START_TEST(a_file_changed_in_place_is_in_the_next_index)
{
    put("set/a/1.jpg");
    put("set/a/2.jpg");
    struct dataset *before = open_set();
    ck_assert_int_eq(read_first(before).error, 0);
    ck_assert(dataset_current(before));
    scratch_file(&scratch, "set/a/1.jpg", "longer than before", 18);
    ck_assert_int_eq(read_first(before).error, -ESTALE);
    ck_assert(!dataset_current(before));
    struct dataset *after = open_set();
    ck_assert_uint_eq(read_first(after).got, 18);
    ck_assert(dataset_current(after));
    ck_assert_str_ne(dataset_fingerprint(after), dataset_fingerprint(before));
    dataset_unref(before);
    dataset_unref(after);
}
END_TEST

START_TEST(an_unreadable_directory_is_named)
{
    bool root = geteuid() == 0;
    put("a/1.jpg");
    put("locked/1.jpg");
    chmod(scratch.path, 0755);
    chmod(scratch_at(&scratch, "locked"), 0);
    ck_assert(!root || seteuid(65534) == 0);
    int fd = open_folder();
    struct index_builder *builder = index_builder_new();
    ck_assert_int_eq(format_folder.list(fd, scratch.path, builder, &progress, &err), -EACCES);
    ck_assert_ptr_nonnull(strstr(err.text, "locked"));
    index_builder_free(builder);
    close(fd);
    ck_assert(!root || seteuid(0) == 0);
    chmod(scratch_at(&scratch, "locked"), 0755);
}
END_TEST

START_TEST(cancelled)
{
    put("a/1.jpg");
    progress.cancel = true;
    int fd = open_folder();
    struct index_builder *builder = index_builder_new();
    ck_assert_int_eq(format_folder.list(fd, scratch.path, builder, &progress, &err), -ECANCELED);
    index_builder_free(builder);
    close(fd);
}
END_TEST

START_TEST(too_deep)
{
    char path[5000];
    snprintf(path, sizeof path, "%s", scratch.path);
    for (int i = 0; i < 120; i++) {
        strcat(path, "/d");
        mkdir(path, 0755);
    }
    int fd = open_folder();
    struct index_builder *builder = index_builder_new();
    ck_assert_int_eq(format_folder.list(fd, scratch.path, builder, &progress, &err), -ELOOP);
    index_builder_free(builder);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("folder");
    TCase *tests = tcase_create("folder");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, classes_are_numbered_as_torchvision_does);
    tcase_add_test(tests, files_in_the_root_have_no_class);
    tcase_add_test(tests, other_files_are_counted);
    tcase_add_test(tests, nothing_in_it);
    tcase_add_test(tests, links);
    tcase_add_test(tests, reads);
    tcase_add_test(tests, the_stamp_tells_additions);
    tcase_add_test(tests, a_file_changed_in_place_is_in_the_next_index);
    tcase_add_test(tests, an_unreadable_directory_is_named);
    tcase_add_test(tests, cancelled);
    tcase_add_test(tests, too_deep);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
