/* control/lag.c: members of a mirror group that hold up the others. */
#include <check.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "group_rig.h"

#define BOUND (10 * CLOCK_SECOND)

static uint64_t now;

static void setup(void)
{
    group_rig_setup();
    rig_small.lag_bound = 10;
    now = clock_ns();
    uv_timer_stop(&rig_control->tick); /* time goes as tick() says */
}

static void serve(enum feed_lag lag)
{
    rig_small.lag = lag;
}

static void tick(uint64_t later)
{
    now += later;
    lag_tick((struct group *)group_of(peers[0]), now);
}

/* The first has taken all there is, and has to wait. */
static void run_ahead(uint64_t from)
{
    for (uint64_t step = from; step < from + SLOTS; step++)
        read_on(peers[0], step);
    settle();
    ck_assert(!has_news(peers[0]));
}

START_TEST(nobody_is_waited_for_while_slots_are_free)
{
    serve(LAG_SKIP);
    join_all(2);
    take(peers[1], 0);
    ck_assert_ptr_null(lag_holder(group_of(peers[0]))); /* the first has batches to take */
    read_on(peers[0], 0);
    read_on(peers[0], 1);
    tick(0);
    tick(2 * BOUND);
    ck_assert(!peers[1]->session->lagging);
    read_on(peers[0], 2);
    settle();
    ck_assert_int_eq(lag_holder(group_of(peers[0]))->peer.pid, 101);
    leave_all(2);
}
END_TEST

START_TEST(wait_goes_on_waiting)
{
    serve(LAG_WAIT);
    join_all(2);
    take(peers[1], 0);
    run_ahead(0);
    tick(0);
    tick(100 * BOUND);
    ck_assert(!peers[1]->session->lagging);
    ck_assert(!has_news(peers[0]));
    leave_all(2);
}
END_TEST

/* The time is that of one batch: whoever gives it back is no laggard. */
START_TEST(a_slow_member_is_no_laggard)
{
    serve(LAG_SKIP);
    join_all(2);
    const Dlp__BatchReady *kept = take(peers[1], 0);
    run_ahead(0);
    for (uint64_t step = SLOTS; step < 4 * SLOTS; step++) {
        tick(0);
        tick(BOUND - 1);
        give(peers[1], kept);
        kept = take(peers[1], step - SLOTS + 1);
        read_on(peers[0], step);
        settle();
    }
    ck_assert(!peers[1]->session->lagging);
    ck_assert_uint_eq(peers[1]->session->skipped, 0);
    leave_all(2);
}
END_TEST

START_TEST(one_batch_is_told_of_at_a_time)
{
    serve(LAG_DETACH);
    join_all(1);
    settle();
    const Dlp__BatchReady *ready = rig_next_ready(peers[0]);
    ck_assert(!has_news(peers[0]));
    rig_take(peers[0], ready, 0);
    ck_assert(has_news(peers[0])); /* the next, while it holds this one */
    leave_all(1);
}
END_TEST

/* All have taken all there is and each holds another batch: none can pass anybody by, so that
 * whoever gives one back serves all. */
START_TEST(who_has_taken_all_is_not_passed_by)
{
    serve(LAG_SKIP);
    join_all(SLOTS);
    const Dlp__BatchReady *held[SLOTS][SLOTS];
    for (uint64_t step = 0; step < SLOTS; step++)
        for (uint64_t i = 0; i < SLOTS; i++)
            held[i][step] = take(peers[i], step);
    for (uint64_t i = 0; i < SLOTS; i++)
        for (uint64_t step = 0; step < SLOTS; step++)
            if (step != i)
                give(peers[i], held[i][step]);
    settle();
    ck_assert_int_eq(lag_holder(group_of(peers[1]))->peer.pid, 100);
    tick(0);
    tick(BOUND);
    ck_assert(!peers[0]->session->lagging);
    give(peers[1], held[1][1]);
    for (uint64_t i = 0; i < SLOTS; i++)
        read_on(peers[i], SLOTS);
    leave_all(SLOTS);
}
END_TEST

