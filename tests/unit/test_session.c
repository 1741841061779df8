/* control/session.c, admit.c, claim.c: attachments of a real feed from attach to end. */
#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/allowance.h"
#include "control_rig.h"
#include "device/arena.h"
#include "proto/limits.h"

START_TEST(an_epoch_reaches_the_client)
{
    struct rig_peer *peer = rig_greeted(7);
    Dlp__Attach message = rig_attach("small");
    SAY(peer, 2, ATTACH, attach, &message);
    const Dlp__AttachReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_REPLY)->attach_reply;
    uint64_t steps = (RIG_RECORDS + RIG_BATCH - 1) / RIG_BATCH;
    ck_assert_uint_eq(reply->records, RIG_RECORDS);
    ck_assert_uint_eq(reply->steps, steps);
    ck_assert_uint_eq(reply->batch, RIG_BATCH);
    ck_assert_uint_eq(strlen(reply->plan_id), 16);
    ck_assert_int_ge(peer->fd, 0);
    size_t size = reply->slots * reply->slot_bytes, label = 0, valid = 0;
    for (size_t t = 0; t < reply->n_tensors; t++) {
        label = strcmp(reply->tensors[t]->name, "label") ? label : reply->tensors[t]->offset;
        valid = strcmp(reply->tensors[t]->name, "valid") ? valid : reply->tensors[t]->offset;
    }
    uint8_t *arena = mmap(NULL, size, PROT_READ, MAP_SHARED, peer->fd, 0);
    ck_assert_ptr_ne(arena, MAP_FAILED);
    int seen[RIG_RECORDS] = {0};
    for (uint64_t step = 0; step < steps; step++) {
        const Dlp__BatchReady *ready = rig_next_ready(peer);
        ck_assert_uint_eq(ready->step, step);
        rig_take(peer, ready, 0);
        const uint8_t *slot = arena + ready->slot * reply->slot_bytes;
        for (uint32_t r = 0; r < ready->rows; r++)
            if (slot[valid + r])
                seen[((const int64_t *)(const void *)(slot + label))[r]]++;
        rig_release(peer, ready->slot, ready->generation, 0);
    }
    for (int i = 0; i < RIG_RECORDS; i++)
        ck_assert_int_eq(seen[i], 1);
    ck_assert_uint_eq(rig_next_ready(peer)->epoch, 1); /* the next one follows without a pause */
    munmap(arena, size);
    rig_peer_free(peer);
    rig_wait_until_free();
}
END_TEST

START_TEST(a_slot_is_given_back_once)
{
    struct rig_peer *peer = rig_attached(1, rig_attach("small"));
    const Dlp__BatchReady *ready = rig_next_ready(peer);
    rig_take(peer, ready, 0);
    rig_take(peer, ready, 11); /* twice */
    rig_await_error(peer, 11, DLP_ERROR_BAD_RELEASE);
    rig_release(peer, ready->slot, ready->generation + 1, 12);
    rig_await_error(peer, 12, DLP_ERROR_BAD_RELEASE);
    rig_release(peer, 64000, 1, 13);
    rig_await_error(peer, 13, DLP_ERROR_BAD_RELEASE);
    rig_release(peer, ready->slot, ready->generation, 0);
    rig_release(peer, ready->slot, ready->generation, 14);
    rig_expect_text(rig_await_error(peer, 14, DLP_ERROR_BAD_RELEASE), "twice", "slot");
    ready = rig_next_ready(peer); /* and goes on */
    rig_take(peer, ready, 0);
    rig_peer_free(peer);
    rig_wait_until_free();
}
END_TEST

START_TEST(ranks_and_values_of_a_job)
{
    struct rig_peer *first = rig_attached(4711, rig_attach_as("small", 0, 2));
    struct rig_peer *second = rig_greeted(4712);
    Dlp__Attach message = rig_attach_as("small", 0, 2);
    SAY(second, 5, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(second, 5, DLP_ERROR_RANK_TAKEN), "rank 0", "4711");
    message = rig_attach_as("small", 1, 3);
    SAY(second, 6, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(second, 6, DLP_ERROR_MISMATCH), "world 3", "2");
    message = rig_attach_as("small", 1, 2);
    SAY(second, 7, ATTACH, attach, &message);
    rig_await(second, DLP__ENVELOPE__BODY_ATTACH_REPLY);
    SAY(second, 8, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(second, 8, DLP_ERROR_BAD_REQUEST), "attached", "one");
    rig_peer_free(first);
    first = rig_attached(4713, rig_attach_as("small", 0, 2)); /* free at once */
    ck_assert_str_eq(first->session->started, "again from the start");
    rig_peer_free(first);
    rig_peer_free(second);
    rig_wait_until_free();
}
END_TEST

