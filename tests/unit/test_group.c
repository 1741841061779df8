/* control/group.c, lag.c: several members read one stream of a mirror feed. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "group_rig.h"
#include "proto/limits.h"

static Dlp__Attach in_group(const char *group)
{
    Dlp__Attach message = rig_attach("small");
    message.group = (char *)group;
    return message;
}

static uint64_t decoded(const struct rig_peer *peer)
{
    struct feed_stats stats;
    feed_get_stats(group_of(peer)->feed, &stats);
    return stats.work.decoded;
}

START_TEST(all_are_told_of_the_same_batches)
{
    join_all(3);
    ck_assert_ptr_eq(group_of(peers[0]), group_of(peers[2]));
    ck_assert_uint_eq(rig_control->nattached, 3);
    for (uint64_t step = 0; step < 2 * STEPS; step++) {
        const Dlp__BatchReady *first = take(peers[0], step);
        for (int i = 1; i < 3; i++) {
            const Dlp__BatchReady *ready = take(peers[i], step);
            ck_assert_uint_eq(ready->slot, first->slot);
            ck_assert_uint_eq(ready->generation, first->generation);
            give(peers[i], ready);
        }
        give(peers[0], first);
    }
    ck_assert_uint_le(decoded(peers[0]), (2 * STEPS + SLOTS) * RIG_BATCH);
    leave_all(3);
}
END_TEST

START_TEST(a_slot_is_free_when_all_have_given_it_back)
{
    join_all(2);
    for (uint64_t step = 0; step < SLOTS; step++)
        read_on(peers[0], step);
    const Dlp__BatchReady *kept = take(peers[1], 0);
    settle();
    ck_assert(!has_news(peers[0]));
    ck_assert_int_eq(lag_holder(group_of(peers[0]))->peer.pid, 101);
    ck_assert(lag_idle(peers[0]->session) && !lag_idle(peers[1]->session));
    give(peers[1], kept);
    read_on(peers[0], SLOTS);
    ck_assert_uint_eq(peers[0]->session->place.step, SLOTS + 1);
    for (uint64_t step = 1; step <= SLOTS; step++)
        read_on(peers[1], step);
    rig_release(peers[1], kept->slot, kept->generation, 9); /* twice */
    rig_await_error(peers[1], 9, DLP_ERROR_BAD_RELEASE);
    leave_all(2);
}
END_TEST

/* Whoever owes, it owes nothing any more; a batch that others have yet to take stays. */
START_TEST(a_leaver_owes_nothing)
{
    join_all(3);
    for (uint64_t step = 0; step < SLOTS; step++)
        read_on(peers[0], step);
    read_on(peers[1], 0);
    take(peers[1], 1);
    rig_peer_free(peers[2]); /* has taken nothing */
    read_on(peers[0], SLOTS);
    Dlp__Detach detach = DLP__DETACH__INIT;
    SAY(peers[1], 7, DETACH, detach, &detach); /* holds one, has others to come */
    ck_assert_uint_eq(rig_await(peers[1], DLP__ENVELOPE__BODY_DETACH_REPLY)->id, 7);
    ck_assert_ptr_null(peers[1]->session->group);
    for (uint64_t step = SLOTS + 1; step < 3 * SLOTS; step++)
        read_on(peers[0], step);
    ck_assert_uint_eq(rig_control->nattached, 1);
    leave_all(2);
}
END_TEST

START_TEST(a_late_member_begins_where_the_group_is)
{
    join_all(1);
    for (uint64_t step = 0; step < STEPS + 2; step++)
        read_on(peers[0], step);
    peers[1] = rig_greeted(101);
    Dlp__Attach message = rig_attach("small");
    SAY(peers[1], 2, ATTACH, attach, &message);
    const Dlp__AttachReply *reply =
        rig_await(peers[1], DLP__ENVELOPE__BODY_ATTACH_REPLY)->attach_reply;
    ck_assert_uint_eq(reply->epoch, 1);
    ck_assert_uint_eq(reply->step, 2);
    ck_assert(reply->shared);
    ck_assert_str_eq(reply->notes[0], "joined group default at epoch 1, step 2");
    ck_assert_str_eq(peers[1]->session->started, "joined its group: epoch 1, step 2");
    for (uint64_t step = STEPS + 2; step < STEPS + 6; step++) {
        read_on(peers[1], step);
        read_on(peers[0], step);
    }
    leave_all(2);
}
END_TEST

