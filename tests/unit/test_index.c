#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "store/index.h"
#include "store/index_form.h"

static const struct index_stamp stamp = {
    .size = 1000, .mtime_ns = -5, .inode = 77, .content = 0x1234};

static struct index *finish(struct index_builder *builder)
{
    struct index *index = NULL;
    ck_assert_int_eq(index_builder_finish(builder, &stamp, &index), 0);
    return index;
}

/* Two records and a bad one, a fault of the shard, a note. */
static struct index *sample(void)
{
    struct index_builder *builder = index_builder_new();
    ck_assert_str_eq(index_builder_last_key(builder), "");
    index_builder_part(builder, "a", "jpg", PART_STORED, 512, 100);
    index_builder_part(builder, "a", "cls", PART_VALUE, 7, 0);
    index_builder_part(builder, "b", "jpg", PART_STORED, 1024, 50);
    index_builder_part(builder, "c", "jpg", PART_STORED, 2048, 1);
    index_builder_part(builder, "c", "jpg", PART_STORED, 3072, 2);
    ck_assert_str_eq(index_builder_last_key(builder), "c");
    ck_assert_uint_eq(index_builder_records(builder), 3);
    index_builder_fault(builder, BAD_SHARD_TRUNC, 4096, "cut at %d", 4096);
    index_builder_fault(builder, BAD_NONE, 9, "a note");
    struct index *index = finish(builder);
    index_set_turned(index, 3, 1);
    return index;
}

static void check_sample(const struct index *index)
{
    ck_assert_mem_eq(index_stamp(index), &stamp, sizeof stamp);
    ck_assert_uint_eq(index_records(index), 3);
    ck_assert_uint_eq(index_record(index, index_records(index))->bytes_before, 153);
    ck_assert_str_eq(index_key(index, 1), "b");
    ck_assert_uint_eq(index_record(index, 0)->parts, 2);
    ck_assert_uint_eq(index_record(index, 1)->bytes_before, 100);
    ck_assert_uint_eq(index_record(index, 2)->bytes_before, 150);
    ck_assert_uint_eq(index_record(index, 2)->fault, BAD_KEY_DUP);
    const struct index_part *parts = index_parts(index, 0);
    ck_assert_str_eq(index_suffix(index, parts[0].suffix), "jpg");
    ck_assert_str_eq(index_suffix(index, parts[1].suffix), "cls");
    ck_assert_uint_eq(parts[1].flags, PART_VALUE);
    ck_assert_uint_eq(parts[1].offset, 7);
    ck_assert_uint_eq(index_suffixes(index), 2);
    ck_assert_uint_eq(index_faults(index), 3);
    ck_assert_uint_eq(index_fault(index, 0)->record, UINT32_MAX);
    ck_assert_str_eq(index_text(index, index_fault(index, 0)->reason), "cut at 4096");
    ck_assert_uint_eq(index_fault(index, 2)->record, 2);
    ck_assert_uint_eq(index_fault(index, 2)->offset, 3072);
    ck_assert_uint_eq(index_looked_at(index), 3);
    ck_assert_uint_eq(index_turned(index), 1);
}

START_TEST(built)
{
    struct index *index = sample();
    check_sample(index);
    index_free(index);
}
END_TEST

static int saved(const struct index *index)
{
    struct error err = {0};
    int fd = memfd_create("index", MFD_CLOEXEC);
    ck_assert_int_eq(index_save(index, fd, &err), 0);
    return fd;
}

START_TEST(saved_and_loaded)
{
    struct error err = {0};
    struct index *index = sample(), *again = NULL;
    int fd = saved(index);
    index_free(index);
    ck_assert_int_eq(index_load(fd, &again, &err), 0);
    close(fd);
    check_sample(again);
    index_free(again);
}
END_TEST

static struct index *of_size(int reason)
{
    struct index_builder *builder = index_builder_new();
    index_builder_part(builder, "key", "jpg", PART_STORED, 0, 1);
    index_builder_fault(builder, BAD_NONE, 0, "%0*d", reason, 0);
    return finish(builder);
}

/* A process may have 65530 mappings: small indexes take none, and many large ones not all. */
START_TEST(mappings_are_few)
{
    enum { MANY = 17000 };
    static struct index *loaded[MANY];
    struct error err = {0};
    struct index *small = of_size(10), *large = of_size(5000);
    int fd = saved(small);
    ck_assert_int_eq(index_load(fd, &loaded[0], &err), 0);
    ck_assert(!loaded[0]->mapped);
    ck_assert_str_eq(index_key(loaded[0], 0), "key");
    index_free(loaded[0]);
    close(fd);
    fd = saved(large);
    for (int round = 0; round < 2; round++) { /* those that are freed count no more */
        unsigned mapped = 0;
        for (int i = 0; i < MANY; i++) {
            ck_assert_int_eq(index_load(fd, &loaded[i], &err), 0);
            ck_assert_str_eq(index_key(loaded[i], 0), "key");
            mapped += loaded[i]->mapped;
        }
        ck_assert_uint_eq(mapped, 16384);
        for (int i = 0; i < MANY; i++)
            index_free(loaded[i]);
    }
    close(fd);
    index_free(small);
    index_free(large);
}
END_TEST

