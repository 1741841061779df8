/* control/jobs.c: what fixes a job, who gets which rank, what is refused and how, lingering. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/jobs.h"
#include "feed/spec.h"

#define LINGER (60 * CLOCK_SECOND)
#define T0 (1000 * CLOCK_SECOND)

static struct jobs *jobs;
static struct job *job;
static uint32_t rank;
static struct job_place stood;
static struct refusal refusal;

static void setup(void)
{
    jobs = jobs_new(LINGER);
    memset(&refusal, 0, sizeof refusal);
}

static void teardown(void)
{
    jobs_free(jobs);
}

static struct job_optional some(uint64_t value)
{
    return (struct job_optional){true, value};
}

static struct job_want want(pid_t pid)
{
    return (struct job_want){
        .uid = 1000, .pid = pid, .feed = "f", .name = "j", .feed_batch = 32, .feed_seed = 5};
}

static struct job_want ranked(pid_t pid, uint64_t number, uint64_t world)
{
    struct job_want w = want(pid);
    w.rank = some(number);
    w.world = some(world);
    return w;
}

static int claim_at(const struct job_want *w, uint64_t now)
{
    return jobs_claim(jobs, w, now, &job, &rank, &refusal);
}

static int claim(struct job_want w)
{
    return claim_at(&w, T0);
}

static void expect(struct job_want w, enum dlp_error code, const char *first, const char *second)
{
    ck_assert_int_eq(claim(w), (int)code);
    ck_assert_msg(strstr(refusal.text, first) && strstr(refusal.text, second), "%s", refusal.text);
}

START_TEST(defaults_come_from_the_feed)
{
    ck_assert_int_eq(claim(want(1)), 0);
    ck_assert_uint_eq(rank, 0);
    ck_assert_uint_eq(job->world, 1);
    ck_assert_uint_eq(job->batch, 32);
    ck_assert_uint_eq(job->seed, 5);
    ck_assert_uint_eq(job->start.epoch, 0);
}
END_TEST

START_TEST(first_attach_fixes_all_values)
{
    struct job_want first = ranked(1, 1, 3);
    first.batch = some(8);
    first.seed = some(77);
    first.epoch = some(4);
    ck_assert_int_eq(claim(first), 0);
    ck_assert_uint_eq(rank, 1);

    struct job_want none = want(2);
    ck_assert_int_eq(claim(none), 0);
    ck_assert_uint_eq(rank, 0); /* lowest free, values of the job */
    ck_assert_uint_eq(job->batch, 8);

    struct job_want other = ranked(3, 2, 4);
    expect(other, DLP_ERROR_MISMATCH, "world 4", "is 3");
    other = ranked(3, 2, 3);
    other.batch = some(16);
    expect(other, DLP_ERROR_MISMATCH, "batch 16", "is 8");
    other.batch = some(8);
    other.seed = some(78);
    expect(other, DLP_ERROR_MISMATCH, "seed 78", "is 77");
    other.seed = some(77);
    other.epoch = some(0);
    expect(other, DLP_ERROR_MISMATCH, "epoch 0", "is 4");
    other.epoch = some(4);
    ck_assert_int_eq(claim(other), 0);
    ck_assert_uint_eq(rank, 2);
}
END_TEST

START_TEST(taken_rank_names_the_holder)
{
    ck_assert_int_eq(claim(ranked(4711, 0, 2)), 0);
    expect(ranked(2, 0, 2), DLP_ERROR_RANK_TAKEN, "rank 0", "4711");
    ck_assert_int_eq(claim(ranked(2, 1, 2)), 0);
    expect(want(3), DLP_ERROR_RANK_TAKEN, "all ranks", "4711");
    jobs_release(jobs, job, 0, T0);
    ck_assert_int_eq(claim(ranked(5, 0, 2)), 0);
}
END_TEST

static struct job_want member(pid_t pid, uid_t uid)
{
    struct job_want w = want(pid);
    w.uid = uid;
    w.shared = true;
    return w;
}