START_TEST(pinned_settings)
{
    rig_small.pinned = PIN_BATCH;
    struct rig_peer *peer = rig_greeted(1);
    Dlp__Attach message = rig_attach("small");
    message.batch = rig_number(RIG_BATCH + 1);
    SAY(peer, 5, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(peer, 5, DLP_ERROR_MISMATCH), "batch 5", "pinned to 4");
    message.batch = rig_number(RIG_BATCH);
    SAY(peer, 6, ATTACH, attach, &message);
    rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_REPLY);
    rig_peer_free(peer);
}
END_TEST

START_TEST(a_probe_is_not_pinned)
{
    rig_small.pinned = PIN_BATCH;
    Dlp__Attach message = rig_attach("small");
    message.batch = rig_number(RIG_BATCH + 1);
    message.probe = true;
    struct rig_peer *peer = rig_attached(1, message);
    rig_peer_free(peer);
}
END_TEST

/* Other feeds' shuffle buffers have taken what the promise did not reckon with. */
START_TEST(an_opening_that_fails_is_told)
{
    struct error err;
    uint64_t rest = budget_limit(rig_budget) - budget_decode_limit(rig_budget);
    ck_assert_int_eq(budget_take(rig_budget, BUDGET_SHUFFLE, rest, &err), 0);
    struct rig_peer *peer = rig_greeted(1);
    Dlp__Attach message = rig_attach("small");
    SAY(peer, 5, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(peer, 5, DLP_ERROR_NO_MEMORY), "small", "MB");
    budget_give(rig_budget, BUDGET_SHUFFLE, rest);
    rig_peer_free(peer);
    rig_wait_until_free();
}
END_TEST

/* While other clients stream, their readers are asked for what they hold ahead of need. */
START_TEST(memory_held_ahead_is_waited_for)
{
    struct error err;
    struct rig_peer *first = rig_attached(1, rig_attach_as("small", 0, 2));
    uint64_t rest = budget_limit(rig_budget) - budget_used(rig_budget, BUDGET_USES);
    ck_assert_int_eq(budget_take(rig_budget, BUDGET_SHUFFLE, rest, &err), 0);
    struct rig_peer *peer = rig_greeted(2);
    Dlp__Attach message = rig_attach_as("small", 1, 2);
    SAY(peer, 5, ATTACH, attach, &message);
    const Dlp__AttachProgress *progress =
        rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_PROGRESS)->attach_progress;
    rig_expect_text(progress->text, "memory", "give back");
    ck_assert(budget_pressed(rig_budget));
    budget_give(rig_budget, BUDGET_SHUFFLE, rest);
    rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_REPLY);
    ck_assert(!budget_pressed(rig_budget));
    rig_peer_free(peer);
    rig_peer_free(first);
    rig_wait_until_free();
}
END_TEST

START_TEST(memory_that_nobody_gives_back_is_refused)
{
    struct error err;
    struct rig_peer *first = rig_attached(1, rig_attach_as("small", 0, 2));
    uint64_t rest = budget_limit(rig_budget) - budget_used(rig_budget, BUDGET_USES);
    ck_assert_int_eq(budget_take(rig_budget, BUDGET_SHUFFLE, rest, &err), 0);
    struct rig_peer *peer = rig_greeted(2);
    Dlp__Attach message = rig_attach_as("small", 1, 2);
    SAY(peer, 6, ATTACH, attach, &message);
    rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_PROGRESS);
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_NO_MEMORY), "small", "MB");
    ck_assert(!budget_pressed(rig_budget));
    budget_give(rig_budget, BUDGET_SHUFFLE, rest);
    rig_peer_free(peer);
    rig_peer_free(first);
    rig_wait_until_free();
}
END_TEST

/* As many as there are slots are announced, and no more until they are given back. */
START_TEST(failed_batches_take_up_slots)
{
    rig_small.bad_samples = BAD_FAIL;
    rig_small.fields[0].classes = 1; /* all labels but one are bad */
    struct rig_peer *peer = rig_attached(1, rig_attach_as("small", 0, 1));
    for (uint64_t step = 0; step < 20; step++) {
        if (step == 0)
            for (int i = 0; i < 300; i++)
                rig_turn();
        ck_assert_uint_le(peer->count - peer->seen, rig_small.slots);
        const Dlp__BatchFailed *failed =
            rig_await(peer, DLP__ENVELOPE__BODY_BATCH_FAILED)->batch_failed;
        ck_assert_uint_eq(failed->epoch * 7 + failed->step, step);
        Dlp__BatchReady it = {.slot = failed->slot, .generation = failed->generation};
        rig_take(peer, &it, 0);
        ck_assert_uint_eq(peer->session->place.step, failed->step + 1);
        rig_release(peer, it.slot, it.generation, 0);
    }
    ck_assert_uint_eq(peer->session->gauge->batches, 0);
    rig_peer_free(peer);
    rig_wait_until_free();
}
END_TEST