START_TEST(empty)
{
    struct error err = {0};
    struct index *index = finish(index_builder_new()), *again = NULL;
    int fd = saved(index);
    ck_assert_int_eq(index_load(fd, &again, &err), 0);
    ck_assert_uint_eq(index_records(again), 0);
    ck_assert_uint_eq(index_record(again, index_records(again))->bytes_before, 0);
    index_free(index);
    index_free(again);
    close(fd);
}
END_TEST

START_TEST(many_records)
{
    enum { COUNT = 100000 };
    struct index_builder *builder = index_builder_new();
    char key[32];
    for (int i = 0; i < COUNT; i++) {
        snprintf(key, sizeof key, "dir/%d", i);
        index_builder_part(builder, key, "jpg", PART_STORED, 512, (uint64_t)i);
    }
    struct index *index = finish(builder);
    ck_assert_uint_eq(index_records(index), COUNT);
    ck_assert_uint_eq(index_faults(index), 0);
    ck_assert_uint_eq(index_record(index, index_records(index))->bytes_before,
                      (uint64_t)COUNT * (COUNT - 1) / 2);
    ck_assert_str_eq(index_key(index, 99999), "dir/99999");
    ck_assert_uint_eq(index_record(index, 10)->bytes_before, 45);
    index_free(index);
}
END_TEST

/* Cost that grows with the square of a record's parts would not end. */
START_TEST(one_record_of_many_parts)
{
    struct index_builder *builder = index_builder_new();
    char suffix[32];
    for (int i = 0; i < 200000; i++) {
        snprintf(suffix, sizeof suffix, "%d", i);
        index_builder_part(builder, "key", suffix, PART_STORED, 512, 1);
    }
    struct index *index = finish(builder);
    ck_assert_uint_eq(index_records(index), 1);
    ck_assert_uint_eq(index_record(index, 0)->fault, BAD_NONE);
    ck_assert_uint_eq(index_suffixes(index), 200000);
    index_free(index);
}
END_TEST

START_TEST(spoilt_record)
{
    struct index_builder *builder = index_builder_new();
    index_builder_spoil(builder, BAD_SHARD_TRUNC, 1, "no record yet");
    index_builder_part(builder, "a", "jpg", PART_STORED, 1, 1);
    index_builder_spoil(builder, BAD_SHARD_TRUNC, 2, "cut");
    struct index *index = finish(builder);
    ck_assert_uint_eq(index_faults(index), 2);
    ck_assert_uint_eq(index_fault(index, 0)->record, UINT32_MAX);
    ck_assert_uint_eq(index_fault(index, 1)->record, 0);
    ck_assert_uint_eq(index_record(index, 0)->fault, BAD_SHARD_TRUNC);
    index_free(index);
}
END_TEST

START_TEST(too_many_bytes)
{
    struct index *index = NULL;
    struct index_builder *builder = index_builder_new();
    ck_assert_int_eq(index_builder_part(builder, "a", "x", 0, 0, INT64_MAX), 0);
    ck_assert_int_eq(index_builder_part(builder, "b", "x", 0, 0, 1), -E2BIG);
    ck_assert_int_eq(index_builder_part(builder, "c", "x", 0, 0, 0), -E2BIG);
    ck_assert_int_eq(index_builder_finish(builder, &stamp, &index), -E2BIG);
    ck_assert_ptr_null(index);
}
END_TEST

/* The file form, to be changed and loaded. */
struct form {
    uint8_t *bytes;
    size_t size;
};

static struct form form_of_sample(void)
{
    struct index *index = sample();
    int fd = saved(index);
    struct stat stat;
    fstat(fd, &stat);
    struct form form = {malloc((size_t)stat.st_size), (size_t)stat.st_size};
    ck_assert_int_eq(pread(fd, form.bytes, form.size, 0), (ssize_t)form.size);
    close(fd);
    index_free(index);
    return form;
}

static void sign(struct form *form)
{
    struct index_header *header = (struct index_header *)form->bytes;
    size_t from = offsetof(struct index_header, stamp);
    header->checksum = XXH3_64bits(form->bytes + from, form->size - from);
}

static int load(const struct form *form)
{
    struct index *index = NULL;
    struct error err = {0};
    int fd = memfd_create("index", MFD_CLOEXEC);
    ck_assert_int_eq(write(fd, form->bytes, form->size), (ssize_t)form->size);
    int rc = index_load(fd, &index, &err);
    close(fd);
    ck_assert((rc == 0) == (index != NULL));
    ck_assert(rc == 0 || err.text[0]);
    index_free(index);
    return rc;
}

