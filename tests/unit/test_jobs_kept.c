/* control/jobs.c with a ledger: what the next daemon knows of jobs, wherever the one before ended.
 */
#include <check.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/jobs.h"
#include "control/ledger.h"
#include "feed/spec.h"

#define LINGER (60 * CLOCK_SECOND)
#define T0 (1000 * CLOCK_SECOND)

static struct feed_spec spec = {.name = "f"}, own = {.name = "~f"}, gone = {.name = "gone"};
static struct jobs *jobs;
static struct ledger *ledger;
static int kept;
static struct job *job;
static uint32_t rank, restored, lost;
static struct refusal refusal;

static const struct feed_spec *spec_of(void *context, const char *feed)
{
    (void)context;
    return strcmp(feed, "f") == 0 ? &spec : NULL;
}

static void begin(uint64_t now)
{
    struct error err;
    ledger = kept < 0 ? ledger_new(&err) : ledger_adopt(dup(kept), &err);
    ck_assert_msg(ledger != NULL, "%s", err.text);
    if (kept < 0)
        kept = dup(ledger_fd(ledger));
    jobs = jobs_new(LINGER);
    lost = 0;
    restored = jobs_restore(jobs, ledger, spec_of, NULL, now, &lost);
}

static void end(void)
{
    jobs_free(jobs);
    ledger_free(ledger);
}

/* kill -9: what becomes of the jobs is told to nobody. */
static void start_again(uint64_t now)
{
    jobs_let_be(jobs);
    end();
    begin(now);
}

static void setup(void)
{
    kept = -1;
    begin(T0);
}

static void teardown(void)
{
    end();
    close(kept);
}

static struct job_want want(uint32_t number, uint32_t world)
{
    return (struct job_want){.uid = 1000,
                             .pid = 1,
                             .spec = &spec,
                             .feed = "f",
                             .name = "j",
                             .rank = {true, number},
                             .world = {true, world},
                             .feed_batch = 10};
}

static void claim(struct job_want w, uint64_t now)
{
    ck_assert_msg(!jobs_claim(jobs, &w, now, &job, &rank, &refusal), "%s", refusal.text);
}

static void serve_at(struct job_place place)
{
    strcpy(job->plan_id, "0123456789abcdef");
    jobs_served(jobs, job, rank, place, false);
}

static void serve(struct job_want w, struct job_place place)
{
    claim(w, T0);
    serve_at(place);
}

static void claim_last(uint32_t number, uint64_t now)
{
    struct job_want w = want(number, 2);
    w.last = true;
    claim(w, now);
}

static struct job_place stood(uint32_t number)
{
    struct job_place place = {99, 99};
    ck_assert(jobs_stood(job, number, &place));
    return place;
}

START_TEST(all_of_a_job_is_taken_back)
{
    struct token token = {.seed = 9, .epoch = 2, .next = 100};
    for (uint32_t r = 0; r < 3; r++) {
        struct job_want w = want(r, 4);
        w.token = &token;
        serve(w, (struct job_place){2, 0});
        jobs_stands(jobs, job, r, (struct job_place){2, 5 + r});
    }
    jobs_left(job, 1);
    jobs_release(jobs, job, 1, T0 + 5);
    start_again(T0 + 7);
    ck_assert_uint_eq(restored, 1);
    const struct job *it = jobs_first(jobs);
    ck_assert(it->uid == 1000 && it->spec == &spec && it->feed == spec.name);
    ck_assert_str_eq(it->name, "j");
    ck_assert_str_eq(it->plan_id, "0123456789abcdef");
    ck_assert(it->world == 4 && it->batch == 10 && it->seed == 9 && it->begun && !it->rebuilt);
    ck_assert(it->start.epoch == 2 && it->start.position == 100);
    ck_assert(it->nranks == 3 && it->nclaims == 0 && it->empty_since == T0 + 7);
    for (uint32_t i = 0; i < 3; i++) {
        const struct job_rank *at = &it->ranks[i];
        ck_assert(!at->claimed && at->served && at->place.epoch == 2);
        ck_assert_uint_eq(at->place.step, 5 + at->rank);
        ck_assert(at->awaited == (at->rank != 1) && at->left == (at->rank == 1));
        ck_assert_uint_eq(at->since, T0 + (at->rank == 1 ? 5 : 7));
    }
}
END_TEST

START_TEST(it_lingers_as_before)
{
    serve(want(0, 1), (struct job_place){0, 0});
    jobs_release(jobs, job, 0, T0);
    start_again(T0 + LINGER - 1);
    ck_assert_uint_eq(jobs_first(jobs)->empty_since, T0);
    start_again(T0 - 1); /* of another clock */
    ck_assert_uint_eq(jobs_first(jobs)->empty_since, T0 - 1);
    jobs_expire(jobs, T0 + LINGER);
    ck_assert_ptr_null(jobs_first(jobs));
    start_again(T0 + LINGER);
    ck_assert_uint_eq(restored, 0);
}
END_TEST

