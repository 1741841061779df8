/* control/stream_shares.c: parts by weight, from hand-made terms. */
#include "control/stream_shares.h"

#include <check.h>

#include "control/group.h"
#include "control/session.h"

#define CLIENTS 6

static struct group groups[CLIENTS];
static struct session sessions[CLIENTS];
static struct view views[CLIENTS];
static char feeds[CLIENTS]; /* their addresses */

static void set(int client, uid_t uid, uint32_t user_weight, uint64_t job, uint32_t job_weight)
{
    groups[client].params.terms = (struct share_terms){
        .uid = uid, .user_weight = user_weight, .job = job, .job_weight = job_weight};
    sessions[client].group = &groups[client];
    views[client].session = &sessions[client];
    views[client].feed = (const struct feed *)(const void *)&feeds[client];
}

static void check_share(int client, double expected)
{
    ck_assert_double_eq_tol(views[client].share, expected, 1e-9);
}

START_TEST(users_jobs_and_streams)
{
    struct census census = {.views = views, .count = CLIENTS};
    set(0, 1, 3, 10, 1);
    set(1, 2, 1, 20, 2); /* three ranks, two of which are members of one group */
    set(2, 1, 3, 11, 2);
    set(3, 2, 1, 20, 2);
    sessions[4].group = sessions[3].group;
    views[4] = (struct view){.session = &sessions[4], .feed = views[3].feed};
    views[5] = (struct view){.session = &sessions[5], .share = 0}; /* is attaching */
    stream_shares(&census);
    check_share(0, 0.75 / 3);
    check_share(2, 0.75 * 2 / 3);
    check_share(1, 0.25 / 2);
    check_share(3, 0.25 / 2);
    check_share(4, 0.25 / 2);
    check_share(5, 0);
}
END_TEST

START_TEST(nobody_and_zeros)
{
    struct census census = {.views = views, .count = 0};
    stream_shares(&census);
    census.count = 2;
    set(0, 1, 0, 1, 0);
    set(1, 2, 0, 2, 0);
    stream_shares(&census);
    check_share(0, 0.5);
    check_share(1, 0.5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream_shares");
    TCase *tests = tcase_create("stream_shares");
    tcase_add_test(tests, users_jobs_and_streams);
    tcase_add_test(tests, nobody_and_zeros);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