/* The last step of an epoch is taken: the next begins. */
START_TEST(joining_at_the_end_of_an_epoch)
{
    join_all(1);
    for (uint64_t step = 0; step < STEPS; step++)
        read_on(peers[0], step);
    peers[1] = rig_attached(101, rig_attach("small"));
    ck_assert_uint_eq(peers[1]->session->place.epoch, 1);
    ck_assert_uint_eq(peers[1]->session->place.step, 0);
    read_on(peers[1], STEPS);
    leave_all(2);
}
END_TEST

/* While one is attaching the others leave: what they had not taken is there for it. */
START_TEST(joining_while_the_others_leave)
{
    for (int turns = 0; turns < 12; turns++) {
        join_all(1);
        read_on(peers[0], 0);
        take(peers[0], 1);
        peers[1] = rig_greeted(101);
        Dlp__Attach message = rig_attach("small");
        message.resume = NULL;
        message.token = (char *)"last"; /* so that the job is not begun anew */
        SAY(peers[1], 2, ATTACH, attach, &message);
        for (int i = 0; i < turns; i++)
            rig_turn();
        rig_peer_free(peers[0]);
        rig_await(peers[1], DLP__ENVELOPE__BODY_ATTACH_REPLY);
        for (uint64_t step = 2; step < STEPS; step++)
            read_on(peers[1], step);
        rig_peer_free(peers[1]);
        rig_wait_until_free();
    }
}
END_TEST

/* However far the opening has come when its opener vanishes, another opens it. */
START_TEST(an_opener_that_vanishes)
{
    for (int turns = 0; turns < 60; turns++) {
        Dlp__Attach message = rig_attach("small");
        for (int i = 0; i < 3; i++) {
            peers[i] = rig_greeted(100 + i);
            SAY(peers[i], 2, ATTACH, attach, &message);
        }
        for (int i = 0; i < turns / 2; i++)
            rig_turn();
        rig_peer_free(peers[0]);
        if (turns % 2)
            rig_peer_free(peers[1]);
        else
            rig_await(peers[1], DLP__ENVELOPE__BODY_ATTACH_REPLY);
        rig_await(peers[2], DLP__ENVELOPE__BODY_ATTACH_REPLY);
        read_on(peers[2], 0);
        if (turns % 2 == 0)
            rig_peer_free(peers[1]);
        rig_peer_free(peers[2]);
        rig_wait_until_free();
    }
}
END_TEST

START_TEST(all_vanish_at_any_moment)
{
    for (int turns = 0; turns < 60; turns++) {
        Dlp__Attach message = rig_attach("small");
        for (int i = 0; i < 3; i++) {
            peers[i] = rig_greeted(100 + i);
            SAY(peers[i], 2, ATTACH, attach, &message);
        }
        for (int i = 0; i < turns / 3; i++)
            rig_turn();
        for (int i = 0; i < 3; i++) {
            rig_peer_free(peers[(turns + i) % 3]);
            if (turns % 2)
                rig_turn();
        }
        rig_wait_until_free();
    }
}
END_TEST

/* The values of the first stay those of the group. */
START_TEST(an_opening_that_fails_is_tried_by_the_next)
{
    rig_stop();
    rig_start(64 << 20, 8192, 8);
    Dlp__Attach message = rig_attach("small");
    for (int i = 0; i < 3; i++) {
        peers[i] = rig_greeted(100 + i);
        SAY(peers[i], 5, ATTACH, attach, &message);
    }
    for (int i = 0; i < 3; i++)
        rig_await_error(peers[i], 5, DLP_ERROR_NO_MEMORY);
    ck_assert_ptr_null(jobs_first(rig_control->jobs));
    leave_all(3);
}
END_TEST

