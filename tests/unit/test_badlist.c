/* control/badlist.c: counting, bounds, escapes, the file and what is wrong with it. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/badlist.h"

static struct badlist *list;

static void setup(void)
{
    list = badlist_new(100);
}

static void teardown(void)
{
    badlist_free(list);
}

static struct bad_report report(const char *key, uint64_t offset)
{
    return (struct bad_report){.cls = BAD_TRUNC,
                               .shard = "/data/a.tar",
                               .key = key,
                               .offset = offset,
                               .reason = "ends at row 12"};
}

static void add(const char *key, uint64_t offset)
{
    struct bad_report r = report(key, offset);
    badlist_add(list, "feed", &r);
}

START_TEST(the_same_sample_is_counted)
{
    add("k", 512);
    add("k", 512);
    add("k", 1024);
    add("kk", 512);
    ck_assert_uint_eq(badlist_count(list), 3);
    const struct badlist_entry *entry = badlist_at(list, 0);
    ck_assert_uint_eq(entry->count, 2);
    ck_assert_int_eq(entry->cls, BAD_TRUNC);
    ck_assert_str_eq(entry->shard, "/data/a.tar");
    ck_assert_str_eq(entry->key, "k");
    ck_assert_str_eq(entry->reason, "ends at row 12");
    ck_assert_uint_eq(entry->offset, 512);
}
END_TEST

START_TEST(feed_and_class_tell_apart)
{
    struct bad_report r = report("k", 1);
    badlist_add(list, "a", &r);
    badlist_add(list, "b", &r);
    r.cls = BAD_CORRUPT;
    badlist_add(list, "a", &r);
    ck_assert_uint_eq(badlist_count(list), 3);
}
END_TEST

START_TEST(faults_of_structure_count_once)
{
    struct bad_report r = report("k", 1);
    badlist_add_once(list, "f", &r);
    badlist_add_once(list, "f", &r);
    ck_assert_uint_eq(badlist_at(list, 0)->count, 1);
}
END_TEST

START_TEST(a_full_list_counts_what_it_leaves_out)
{
    char key[16];
    for (int i = 0; i < 150; i++) {
        snprintf(key, sizeof key, "k%d", i);
        add(key, 0);
    }
    add("k7", 0); /* known: counted as ever */
    ck_assert_uint_eq(badlist_count(list), 100);
    ck_assert_uint_eq(badlist_unlisted(list), 50);
    ck_assert_uint_eq(badlist_at(list, 7)->count, 2);
}
END_TEST

/* They have half of the room, are not kept, and can be forgotten. */
START_TEST(feeds_of_a_users_own)
{
    char key[16];
    size_t size;
    for (int i = 0; i < 150; i++) {
        struct bad_report r = report(key, 0);
        snprintf(key, sizeof key, "k%d", i);
        badlist_add(list, i % 2 ? "~1000/a" : "~1000/b", &r);
    }
    ck_assert_uint_eq(badlist_count(list), 50);
    ck_assert_uint_eq(badlist_unlisted(list), 100);
    for (int i = 0; i < 60; i++)
        add("k", (uint64_t)i);
    ck_assert_uint_eq(badlist_count(list), 100);
    char *text = badlist_text(list, &size);
    ck_assert_ptr_null(strchr(text, '~'));
    ck_assert_ptr_nonnull(strstr(text, "\tfeed\t"));
    free(text);
    badlist_forget(list, "~1000/a");
    ck_assert_uint_eq(badlist_count(list), 75);
    for (uint32_t i = 0; i < 75; i++)
        ck_assert_str_eq(badlist_at(list, i)->feed, i < 25 ? "~1000/b" : "feed");
    add("k", 49); /* those that stay are known as ever */
    ck_assert_uint_eq(badlist_count(list), 75);
    ck_assert_uint_eq(badlist_at(list, 74)->count, 2);
    struct bad_report r = report("new", 0);
    badlist_add(list, "~1000/a", &r); /* and there is room again */
    ck_assert_uint_eq(badlist_count(list), 76);
}
END_TEST

START_TEST(control_characters_are_escaped)
{
    add("a\tb\nc\x1b[31m", 0);
    const char *key = badlist_at(list, 0)->key;
    for (const char *c = key; *c; c++)
        ck_assert_int_ge(*c, ' ');
    ck_assert_msg(strstr(key, "\\x"), "%s", key);
}
END_TEST

