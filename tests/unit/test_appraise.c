/* What a census says to the verdict, from hand-made figures. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "control/appraise.h"
#include "control/group.h"
#include "control/session.h"

#define CLIENTS 2

static struct session sessions[CLIENTS];
static struct group group;
static struct view views[CLIENTS];
static struct census census;
static struct verdict_input input;
static Dlp__StageStatus copy_stage, *copy_only[] = {&copy_stage};
static struct feed_spec spec = {.name = (char *)"train"};
static struct feed_spec *const feeds[] = {&spec, &spec};
static const struct control control = {.options = {.feeds = feeds, .nfeeds = 2}};

/* Two trainers with streams of their own, each with half of two workers of 420/s. */
static void setup(void)
{
    memset(sessions, 0, sizeof sessions);
    memset(&group, 0, sizeof group);
    memset(views, 0, sizeof views);
    spec.folder = false;
    for (int i = 0; i < CLIENTS; i++) {
        sessions[i].state = SESSION_STREAMING;
        strcpy(sessions[i].job_name, "slurm-7");
        views[i].session = &sessions[i];
        views[i].counts = true;
        views[i].stats.slots = 4;
        views[i].stats.batch = 64;
        views[i].rates.decode_busy = 1;
        views[i].rates.finish_busy = 0.1;
        views[i].rates.finish_rate = 4200;
        Dlp__ClientStatus *client = &views[i].status;
        dlp__client_status__init(client);
        client->pid = i + 1;
        client->samples_per_s = 420;
        client->wait_share = 0.3;
        client->read_limit = 5000;
        client->decode_limit = 420;
        client->decode_per_worker = 420;
        client->read_bytes_per_s = 50e6;
        client->last_cause = (char *)"decode";
        client->window_s = 5;
        client->stages = copy_only;
        client->n_stages = 1;
    }
    dlp__stage_status__init(&copy_stage);
    copy_stage.name = (char *)"copy";
    copy_stage.limit = 8400;
    census = (struct census){.control = &control,
                             .views = views,
                             .count = CLIENTS,
                             .workers = 2,
                             .cpus = 4,
                             .busy = 2.2,
                             .busy_first = 2.2};
}

static void setup_group(void)
{
    setup();
    group.nmembers = CLIENTS;
    for (int i = 0; i < CLIENTS; i++) {
        sessions[i].group = &group;
        views[i].status.slots_held_share = 0.9;
    }
    views[0].status.wait_share = 0.9;
    views[1].status.wait_share = 0;
}

START_TEST(a_client_has_its_own_figures)
{
    appraise_client(&census, &views[0], &input);
    ck_assert_double_eq(input.samples_per_s, 420);
    ck_assert_double_eq(input.decode_limit, 420);
    ck_assert_double_eq(input.copy_limit, 8400);
    ck_assert_uint_eq(input.workers, 2);
    ck_assert_uint_eq(input.cpus, 4);
    ck_assert_double_eq_tol(input.demand, 600, 1e-9);
    ck_assert(input.packed);
    ck_assert_int_eq(input.slow_pid, 0);
}
END_TEST

START_TEST(what_a_trainer_could_take_is_told_where_known)
{
    views[0].status.compute_limit = 1200;
    spec.folder = true;
    appraise_client(&census, &views[0], &input);
    ck_assert_double_eq(input.demand, 1200);
    ck_assert(!input.packed);
    ck_assert(appraise_feed(&census, 0, &input));
    ck_assert_double_eq_tol(input.demand, 1800, 1e-9);
}
END_TEST

START_TEST(a_feed_has_the_sum_of_its_clients)
{
    views[1].status.wait_share = 0.5;
    views[1].status.window_s = 3;
    views[1].status.last_cause = (char *)"storage";
    views[1].rates.decode_busy = 0.5;
    views[1].status.decode_per_worker = 210;
    ck_assert(appraise_feed(&census, 0, &input));
    ck_assert_double_eq(input.samples_per_s, 840);
    ck_assert_double_eq(input.read_limit, 10000);
    ck_assert_double_eq(input.read_bytes_per_s, 100e6);
    ck_assert_double_eq(input.decode_per_worker, 350);     /* by the time spent */
    ck_assert_double_eq_tol(input.copy_limit, 8400, 1e-6); /* by the two workers */
    ck_assert_double_eq_tol(input.wait_share, 0.4, 1e-9);
    ck_assert_double_eq_tol(input.demand, 600 + 840, 1e-9);
    ck_assert_double_eq(input.window_s, 3);
    ck_assert_str_eq(input.cause, "storage");
    ck_assert(!appraise_feed(&census, 1, &input));
}
END_TEST