START_TEST(epochs_are_chosen_by_a_sole_member)
{
    join_all(2);
    for (uint64_t step = 0; step < SLOTS; step++)
        read_on(peers[0], step);
    Dlp__Seek seek = DLP__SEEK__INIT;
    seek.epoch = 3;
    SAY(peers[0], 5, SEEK, seek, &seek);
    rig_expect_text(rig_await_error(peers[0], 5, DLP_ERROR_SHARED), "epoch 3",
                    "group default of feed small has 2 members and is at epoch 0");
    read_on(peers[1], 0); /* and nothing has changed */
    read_on(peers[0], SLOTS);
    rig_peer_free(peers[1]);
    const Dlp__BatchReady *held = take(peers[0], SLOTS + 1);
    SAY(peers[0], 6, SEEK, seek, &seek);
    rig_await(peers[0], DLP__ENVELOPE__BODY_SEEK_REPLY);
    read_on(peers[0], 3 * STEPS);
    give(peers[0], held); /* over the change: all slots are there again */
    const Dlp__BatchReady *all[SLOTS];
    for (uint64_t step = 1; step <= SLOTS; step++)
        all[step - 1] = take(peers[0], 3 * STEPS + step);
    for (uint64_t slot = 0; slot < SLOTS; slot++)
        give(peers[0], all[slot]);
    peers[1] = rig_attached(101, rig_attach("small"));
    ck_assert_uint_eq(peers[1]->session->place.epoch, 3);
    read_on(peers[1], 3 * STEPS + SLOTS + 1);
    leave_all(2);
}
END_TEST