START_TEST(detach_and_attach_again)
{
    struct rig_peer *peer = rig_greeted(1);
    Dlp__Attach message = rig_attach("small");
    Dlp__Detach detach = DLP__DETACH__INIT;
    for (uint64_t i = 0; i < 5; i++) {
        SAY(peer, 10 + i, ATTACH, attach, &message);
        rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_REPLY);
        ck_assert_uint_eq(rig_next_ready(peer)->step, 0);
        SAY(peer, 20 + i, DETACH, detach, &detach);
        ck_assert_uint_eq(rig_control->nattached, 0);
        ck_assert_uint_eq(rig_await(peer, DLP__ENVELOPE__BODY_DETACH_REPLY)->id, 20 + i);
        ck_assert_uint_eq(budget_used(rig_budget, BUDGET_SLOTS), 0);
    }
    rig_peer_free(peer);
}
END_TEST

/* An attach that is refused leaves the rank where it stood. */
START_TEST(tokens_that_do_not_fit)
{
    struct rig_peer *first = rig_attached(1, rig_attach_as("small", 0, 2));
    struct rig_peer *peer = rig_attached(2, rig_attach_as("small", 1, 2));
    for (int i = 0; i < 2; i++) {
        const Dlp__BatchReady *ready = rig_next_ready(peer);
        rig_take(peer, ready, 0);
        if (i == 0)
            rig_release(peer, ready->slot, ready->generation, 0);
    }
    rig_peer_free(peer);
    peer = rig_greeted(3);
    Dlp__Attach message = rig_attach_as("small", 1, 2);
    const struct {
        const char *token, *first, *second;
    } refused[] = {
        {"{", "damaged", "quotes"},
        {"{\"schema\":1,\"order_version\":1,\"fingerprint\":\"ab\",\"seed\":0,\"epoch\":0,"
         "\"next\":0,\"shuffle\":0,\"lanes\":1,\"tail\":\"wrap\"}",
         "data set ab", "feed small has"},
    };
    for (uint64_t i = 0; i < 2; i++) {
        message.token = (char *)refused[i].token;
        SAY(peer, 5 + i, ATTACH, attach, &message);
        rig_expect_text(rig_await_error(peer, 5 + i, DLP_ERROR_RESUME), refused[i].first,
                        refused[i].second);
    }
    message.token = (char *)"last";
    SAY(peer, 9, ATTACH, attach, &message);
    const Dlp__AttachReply *reply = rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_REPLY)->attach_reply;
    ck_assert_uint_eq(reply->step, 1); /* taken, not released */
    ck_assert_str_eq(reply->started, "after its last released: epoch 0, step 1");
    ck_assert_uint_eq(rig_next_ready(peer)->step, 1);
    rig_peer_free(peer);
    rig_peer_free(first);
    rig_wait_until_free();
}
END_TEST

START_TEST(seek_drops_what_was_filled)
{
    struct rig_peer *peer = rig_attached(1, rig_attach("small"));
    for (int i = 0; i < 3; i++)
        rig_next_ready(peer); /* all slots */
    Dlp__Seek seek = DLP__SEEK__INIT;
    seek.epoch = 9;
    SAY(peer, 5, SEEK, seek, &seek);
    ck_assert_uint_ge(rig_await(peer, DLP__ENVELOPE__BODY_SEEK_REPLY)->seek_reply->dropped, 3);
    const Dlp__BatchReady *ready = rig_next_ready(peer);
    ck_assert_uint_eq(ready->epoch, 9);
    ck_assert_uint_eq(ready->step, 0);
    seek.epoch = 1 << 24;
    SAY(peer, 6, SEEK, seek, &seek);
    rig_await_error(peer, 6, DLP_ERROR_BAD_REQUEST);
    rig_peer_free(peer);
}
END_TEST

static Dlp__Position position;

