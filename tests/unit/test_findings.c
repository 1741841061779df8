/* control/findings.c: which figures are fine, and what is said of those that are not. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/findings.h"

static struct findings found;

static void setup(void)
{
    memset(&found, 0, sizeof found);
}

static void expect(enum finding_level level, const char *text, const char *remedy)
{
    const struct finding *it = &found.list[0];
    ck_assert_uint_eq(found.count, 1);
    ck_assert_int_eq(it->level, level);
    ck_assert_ptr_nonnull(strstr(it->text, text));
    ck_assert_ptr_nonnull(strstr(it->remedy, remedy));
    ck_assert(level == FINDING_OK || *it->remedy);
}

static const struct files {
    uint64_t allowed, open;
    enum finding_level level;
} files[] = {{65536, 100, FINDING_OK},
             {4096, 3000, FINDING_OK},
             {1024, 100, FINDING_WARNING},
             {4096, 4000, FINDING_CRITICAL}};

START_TEST(descriptors)
{
    const struct files *it = &files[_i];
    char text[100];
    findings_files(&found, it->allowed, it->open);
    snprintf(text, sizeof text, "%d of %d descriptors", (int)it->open, (int)it->allowed);
    expect(it->level, text, it->level ? "LimitNOFILE=65536" : "");
}
END_TEST

static const struct memory {
    uint64_t limit, used, free; /* MB */
    enum finding_level level;
} memory[] = {{1000, 200, 800, FINDING_OK},
              {1000, 200, 799, FINDING_WARNING},
              {1000, 1000, 0, FINDING_OK},
              {1000, 200, 10, FINDING_CRITICAL}};

START_TEST(memory_has_room)
{
    const struct memory *it = &memory[_i];
    struct findings_facts facts = {.memory_limit = it->limit * 1000000,
                                   .memory_used = it->used * 1000000};
    findings_memory(&found, &facts, it->free * 1000000);
    expect(it->level, "1000.0 MB are in use", it->level ? "MemoryMax" : "");
}
END_TEST

START_TEST(a_cache_that_can_be_written)
{
    char folder[] = "/tmp/test_findings-XXXXXX", inside[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(inside, sizeof inside, "%s/cache", folder);
    findings_cache(&found, inside); /* makes it, as an index would */
    ck_assert_ptr_nonnull(strstr(found.list[0].text, "can be written"));
    ck_assert_int_eq(rmdir(inside), 0); /* and leaves nothing there */
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(a_cache_whose_index_is_not_ours)
{
    char folder[] = "/tmp/test_findings-XXXXXX", index[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(index, sizeof index, "%s/index", folder);
    ck_assert_int_eq(symlink("/", index), 0);
    findings_cache(&found, folder);
    expect(FINDING_WARNING, index, "own it");
    ck_assert_int_eq(unlink(index), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(a_cache_that_cannot)
{
    findings_cache(&found, "/dev/null/cache");
    expect(FINDING_WARNING, "Not a directory", "cache.path");
}
END_TEST

START_TEST(no_cache)
{
    findings_cache(&found, NULL);
    expect(FINDING_OK, "none", "");
}
END_TEST

START_TEST(there_is_an_end_to_the_list)
{
    for (int i = 0; i < 2 * FINDINGS_MAX; i++)
        findings_cache(&found, NULL);
    ck_assert_uint_eq(found.count, FINDINGS_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("findings");
    TCase *test = tcase_create("findings");
    tcase_add_checked_fixture(test, setup, NULL);
    tcase_add_loop_test(test, descriptors, 0, sizeof files / sizeof *files);
    tcase_add_loop_test(test, memory_has_room, 0, sizeof memory / sizeof *memory);
    tcase_add_test(test, a_cache_that_can_be_written);
    tcase_add_test(test, a_cache_whose_index_is_not_ours);
    tcase_add_test(test, a_cache_that_cannot);
    tcase_add_test(test, no_cache);
    tcase_add_test(test, there_is_an_end_to_the_list);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