/* What it was told of, and others had taken before they left, is dropped too. */
START_TEST(an_epoch_chosen_after_the_others_have_left)
{
    join_all(2);
    for (uint64_t step = 0; step < SLOTS; step++)
        read_on(peers[0], step);
    rig_peer_free(peers[0]);
    settle();
    while (has_news(peers[1]))
        rig_next_ready(peers[1]);
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

START_TEST(values_that_differ_from_the_groups)
{
    Dlp__Attach message = in_group("g");
    message.world = rig_number(2);
    message.rank = rig_number(0);
    peers[0] = rig_attached(100, message);
    message.rank = rig_number(1);
    peers[1] = rig_attached(101, message);
    ck_assert_ptr_ne(group_of(peers[0]), group_of(peers[1])); /* each rank its own */
    message.world = rig_number(3);
    refused(message, DLP_ERROR_MISMATCH, "world 3", "group g of feed small, which is 2");
    message.world = rig_number(2);
    message.batch = rig_number(5);
    refused(message, DLP_ERROR_MISMATCH, "batch 5", "name another group");
    message.batch = NULL;
    message.seed = rig_number(5);
    refused(message, DLP_ERROR_MISMATCH, "seed 5", "name another group");
    message.seed = NULL;
    message.epoch = rig_number(5);
    refused(message, DLP_ERROR_MISMATCH, "epoch 5", "which is 0");
    message.epoch = NULL;
    message.slots = rig_number(5);
    refused(message, DLP_ERROR_MISMATCH, "slots 5", "which is 3");
    message.slots = NULL;
    message.rank = message.world = NULL;
    refused(message, DLP_ERROR_BAD_REQUEST, "no rank is given", "world 2: give one of 0 to 1");
    message.rank = rig_number(2);
    refused(message, DLP_ERROR_BAD_REQUEST, "rank 2", "group g of feed small has world 2");
    message = in_group("h"); /* another group */
    peers[2] = rig_attached(102, message);
    leave_all(3);
}
END_TEST

START_TEST(groups_where_there_are_none)
{
    Dlp__Attach message = in_group("g");
    message.probe = true;
    refused(message, DLP_ERROR_BAD_REQUEST, "group g", "a probe joins no group");
    message.group = (char *)"g g";
    refused(message, DLP_ERROR_BAD_REQUEST, "name of a group", "128");
    join_all(1);
    message = rig_attach("small");
    message.probe = true;
    peers[1] = rig_attached(101, message); /* has a stream of its own */
    ck_assert_ptr_ne(group_of(peers[0]), group_of(peers[1]));
    ck_assert(!group_of(peers[1])->params.shared);
    read_on(peers[0], 0);
    read_on(peers[1], 0);
    leave_all(2);
    rig_small.share = SHARE_SPLIT;
    refused(in_group("g"), DLP_ERROR_BAD_REQUEST, "group g", "share: mirror");
}
END_TEST

static char *token_at(struct rig_peer *looker, uint64_t epoch, uint64_t step)
{
    Dlp__TokenRequest request = DLP__TOKEN_REQUEST__INIT;
    Dlp__Question question = DLP__QUESTION__INIT;
    Dlp__Number at = DLP__NUMBER__INIT;
    at.value = epoch;
    question.feed = (char *)"small";
    question.epoch = &at;
    request.question = &question;
    request.step = step;
    SAY(looker, 3, TOKEN_REQUEST, token_request, &request);
    return strdup(rig_await(looker, DLP__ENVELOPE__BODY_TOKEN_REPLY)->token_reply->token);
}

START_TEST(a_token_must_mean_where_the_group_is)
{
    join_all(1);
    struct rig_peer *looker = rig_greeted(500);
    char *there = token_at(looker, 1, 0), *before = token_at(looker, 0, 5),
         *after = token_at(looker, 1, 2);
    for (uint64_t step = 0; step < STEPS; step++)
        read_on(peers[0], step);
    Dlp__Attach message = rig_attach("small");
    message.token = before;
    refused(message, DLP_ERROR_RESUME,
            "epoch 0, record 20, the running group default of feed small",
            "is at epoch 1, record 0 (step 0): leave out the token to join there, or name another");
    message.token = after;
    refused(message, DLP_ERROR_RESUME, "epoch 1, record 8", "is at epoch 1, record 0 (step 0)");
    message.token = there;
    peers[1] = rig_attached(101, message);
    read_on(peers[1], STEPS);
    message.token = (char *)"last";
    peers[2] = rig_attached(102, message);
    read_on(peers[2], STEPS + 1);
    free(there);
    free(before);
    free(after);
    rig_peer_free(looker);
    leave_all(3);
}
END_TEST

/* The last that leaves says where it stands; the same place for whoever comes back. */
START_TEST(nobody_is_left_for_a_while)
{
    join_all(2);
    read_on(peers[0], 0);
    rig_peer_free(peers[0]);
    for (uint64_t step = 0; step < 4; step++)
        read_on(peers[1], step);
    take(peers[1], 4); /* and does not give it back */
    rig_peer_free(peers[1]);
    Dlp__Attach message = rig_attach("small");
    message.token = (char *)"last";
    peers[0] = rig_attached(103, message);
    ck_assert_uint_eq(rig_next_ready(peers[0])->step, 0); /* of a start after 4 steps */
    ck_assert_uint_eq(group_of(peers[0])->job->start.position, 4 * RIG_BATCH);
    rig_peer_free(peers[0]);
    peers[0] = rig_attached(104, rig_attach("small")); /* without a word: anew */
    ck_assert_uint_eq(group_of(peers[0])->job->start.position, 0);
    leave_all(1);
}
END_TEST

START_TEST(a_feed_that_stops_tells_all)
{
    rig_small.shuffle = 0; /* the last record is the bad one */
    rig_small.bad_limit = 0;
    rig_small.fields[0].classes = RIG_RECORDS - 1;
    join_all(2);
    for (uint64_t step = 0; step < STEPS - 1; step++)
        for (int i = 0; i < 2; i++)
            read_on(peers[i], step);
    for (int i = 0; i < 2; i++)
        rig_await_error(peers[i], 0, DLP_ERROR_BAD_LIMIT);
    refused(rig_attach("small"), DLP_ERROR_BAD_LIMIT, "bad_limit", "small"); /* who is late too */
    leave_all(2);
}
END_TEST

START_TEST(failed_batches_reach_all)
{
    rig_small.bad_samples = BAD_FAIL;
    rig_small.fields[0].classes = 1;
    join_all(2);
    for (uint64_t step = 0; step < 2 * STEPS; step++) {
        for (int i = 0; i < 2; i++) {
            const Dlp__BatchFailed *failed =
                rig_await(peers[i], DLP__ENVELOPE__BODY_BATCH_FAILED)->batch_failed;
            ck_assert_uint_eq(failed->epoch * STEPS + failed->step, step);
            ck_assert_ptr_nonnull(strstr(failed->text, "bad sample"));
            Dlp__BatchReady it = {.slot = failed->slot, .generation = failed->generation};
            rig_take(peers[i], &it, 0);
            rig_release(peers[i], it.slot, it.generation, 0);
        }
    }
    Dlp__StatusRequest request = DLP__STATUS_REQUEST__INIT;
    SAY(peers[0], 5, STATUS_REQUEST, status_request, &request);
    const Dlp__FeedStatus *feed =
        rig_await(peers[0], DLP__ENVELOPE__BODY_STATUS_REPLY)->status_reply->feeds[0];
    ck_assert_uint_le(feed->bad, 2 * RIG_RECORDS + SLOTS * RIG_BATCH); /* counted once */
    leave_all(2);
}
END_TEST

/* Members leave one after the other when the daemon stops, and live on: what they hold stays. */
START_TEST(no_slot_is_written_while_the_daemon_stops)
{
    join_all(2);
    take(peers[0], 0);
    for (uint64_t step = 0; step < SLOTS; step++)
        read_on(peers[1], step);
    settle();
    rig_control->stopping = true;
    rig_peer_free(peers[0]);
    settle();
    ck_assert_uint_eq(decoded(peers[1]), SLOTS * RIG_BATCH);
    rig_control->stopping = false;
    rig_peer_free(peers[1]);
    rig_wait_until_free();
}
END_TEST

START_TEST(status_shows_members)
{
    join_all(2);
    for (uint64_t step = 0; step < SLOTS; step++)
        read_on(peers[0], step);
    take(peers[1], 0);
    settle();
    Dlp__StatusRequest request = DLP__STATUS_REQUEST__INIT;
    SAY(peers[0], 5, STATUS_REQUEST, status_request, &request);
    const Dlp__StatusReply *status =
        rig_await(peers[0], DLP__ENVELOPE__BODY_STATUS_REPLY)->status_reply;
    ck_assert_uint_eq(status->n_clients, 2);
    for (size_t i = 0; i < 2; i++) {
        const Dlp__ClientStatus *client = status->clients[i];
        bool fast = client->pid == 100;
        ck_assert_str_eq(client->group, "default");
        ck_assert_uint_eq(client->members, 2);
        ck_assert_uint_eq(client->behind, fast ? 0 : 2);
        ck_assert_uint_eq(client->ready, fast ? 0 : 2);
        ck_assert_uint_eq(client->held, fast ? 0 : 1);
        ck_assert_int_eq(client->waits_for, fast ? 101 : 0);
        if (fast)
            rig_expect_text(client->reason, "waits for pid 101 of group default, 2 batches behind",
                            " s");
    }
    ck_assert_uint_eq(status->feeds[0]->clients, 2);
    ck_assert_uint_eq(status->feeds[0]->decoded, SLOTS * RIG_BATCH);
    leave_all(2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("group");
    TCase *test = tcase_create("group");
    tcase_add_checked_fixture(test, group_rig_setup, rig_teardown);
    tcase_add_test(test, all_are_told_of_the_same_batches);
    tcase_add_test(test, a_slot_is_free_when_all_have_given_it_back);
    tcase_add_test(test, a_leaver_owes_nothing);
    tcase_add_test(test, a_late_member_begins_where_the_group_is);
    tcase_add_test(test, joining_at_the_end_of_an_epoch);
    tcase_add_test(test, joining_while_the_others_leave);
    tcase_add_test(test, an_opener_that_vanishes);
    tcase_add_test(test, all_vanish_at_any_moment);
    tcase_add_test(test, an_opening_that_fails_is_tried_by_the_next);
    tcase_add_test(test, epochs_are_chosen_by_a_sole_member);
    tcase_add_test(test, an_epoch_chosen_after_the_others_have_left);
    tcase_add_test(test, values_that_differ_from_the_groups);
    tcase_add_test(test, groups_where_there_are_none);
    tcase_add_test(test, a_token_must_mean_where_the_group_is);
    tcase_add_test(test, nobody_is_left_for_a_while);
    tcase_add_test(test, a_feed_that_stops_tells_all);
    tcase_add_test(test, failed_batches_reach_all);
    tcase_add_test(test, no_slot_is_written_while_the_daemon_stops);
    tcase_add_test(test, status_shows_members);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