START_TEST(a_group_is_for_all_users)
{
    struct job_want ranked_member = member(1, 1000);
    ranked_member.rank = some(1);
    ranked_member.world = some(2);
    ck_assert_int_eq(claim(ranked_member), 0);
    struct job *group = job;
    ranked_member.uid = 2000;
    ck_assert_int_eq(claim(ranked_member), 0); /* the same rank again */
    ck_assert_ptr_eq(job, group);
    ck_assert_uint_eq(rank, 1);
    ck_assert_uint_eq(job->nclaims, 1); /* it is had once, by all of them */
    expect(member(3, 1000), DLP_ERROR_BAD_REQUEST, "no rank", "world 2: give one of 0 to 1");
    ranked_member.world = some(3);
    expect(ranked_member, DLP_ERROR_MISMATCH, "world 3", "running group j");
    ck_assert_int_eq(claim(want(4)), 0); /* a job of that name is something else */
    ck_assert_ptr_ne(job, group);
    jobs_served(jobs, group, 1, (struct job_place){0}, false);
    jobs_release(jobs, group, 1, T0);
    ck_assert_uint_eq(group->nclaims, 0);
}
END_TEST

START_TEST(a_group_of_one_rank_needs_no_numbers)
{
    for (pid_t pid = 1; pid < 4; pid++) {
        ck_assert_int_eq(claim(member(pid, 1000)), 0);
        ck_assert_uint_eq(rank, 0);
        ck_assert_uint_eq(job->nclaims, 1);
    }
}
END_TEST

START_TEST(default_job_is_told_to_have_a_name)
{
    struct job_want w = ranked(1, 0, 2);
    w.name = "default";
    ck_assert_int_eq(claim(w), 0);
    expect(w, DLP_ERROR_RANK_TAKEN, "default", "must name its job");
}
END_TEST

START_TEST(rank_must_fit_the_world)
{
    expect(ranked(1, 2, 2), DLP_ERROR_BAD_REQUEST, "rank 2", "world 2");
    ck_assert_ptr_null(jobs_first(jobs)); /* a refused first attach leaves no job */
    struct job_want w = want(1);
    w.rank = some(1); /* of world 1 */
    expect(w, DLP_ERROR_BAD_REQUEST, "rank 1", "world 1");
    w = want(1);
    w.world = some(2);
    expect(w, DLP_ERROR_BAD_REQUEST, "world 2", "without a rank");
}
END_TEST

START_TEST(batch_must_come_from_somewhere)
{
    struct job_want w = want(1);
    w.feed_batch = 0;
    expect(w, DLP_ERROR_BAD_REQUEST, "feed f", "batch");
    w.batch = some(3);
    ck_assert_int_eq(claim(w), 0);
    ck_assert_uint_eq(job->batch, 3);
}
END_TEST

START_TEST(user_feed_name_and_probe_are_the_key)
{
    ck_assert_int_eq(claim(want(1)), 0);
    struct job_want w = want(2);
    w.uid = 1001;
    ck_assert_int_eq(claim(w), 0);
    w = want(3);
    w.feed = "g";
    ck_assert_int_eq(claim(w), 0);
    w = want(4);
    w.name = "k";
    ck_assert_int_eq(claim(w), 0);
    w = want(5);
    w.probe = true;
    ck_assert_int_eq(claim(w), 0);
    ck_assert_int_eq(claim(want(6)), DLP_ERROR_RANK_TAKEN);
}
END_TEST

/* A job of pid 1 that has served rank 0 of 1 from epoch 2, and is left at T0. */
static void left_job(void)
{
    struct job_want w = want(1);
    w.epoch = some(2);
    ck_assert_int_eq(claim(w), 0);
    ck_assert(!jobs_stood(job, 0, &stood));
    jobs_served(jobs, job, 0, (struct job_place){0}, false);
    jobs_stands(jobs, job, 0, (struct job_place){2, 7});
    strcpy(job->plan_id, "0123456789abcdef");
    jobs_release(jobs, job, 0, T0);
}

static int resume_at(uint64_t epoch, uint64_t position, const char *plan, uint64_t now)
{
    struct job_start start = {epoch, position};
    struct job_want w = want(1);
    w.resume = &start;
    w.resume_plan = plan;
    return claim_at(&w, now);
}