START_TEST(some_jobs_are_not_kept)
{
    struct job_want wants[5] = {want(0, 1), want(0, 1), want(0, 1), want(0, 1), want(0, 1)};
    const char *names[5] = {"probe", "own", "gone", "unserved", "kept"};
    wants[0].probe = true;
    wants[1].spec = &own;
    wants[1].feed = own.name;
    wants[2].spec = &gone;
    wants[2].feed = gone.name;
    for (int i = 0; i < 5; i++) {
        wants[i].name = names[i];
        claim(wants[i], T0);
        if (i != 3)
            serve_at((struct job_place){0, 0});
    }
    start_again(T0);
    ck_assert_uint_eq(restored, 1);
    ck_assert_uint_eq(lost, 1);
    ck_assert_str_eq(jobs_first(jobs)->name, "kept");
    start_again(T0);
    ck_assert_uint_eq(lost, 0);
}
END_TEST

static bool all(void *context, const struct job *it)
{
    (void)context;
    (void)it;
    return true;
}

START_TEST(an_ended_job_is_forgotten_at_once)
{
    serve(want(0, 2), (struct job_place){0, 0});
    struct job *ended = job;
    jobs_end(jobs, all, NULL);
    serve(want(0, 2), (struct job_place){0, 8}); /* of the same name, in the same entries */
    jobs_stands(jobs, ended, 0, (struct job_place){7, 7});
    jobs_release(jobs, ended, 0, T0);
    start_again(T0);
    ck_assert_uint_eq(restored, 1);
    job = (struct job *)jobs_first(jobs);
    ck_assert_uint_eq(stood(0).step, 8);
}
END_TEST

START_TEST(nobody_lives_and_all_go_on_from_one_place)
{
    serve(want(0, 2), (struct job_place){0, 7});
    serve(want(1, 2), (struct job_place){0, 5});
    jobs_release(jobs, job, 0, T0);
    jobs_release(jobs, job, 1, T0);
    start_again(T0);
    claim_last(1, T0); /* nobody who knows the start can come back: it moves */
    ck_assert_uint_eq(job->start.position, 5 * 20);
    ck_assert(job->follows);
    start_again(T0); /* before anybody was served: as if nobody had asked */
    claim_last(0, T0);
    ck_assert_uint_eq(job->start.position, 5 * 20);
    serve_at((struct job_place){0, 1});
    start_again(T0);
    job = (struct job *)jobs_first(jobs);
    ck_assert_ptr_null(job->next);
    ck_assert(job->follows && job->nranks == 1 && job->start.position == 5 * 20);
    ck_assert_uint_eq(stood(0).step, 1);
}
END_TEST

START_TEST(who_comes_back_finds_its_start)
{
    static const struct job_start start = {0, 0};
    serve(want(0, 2), (struct job_place){0, 7});
    serve(want(1, 2), (struct job_place){0, 5});
    start_again(T0);
    claim_last(0, T0);
    ck_assert_uint_eq(job->start.position, 0);
    ck_assert(stood(0).step == 5 && stood(1).step == 5);
    struct job_want w = want(1, 2);
    w.resume = &start;
    claim(w, T0);
    serve_at((struct job_place){0, 6});
    jobs_release(jobs, job, 0, T0);
    start_again(T0); /* once more: what was lowered has stayed so */
    job = (struct job *)jobs_first(jobs);
    ck_assert(stood(0).step == 5 && stood(1).step == 6);
    claim(w, T0);
    claim_last(0, T0); /* not alone: its own place */
    ck_assert_uint_eq(stood(0).step, 5);
    jobs_release(jobs, job, 0, T0);
    jobs_release(jobs, job, 1, T0); /* nobody is awaited any more */
    claim_last(0, T0);
    ck_assert_uint_eq(job->start.position, 5 * 20);
}
END_TEST

START_TEST(a_new_one_that_has_served_nobody_ends_nothing)
{
    struct job_want anew = want(0, 1), last = want(0, 1), wrong = want(1, 1);
    last.last = true;
    serve(anew, (struct job_place){0, 7});
    jobs_release(jobs, job, 0, T0);
    ck_assert(jobs_claim(jobs, &wrong, T0, &job, &rank, &refusal));
    for (int i = 0; i < 2; i++) { /* refused later, or killed */
        claim(anew, T0);
        ck_assert(!jobs_stood(job, 0, &(struct job_place){0, 0}));
        jobs_release(jobs, job, 0, T0);
    }
    claim(anew, T0);
    start_again(T0);
    ck_assert_uint_eq(restored, 1);
    claim(last, T0);
    ck_assert_uint_eq(job->start.position, 7 * 10);
    jobs_release(jobs, job, 0, T0);
    serve(anew, (struct job_place){0, 0});
    ck_assert_ptr_null(jobs_first(jobs)->next);
    start_again(T0);
    ck_assert_uint_eq(restored, 1);
    job = (struct job *)jobs_first(jobs);
    ck_assert_uint_eq(stood(0).step, 0);
}
END_TEST