START_TEST(text_and_back)
{
    size_t size;
    add("a", 1);
    add("a", 1);
    add("tab\there", 2);
    add("", 0); /* of a shard */
    ck_assert(badlist_dirty(list));
    char *text = badlist_text(list, &size);
    ck_assert_uint_eq(size, strlen(text));
    ck_assert(!badlist_dirty(list));
    struct badlist *back = badlist_new(100);
    ck_assert_uint_eq(badlist_parse(back, text), 0);
    free(text);
    ck_assert(!badlist_dirty(back));
    ck_assert_uint_eq(badlist_count(back), 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct badlist_entry *a = badlist_at(list, i), *b = badlist_at(back, i);
        ck_assert_str_eq(a->key, b->key);
        ck_assert_str_eq(a->shard, b->shard);
        ck_assert_str_eq(a->reason, b->reason);
        ck_assert_uint_eq(a->count, b->count);
        ck_assert_uint_eq(a->offset, b->offset);
        ck_assert_int_eq(a->cls, b->cls);
    }
    badlist_free(back);
}
END_TEST

static const char *const bad_lines[] = {
    "",
    "1\t2\tBAD-TRUNC\tf\ts\tk",          /* a column is missing */
    "1\t2\tBAD-TRUNC\tf\ts\tk\tr\tmore", /* one too many */
    "x\t2\tBAD-TRUNC\tf\ts\tk\tr",       /* no number */
    "-1\t2\tBAD-TRUNC\tf\ts\tk\tr",      /* not below 0 */
    "0\t2\tBAD-TRUNC\tf\ts\tk\tr",       /* never seen */
    "1\t99999999999999999999\tBAD-TRUNC\tf\ts\tk\tr",
    "1\t2\tBAD-WEATHER\tf\ts\tk\tr", /* no class */
    "1\t2\tOK\tf\ts\tk\tr",
    "1\t2\tBAD-TRUNC\tno name!\ts\tk\tr", /* no feed's name */
};

START_TEST(wrong_lines_are_left_out)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fputs("dataloadd bad samples 1\n", out);
    for (size_t i = 0; i < sizeof bad_lines / sizeof *bad_lines; i++)
        fprintf(out, "%s\n", bad_lines[i]);
    fprintf(out, "1\t2\tBAD-TRUNC\tf\t%02000d\tk\tr\n", 0); /* longer than we write */
    fputs("3\t2\tBAD-TRUNC\tf\ts\tk\tr", out);              /* right; the last line has no end */
    fclose(out);
    ck_assert_uint_eq(badlist_parse(list, text), sizeof bad_lines / sizeof *bad_lines + 1);
    ck_assert_uint_eq(badlist_count(list), 1);
    ck_assert_uint_eq(badlist_at(list, 0)->count, 3);
    free(text);
}
END_TEST

START_TEST(another_file_is_not_read)
{
    char text[] = "something else\n1\t2\tBAD-TRUNC\tf\ts\tk\tr\n";
    ck_assert_uint_eq(badlist_parse(list, text), 1);
    ck_assert_uint_eq(badlist_count(list), 0);
}
END_TEST

START_TEST(file_and_back)
{
    char folder[] = "/tmp/badlist-XXXXXX", path[64], other[80];
    struct error err;
    size_t size;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/bad.tsv", folder);
    snprintf(other, sizeof other, "%s/none/bad.tsv", folder);
    ck_assert_int_eq(badlist_read(list, path, &err), -ENOENT);
    add("k", 512);
    char *text = badlist_text(list, &size);
    ck_assert_int_eq(badlist_write(path, text, size, &err), 0);
    ck_assert_int_eq(badlist_write(other, text, size, &err), -ENOENT);
    ck_assert_msg(strstr(err.text, other), "%s", err.text);
    free(text);
    struct badlist *back = badlist_new(100);
    ck_assert_int_eq(badlist_read(back, path, &err), 0);
    ck_assert_uint_eq(badlist_count(back), 1);
    badlist_free(back);
    ck_assert_int_eq(badlist_read(list, folder, &err), -EINVAL);
    ck_assert_msg(strstr(err.text, "counting begins anew"), "%s", err.text);
    snprintf(other, sizeof other, "%s/below", path);
    ck_assert_int_eq(badlist_read(list, other, &err), -ENOTDIR);
    ck_assert_msg(strstr(err.text, "the list of bad samples /tmp/") &&
                      strstr(err.text, "cannot be read: Not a directory; counting begins anew"),
                  "%s", err.text);
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* no temporary file is left */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("badlist");
    TCase *test = tcase_create("badlist");
    tcase_add_checked_fixture(test, setup, teardown);
    tcase_add_test(test, the_same_sample_is_counted);
    tcase_add_test(test, feed_and_class_tell_apart);
    tcase_add_test(test, faults_of_structure_count_once);
    tcase_add_test(test, a_full_list_counts_what_it_leaves_out);
    tcase_add_test(test, feeds_of_a_users_own);
    tcase_add_test(test, control_characters_are_escaped);
    tcase_add_test(test, text_and_back);
    tcase_add_test(test, wrong_lines_are_left_out);
    tcase_add_test(test, another_file_is_not_read);
    tcase_add_test(test, file_and_back);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