START_TEST(left_job_is_kept_for_reconnects)
{
    left_job();
    ck_assert_int_eq(resume_at(2, 0, "0123456789abcdef", T0 + LINGER - 1), 0);
    ck_assert(jobs_stood(job, 0, &stood)); /* the same job: it knows where rank 0 stood */
    ck_assert_uint_eq(stood.step, 7);
    ck_assert_uint_eq(job->start.epoch, 2);
}
END_TEST

START_TEST(left_job_is_made_anew_by_any_other_attach)
{
    left_job();
    struct job_want w = want(2);
    w.seed = some(9);
    ck_assert_int_eq(claim(w), 0);
    ck_assert_uint_eq(job->seed, 9);
    ck_assert_uint_eq(job->start.epoch, 0);
    ck_assert(!jobs_stood(job, 0, &stood));
}
END_TEST

START_TEST(left_job_ends_after_its_time)
{
    left_job();
    jobs_expire(jobs, T0 + LINGER - 1);
    ck_assert_ptr_nonnull(jobs_first(jobs));
    jobs_expire(jobs, T0 + LINGER);
    ck_assert_ptr_null(jobs_first(jobs));
}
END_TEST

START_TEST(reconnect_must_be_of_the_same_run)
{
    left_job();
    ck_assert_int_eq(resume_at(3, 0, "", T0), DLP_ERROR_RESUME);
    ck_assert_msg(strstr(refusal.text, "epoch 3") && strstr(refusal.text, "epoch 2"), "%s",
                  refusal.text);
    ck_assert_int_eq(resume_at(2, 64, "", T0), DLP_ERROR_RESUME);
    ck_assert_int_eq(resume_at(2, 0, "fedcba9876543210", T0), DLP_ERROR_RESUME);
    ck_assert_msg(strstr(refusal.text, "fedcba") && strstr(refusal.text, "012345"), "%s",
                  refusal.text);
    ck_assert_int_eq(resume_at(2, 0, "0123456789abcdef", T0), 0);
}
END_TEST

START_TEST(reconnect_makes_a_job_that_is_gone)
{
    ck_assert_int_eq(resume_at(7, 640, "0123456789abcdef", T0), 0);
    ck_assert_uint_eq(job->start.epoch, 7);
    ck_assert_uint_eq(job->start.position, 640);
}
END_TEST

START_TEST(unserved_and_probing_jobs_do_not_linger)
{
    ck_assert_int_eq(claim(want(1)), 0);
    jobs_release(jobs, job, 0, T0);
    ck_assert_ptr_null(jobs_first(jobs));
    struct job_want w = want(1);
    w.probe = true;
    ck_assert_int_eq(claim(w), 0);
    jobs_served(jobs, job, 0, (struct job_place){0}, false);
    jobs_release(jobs, job, 0, T0);
    ck_assert_ptr_null(jobs_first(jobs));
}
END_TEST

START_TEST(lingering_jobs_are_bounded)
{
    for (unsigned i = 0; i < 3000; i++) {
        char name[16];
        snprintf(name, sizeof name, "run-%u", i);
        struct job_want w = want(1);
        w.name = name;
        ck_assert_int_eq(claim_at(&w, T0 + i), 0);
        jobs_served(jobs, job, 0, (struct job_place){0}, false);
        jobs_release(jobs, job, 0, T0 + i);
    }
    unsigned count = 0;
    for (const struct job *j = jobs_first(jobs); j; j = j->next, count++)
        ck_assert_int_ge(atoi(j->name + 4), 3000 - 1024);
    ck_assert_uint_eq(count, 1024);
}
END_TEST