START_TEST(the_bound_of_a_user_is_that_of_a_feed_which_is_his_alone)
{
    struct group groups[CLIENTS] = {{.params.terms = {.uid = 1001, .threads = 1}},
                                    {.params.terms = {.uid = 1001, .threads = 1}}};
    for (int i = 0; i < CLIENTS; i++)
        sessions[i].group = &groups[i];
    ck_assert(appraise_feed(&census, 0, &input));
    ck_assert_uint_eq(input.user_threads, 1);
    groups[0].params.terms.uid = 1002;
    ck_assert(appraise_feed(&census, 0, &input));
    ck_assert_uint_eq(input.user_threads, 0);
}
END_TEST

START_TEST(idle_workers_are_counted_once)
{
    /* Each: its half used, half of the workers idle. */
    views[0].status.decode_limit = views[1].status.decode_limit = 630;
    ck_assert(appraise_feed(&census, 0, &input));
    ck_assert_double_eq(input.decode_limit, 840);
}
END_TEST

START_TEST(workers_of_other_feeds_are_not_counted)
{
    /* Of four workers 1.1 work for each, and 1.8 are idle. */
    sessions[1].feed_number = 1;
    census.workers = 4;
    views[0].status.decode_limit = views[1].status.decode_limit = 420 * 3;
    ck_assert(appraise_feed(&census, 0, &input));
    ck_assert_double_eq_tol(input.decode_limit, 420 * 2.9, 1e-9);
    sessions[1].feed_number = 0;
    views[1].rates.decode_busy = 0.5;
    views[1].rates.finish_busy = views[0].rates.finish_busy = 0;
    census.busy = census.busy_first = 3.5;
    views[0].share = views[1].share = 0.25;
    ck_assert(appraise_feed(&census, 0, &input));
    ck_assert_double_eq_tol(input.decode_limit, 420 * 2, 1e-9); /* their 1.5 and the idle 0.5 */
}
END_TEST

START_TEST(others_that_wait_take_of_what_is_added)
{
    /* Each has one of two workers, and could take 600/s: 1.43. */
    appraise_client(&census, &views[0], &input);
    ck_assert_double_eq_tol(input.others_grow, 600.0 / 420 - 1, 1e-9);
    ck_assert_uint_eq(verdict_workers(&input, 600), 3);
    views[1].status.compute_limit = 6000; /* no more than this one, until it has enough */
    appraise_client(&census, &views[0], &input);
    ck_assert_double_eq_tol(input.others_grow, 600.0 / 420 - 1, 1e-9);
    views[1].status.read_limit = 500;
    appraise_client(&census, &views[0], &input);
    ck_assert_double_eq_tol(input.others_grow, 500.0 / 420 - 1, 1e-9);
    views[1].status.compute_limit = 420;
    appraise_client(&census, &views[0], &input);
    ck_assert_double_eq(input.others_grow, 0);
    ck_assert(appraise_feed(&census, 0, &input)); /* there are no others */
    ck_assert_double_eq(input.others_grow, 0);
}
END_TEST

START_TEST(probes_do_not_hide_the_trainers)
{
    sessions[0].probe = true;
    views[1].status.wait_share = 0;
    ck_assert(appraise_feed(&census, 0, &input));
    ck_assert_double_eq(input.wait_share, 0);
    census.count = 1;
    ck_assert(appraise_feed(&census, 0, &input));
    ck_assert_double_eq(input.wait_share, 1);
}
END_TEST

START_TEST(a_probe_is_judged_with_its_job)
{
    sessions[0].probe = sessions[1].probe = true;
    views[0].status.slots_held_share = 0.9;
    appraise_client(&census, &views[0], &input);
    ck_assert_double_eq(input.samples_per_s, 840);
    ck_assert_double_eq(input.wait_share, 1);
    ck_assert_double_eq(input.demand, 0);
    ck_assert_double_eq(input.slots_held_share, 0);
    strcpy(sessions[1].job_name, "another");
    appraise_client(&census, &views[0], &input);
    ck_assert_double_eq(input.samples_per_s, 420);
}
END_TEST

