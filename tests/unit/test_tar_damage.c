/* Damaged tar shards, and files that are none: what is whole is there, and the loss is told. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/tar_member.h"
#include "tar_listing.h"

START_TEST(sizes_that_cannot_be)
{
    static const char *const claims[] = {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                                         "\x80\0\0\0\x80\0\0\0\0\0\0\0", "99999999999",
                                         "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"};
    for (size_t i = 0; i < 4; i++) {
        struct tarm *tar = tarm_new();
        tarm_add(tar, &(struct tarm_member){
                          .name = "a.jpg", .bytes = "12345", .size = 5, .claims = claims[i]});
        struct index *index = tar_list(tar);
        ck_assert_uint_eq(index_records(index), 0);
        tar_says(index, BAD_SHARD_HEADER, "size");
        ck_assert_uint_eq(tar_fault(index, BAD_SHARD_HEADER)->offset, 0);
        index_free(index);
    }
}
END_TEST

START_TEST(claims_more_than_there_is)
{
    static const char *const claims[] = {"77777777777",
                                         "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"};
    for (size_t i = 0; i < 2; i++) {
        struct tarm *tar = tarm_new();
        tar_samples(tar, 0, 1);
        tarm_add(tar, &(struct tarm_member){
                          .name = "huge.jpg", .bytes = "12345", .size = 5, .claims = claims[i]});
        struct index *index = tar_list(tar);
        ck_assert_str_eq(tar_text(index), "000:jpg+cls");
        tar_says(index, BAD_SHARD_TRUNC, "huge.jpg");
        ck_assert_uint_eq(tar_fault(index, BAD_SHARD_TRUNC)->offset, 2560);
        index_free(index);
    }
}
END_TEST

START_TEST(repeated_and_split_keys)
{
    struct tarm *tar = tarm_new();
    tarm_text(tar, "a.jpg", "1");
    tarm_text(tar, "b.jpg", "2");
    tarm_text(tar, "b.JPG", "3");
    tarm_text(tar, "c.jpg", "4");
    tarm_text(tar, "a.cls", "5");
    tarm_end(tar);
    struct index *index = tar_list(tar);
    ck_assert_str_eq(tar_text(index), "a:jpg b:jpg+jpg c:jpg a:cls");
    static const enum bad_class expected[] = {BAD_KEY_SPLIT, BAD_KEY_DUP, BAD_NONE, BAD_KEY_SPLIT};
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_int_eq((int)index_record(index, i)->fault, (int)expected[i]);
    ck_assert_uint_eq(tar_faults(index), 3);
    const struct index_fault *twice = tar_fault(index, BAD_KEY_DUP);
    ck_assert_str_eq(index_key(index, twice->record), "b");
    tar_says(index, BAD_KEY_DUP, "'jpg'");
    index_free(index);
}
END_TEST

/* Cut at each byte: what is whole before the cut is there, nothing else, and the cut is told. */
START_TEST(cut_anywhere)
{
    for (size_t cut = 1; cut < 2 * 2560; cut++) {
        struct tarm *tar = tar_good(2);
        tarm_cut(tar, cut);
        struct index *index = tar_list(tar);
        uint32_t usable = 0;
        for (uint32_t i = 0; i < index_records(index); i++) {
            const struct index_part *parts = index_parts(index, i);
            uint32_t count = index_record(index, i)->parts;
            usable += index_record(index, i)->fault == BAD_NONE && count == 2;
            for (uint32_t k = 0; k < count; k++)
                ck_assert_uint_le(parts[k].offset + parts[k].size, cut);
        }
        ck_assert_uint_eq(usable, (cut >= 2049) + (cut >= 2560 + 2049));
        bool between =
            cut % 2560 == 0 || cut % 2560 > 2048 || (cut % 2560 >= 512 + 700 && cut % 2560 <= 1536);
        bool other = cut < 512 && cut < 262; /* not to be told from any other file */
        if (other)
            ck_assert_ptr_nonnull(tar_fault(index, BAD_SHARD_TYPE));
        else
            ck_assert_msg((tar_fault(index, BAD_SHARD_TRUNC) == NULL) == between, "cut at %zu",
                          cut);
        index_free(index);
    }
}
END_TEST