START_TEST(served_ranks_are_told_apart)
{
    ck_assert_int_eq(claim(ranked(1, 65535, 65536)), 0);
    ck_assert_int_eq(claim(ranked(1, 0, 65536)), 0);
    jobs_served(jobs, job, 65535, (struct job_place){0}, false);
    jobs_stands(jobs, job, 65535, (struct job_place){3, 4});
    ck_assert(!jobs_stood(job, 65534, &stood));
    ck_assert(!jobs_stood(job, 0, &stood));
    ck_assert(jobs_stood(job, 65535, &stood));
    ck_assert_uint_eq(stood.epoch, 3);
    ck_assert_uint_eq(stood.step, 4);
    jobs_release(jobs, job, 65535, T0 + 5); /* and remembered when it is vacant */
    jobs_release(jobs, job, 0, T0 + 5);     /* never served: forgotten */
    ck_assert_uint_eq(job->nranks, 1);
    ck_assert(jobs_stood(job, 65535, &stood));
}
END_TEST

static struct token token_at(uint64_t epoch, uint64_t next)
{
    return (struct token){.seed = 9, .epoch = epoch, .next = next};
}

START_TEST(a_token_goes_before_seed_and_epoch)
{
    struct token token = token_at(3, 480);
    struct job_want w = ranked(1, 0, 2);
    w.seed = some(1);
    w.epoch = some(8);
    w.token = &token;
    ck_assert_int_eq(claim(w), 0);
    ck_assert_uint_eq(job->seed, 9);
    ck_assert_uint_eq(job->start.epoch, 3);
    ck_assert_uint_eq(job->start.position, 480);
    struct token other = token;
    other.seed = 10;
    struct job_want second = ranked(2, 1, 2);
    second.token = &other;
    expect(second, DLP_ERROR_MISMATCH, "seed 10", "is 9");
    second.token = &token;
    ck_assert_int_eq(claim(second), 0);
}
END_TEST

/* Two ranks from epoch 2, record 100, left at these places. */
static void two_left(struct job_place first, struct job_place second)
{
    struct token token = token_at(2, 100);
    const struct job_place places[] = {first, second};
    for (uint32_t r = 0; r < 2; r++) {
        struct job_want w = ranked(1, r, 2);
        w.batch = some(10);
        w.token = &token;
        ck_assert_int_eq(claim(w), 0);
        jobs_served(jobs, job, r, (struct job_place){0}, false);
        jobs_stands(jobs, job, r, places[r]);
    }
    jobs_release(jobs, job, 0, T0);
    jobs_release(jobs, job, 1, T0);
}

static int claim_last(uint32_t number, uint64_t now)
{
    struct job_want w = ranked(2, number, 2);
    w.last = true;
    w.epoch = some(77); /* goes for a new job only */
    return claim_at(&w, now);
}

START_TEST(last_goes_on_after_the_smallest_release)
{
    static const struct {
        struct job_place places[2];
        struct job_start start;
    } cases[] = {
        {{{2, 7}, {2, 5}}, {2, 100 + 5 * 20}},
        {{{2, 3}, {3, 0}}, {2, 100 + 3 * 20}},
        {{{4, 1}, {3, 9}}, {3, 9 * 20}},
        {{{2, 0}, {3, 9}}, {2, 100}},
    };
    two_left(cases[_i].places[0], cases[_i].places[1]);
    ck_assert_int_eq(claim_last(1, T0 + 5), 0);
    ck_assert(job->follows);
    ck_assert_uint_eq(job->start.epoch, cases[_i].start.epoch);
    ck_assert_uint_eq(job->start.position, cases[_i].start.position);
    ck_assert_uint_eq(job->batch, 10);
    ck_assert(!jobs_stood(job, 1, &stood)); /* since the new start */
    ck_assert_int_eq(claim_last(0, T0 + 6), 0);
    ck_assert_uint_eq(job->start.position, cases[_i].start.position);
}
END_TEST

START_TEST(a_rank_without_rows_holds_nobody_back)
{
    static const bool rowless[2][2] = {{false, true}, {true, false}};
    two_left((struct job_place){2, 7}, (struct job_place){2, 7});
    job->ranks[0].rowless = rowless[_i][0];
    job->ranks[1].rowless = rowless[_i][1];
    job->ranks[_i].place = (struct job_place){2, 9};
    ck_assert_int_eq(claim_last(0, T0), 0);
    ck_assert_uint_eq(job->start.position, 100 + 9 * 20);
}
END_TEST

