/* Tar shards of every kind, made in memory. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/sample_name.h"
#include "tar_listing.h"

START_TEST(plain_ustar)
{
    struct index *index = tar_list(tar_good(3));
    ck_assert_str_eq(tar_text(index), "000:jpg+cls 001:jpg+cls 002:jpg+cls");
    ck_assert_uint_eq(index_faults(index), 0);
    ck_assert_uint_eq(index_record(index, index_records(index))->bytes_before, 3 * 701);
    const struct index_part *parts = index_parts(index, 1);
    ck_assert_uint_eq(parts[0].offset, 2560 + 512);
    ck_assert_uint_eq(parts[0].size, 700);
    ck_assert_uint_eq(parts[1].offset, 2560 + 512 + 1024 + 512);
    ck_assert_uint_eq(parts[1].size, 1);
    index_free(index);
}
END_TEST

START_TEST(headers_of_all_ages)
{
    static const enum tarm_format formats[] = {TARM_USTAR, TARM_GNU, TARM_V7, TARM_STAR};
    for (size_t i = 0; i < 4; i++) {
        struct tarm *tar = tarm_new();
        tarm_add(tar, &(struct tarm_member){
                          .format = formats[i], .name = "d/a.jpg", .bytes = "xy", .size = 2});
        tarm_end(tar);
        struct index *index = tar_list(tar);
        ck_assert_str_eq(tar_text(index), "d/a:jpg");
        ck_assert_uint_eq(index_record(index, index_records(index))->bytes_before, 2);
        index_free(index);
    }
}
END_TEST

START_TEST(long_names)
{
    char name[400] = "";
    for (int i = 0; i < 24; i++)
        strcat(name, "directory/");
    struct tarm *tar = tarm_new();
    strcat(name, "1.jpg");
    tarm_long(tar, 'L', name);
    tarm_long(tar, 'L', "a/second.one");
    tarm_text(tar, "cut-name", "a");
    tarm_text(tar, name + 100, "b"); /* over prefix and name */
    tarm_pax(tar, 'x', "mtime", "1.5", "path", name, "comment", "path=x", NULL);
    tarm_text(tar, "cut-name", "c");
    tarm_text(tar, "next.txt", "d"); /* has its own name again */
    tarm_end(tar);
    struct index *index = tar_list(tar);
    ck_assert_uint_eq(index_records(index), 4);
    name[strlen(name) - 4] = '\0';
    ck_assert_str_eq(index_key(index, 0), name);
    ck_assert_str_eq(index_key(index, 1), name + 100);
    ck_assert_str_eq(index_key(index, 2), name);
    ck_assert_str_eq(index_key(index, 3), "next");
    index_free(index);
}
END_TEST

START_TEST(sizes_of_all_forms)
{
    struct tarm *tar = tarm_new();
    tarm_add(tar, &(struct tarm_member){.format = TARM_GNU,
                                        .name = "a.jpg",
                                        .bytes = "12345",
                                        .size = 5,
                                        .claims = "\x80\0\0\0\0\0\0\0\0\0\0\x05"});
    tarm_add(tar, &(struct tarm_member){
                      .name = "b.jpg", .bytes = "123456", .size = 6, .claims = "       6 \0\0"});
    tarm_pax(tar, 'x', "size", "0000000000000000000000000007", NULL);
    tarm_add(tar, &(struct tarm_member){
                      .name = "c.jpg", .bytes = "1234567", .size = 7, .claims = "00000000000"});
    tarm_pax(tar, 'g', "comment", "of all", NULL);
    tarm_text(tar, "d.jpg", "12345678");
    tarm_end(tar);
    struct index *index = tar_list(tar);
    ck_assert_str_eq(tar_text(index), "a:jpg b:jpg c:jpg d:jpg");
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_uint_eq(index_parts(index, i)->size, 5 + i);
    index_free(index);
}
END_TEST