START_TEST(the_record_of_a_cut_member_is_spoilt)
{
    struct tarm *tar = tarm_new();
    tarm_text(tar, "a.cls", "1");
    tarm_text(tar, "a.jpg", "12345");
    tarm_cut(tar, tarm_size(tar) - 510);
    struct index *index = tar_list(tar);
    ck_assert_str_eq(tar_text(index), "a:cls");
    ck_assert_uint_eq(index_record(index, 0)->fault, BAD_SHARD_TRUNC);
    ck_assert_uint_eq(tar_fault(index, BAD_SHARD_TRUNC)->record, 0);
    index_free(index);
}
END_TEST

START_TEST(ends_of_all_kinds)
{
    struct tarm *tar = tar_good(1);
    tarm_cut(tar, 2560); /* no end marker */
    struct index *index = tar_list(tar);
    ck_assert_uint_eq(tar_faults(index), 0);
    tar_says(index, BAD_NONE, "end-of-archive");
    index_free(index);

    tar = tar_good(1);
    tarm_cut(tar, 2560 + 512); /* half of it */
    index = tar_list(tar);
    ck_assert_uint_eq(index_faults(index), 0);
    index_free(index);

    tar = tar_good(1);
    tarm_zeros(tar, 8000);
    index = tar_list(tar);
    ck_assert_uint_eq(index_faults(index), 0);
    index_free(index);

    tar = tar_good(1);
    tarm_zeros(tar, 512);
    tar_samples(tar, 1, 2);
    tarm_end(tar);
    index = tar_list(tar);
    ck_assert_str_eq(tar_text(index), "000:jpg+cls");
    tar_says(index, BAD_NONE, "after the end");
    index_free(index);
}
END_TEST

START_TEST(a_broken_checksum_costs_what_it_must)
{
    struct tarm *tar = tar_good(3);
    tarm_bytes(tar)[2560 + 3] ^= 1; /* name of 001.jpg */
    struct index *index = tar_list(tar);
    ck_assert_str_eq(tar_text(index), "000:jpg+cls 001:cls 002:jpg+cls");
    ck_assert_uint_eq(tar_faults(index), 1);
    ck_assert_uint_eq(tar_fault(index, BAD_SHARD_HEADER)->offset, 2560);
    tar_says(index, BAD_SHARD_HEADER, "1024 bytes are skipped");
    index_free(index);

    tar = tar_good(2);
    tarm_bytes(tar)[2560 + 1536 + 3] ^= 1; /* the last header */
    index = tar_list(tar);
    ck_assert_str_eq(tar_text(index), "000:jpg+cls 001:jpg");
    tar_says(index, BAD_SHARD_HEADER, "are lost");
    index_free(index);

    tar = tar_good(1);
    tarm_bytes(tar)[3] ^= 1; /* the first one is still known as one of a tar archive */
    index = tar_list(tar);
    ck_assert_str_eq(tar_text(index), "000:cls");
    ck_assert_ptr_nonnull(tar_fault(index, BAD_SHARD_HEADER));
    index_free(index);
}
END_TEST

START_TEST(broken_extensions_drop_their_member_only)
{
    static const char *const bodies[] = {
        "33 path=a.jpg", "11 path=a\n",   "x path=a.jpg\n", "99999999999999999999 path=a.jpg\n",
        "3 \n",          "12 size=-17\n", "9 patha\n\n",    "0 \n",
        "-1 path=a\n"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct tarm *tar = tarm_new();
        tarm_add(tar,
                 &(struct tarm_member){
                     .type = 'x', .name = "pax", .bytes = bodies[i], .size = strlen(bodies[i])});
        tarm_text(tar, "wrong.jpg", "1");
        tarm_text(tar, "right.jpg", "1");
        tarm_end(tar);
        struct index *index = tar_list(tar);
        ck_assert_msg(!strcmp(tar_text(index), "right:jpg"), "%zu: %s", i, tar_text(index));
        tar_says(index, BAD_SHARD_HEADER, "extension");
        index_free(index);
    }
}
END_TEST