/* A group counts once, by the member that sets its pace; whoever waits for it is told so. */
START_TEST(a_group_has_one_pace)
{
    char said[VERDICT_TEXT_MAX];
    ck_assert(appraise_feed(&census, 0, &input));
    ck_assert_double_eq(input.samples_per_s, 420);
    ck_assert_double_eq(input.wait_share, 0);
    ck_assert_int_eq(verdict(&input, said, sizeof said), VERDICT_TRAINER);
    ck_assert_ptr_nonnull(strstr(said, "the trainer with pid 2 limits its group: it takes 420/s"));
    appraise_client(&census, &views[0], &input);
    ck_assert_int_eq(input.slow_pid, 2);
    appraise_client(&census, &views[1], &input);
    ck_assert_int_eq(input.slow_pid, 0);
}
END_TEST

/* What the others could take is no measure of what the group needs. */
START_TEST(who_waits_for_a_member_waits_for_no_stage)
{
    char said[VERDICT_TEXT_MAX];
    views[0].status.slots_held_share = 0;
    ck_assert_double_gt(420 / (1 - views[0].status.wait_share), 4000);
    views[1].status.compute_limit = 400;
    appraise_client(&census, &views[0], &input);
    ck_assert_double_eq(input.demand, 400);
    ck_assert_int_eq(verdict(&input, said, sizeof said), VERDICT_TRAINER);
    ck_assert_ptr_nonnull(strstr(said, "the trainer with pid 2 limits its group"));
}
END_TEST

START_TEST(who_is_waited_for_sets_the_pace)
{
    views[0].status.wait_share = 0; /* over the window it does not show yet */
    views[0].status.waits_for = 2;
    appraise_client(&census, &views[0], &input);
    ck_assert_int_eq(input.slow_pid, 2);
    views[1].status.wait_share = 1;
    sessions[1].lagging = true; /* all that it holds is waited for */
    ck_assert(appraise_feed(&census, 0, &input));
    ck_assert_int_eq(input.slow_pid, 2);
}
END_TEST

START_TEST(other_streams_set_no_pace)
{
    struct group other = group;
    sessions[1].group = &other;
    appraise_client(&census, &views[0], &input);
    ck_assert_int_eq(input.slow_pid, 0);
    ck_assert(appraise_feed(&census, 0, &input));
    ck_assert_double_eq(input.samples_per_s, 840);
}
END_TEST

START_TEST(who_leaves_sets_no_pace)
{
    sessions[1].state = SESSION_CLOSING;
    appraise_client(&census, &views[0], &input);
    ck_assert_int_eq(input.slow_pid, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("appraise");
    TCase *alone = tcase_create("alone"), *member = tcase_create("group");
    tcase_add_checked_fixture(alone, setup, NULL);
    tcase_add_test(alone, a_client_has_its_own_figures);
    tcase_add_test(alone, what_a_trainer_could_take_is_told_where_known);
    tcase_add_test(alone, a_feed_has_the_sum_of_its_clients);
    tcase_add_test(alone, the_bound_of_a_user_is_that_of_a_feed_which_is_his_alone);
    tcase_add_test(alone, idle_workers_are_counted_once);
    tcase_add_test(alone, workers_of_other_feeds_are_not_counted);
    tcase_add_test(alone, others_that_wait_take_of_what_is_added);
    tcase_add_test(alone, probes_do_not_hide_the_trainers);
    tcase_add_test(alone, a_probe_is_judged_with_its_job);
    suite_add_tcase(suite, alone);
    tcase_add_checked_fixture(member, setup_group, NULL);
    tcase_add_test(member, a_group_has_one_pace);
    tcase_add_test(member, who_waits_for_a_member_waits_for_no_stage);
    tcase_add_test(member, who_is_waited_for_sets_the_pace);
    tcase_add_test(member, other_streams_set_no_pace);
    tcase_add_test(member, who_leaves_sets_no_pace);
    suite_add_tcase(suite, member);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