START_TEST(names_by_the_rule)
{
    static const struct {
        const char *name, *key, *suffix; /* key NULL = no sample */
    } names[] = {{"a.b/c.jpg", "a.b/c", "jpg"},
                 {"x.tar.gz", "x", "tar.gz"},
                 {"a/b.", "a/b", ""},
                 {"a/.hidden", "a/", "hidden"},
                 {"a/.x.jpg", "a/", "x.jpg"},
                 {".x.jpg", NULL, NULL},
                 {"a.b/c", NULL, NULL},
                 {"./a.jpg", "./a", "jpg"},
                 {"a.b/.c", NULL, NULL},
                 {"a.b/c/.d", "a.b/c/", "d"},
                 {"a.b//.d", "a.b//", "d"},
                 {"/.d", "/", "d"},
                 {"", NULL, NULL},
                 {"22.05.jpg", "22", "05.jpg"},
                 {"..", NULL, NULL},
                 {"../a.jpg", "../a", "jpg"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length;
        const char *suffix;
        ck_assert_msg(sample_name_split(names[i].name, &length, &suffix) == (names[i].key != NULL),
                      "%s", names[i].name);
        if (!names[i].key)
            continue;
        ck_assert_msg(length == strlen(names[i].key) &&
                          !memcmp(names[i].name, names[i].key, length),
                      "%s", names[i].name);
        ck_assert_str_eq(suffix, names[i].suffix);
    }
}
END_TEST

START_TEST(names_that_are_never_samples)
{
    static const char *const skipped[] = {"__meta__/a.jpg", "__x__",     "____",       "._a.jpg",
                                          "d/._a.jpg",      ".DS_Store", "d/.DS_Store"};
    static const char *const taken[] = {"__meta/a.jpg", "d/__x__/a.jpg", "___.jpg", "a._b.jpg",
                                        "__a__b/c.jpg"};
    for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++)
        ck_assert_msg(sample_name_is_skipped(skipped[i]), "%s", skipped[i]);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        ck_assert_msg(!sample_name_is_skipped(taken[i]), "%s", taken[i]);
}
END_TEST

START_TEST(suffixes_are_lower_case)
{
    struct tarm *tar = tarm_new();
    tarm_text(tar, "A.JPG", "1");
    tarm_text(tar, "A.Cls", "2");
    tarm_text(tar, "a.Seg.PNG", "3");
    tarm_end(tar);
    struct index *index = tar_list(tar);
    ck_assert_str_eq(tar_text(index), "A:jpg+cls a:seg.png");
    index_free(index);
}
END_TEST

START_TEST(what_is_no_sample_is_counted)
{
    struct tarm *tar = tarm_new();
    tarm_add(tar, &(struct tarm_member){.name = "d.x/", .type = '5'});
    tarm_add(tar, &(struct tarm_member){.format = TARM_V7, .name = "e.x/"});
    tarm_text(tar, "README", "text");
    tarm_text(tar, "._a.jpg", "finder");
    tarm_text(tar, "__index__/a.json", "{}");
    tar_samples(tar, 0, 1);
    tarm_end(tar);
    struct index *index = tar_list(tar);
    ck_assert_str_eq(tar_text(index), "000:jpg+cls");
    ck_assert_uint_eq(tar_faults(index), 0);
    tar_says(index, BAD_NONE, "README");
    index_free(index);
}
END_TEST

