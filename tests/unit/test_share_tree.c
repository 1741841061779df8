/* feed/share_tree.c: who comes next, and what each gets of it. */
#include "feed/share_tree.h"

#include <check.h>

#define CREDIT 50.0
#define MOST 8

static struct share_tree tree;
static struct share streams[MOST];
static double got[MOST];
static bool wants[MOST];
static uint32_t count;

static uint32_t join(uid_t uid, uint32_t user_weight, uint64_t job, uint32_t job_weight)
{
    const struct share_terms terms = {
        .uid = uid, .user_weight = user_weight, .job = job, .job_weight = job_weight};
    share_join(&tree, &streams[count], &terms);
    wants[count] = true;
    got[count] = 0;
    return count++;
}

static void setup(void)
{
    share_tree_init(&tree, CREDIT);
    count = 0;
}

static void teardown(void)
{
    for (uint32_t i = 0; i < count; i++)
        share_leave(&tree, &streams[i]);
    ck_assert_ptr_null(tree.whole.first);
}

static uint32_t pick(void)
{
    uint32_t best = MOST;
    share_look(&tree);
    for (uint32_t i = 0; i < count; i++)
        if (wants[i])
            share_wants(&tree, &streams[i]);
    for (uint32_t i = 0; i < count; i++)
        if (wants[i] && share_is_fair(&streams[i]) &&
            (best == MOST || share_before(&streams[i], &streams[best])))
            best = i;
    ck_assert_uint_lt(best, MOST);
    return best;
}

static void give(uint32_t stream, double amount)
{
    share_begin(&streams[stream], amount);
    share_end(&streams[stream], 0);
    got[stream] += amount;
}

/* Whatever the size of what each takes at a time. */
static void serve(double amount)
{
    static const double sizes[MOST] = {1, 7, 2, 1, 3, 20, 1, 2};
    for (double given = 0; given < amount;) {
        uint32_t stream = pick();
        give(stream, sizes[stream]);
        given += sizes[stream];
    }
}

static void check_share(double part, double of, double expected)
{
    ck_assert_double_eq_tol(part / of, expected, 0.02);
}

START_TEST(users_by_weight)
{
    join(1, 1, 1, 1), join(1, 1, 2, 1), join(1, 1, 3, 1), join(1, 1, 4, 1);
    uint32_t one = join(2, 3, 5, 1);
    serve(20000);
    check_share(got[one], 20000, 0.75);
    check_share(got[0], 20000, 0.25 / 4);
    check_share(got[3], 20000, 0.25 / 4);
}
END_TEST

START_TEST(jobs_by_weight_and_streams_alike)
{
    join(1, 7, 1, 2), join(1, 7, 1, 2), join(1, 7, 2, 1);
    serve(20000);
    check_share(got[0], 20000, 1 / 3.);
    check_share(got[1], 20000, 1 / 3.);
    check_share(got[2], 20000, 1 / 3.);
}
END_TEST

/* Weights say nothing but their proportion. */
START_TEST(zeros_and_large_weights)
{
    join(1, 0, 1, 0), join(2, 0, 1, 0);
    serve(10000);
    check_share(got[0], 10000, 0.5);
    teardown();
    setup();
    join(1, 250, 1, 1), join(2, 750, 2, 1000);
    serve(10000);
    check_share(got[1], 10000, 0.75);
}
END_TEST

START_TEST(nobody_saves_up)
{
    join(1, 1, 1, 1), join(2, 1, 2, 1);
    wants[1] = false;
    serve(10000);
    wants[1] = true;
    got[0] = got[1] = 0;
    serve(1000);
    ck_assert_double_ge(got[0], 500 - CREDIT);
    ck_assert_double_ge(got[1], 500 - CREDIT);
}
END_TEST

/* Nor is he who has come just now held back for what others have had. */
START_TEST(newcomers)
{
    join(1, 1, 1, 1), join(2, 1, 2, 1);
    serve(10000);
    uint32_t late = join(3, 2, 3, 1), fellow = join(1, 1, 4, 1);
    serve(10000);
    check_share(got[late], 10000, 0.5);
    check_share(got[fellow], 10000, 0.125);
}
END_TEST