START_TEST(any_changed_byte_is_seen)
{
    struct form form = form_of_sample();
    for (size_t i = 0; i < form.size; i++) {
        form.bytes[i] ^= 0x10;
        ck_assert_int_eq(load(&form), -EBADMSG);
        form.bytes[i] ^= 0x10;
    }
    ck_assert_int_eq(load(&form), 0);
    free(form.bytes);
}
END_TEST

START_TEST(any_other_length_is_seen)
{
    struct form form = form_of_sample();
    form.bytes = realloc(form.bytes, form.size + 8);
    memset(form.bytes + form.size, 0, 8);
    size_t whole = form.size;
    for (form.size = 0; form.size <= whole + 8; form.size++)
        ck_assert_int_eq(load(&form), form.size == whole ? 0 : -EBADMSG);
    free(form.bytes);
}
END_TEST

/* Values that contradict each other, under a right checksum: each must be refused. */
START_TEST(contradictions)
{
    struct form form = form_of_sample();
    size_t records = sizeof(struct index_header), parts = records + 4 * sizeof(struct index_record);
    size_t suffixes = parts + 5 * sizeof(struct index_part), faults = suffixes + 16;
    size_t texts = faults + 3 * sizeof(struct index_fault);
    const struct {
        size_t at;
        uint64_t value;
        size_t size;
    } changes[] = {
        {offsetof(struct index_header, records), UINT64_MAX, 8},
        {offsetof(struct index_header, records), 2, 8},
        {offsetof(struct index_header, parts), UINT64_MAX / 24, 8},
        {offsetof(struct index_header, text_size), 0, 8},
        {offsetof(struct index_header, turned), 4, 8},
        {records + offsetof(struct index_record, key), 1 << 20, 8},
        {records + offsetof(struct index_record, first_part), 1, 8},
        {records + offsetof(struct index_record, parts), 3, 4},
        {records + offsetof(struct index_record, parts), 0, 4},
        {records + offsetof(struct index_record, parts), UINT32_MAX, 4},
        {records + offsetof(struct index_record, fault), BAD_CLASSES_COUNT, 4},
        {records + offsetof(struct index_record, bytes_before), 1, 8},
        {records + 3 * sizeof(struct index_record) + offsetof(struct index_record, parts), 1, 4},
        {parts + offsetof(struct index_part, suffix), 2, 4},
        {parts + offsetof(struct index_part, flags), 2, 4},
        {parts + offsetof(struct index_part, offset), 1ULL << 63, 8},
        {parts + offsetof(struct index_part, offset), INT64_MAX, 8},
        {parts + offsetof(struct index_part, size), 101, 8},
        {suffixes, 1 << 20, 8},
        {faults + offsetof(struct index_fault, cls), BAD_CLASSES_COUNT, 4},
        {faults + offsetof(struct index_fault, record), 3, 4},
        {faults + offsetof(struct index_fault, reason), 1 << 20, 8},
        {texts, 'x', 1},
        {form.size - 1, 'x', 1},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        uint8_t before[8];
        memcpy(before, form.bytes + changes[i].at, changes[i].size);
        memcpy(form.bytes + changes[i].at, &changes[i].value, changes[i].size);
        sign(&form);
        ck_assert_msg(load(&form) == -EBADMSG, "change %zu", i);
        memcpy(form.bytes + changes[i].at, before, changes[i].size);
    }
    sign(&form);
    ck_assert_int_eq(load(&form), 0);
    free(form.bytes);
}
END_TEST

START_TEST(no_file)
{
    struct index *index = NULL;
    struct error err = {0};
    int ends[2];
    ck_assert_int_eq(index_load(-1, &index, &err), -EBADF);
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(index_load(ends[0], &index, &err), -EBADMSG);
    close(ends[0]);
    close(ends[1]);
    struct index *one = sample();
    ck_assert_int_eq(index_save(one, -1, &err), -EBADF);
    index_free(one);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("index");
    TCase *tests = tcase_create("index");
    tcase_add_test(tests, built);
    tcase_add_test(tests, saved_and_loaded);
    tcase_add_test(tests, mappings_are_few);
    tcase_add_test(tests, empty);
    tcase_add_test(tests, many_records);
    tcase_add_test(tests, one_record_of_many_parts);
    tcase_add_test(tests, spoilt_record);
    tcase_add_test(tests, too_many_bytes);
    tcase_add_test(tests, any_changed_byte_is_seen);
    tcase_add_test(tests, any_other_length_is_seen);
    tcase_add_test(tests, contradictions);
    tcase_add_test(tests, no_file);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