START_TEST(links_stay_in_the_archive)
{
    struct tarm *tar = tarm_new();
    tarm_text(tar, "a.jpg", "picture");
    tarm_link(tar, '2', "b.jpg", "a.jpg");
    tarm_link(tar, '1', "c.jpg", "a.jpg");
    tarm_link(tar, '1', "d.jpg", "c.jpg"); /* a link to a link */
    tarm_link(tar, '1', "e.jpg", "/etc/passwd");
    tarm_link(tar, '1', "f.jpg", "g.jpg"); /* comes later */
    tarm_link(tar, '6', "pipe.jpg", "");
    tarm_text(tar, "g.jpg", "other");
    tarm_text(tar, "a.jpg.copy", "x");
    tarm_link(tar, '1', "h.jpg", "g.jpg"); /* taken up after the first link */
    tarm_end(tar);
    struct index *index = tar_list(tar);
    ck_assert_str_eq(tar_text(index), "a:jpg c:jpg d:jpg g:jpg a:jpg.copy h:jpg");
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(index_parts(index, i)->offset, 512);
        ck_assert_uint_eq(index_parts(index, i)->size, 7);
    }
    ck_assert_uint_eq(index_parts(index, 5)->offset, index_parts(index, 3)->offset);
    tar_says(index, BAD_NONE, "4 members");
    index_free(index);
}
END_TEST

START_TEST(sizes_of_what_has_no_data)
{
    static const char types[] = "123456";
    struct tarm *tar = tarm_new();
    for (const char *type = types; *type; type++)
        tarm_add(tar, &(struct tarm_member){
                          .name = "x", .type = *type, .link = "y", .claims = "00000000005"});
    tar_samples(tar, 0, 1);
    tarm_end(tar);
    struct index *index = tar_list(tar);
    ck_assert_str_eq(tar_text(index), "000:jpg+cls");
    ck_assert_uint_eq(tar_faults(index), 0);
    index_free(index);
}
END_TEST

static void add_sparse_gnu(struct tarm *tar)
{
    size_t at = tarm_size(tar);
    tarm_add(tar, &(struct tarm_member){
                      .format = TARM_GNU, .type = 'S', .name = "s.jpg", .claims = "00000001000"});
    tarm_bytes(tar)[at + 482] = 1; /* two more blocks of map */
    tarm_checksum(tar, at);
    tarm_zeros(tar, 504);
    tarm_raw(tar, "\1\0\0\0\0\0\0\0", 8);
    tarm_zeros(tar, 512);
    for (int i = 0; i < 512; i++)
        tarm_raw(tar, "s", 1);
}

START_TEST(sparse_is_refused_by_name)
{
    struct tarm *tar = tarm_new();
    add_sparse_gnu(tar);
    tar_samples(tar, 0, 1);
    tarm_pax(tar, 'x', "GNU.sparse.major", "1", "GNU.sparse.minor", "0", "GNU.sparse.name",
             "real.jpg", "GNU.sparse.realsize", "60000000000", NULL);
    tarm_text(tar, "GNUSparseFile.1/real.jpg", "1\n0\n1\n");
    tar_samples(tar, 1, 2);
    tarm_end(tar);
    struct index *index = tar_list(tar);
    ck_assert_str_eq(tar_text(index), "000:jpg+cls 001:jpg+cls");
    ck_assert_uint_eq(tar_faults(index), 2);
    ck_assert_uint_eq(index_fault(index, 0)->cls, BAD_UNSUP);
    ck_assert_ptr_nonnull(strstr(index_text(index, index_fault(index, 0)->reason), "'s.jpg'"));
    ck_assert_uint_eq(index_fault(index, 1)->cls, BAD_UNSUP);
    ck_assert_ptr_nonnull(strstr(index_text(index, index_fault(index, 1)->reason), "'real.jpg'"));
    index_free(index);
}
END_TEST