START_TEST(a_rank_never_served_has_released_nothing)
{
    struct job_want w = ranked(1, 1, 2);
    ck_assert_int_eq(claim(w), 0);
    jobs_served(jobs, job, 1, (struct job_place){0}, false);
    jobs_stands(jobs, job, 1, (struct job_place){0, 5});
    jobs_release(jobs, job, 1, T0);
    ck_assert_int_eq(claim_last(1, T0), 0);
    ck_assert_uint_eq(job->start.epoch, 0);
    ck_assert_uint_eq(job->start.position, 0);
}
END_TEST

START_TEST(last_of_a_running_job_is_the_ranks_own)
{
    two_left((struct job_place){2, 7}, (struct job_place){2, 5});
    struct token token = token_at(2, 100);
    struct job_want w = ranked(1, 0, 2); /* begins anew: the places are forgotten */
    w.token = &token;
    w.batch = some(10);
    ck_assert_int_eq(claim(w), 0);
    ck_assert(!jobs_stood(job, 1, &stood));
    ck_assert_int_eq(claim_last(1, T0), 0);
    jobs_served(jobs, job, 1, (struct job_place){0}, false);
    jobs_stands(jobs, job, 1, (struct job_place){2, 4});
    jobs_release(jobs, job, 1, T0);
    ck_assert_int_eq(claim_last(1, T0 + 2 * LINGER), 0);
    ck_assert_uint_eq(job->start.position, 100);
    ck_assert(jobs_stood(job, 1, &stood));
    ck_assert_uint_eq(stood.step, 4);
}
END_TEST

START_TEST(last_after_the_job_is_forgotten)
{
    two_left((struct job_place){2, 7}, (struct job_place){2, 5});
    ck_assert_int_eq(claim_last(0, T0 + LINGER), 0);
    ck_assert(!job->follows);
    ck_assert_uint_eq(job->start.epoch, 77);
}
END_TEST

START_TEST(a_refused_last_changes_nothing)
{
    two_left((struct job_place){2, 7}, (struct job_place){2, 5});
    struct job_want w = ranked(2, 0, 3);
    w.last = true;
    ck_assert_int_eq(claim(w), DLP_ERROR_MISMATCH);
    ck_assert_int_eq(claim_last(0, T0 + 5), 0);
    ck_assert_uint_eq(job->start.position, 100 + 5 * 20);
}
END_TEST

static bool is_named(void *name, const struct job *it)
{
    return strcmp(it->name, name) == 0;
}

START_TEST(an_ended_job_goes_with_its_last_claim)
{
    ck_assert_int_eq(claim(ranked(1, 0, 2)), 0);
    struct job *old = job;
    jobs_served(jobs, old, 0, (struct job_place){0}, false);
    ck_assert_uint_eq(jobs_end(jobs, is_named, "another"), 0);
    ck_assert_uint_eq(jobs_end(jobs, is_named, "j"), 1);
    ck_assert_uint_eq(jobs_end(jobs, is_named, "j"), 0);
    ck_assert_int_eq(claim(ranked(2, 0, 3)), 0); /* of the same name */
    ck_assert_ptr_ne(job, old);
    jobs_release(jobs, old, 0, T0 + 1);
    ck_assert_ptr_eq(jobs_first(jobs), job);
    ck_assert_ptr_null(job->next);
}
END_TEST

START_TEST(an_ended_job_without_clients_goes_at_once)
{
    two_left((struct job_place){2, 7}, (struct job_place){2, 5});
    ck_assert_uint_eq(jobs_end(jobs, is_named, "j"), 1);
    ck_assert_ptr_null(jobs_first(jobs));
}
END_TEST

START_TEST(a_job_keeps_its_spec)
{
    static struct feed_spec old = {.name = "f"}, changed = {.name = "f"};
    struct job_want w = ranked(1, 0, 2);
    w.spec = &old;
    ck_assert_ptr_null(jobs_spec(jobs, &w));
    ck_assert_int_eq(claim(w), 0);
    w.spec = &changed;
    ck_assert_ptr_eq(jobs_spec(jobs, &w), &old);
    jobs_served(jobs, job, 0, (struct job_place){0}, false);
    jobs_release(jobs, job, 0, T0);
    ck_assert_ptr_null(jobs_spec(jobs, &w)); /* it would begin anew */
    w.last = true;
    ck_assert_ptr_eq(jobs_spec(jobs, &w), &old);
}
END_TEST