/* What took far longer than was thought counts, and longer than the credit lasts. */
START_TEST(a_wrong_guess)
{
    join(1, 1, 1, 1), join(2, 1, 2, 1);
    serve(100);
    share_begin(&streams[0], 1);
    share_end(&streams[0], 999);
    got[0] = got[1] = 0;
    serve(900);
    ck_assert_double_eq(got[0], 0);
    serve(1000);
    ck_assert_double_ge(got[0], 300);
}
END_TEST

START_TEST(what_one_leaves_is_the_others)
{
    join(1, 1, 1, 1), join(2, 1, 2, 1);
    for (uint32_t turn = 0; turn < 1000; turn++) {
        wants[1] = turn % 10 == 0;
        give(pick(), 1);
    }
    ck_assert_double_ge(got[1], 99);
    ck_assert_double_ge(got[0], 900);
}
END_TEST

/* Within the credit another order is fair, by weight too; beyond it is not. */
START_TEST(fair_within_the_credit)
{
    join(1, 1, 1, 1), join(2, 5, 2, 1);
    give(0, 0);
    share_look(&tree);
    share_wants(&tree, &streams[0]);
    share_wants(&tree, &streams[1]);
    ck_assert(share_is_fair(&streams[0]));
    give(0, CREDIT / 5 - 1);
    ck_assert(share_is_fair(&streams[0]));
    give(0, 2);
    ck_assert(!share_is_fair(&streams[0]));
    ck_assert(share_is_fair(&streams[1]));
}
END_TEST

START_TEST(room_of_a_user)
{
    struct share_terms terms = {.uid = 1, .threads = 2, .job = 1};
    join(1, 1, 1, 1), join(1, 1, 2, 1), join(2, 1, 3, 1);
    ck_assert_uint_eq(share_room(&streams[0]), UINT32_MAX);
    share_set_terms(&tree, &streams[0], &terms);
    ck_assert_uint_eq(share_room(&streams[1]), 2);
    share_begin(&streams[0], 1);
    share_begin(&streams[1], 1);
    ck_assert_uint_eq(share_room(&streams[0]), 0);
    ck_assert_uint_eq(share_room(&streams[2]), UINT32_MAX);
    terms.threads = 1;
    share_set_terms(&tree, &streams[0], &terms);
    ck_assert_uint_eq(share_room(&streams[0]), 0);
    share_end(&streams[0], 0);
    share_end(&streams[1], 0);
    ck_assert_uint_eq(share_room(&streams[0]), 1);
}
END_TEST

/* A stream that goes over to another user takes along what runs. */
START_TEST(other_terms_while_it_runs)
{
    join(1, 1, 1, 1);
    share_begin(&streams[0], 1);
    share_set_terms(&tree, &streams[0], &(struct share_terms){.uid = 2, .threads = 3, .job = 1});
    ck_assert_uint_eq(share_room(&streams[0]), 2);
    ck_assert_ptr_null(tree.whole.first->next);
    share_end(&streams[0], 0);
    ck_assert_uint_eq(share_room(&streams[0]), 3);
    join(3, 1, 2, 1);
    share_set_terms(&tree, &streams[0],
                    &(struct share_terms){.uid = 2, .user_weight = 4, .job = 1});
    serve(10000);
    check_share(got[0], 10000, 0.8);
}
END_TEST

/* What they have had more or less than others stays as much of it. */
START_TEST(other_weights_for_all)
{
    join(1, 1, 1, 1), join(2, 1, 2, 1);
    serve(100);
    give(0, 90);
    for (uint32_t i = 0; i < 2; i++)
        share_set_terms(&tree, &streams[i],
                        &(struct share_terms){
                            .uid = i + 1, .user_weight = 1000, .job = i + 1, .job_weight = 1});
    got[0] = got[1] = 0;
    serve(300);
    ck_assert_double_ge(got[0], 150 - 90);
    ck_assert_double_ge(got[1], 150);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("share_tree");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, users_by_weight);
    tcase_add_test(tcase, jobs_by_weight_and_streams_alike);
    tcase_add_test(tcase, zeros_and_large_weights);
    tcase_add_test(tcase, nobody_saves_up);
    tcase_add_test(tcase, newcomers);
    tcase_add_test(tcase, a_wrong_guess);
    tcase_add_test(tcase, what_one_leaves_is_the_others);
    tcase_add_test(tcase, fair_within_the_credit);
    tcase_add_test(tcase, room_of_a_user);
    tcase_add_test(tcase, other_terms_while_it_runs);
    tcase_add_test(tcase, other_weights_for_all);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