START_TEST(sums_with_signs)
{
    struct tarm *tar = tarm_new();
    tarm_text(tar, "\xc3\xa4.jpg", "1");
    char sum[8];
    unsigned value = 0;
    memset(tarm_bytes(tar) + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        value += (unsigned)(signed char)tarm_bytes(tar)[i];
    snprintf(sum, sizeof sum, "%06o", value);
    memcpy(tarm_bytes(tar) + 148, sum, 7);
    tarm_end(tar);
    struct index *index = tar_list(tar);
    ck_assert_str_eq(tar_text(index), "\xc3\xa4:jpg");
    index_free(index);
}
END_TEST

START_TEST(cancelled)
{
    struct tarm *tar = tar_good(3);
    int fd = tarm_memfd(tar);
    struct error err = {0};
    struct format_progress progress = {.cancel = true};
    struct index_builder *builder = index_builder_new();
    ck_assert_int_eq(format_tar.list(fd, "x.tar", builder, &progress, &err), -ECANCELED);
    index_builder_free(builder);
    close(fd);
    tarm_free(tar);
}
END_TEST

START_TEST(an_unreadable_file_is_named)
{
    int ends[2];
    struct error err = {0};
    struct index_stamp stamp;
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(format_tar.stamp(ends[0], "/data/p.tar", NULL, &stamp, &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "/data/p.tar"));
    struct format_progress progress = {0};
    struct index_builder *builder = index_builder_new();
    ck_assert_int_lt(format_tar.list(-1, "/data/q.tar", builder, &progress, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "/data/q.tar"));
    index_builder_free(builder);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

/* All parts in one call, neighbours and far ones, against the bytes of the archive. */
START_TEST(reads)
{
    enum { COUNT = 400 };
    struct tarm *tar = tarm_new();
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        size_t size = (size_t)(i * 7919 % 3000);
        char *bytes = malloc(size + 1);
        for (size_t k = 0; k < size; k++)
            bytes[k] = (char)(i + k * 31);
        snprintf(name, sizeof name, "%05d.jpg", i);
        tarm_file(tar, name, bytes, size);
        if (i % 100 == 99) {
            tarm_add(tar, &(struct tarm_member){.name = "README", .bytes = NULL});
            char *gap = calloc(1, 200000);
            tarm_file(tar, "big", gap, 200000);
            free(gap);
        }
        free(bytes);
    }
    tarm_end(tar);
    int fd = tarm_memfd(tar);
    struct index *index = tar_list_fd(fd);
    struct format_read wanted[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct index_part *part = index_parts(index, i);
        wanted[i] = (struct format_read){.record = i,
                                         .offset = part->offset,
                                         .size = part->size,
                                         .dst = malloc(part->size + 1),
                                         .error = 1};
    }
    format_tar.read(fd, index, wanted, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        ck_assert_int_eq(wanted[i].error, 0);
        ck_assert_uint_eq(wanted[i].got, wanted[i].size);
        ck_assert_mem_eq(wanted[i].dst, tarm_bytes(tar) + wanted[i].offset, wanted[i].size);
    }
    /* The file gets shorter than the index says. */
    ck_assert_int_eq(ftruncate(fd, (off_t)wanted[300].offset + 10), 0);
    format_tar.read(fd, index, wanted, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        ck_assert_int_eq(wanted[i].error, 0);
        ck_assert_uint_eq(wanted[i].got, i < 300 ? wanted[i].size : i > 300 ? 0 : 10);
        free(wanted[i].dst);
    }
    close(fd);
    format_tar.read(-1, index, wanted + 1, 1);
    ck_assert_int_eq(wanted[1].error, -EBADF);
    index_free(index);
    tarm_free(tar);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tar");
    TCase *tests = tcase_create("tar");
    tcase_add_test(tests, plain_ustar);
    tcase_add_test(tests, headers_of_all_ages);
    tcase_add_test(tests, long_names);
    tcase_add_test(tests, sizes_of_all_forms);
    tcase_add_test(tests, names_by_the_rule);
    tcase_add_test(tests, names_that_are_never_samples);
    tcase_add_test(tests, suffixes_are_lower_case);
    tcase_add_test(tests, what_is_no_sample_is_counted);
    tcase_add_test(tests, links_stay_in_the_archive);
    tcase_add_test(tests, sizes_of_what_has_no_data);
    tcase_add_test(tests, sparse_is_refused_by_name);
    tcase_add_test(tests, sums_with_signs);
    tcase_add_test(tests, cancelled);
    tcase_add_test(tests, an_unreadable_file_is_named);
    tcase_add_test(tests, reads);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