static Dlp__Attach resume_at(uint64_t epoch, uint64_t step, const char *plan)
{
    Dlp__Attach message = rig_attach_as("small", 0, 1);
    dlp__position__init(&position);
    position.epoch = epoch;
    position.step = step;
    position.plan_id = (char *)plan;
    message.resume = &position;
    return message;
}

START_TEST(reconnect_goes_on_at_its_own_step)
{
    /* The daemon has never heard of the job: as after its restart. */
    struct rig_peer *peer = rig_attached(1, resume_at(3, 5, ""));
    const Dlp__BatchReady *ready = rig_next_ready(peer);
    ck_assert_uint_eq(ready->epoch, 3);
    ck_assert_uint_eq(ready->step, 5);
    ck_assert_ptr_nonnull(strstr(peer->session->started, "reconnected"));
    char plan[17];
    strcpy(plan, peer->session->group->job->plan_id);
    rig_peer_free(peer);
    peer = rig_attached(1, resume_at(0, 7, plan)); /* after the last step: the next epoch's first */
    ready = rig_next_ready(peer);
    ck_assert_uint_eq(ready->epoch, 1);
    ck_assert_uint_eq(ready->step, 0);
    rig_peer_free(peer);
    peer = rig_greeted(1);
    Dlp__Attach message = resume_at(0, 8, plan);
    SAY(peer, 5, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(peer, 5, DLP_ERROR_RESUME), "step 8", "7 steps");
    message = resume_at(0, 1, "0000000000000000");
    SAY(peer, 6, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_RESUME), "0000000000000000", plan);
    rig_peer_free(peer);
    rig_wait_until_free();
}
END_TEST

/* 26 records for 30 ranks: the last rank has none in any epoch, and comes back at the pass it is
 * at. */
START_TEST(reconnect_of_a_rank_without_steps)
{
    rig_small.tail = TAIL_PARTIAL;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        struct rig_peer *peer = rig_greeted(1);
        Dlp__Attach message = resume_at(epoch, 0, "");
        message.rank = rig_number(29);
        message.world = rig_number(30);
        SAY(peer, 5, ATTACH, attach, &message);
        const Dlp__AttachReply *reply =
            rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_REPLY)->attach_reply;
        ck_assert_uint_eq(reply->steps, 0);
        ck_assert_uint_eq(reply->step, 0);
        ck_assert_uint_eq(reply->epoch, epoch);
        rig_peer_free(peer);
    }
    rig_wait_until_free();
}
END_TEST

/* However far the attach has come when the peer vanishes, nothing is left. */
START_TEST(vanishing_at_any_moment_frees_everything)
{
    for (int turns = 0; turns < 60; turns++) {
        struct rig_peer *peer = rig_greeted(1), *other = rig_greeted(2);
        Dlp__Attach message = rig_attach_as("small", 0, 2), second = rig_attach_as("small", 1, 2);
        SAY(peer, 2, ATTACH, attach, &message);
        SAY(other, 2, ATTACH, attach, &second);
        for (int i = 0; i < turns / 2; i++)
            rig_turn();
        rig_peer_free(peer);
        if (turns % 2)
            rig_turn();
        rig_peer_free(other);
        rig_wait_until_free();
    }
}
END_TEST

START_TEST(memory_is_refused_with_numbers)
{
    rig_stop();
    rig_start(64 << 20, 8192, 8);
    struct rig_peer *peer = rig_greeted(1);
    Dlp__Attach message = rig_attach("small");
    SAY(peer, 5, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(peer, 5, DLP_ERROR_NO_MEMORY), "3 slots", "client_memory to");
    ck_assert_uint_eq(rig_control->nattached, 0);
    ck_assert_ptr_null(jobs_first(rig_control->jobs));
    rig_peer_free(peer);
    rig_stop();
    rig_start(2 << 20, 64 << 20, 8);
    peer = rig_greeted(1);
    message.slots = rig_number(64);
    message.batch = rig_number(4096);
    SAY(peer, 6, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(peer, 6, DLP_ERROR_NO_MEMORY), "64 slots", "set memory to");
    rig_peer_free(peer);
}
END_TEST

/* Two arenas do not fit: the second client gets the memory of the first once that has gone. */
START_TEST(memory_that_is_being_given_back_is_waited_for)
{
    rig_stop();
    rig_start(8 << 20, 8 << 20, 8);
    Dlp__Attach message = rig_attach("small");
    message.slots = rig_number(64);
    message.batch = rig_number(4096);
    for (pid_t pid = 1; pid < 20; pid++) {
        struct rig_peer *first = rig_attached(pid, message), *second = rig_greeted(100 + pid);
        Dlp__Attach other = message;
        other.job = "k";
        SAY(second, 5, ATTACH, attach, &other);
        rig_await_error(second, 5, DLP_ERROR_NO_MEMORY); /* nobody is leaving */
        rig_peer_free(first);
        SAY(second, 6, ATTACH, attach, &other);
        rig_await(second, DLP__ENVELOPE__BODY_ATTACH_REPLY);
        rig_peer_free(second);
        rig_wait_until_free();
    }
}
END_TEST