START_TEST(extensions_are_bounded)
{
    char *name = malloc(2 << 20);
    memset(name, 'n', 2 << 20);
    static const struct {
        char type;
        size_t size;
    } kinds[] = {{'L', TAR_NAME_MAX + 1}, {'x', TAR_PAX_MAX + 1}};
    for (size_t i = 0; i < 2; i++) {
        struct tarm *tar = tarm_new();
        tarm_add(tar,
                 &(struct tarm_member){
                     .type = kinds[i].type, .name = "l", .bytes = name, .size = kinds[i].size});
        tarm_text(tar, "wrong.jpg", "1");
        tarm_text(tar, "right.jpg", "1");
        tarm_end(tar);
        struct index *index = tar_list(tar);
        ck_assert_str_eq(tar_text(index), "right:jpg");
        index_free(index);
    }
    struct tarm *tar = tarm_new();
    tarm_add(tar, &(struct tarm_member){.type = 'L', .name = "l", .claims = "77777777777"});
    struct index *index = tar_list(tar);
    ck_assert_ptr_nonnull(tar_fault(index, BAD_SHARD_TRUNC));
    index_free(index);
    free(name);
}
END_TEST

START_TEST(no_tar_at_all)
{
    static const struct {
        const char *bytes;
        const char *word;
    } kinds[] = {{"\x1f\x8b\x08 then", "gunzip"},
                 {"BZh91AY", "bunzip2"},
                 {"\xfd"
                  "7zXZ",
                  "unxz"},
                 {"\x28\xb5\x2f\xfd", "unzstd"},
                 {"PK\x03\x04", "zip"},
                 {"  \n<!DOCTYPE html><html>", "HTML"},
                 {"<html><head>", "HTML"},
                 {"\xff\xd8\xff\xe0", "JPEG"},
                 {"just text", "6a 75 73 74"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int padded = 0; padded < 2; padded++) {
            struct tarm *tar = tarm_new();
            tarm_raw(tar, kinds[i].bytes, strlen(kinds[i].bytes));
            tarm_zeros(tar, padded ? 2000 : 0);
            struct index *index = tar_list(tar);
            ck_assert_uint_eq(index_records(index), 0);
            tar_says(index, BAD_SHARD_TYPE, kinds[i].word);
            ck_assert_uint_eq(tar_faults(index), 1);
            index_free(index);
        }
}
END_TEST

START_TEST(empty_archives)
{
    for (size_t size = 0; size <= 10240; size += 5120) {
        struct tarm *tar = tarm_new();
        tarm_zeros(tar, size);
        struct index *index = tar_list(tar);
        ck_assert_uint_eq(index_records(index), 0);
        ck_assert_uint_eq(index_faults(index), 1);
        ck_assert_ptr_nonnull(tar_fault(index, BAD_SHARD_EMPTY));
        index_free(index);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tar_damage");
    TCase *tests = tcase_create("tar_damage");
    tcase_add_test(tests, sizes_that_cannot_be);
    tcase_add_test(tests, claims_more_than_there_is);
    tcase_add_test(tests, repeated_and_split_keys);
    tcase_add_test(tests, cut_anywhere);
    tcase_add_test(tests, the_record_of_a_cut_member_is_spoilt);
    tcase_add_test(tests, ends_of_all_kinds);
    tcase_add_test(tests, a_broken_checksum_costs_what_it_must);
    tcase_add_test(tests, broken_extensions_drop_their_member_only);
    tcase_add_test(tests, extensions_are_bounded);
    tcase_add_test(tests, no_tar_at_all);
    tcase_add_test(tests, empty_archives);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