/* The others hold what has passed it by, while they wait for what it holds. */
START_TEST(a_laggard_goes_on_with_what_is_here)
{
    serve(LAG_SKIP);
    join_all(2);
    const Dlp__BatchReady *first = take(peers[1], 0), *held[SLOTS];
    for (uint64_t step = 0; step < SLOTS; step++)
        held[step] = take(peers[0], step);
    for (uint64_t step = 0; step + 1 < SLOTS; step++)
        give(peers[0], held[step]);
    settle();
    tick(0);
    tick(BOUND);
    ck_assert(peers[1]->session->lagging);
    take(peers[1], 1); /* it was told of that one */
    take(peers[1], SLOTS - 1);
    ck_assert_uint_eq(peers[1]->session->skipped, SLOTS - 3);
    give(peers[1], first);
    read_on(peers[0], SLOTS);
    read_on(peers[1], SLOTS);
    leave_all(2);
}
END_TEST

/* Those that it held up have left: it goes on with the epoch that it chooses. */
START_TEST(a_laggard_chooses_an_epoch)
{
    serve(LAG_SKIP);
    join_all(2);
    settle();
    rig_next_ready(peers[1]); /* told of it, not taken */
    run_ahead(0);
    tick(0);
    tick(BOUND);
    ck_assert(peers[1]->session->lagging);
    read_on(peers[0], SLOTS);
    rig_peer_free(peers[0]);
    Dlp__Seek seek = DLP__SEEK__INIT;
    seek.epoch = 3;
    SAY(peers[1], 5, SEEK, seek, &seek);
    rig_await(peers[1], DLP__ENVELOPE__BODY_SEEK_REPLY);
    for (uint64_t step = 3 * STEPS; step < 5 * STEPS; step++)
        read_on(peers[1], step);
    rig_peer_free(peers[1]);
    rig_wait_until_free();
}
END_TEST

/* The group stood where those were that it did not follow. */
START_TEST(a_laggard_is_the_last_to_leave)
{
    serve(LAG_SKIP);
    join_all(2);
    take(peers[1], 0);
    run_ahead(0);
    tick(0);
    tick(BOUND);
    read_on(peers[0], SLOTS);
    rig_peer_free(peers[0]);
    rig_peer_free(peers[1]);
    rig_wait_until_free();
    Dlp__Attach message = rig_attach("small");
    message.token = (char *)"last";
    peers[0] = rig_attached(100, message);
    ck_assert_uint_eq(group_of(peers[0])->job->start.position, (SLOTS + 1) * RIG_BATCH);
    leave_all(1);
}
END_TEST

/* Batches pass a laggard by; what it was told of and holds is left alone. When it comes on it goes
 * on where the group is. */
START_TEST(a_laggard_skips)
{
    serve(LAG_SKIP);
    join_all(3);
    const Dlp__BatchReady *kept = take(peers[1], 0);
    for (uint64_t step = 0; step < SLOTS; step++)
        read_on(peers[2], step);
    run_ahead(0);
    tick(0);
    tick(BOUND - 1);
    ck_assert(!peers[1]->session->lagging);
    tick(1);
    ck_assert(peers[1]->session->lagging && !peers[1]->session->cast_off);
    for (uint64_t step = SLOTS; step < 2 * STEPS; step++) {
        read_on(peers[0], step);
        read_on(peers[2], step);
    }
    ck_assert_uint_eq(feed_steps(group_of(peers[0])->feed, 0), STEPS);
    give(peers[1], kept);
    read_on(peers[1], 1); /* it was told of that one */
    ck_assert(!peers[1]->session->lagging);
    for (uint64_t step = 2 * STEPS; step < 3 * STEPS; step++)
        for (int i = 0; i < 3; i++)
            read_on(peers[i], step);
    ck_assert_uint_eq(peers[1]->session->skipped, 2 * STEPS - 2);
    Dlp__StatusRequest request = DLP__STATUS_REQUEST__INIT;
    SAY(peers[1], 5, STATUS_REQUEST, status_request, &request);
    const Dlp__StatusReply *status =
        rig_await(peers[1], DLP__ENVELOPE__BODY_STATUS_REPLY)->status_reply;
    ck_assert_uint_eq(status->feeds[0]->skipped, 2 * STEPS - 2);
    ck_assert_uint_eq(status->feeds[0]->lag_detached, 0);
    rig_peer_free(peers[1]);
    peers[1] = rig_attached(104, rig_attach("small"));
    SAY(peers[1], 5, STATUS_REQUEST, status_request, &request);
    status = rig_await(peers[1], DLP__ENVELOPE__BODY_STATUS_REPLY)->status_reply;
    ck_assert_uint_eq(status->feeds[0]->skipped, 2 * STEPS - 2); /* also of those that have gone */
    leave_all(3);
}
END_TEST