/* Kept, then a daemon that keeps nothing, then one that finds what was kept. */
START_TEST(who_comes_back_knows_better_than_what_was_kept_long_ago)
{
    static const struct job_start other = {3, 0};
    serve(want(0, 2), (struct job_place){0, 7});
    start_again(T0);
    struct job_want w = want(0, _i == 1 ? 1 : 2);
    w.resume = _i == 0 ? &other : &(struct job_start){0, 0};
    w.resume_plan = _i == 2 ? "fedcba9876543210" : "0123456789abcdef";
    claim(w, T0);
    ck_assert(!jobs_stood(job, 0, &(struct job_place){0, 0}));
    ck_assert(job->world == w.world.value && job->start.epoch == w.resume->epoch);
    serve_at((struct job_place){3, 0});
    w.resume = &(struct job_start){0, 20}; /* now it runs */
    w.rank.value = 1;
    ck_assert(jobs_claim(jobs, &w, T0, &job, &rank, &refusal));
}
END_TEST

/* A rank comes with a token before the others have come back. */
START_TEST(a_token_of_a_run_that_is_awaited_is_no_new_run)
{
    static const struct job_start start = {0, 0};
    struct token token = {.epoch = 0, .next = 6 * 20, .plan_id = "0123456789abcdef"};
    struct job_want back = want(1, 2), anew = want(0, 2);
    back.resume = &start;
    anew.token = &token;
    serve(want(0, 2), (struct job_place){0, 7});
    serve(want(1, 2), (struct job_place){0, 5});
    start_again(T0);
    claim(anew, T0);
    serve_at((struct job_place){0, 6});
    claim(back, T0);
    ck_assert(stood(0).step == 6 && stood(1).step == 5);
    start_again(T0);
    switch (_i) {
    case 0:
        token.next += 10; /* between two steps */
        break;
    case 1:
        token.plan_id[0] = '1';
        break;
    case 2:
        anew.batch = (struct job_optional){true, 20};
        break;
    case 3: /* nobody is awaited */
        claim(back, T0);
        jobs_release(jobs, job, 1, T0);
        claim_last(0, T0);
        jobs_release(jobs, job, 0, T0);
        break;
    }
    claim(anew, T0);
    ck_assert_uint_eq(job->start.position, token.next);
}
END_TEST

/* A child serves, releases, ends and goes on as fast as it can; what it had done when it is killed
 * is known afterwards. */
static void be_killed(_Atomic uint64_t *done)
{
    for (uint64_t step = 1;; step++) {
        jobs_stands(jobs, job, rank, (struct job_place){0, step % 16});
        if (step % 16 == 15) {
            jobs_release(jobs, job, rank, T0 + step);
            struct job_want w = want(0, 1);
            w.last = true;
            if (jobs_claim(jobs, &w, T0 + step, &job, &rank, &refusal))
                _exit(1);
            jobs_served(jobs, job, rank, (struct job_place){0, 0}, false);
            step++;
        }
        atomic_store(done, step);
    }
}

/* Records released of the first 15 steps of 16. */
static uint64_t position_after(uint64_t steps)
{
    return (steps / 16 * 15 + steps % 16) * 10;
}

START_TEST(killed_at_any_time_it_knows_what_was_released)
{
    _Atomic uint64_t *done =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t before = 0;
    serve(want(0, 1), (struct job_place){0, 0});
    srand(3);
    for (int turn = 0; turn < 60; turn++) {
        *done = 0;
        pid_t child = fork();
        if (child == 0)
            be_killed(done);
        while (!*done)
            usleep(100);
        usleep((useconds_t)(rand() % 2000));
        ck_assert_int_eq(kill(child, SIGKILL), 0);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        jobs_let_be(jobs); /* our copies are of before */
        end();
        begin(T0);
        ck_assert_uint_eq(restored, 1);
        job = (struct job *)jobs_first(jobs);
        ck_assert(job->nranks <= 1); /* none where it was killed between job and rank */
        uint64_t at = job->start.position + (job->nranks ? stood(0).step * 10 : 0);
        ck_assert_uint_ge(at, before + position_after(*done));
        ck_assert_uint_le(at, before + position_after(*done + 1));
        before = at;
        /* The next one begins there. */
        jobs_end(jobs, all, NULL);
        struct token token = {.next = before};
        struct job_want w = want(0, 1);
        w.token = &token;
        serve(w, (struct job_place){0, 0});
    }
    munmap(done, 4096);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jobs_kept");
    TCase *test = tcase_create("jobs_kept");
    tcase_add_checked_fixture(test, setup, teardown);
    tcase_add_test(test, all_of_a_job_is_taken_back);
    tcase_add_test(test, it_lingers_as_before);
    tcase_add_test(test, some_jobs_are_not_kept);
    tcase_add_test(test, an_ended_job_is_forgotten_at_once);
    tcase_add_test(test, nobody_lives_and_all_go_on_from_one_place);
    tcase_add_test(test, who_comes_back_finds_its_start);
    tcase_add_test(test, a_new_one_that_has_served_nobody_ends_nothing);
    tcase_add_loop_test(test, who_comes_back_knows_better_than_what_was_kept_long_ago, 0, 3);
    tcase_add_loop_test(test, a_token_of_a_run_that_is_awaited_is_no_new_run, 0, 4);
    tcase_add_test(test, killed_at_any_time_it_knows_what_was_released);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
