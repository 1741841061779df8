#include "feed/ration.h"

#include <check.h>
#include <stdlib.h>

#include "base/clock.h"

#define FLOOR 1000
#define ALL 5000
#define PAUSE (30 * CLOCK_MS)

static struct budget *budget;
static struct ration *ration;

static void setup(void)
{
    struct error err;
    budget = budget_new(ALL, 1);
    ck_assert_int_eq(ration_new(budget, FLOOR, 2000, &ration, &err), 0);
}

static void teardown(void)
{
    ration_free(ration);
    ck_assert_uint_eq(budget_used(budget, BUDGET_USES), 0);
    budget_free(budget);
}

static uint64_t waited(void)
{
    uint64_t begin = clock_ns();
    ration_wait(ration, PAUSE);
    return clock_ns() - begin;
}

START_TEST(ahead_has_a_cap_and_now_a_floor)
{
    enum ration_from ahead, now, floor;
    ck_assert(ration_take(ration, 2000, RATION_AHEAD, &ahead));
    ck_assert(!ration_take(ration, 1, RATION_AHEAD, &now));
    ck_assert(ration_take(ration, ALL - FLOOR - 2000, RATION_NOW, &now));
    ck_assert(ration_take(ration, FLOOR, RATION_NOW, &floor));
    ck_assert_int_eq(floor, RATION_FLOOR);
    ck_assert_uint_eq(ration_used(ration), ALL);
    ration_give(ration, 2000, ahead);
    ration_give(ration, ALL - FLOOR - 2000, now);
    ration_give(ration, FLOOR, floor);
    ck_assert_uint_eq(ration_used(ration), 0);
}
END_TEST

START_TEST(nothing_is_taken_ahead_while_others_wait)
{
    enum ration_from from;
    budget_press(budget);
    budget_press(budget);
    budget_relax(budget);
    ck_assert(ration_pressed(ration));
    ck_assert(!ration_take(ration, 1, RATION_AHEAD, &from));
    ck_assert(ration_take(ration, 1, RATION_NOW, &from));
    ration_give(ration, 1, from);
    budget_relax(budget);
    ck_assert(!ration_pressed(ration));
    ck_assert(ration_take(ration, 1, RATION_AHEAD, &from));
    ration_give(ration, 1, from);
}
END_TEST

/* Where malloc fails again and again, who waits for memory pauses each time. */
START_TEST(what_was_not_used_is_no_news)
{
    enum ration_from from;
    ck_assert(ration_take(ration, 100, RATION_NOW, &from));
    ration_give_unused(ration, 100, from);
    ck_assert_uint_eq(ration_used(ration), 0);
    ck_assert_uint_ge(waited(), PAUSE);
    ck_assert(ration_take(ration, 100, RATION_NOW, &from));
    ration_give(ration, 100, from);
    ck_assert_uint_lt(waited(), PAUSE);
    ck_assert_uint_ge(waited(), PAUSE); /* told once */
    ration_wake(ration);
    ck_assert_uint_lt(waited(), PAUSE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ration");
    TCase *test = tcase_create("ration");
    tcase_add_checked_fixture(test, setup, teardown);
    tcase_add_test(test, ahead_has_a_cap_and_now_a_floor);
    tcase_add_test(test, what_was_not_used_is_no_news);
    tcase_add_test(test, nothing_is_taken_ahead_while_others_wait);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