/* Two of them, one after the other: the second is found though the first still holds its batch. */
START_TEST(several_laggards)
{
    serve(LAG_SKIP);
    rig_small.slots = 5;
    join_all(3);
    take(peers[1], 0);
    for (uint64_t step = 0; step < 5; step++) {
        read_on(peers[0], step);
        read_on(peers[2], step);
    }
    settle();
    tick(0);
    tick(BOUND);
    ck_assert(peers[1]->session->lagging && !peers[2]->session->lagging);
    take(peers[2], 5);
    for (uint64_t step = 5; step < 8; step++)
        read_on(peers[0], step);
    settle();
    ck_assert(!has_news(peers[0]));
    ck_assert_int_eq(lag_holder(group_of(peers[0]))->peer.pid, 102);
    tick(0);
    tick(BOUND);
    ck_assert(peers[2]->session->lagging);
    read_on(peers[0], 8);
    leave_all(3);
}
END_TEST

/* It holds all slots: nothing can be done, and it is named. */
START_TEST(a_laggard_with_all_slots)
{
    serve(LAG_SKIP);
    join_all(2);
    const Dlp__BatchReady *kept[SLOTS];
    for (uint64_t step = 0; step < SLOTS; step++)
        kept[step] = take(peers[1], step);
    run_ahead(0);
    for (int i = 0; i < 4; i++)
        tick(BOUND);
    ck_assert(!peers[1]->session->lagging);
    ck_assert(!has_news(peers[0]));
    ck_assert_int_eq(lag_holder(group_of(peers[0]))->peer.pid, 101);
    give(peers[1], kept[0]);
    read_on(peers[0], SLOTS);
    read_on(peers[1], SLOTS);
    leave_all(2);
}
END_TEST

START_TEST(a_laggard_is_detached)
{
    serve(LAG_DETACH);
    join_all(2);
    const Dlp__BatchReady *kept = take(peers[1], 0), *told = rig_next_ready(peers[1]);
    run_ahead(0);
    tick(0);
    tick(BOUND);
    rig_expect_text(rig_await_error(peers[1], 0, DLP_ERROR_LAGGED),
                    "group default of feed small has waited 10 s", "epoch 0, step 0");
    for (uint64_t step = SLOTS; step < 2 * STEPS; step++)
        read_on(peers[0], step);
    ck_assert_ptr_nonnull(group_of(peers[1]));
    rig_take(peers[1], told, 0); /* its own still */
    give(peers[1], told);
    give(peers[1], kept);
    ck_assert_ptr_null(group_of(peers[1]));
    ck_assert_uint_eq(rig_control->nattached, 1);
    ck_assert(!has_news(peers[1]));
    ck_assert_uint_eq(rig_control->totals[0].lag_detached, 1);
    rig_release(peers[1], kept->slot, kept->generation, 7);
    rig_await_error(peers[1], 7, DLP_ERROR_NOT_ATTACHED);
    Dlp__Attach message = rig_attach("small");
    close(peers[1]->fd);
    SAY(peers[1], 8, ATTACH, attach, &message); /* anew */
    rig_await(peers[1], DLP__ENVELOPE__BODY_ATTACH_REPLY);
    read_on(peers[1], 2 * STEPS);
    leave_all(2);
}
END_TEST