START_TEST(the_time_to_linger_may_change)
{
    two_left((struct job_place){2, 7}, (struct job_place){2, 5});
    jobs_set_linger(jobs, CLOCK_SECOND);
    jobs_expire(jobs, T0 + 5 * CLOCK_SECOND);
    ck_assert_ptr_null(jobs_first(jobs));
}
END_TEST

static int claim_while_draining(const char *name, bool last, const struct job_start *resume)
{
    struct job_want w = ranked(9, 1, 2);
    w.name = name;
    w.last = last;
    w.resume = resume;
    w.running_only = true;
    return claim(w);
}

START_TEST(while_draining_only_running_jobs_are_joined)
{
    struct job_start start = {0, 0};
    ck_assert_int_eq(claim(ranked(1, 0, 2)), 0);
    struct job *old = job;
    jobs_served(jobs, old, 0, (struct job_place){0}, false);
    ck_assert_int_eq(claim_while_draining("j", false, NULL), 0);
    jobs_release(jobs, old, 1, T0);
    ck_assert_int_eq(claim_while_draining("k", false, NULL), DLP_ERROR_DRAINING);
    ck_assert_int_eq(claim_while_draining("k", true, NULL), DLP_ERROR_DRAINING);
    ck_assert_int_eq(claim_while_draining("k", false, &start), 0);
    jobs_release(jobs, old, 0, T0);
    ck_assert_int_eq(claim_while_draining("j", false, NULL), DLP_ERROR_DRAINING);
    ck_assert_int_eq(claim_while_draining("j", true, NULL), 0);
    ck_assert_ptr_eq(job, old);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jobs");
    TCase *test = tcase_create("jobs");
    tcase_add_checked_fixture(test, setup, teardown);
    tcase_add_test(test, defaults_come_from_the_feed);
    tcase_add_test(test, first_attach_fixes_all_values);
    tcase_add_test(test, taken_rank_names_the_holder);
    tcase_add_test(test, a_group_is_for_all_users);
    tcase_add_test(test, a_group_of_one_rank_needs_no_numbers);
    tcase_add_test(test, default_job_is_told_to_have_a_name);
    tcase_add_test(test, rank_must_fit_the_world);
    tcase_add_test(test, batch_must_come_from_somewhere);
    tcase_add_test(test, user_feed_name_and_probe_are_the_key);
    tcase_add_test(test, left_job_is_kept_for_reconnects);
    tcase_add_test(test, left_job_is_made_anew_by_any_other_attach);
    tcase_add_test(test, left_job_ends_after_its_time);
    tcase_add_test(test, reconnect_must_be_of_the_same_run);
    tcase_add_test(test, reconnect_makes_a_job_that_is_gone);
    tcase_add_test(test, unserved_and_probing_jobs_do_not_linger);
    tcase_add_test(test, lingering_jobs_are_bounded);
    tcase_add_test(test, served_ranks_are_told_apart);
    tcase_add_test(test, a_token_goes_before_seed_and_epoch);
    tcase_add_loop_test(test, last_goes_on_after_the_smallest_release, 0, 4);
    tcase_add_loop_test(test, a_rank_without_rows_holds_nobody_back, 0, 2);
    tcase_add_test(test, a_rank_never_served_has_released_nothing);
    tcase_add_test(test, last_of_a_running_job_is_the_ranks_own);
    tcase_add_test(test, last_after_the_job_is_forgotten);
    tcase_add_test(test, a_refused_last_changes_nothing);
    tcase_add_test(test, an_ended_job_goes_with_its_last_claim);
    tcase_add_test(test, an_ended_job_without_clients_goes_at_once);
    tcase_add_test(test, while_draining_only_running_jobs_are_joined);
    tcase_add_test(test, a_job_keeps_its_spec);
    tcase_add_test(test, the_time_to_linger_may_change);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
