#include "base/log_fold.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static struct log_site site = {.file = "here"}, other = {.file = "there", .most = 1000};

static bool admit_at(struct log_site *at, const char *text, double seconds)
{
    return log_fold_admit(at, LOG_WARNING, LOG_DRAIN, text,
                          (uint64_t)((100 + seconds) * (double)CLOCK_SECOND));
}

static bool due_at(double seconds, struct log_told *told)
{
    return log_fold_next((uint64_t)((100 + seconds) * (double)CLOCK_SECOND), false, told);
}

START_TEST(repeats_are_told_at_the_end_of_their_window)
{
    struct log_told told;
    ck_assert(admit_at(&site, "a", 0));
    ck_assert(!admit_at(&site, "a", 1));
    ck_assert(!admit_at(&site, "a", 4));
    ck_assert(admit_at(&site, "b", 4));
    ck_assert(!due_at(4.9, &told));
    ck_assert(due_at(5, &told));
    ck_assert_uint_eq(told.count, 2);
    ck_assert_str_eq(told.text, "a");
    ck_assert(told.same);
    ck_assert_ptr_eq(told.site, &site);
    ck_assert_int_eq(told.level, LOG_WARNING);
    ck_assert_int_eq(told.id, LOG_DRAIN);
    ck_assert_double_eq(told.seconds, 5);
    ck_assert(!due_at(5, &told));
}
END_TEST

/* One that goes on is only counted from its first window on; after a quiet one it is new. */
START_TEST(what_goes_on_stays_known)
{
    struct log_told told;
    ck_assert(admit_at(&site, "a", 0));
    ck_assert(!admit_at(&site, "a", 1));
    ck_assert(due_at(5, &told));
    ck_assert(!admit_at(&site, "a", 6));
    ck_assert(due_at(10, &told));
    ck_assert_uint_eq(told.count, 1);
    ck_assert(!due_at(15, &told));
    ck_assert(admit_at(&site, "a", 15));
}
END_TEST

START_TEST(lines_left_out_are_told_when_nothing_follows)
{
    struct log_told told;
    char text[32];
    for (int i = 0; i < 30; i++) {
        snprintf(text, sizeof text, "line %d", i);
        ck_assert_int_eq(admit_at(&site, text, 0), i < 10);
    }
    ck_assert(!due_at(4.9, &told));
    ck_assert(due_at(5, &told));
    ck_assert_uint_eq(told.count, 20);
    ck_assert_str_eq(told.text, "line 10");
    ck_assert(!told.same);
    ck_assert(!due_at(5, &told));
    ck_assert(admit_at(&site, "line 30", 5));
}
END_TEST

START_TEST(all_is_told_at_the_end)
{
    struct log_told told;
    ck_assert(admit_at(&site, "a", 0));
    ck_assert(!admit_at(&site, "a", 0.5));
    ck_assert(log_fold_next((uint64_t)(100.5 * (double)CLOCK_SECOND), true, &told));
    ck_assert_double_eq(told.seconds, 0.5);
    ck_assert(!log_fold_next((uint64_t)(100.5 * (double)CLOCK_SECOND), true, &told));
}
END_TEST

/* A thread that has read the clock before another, and has the lock after it. */
START_TEST(an_older_reading_of_the_clock_ends_no_window)
{
    struct log_told told;
    ck_assert(admit_at(&site, "a", 1));
    ck_assert(!due_at(0.9, &told));
    ck_assert(!admit_at(&site, "a", 0.9));
    ck_assert(!due_at(0.9, &told));
    ck_assert(log_fold_next((uint64_t)(100.9 * (double)CLOCK_SECOND), true, &told));
    ck_assert_double_eq(told.seconds, 0);
    for (int i = 0; i < 30; i++) {
        char text[32];
        snprintf(text, sizeof text, "line %d", i);
        ck_assert_int_eq(admit_at(&site, text, 0.9), i < 9);
    }
}
END_TEST

/* More kinds at once than the table has room for: each line is printed or counted. */
START_TEST(nothing_is_lost_in_a_flood)
{
    struct log_told told;
    char text[32];
    unsigned printed = 0, counted = 0;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 200; i++) {
            snprintf(text, sizeof text, "kind %d", i / 2);
            printed += admit_at(&other, text, 1);
        }
    struct log_site many[100] = {0};
    for (int i = 0; i < 100; i++)
        for (int k = 0; k < 12; k++) {
            snprintf(text, sizeof text, "site %d.%d", i, k);
            printed += admit_at(&many[i], text, 1);
        }
    while (due_at(7, &told))
        counted += told.count;
    ck_assert_uint_eq(printed + counted, 3 * 200 + 100 * 12);
    ck_assert_uint_ge(counted, 300);
}
END_TEST

START_TEST(long_lines_are_not_compared)
{
    char text[LOG_FOLD_TEXT + 1];
    struct log_told told;
    memset(text, 'x', LOG_FOLD_TEXT);
    text[LOG_FOLD_TEXT] = '\0';
    ck_assert(admit_at(&site, text, 0));
    ck_assert(admit_at(&site, text, 0));
    for (int i = 0; i < 9; i++)
        admit_at(&site, text, 0);
    ck_assert(due_at(5, &told));
    ck_assert_uint_eq(told.count, 1);
    ck_assert_uint_eq(strlen(told.text), LOG_FOLD_TEXT - 1);
}
END_TEST

static _Atomic unsigned printed;

static void *say_much(void *context)
{
    for (int i = 0; i < 2000; i++)
        printed += admit_at(context, i % 3 ? "one" : "another", i / 400.0);
    return NULL;
}

START_TEST(threads_lose_nothing)
{
    pthread_t threads[4];
    struct log_told told;
    unsigned counted = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, say_much, &other);
    for (int i = 0; i < 1000; i++)
        counted += due_at(5, &told) ? told.count : 0;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    while (log_fold_next(1000 * CLOCK_SECOND, true, &told))
        counted += told.count;
    ck_assert_uint_eq(printed + counted, 4 * 2000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log_fold");
    TCase *tcase = tcase_create("lines");
    tcase_add_test(tcase, repeats_are_told_at_the_end_of_their_window);
    tcase_add_test(tcase, what_goes_on_stays_known);
    tcase_add_test(tcase, lines_left_out_are_told_when_nothing_follows);
    tcase_add_test(tcase, all_is_told_at_the_end);
    tcase_add_test(tcase, an_older_reading_of_the_clock_ends_no_window);
    tcase_add_test(tcase, nothing_is_lost_in_a_flood);
    tcase_add_test(tcase, long_lines_are_not_compared);
    tcase_add_test(tcase, threads_lose_nothing);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