/* The others leave before it has given back what it holds. */
START_TEST(a_detached_laggard_is_the_last)
{
    serve(LAG_DETACH);
    join_all(2);
    const Dlp__BatchReady *kept = take(peers[1], 0), *told = rig_next_ready(peers[1]);
    run_ahead(0);
    tick(0);
    tick(BOUND);
    rig_peer_free(peers[0]);
    rig_await_error(peers[1], 0, DLP_ERROR_LAGGED);
    give(peers[1], kept);
    give(peers[1], told);
    ck_assert_int_eq(peers[1]->session->state, SESSION_CLOSING);
    while (peers[1]->session->state != SESSION_GREETED)
        rig_turn();
    peers[0] = rig_attached(103, rig_attach("small"));
    ck_assert_ptr_ne(group_of(peers[0]), group_of(peers[1]));
    leave_all(2);
}
END_TEST

START_TEST(who_comes_back_late_skips)
{
    serve(LAG_SKIP);
    join_all(1);
    for (uint64_t step = 0; step < STEPS + 3; step++)
        read_on(peers[0], step);
    Dlp__Position position = DLP__POSITION__INIT;
    position.step = 4;
    Dlp__Attach message = rig_attach_as("small", 0, 1);
    message.resume = &position;
    peers[1] = rig_greeted(101);
    SAY(peers[1], 2, ATTACH, attach, &message);
    const Dlp__AttachReply *reply =
        rig_await(peers[1], DLP__ENVELOPE__BODY_ATTACH_REPLY)->attach_reply;
    ck_assert(reply->skips);
    ck_assert_uint_eq(reply->step, 4);
    read_on(peers[1], STEPS + 3);
    ck_assert_uint_eq(peers[1]->session->skipped, STEPS - 1);
    leave_all(2);
}
END_TEST

START_TEST(what_laggards_rule_out)
{
    serve(LAG_SKIP);
    Dlp__Attach message = rig_attach_as("small", 0, 2);
    refused(message, DLP_ERROR_BAD_REQUEST, "world 2", "lag: skip, which would set the ranks");
    message = rig_attach("small");
    message.slots = rig_number(2);
    refused(message, DLP_ERROR_BAD_REQUEST, "slots 2", "lag: skip, which needs at least 3");
    serve(LAG_DETACH);
    refused(message, DLP_ERROR_BAD_REQUEST, "slots 2", "lag: detach, which needs at least 3");
    peers[0] = rig_attached(100, rig_attach_as("small", 0, 2));
    leave_all(1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lag");
    TCase *test = tcase_create("lag");
    tcase_add_checked_fixture(test, setup, rig_teardown);
    tcase_add_test(test, nobody_is_waited_for_while_slots_are_free);
    tcase_add_test(test, wait_goes_on_waiting);
    tcase_add_test(test, a_slow_member_is_no_laggard);
    tcase_add_test(test, one_batch_is_told_of_at_a_time);
    tcase_add_test(test, who_has_taken_all_is_not_passed_by);
    tcase_add_test(test, a_laggard_goes_on_with_what_is_here);
    tcase_add_test(test, a_laggard_chooses_an_epoch);
    tcase_add_test(test, a_laggard_is_the_last_to_leave);
    tcase_add_test(test, a_laggard_skips);
    tcase_add_test(test, several_laggards);
    tcase_add_test(test, a_laggard_with_all_slots);
    tcase_add_test(test, a_laggard_is_detached);
    tcase_add_test(test, a_detached_laggard_is_the_last);
    tcase_add_test(test, who_comes_back_late_skips);
    tcase_add_test(test, what_laggards_rule_out);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