/* Memory of a mirror group that has ended: it stays taken until its last reader lets it go. */
START_TEST(orphaned_memory_is_waited_for)
{
    struct arena *arena;
    struct error err;
    rig_stop();
    rig_start(8 << 20, 8 << 20, 8);
    ck_assert_int_eq(arena_new(rig_budget, rig_orphans, 1, 4 << 20, &arena, &err), 0);
    int reader = dup(arena_fd(arena));
    arena_free(arena);
    struct rig_peer *peer = rig_greeted(1);
    Dlp__Attach message = rig_attach("small");
    message.slots = rig_number(64);
    message.batch = rig_number(4096);
    SAY(peer, 5, ATTACH, attach, &message);
    rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_PROGRESS);
    ck_assert_int_eq(allowance_check(peer->session->group, &err), -ENOMEM);
    rig_expect_text(err.text, "0 other clients, with 4.2 MB", "ended mirror groups still map:");
    Dlp__StatusRequest request = DLP__STATUS_REQUEST__INIT;
    SAY(peer, 6, STATUS_REQUEST, status_request, &request);
    const Dlp__StatusReply *status =
        rig_await(peer, DLP__ENVELOPE__BODY_STATUS_REPLY)->status_reply;
    ck_assert_uint_eq(status->memory_orphaned, 4 << 20);
    close(reader);
    while (budget_used(rig_budget, BUDGET_ORPHANED))
        rig_turn();
    uint32_t seen = peer->count, waits = 0;
    rig_await(peer, DLP__ENVELOPE__BODY_ATTACH_REPLY);
    for (; seen < peer->count; seen++)
        waits += peer->replies[seen]->body_case == DLP__ENVELOPE__BODY_ATTACH_PROGRESS;
    ck_assert_uint_le(waits, 1); /* it is tried again at once */
    rig_peer_free(peer);
    rig_wait_until_free();
}
END_TEST

START_TEST(clients_are_bounded)
{
    rig_stop();
    rig_start(64 << 20, 16 << 20, 2);
    struct rig_peer *peers[3];
    for (uint64_t i = 0; i < 2; i++)
        peers[i] = rig_attached(1, rig_attach_as("small", i, 3));
    peers[2] = rig_greeted(3);
    Dlp__Attach message = rig_attach_as("small", 2, 3);
    SAY(peers[2], 5, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(peers[2], 5, DLP_ERROR_TOO_MANY), "clients allows, 2", "raise");
    rig_peer_free(peers[0]);
    SAY(peers[2], 6, ATTACH, attach, &message);
    rig_await(peers[2], DLP__ENVELOPE__BODY_ATTACH_REPLY);
    rig_peer_free(peers[1]);
    rig_peer_free(peers[2]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session");
    TCase *test = tcase_create("session");
    tcase_add_checked_fixture(test, rig_setup, rig_teardown);
    tcase_add_test(test, an_epoch_reaches_the_client);
    tcase_add_test(test, a_slot_is_given_back_once);
    tcase_add_test(test, ranks_and_values_of_a_job);
    tcase_add_test(test, pinned_settings);
    tcase_add_test(test, a_probe_is_not_pinned);
    tcase_add_test(test, an_opening_that_fails_is_told);
    tcase_add_test(test, memory_held_ahead_is_waited_for);
    tcase_add_test(test, memory_that_nobody_gives_back_is_refused);
    tcase_add_test(test, failed_batches_take_up_slots);
    tcase_add_test(test, detach_and_attach_again);
    tcase_add_test(test, seek_drops_what_was_filled);
    tcase_add_test(test, tokens_that_do_not_fit);
    tcase_add_test(test, reconnect_goes_on_at_its_own_step);
    tcase_add_test(test, reconnect_of_a_rank_without_steps);
    tcase_add_test(test, vanishing_at_any_moment_frees_everything);
    tcase_add_test(test, memory_is_refused_with_numbers);
    tcase_add_test(test, memory_that_is_being_given_back_is_waited_for);
    tcase_add_test(test, orphaned_memory_is_waited_for);
    tcase_add_test(test, clients_are_bounded);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
