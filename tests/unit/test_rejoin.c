/* control/admit.c, place.c: members of a mirror group that come back. */
#include <check.h>
#include <string.h>

#include "group_rig.h"

static Dlp__Attach back_for(uint64_t step)
{
    static Dlp__Position position;
    Dlp__Attach message = rig_attach_as("small", 0, 1);
    dlp__position__init(&position);
    position.epoch = step / STEPS;
    position.step = step % STEPS;
    message.resume = &position;
    return message;
}

static void come_back(int number, uint64_t step)
{
    Dlp__Attach message = back_for(step);
    peers[number] = rig_greeted(100 + number);
    SAY(peers[number], 2, ATTACH, attach, &message);
}

static void expect_place(int number, uint64_t step)
{
    const Dlp__AttachReply *reply =
        rig_await(peers[number], DLP__ENVELOPE__BODY_ATTACH_REPLY)->attach_reply;
    ck_assert_uint_eq(reply->epoch * STEPS + reply->step, step);
}

/* As after the daemon's restart: it has never heard of the group. */
START_TEST(members_come_back_each_at_its_own_step)
{
    const uint64_t places[] = {STEPS + 1, STEPS - 1, STEPS, STEPS + 1};
    for (int i = 0; i < 4; i++)
        come_back(i, places[i]);
    for (int i = 0; i < 4; i++)
        expect_place(i, places[i]);
    ck_assert_uint_eq(group_of(peers[0])->params.first.step, STEPS - 1);
    for (uint64_t step = STEPS - 1; step < 3 * STEPS; step++)
        for (int i = 0; i < 4; i++)
            if (step >= places[i])
                read_on(peers[i], step);
    leave_all(4);
}
END_TEST

/* One that stood before all others vanishes: at once, while they gather, while the feed is opened
 * at its place. The others go on. */
START_TEST(the_least_vanishes)
{
    come_back(0, 5);
    come_back(1, 2);
    come_back(2, 6);
    while (_i == 1 && !group_of(peers[0])->opener)
        rig_turn();
    while (_i == 2 && group_of(peers[0])->params.first.step == 5)
        rig_turn();
    rig_peer_free(peers[1]);
    expect_place(0, 5);
    expect_place(2, 6);
    for (uint64_t step = 5; step < STEPS + 2; step++) {
        read_on(peers[0], step);
        if (step > 5)
            read_on(peers[2], step);
    }
    rig_peer_free(peers[0]);
    rig_peer_free(peers[2]);
    rig_wait_until_free();
}
END_TEST

START_TEST(the_opener_vanishes_while_it_gathers)
{
    come_back(0, 3);
    come_back(1, 3);
    while (!group_of(peers[0])->opener)
        rig_turn();
    int other = group_of(peers[0])->opener == peers[0]->session;
    rig_peer_free(peers[!other]);
    expect_place(other, 3);
    read_on(peers[other], 3);
    rig_peer_free(peers[other]);
    rig_wait_until_free();
}
END_TEST

START_TEST(a_new_member_comes_among_them)
{
    come_back(0, 5);
    come_back(1, 3);
    peers[2] = rig_attached(102, rig_attach("small")); /* waits as they do */
    expect_place(0, 5);
    expect_place(1, 3);
    for (uint64_t step = 3; step < STEPS + 2; step++)
        for (int i = 0; i < 3; i++)
            if (step >= (i == 0 ? 5 : 3))
                read_on(peers[i], step);
    leave_all(3);
}
END_TEST

/* As long as the batch that it wants is still here. */
START_TEST(a_member_comes_late)
{
    come_back(0, 3);
    come_back(1, 3);
    expect_place(0, 3);
    expect_place(1, 3);
    read_on(peers[0], 3);
    read_on(peers[0], 4);
    come_back(2, 3);
    expect_place(2, 3);
    for (uint64_t step = 3; step < 5; step++) {
        read_on(peers[2], step);
        read_on(peers[1], step);
    }
    refused(back_for(3), DLP_ERROR_RESUME, "comes back for epoch 0, step 3",
            "group default of feed small has gone on to epoch 0, step 5 without it");
    come_back(3, STEPS); /* ahead of all: the batches before are not for it */
    expect_place(3, STEPS);
    struct rig_peer *looker = rig_greeted(500);
    Dlp__StatusRequest request = DLP__STATUS_REQUEST__INIT;
    SAY(looker, 6, STATUS_REQUEST, status_request, &request);
    const Dlp__StatusReply *status =
        rig_await(looker, DLP__ENVELOPE__BODY_STATUS_REPLY)->status_reply;
    for (size_t i = 0; i < status->n_clients; i++)
        if (status->clients[i]->pid == 103)
            rig_expect_text(status->clients[i]->reason, "waits for its group", "epoch 0, step 5");
    rig_peer_free(looker);
    for (uint64_t step = 5; step < STEPS + 3; step++)
        for (int i = 0; i < 4; i++)
            if (i < 3 || step >= STEPS)
                read_on(peers[i], step);
    leave_all(4);
}
END_TEST

static uv_sem_t held_up;
static int still_held;

static void hold_up(uv_work_t *work)
{
    (void)work;
    uv_sem_wait(&held_up);
}

static void done(uv_work_t *work, int status)
{
    (void)work, (void)status;
    still_held--;
}

/* While its attach takes its time, what it comes back for waits for it. */
START_TEST(what_it_comes_back_for_is_kept)
{
    uv_work_t work[4]; /* all helpers */
    uv_sem_init(&held_up, 0);
    come_back(0, 3);
    expect_place(0, 3);
    for (still_held = 0; still_held < 4; still_held++)
        uv_queue_work(rig_control->options.loop, &work[still_held], hold_up, done);
    come_back(1, 3);
    for (uint64_t step = 3; step < 3 + SLOTS; step++)
        read_on(peers[0], step);
    settle();
    ck_assert(!has_news(peers[0]));
    for (int i = 0; i < 4; i++)
        uv_sem_post(&held_up);
    while (still_held)
        rig_turn();
    expect_place(1, 3);
    read_on(peers[1], 3);
    read_on(peers[0], 3 + SLOTS);
    leave_all(2);
    uv_sem_destroy(&held_up);
}
END_TEST

/* Those behind it leave: what was theirs alone is nobody's. */
START_TEST(the_others_leave_one_that_is_ahead)
{
    come_back(0, 3);
    come_back(1, 6);
    expect_place(0, 3);
    expect_place(1, 6);
    rig_peer_free(peers[0]);
    read_on(peers[1], 6);
    peers[0] = rig_attached(103, rig_attach("small"));
    ck_assert_uint_eq(peers[0]->session->place.epoch, 1);
    read_on(peers[0], STEPS);
    leave_all(2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rejoin");
    TCase *test = tcase_create("rejoin");
    tcase_add_checked_fixture(test, group_rig_setup, rig_teardown);
    tcase_add_test(test, members_come_back_each_at_its_own_step);
    tcase_add_loop_test(test, the_least_vanishes, 0, 3);
    tcase_add_test(test, the_opener_vanishes_while_it_gathers);
    tcase_add_test(test, a_new_member_comes_among_them);
    tcase_add_test(test, a_member_comes_late);
    tcase_add_test(test, what_it_comes_back_for_is_kept);
    tcase_add_test(test, the_others_leave_one_that_is_ahead);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
