/* control/replay.c, replay_request.c: batches served again, on the rig of control_rig.h. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/group.h"
#include "control/replay_request.h"
#include "control_rig.h"

#define RANKS 4
#define LEAD 10
#define SEEN_MAX 400

struct trainer {
    struct rig_peer *peer;
    uint32_t keep; /* batches that it holds while it takes the next */
    const Dlp__BatchReady *held[DLP_SLOTS_MAX];
    uint32_t nheld;
    struct feed_place steps[SEEN_MAX]; /* of the epochs, without what was replayed */
    uint32_t nsteps, nfailed;
    uint32_t replayed;
    struct feed_place first, last; /* the step before which the replay came, and ended */
};

static struct trainer trainers[RANKS];
static struct rig_peer *asker;

static Dlp__Attach willing(uint64_t rank, uint64_t world)
{
    Dlp__Attach message = rig_attach_as("small", rank, world);
    message.batch = rig_number(1);
    message.allow_replay = true;
    return message;
}

static void join_all(uint32_t count)
{
    memset(trainers, 0, sizeof trainers);
    for (uint32_t i = 0; i < count; i++)
        trainers[i].peer = rig_attached(100 + (int)i, willing(i, count));
    asker = rig_greeted(900);
}

static void leave_all(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (trainers[i].peer)
            rig_peer_free(trainers[i].peer);
    rig_peer_free(asker);
    rig_wait_until_free();
    ck_assert_ptr_null(rig_control->replays);
}

static Dlp__ReplayRequest request(double seconds)
{
    Dlp__ReplayRequest message = DLP__REPLAY_REQUEST__INIT;
    message.job = "j";
    message.seconds = seconds;
    return message;
}

static void ask(Dlp__ReplayRequest message)
{
    SAY(asker, 5, REPLAY_REQUEST, replay_request, &message);
}

static struct feed_place due(const struct trainer *it)
{
    if (!it->nsteps)
        return (struct feed_place){0};
    const struct feed *feed = it->peer->session->group->feed;
    struct feed_place at = it->steps[it->nsteps - 1];
    at.step++;
    while (at.step >= feed_steps(feed, at.epoch))
        at = (struct feed_place){at.epoch + 1, 0};
    return at;
}

static bool same(struct feed_place a, struct feed_place b)
{
    return a.epoch == b.epoch && a.step == b.step;
}

static void note(struct trainer *it, const Dlp__BatchReady *ready)
{
    struct feed_place place = {ready->epoch, ready->step};
    if (ready->replay) {
        if (!it->replayed++)
            it->first = due(it);
        it->last = due(it);
        return;
    }
    if (it->nsteps)
        ck_assert(same(due(it), place));
    it->steps[it->nsteps++] = place;
}

static void give_oldest(struct trainer *it)
{
    rig_release(it->peer, it->held[0]->slot, it->held[0]->generation, 0);
    memmove(it->held, it->held + 1, --it->nheld * sizeof(it->held[0]));
}

static void pass_failed(struct trainer *it, const Dlp__BatchFailed *failed)
{
    Dlp__BatchReady ready = DLP__BATCH_READY__INIT;
    ready.slot = failed->slot;
    ready.generation = failed->generation;
    ready.epoch = failed->epoch;
    ready.step = failed->step;
    it->nfailed++;
    note(it, &ready);
    rig_take(it->peer, &ready, 0);
    rig_release(it->peer, ready.slot, ready.generation, 0);
}

/* Takes a batch, if there is one. */
static void move(struct trainer *it)
{
    struct rig_peer *peer = it->peer;
    while (peer && peer->seen < peer->count) {
        const Dlp__Envelope *env = peer->replies[peer->seen++];
        if (env->body_case == DLP__ENVELOPE__BODY_BATCH_FAILED) {
            pass_failed(it, env->batch_failed);
            return;
        }
        ck_assert_int_eq(env->body_case, DLP__ENVELOPE__BODY_BATCH_READY);
        note(it, env->batch_ready);
        it->held[it->nheld++] = env->batch_ready;
        rig_take(peer, env->batch_ready, 0);
        if (it->nheld > it->keep)
            give_oldest(it);
        return;
    }
}

/* The reply or the error has come; progress is passed over. */
static const Dlp__Envelope *answered(void)
{
    while (asker->seen < asker->count) {
        const Dlp__Envelope *env = asker->replies[asker->seen++];
        if (env->body_case != DLP__ENVELOPE__BODY_ATTACH_PROGRESS)
            return env;
    }
    return NULL;
}

static uint32_t turns(const struct trainer *it)
{
    return it->nsteps + it->replayed;
}

/* None is further ahead than ranks are that train together. */
static bool may_move(const struct trainer *it, uint32_t count)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++)
        if (trainers[i].peer && turns(&trainers[i]) < least)
            least = turns(&trainers[i]);
    return turns(it) <= least + LEAD && rand() % 3;
}

static void turn(uint32_t count)
{
    rig_turn();
    for (uint32_t i = 0; i < count; i++)
        if (may_move(&trainers[i], count))
            move(&trainers[i]);
}

/* All go on, each at its pace, until the answer. */
static const Dlp__Envelope *train_until_answer(uint32_t count)
{
    const Dlp__Envelope *env = NULL;
    uint64_t end = clock_ns() + 60 * CLOCK_SECOND;
    while (!(env = answered()) && clock_ns() < end)
        turn(count);
    ck_assert_ptr_nonnull(env);
    return env;
}

static void train_on(uint32_t count, uint32_t steps)
{
    uint64_t end = clock_ns() + 60 * CLOCK_SECOND;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t to = trainers[i].nsteps + steps;
             trainers[i].peer && trainers[i].nsteps < to && clock_ns() < end;)
            turn(count);
    ck_assert_uint_lt(clock_ns(), end);
}

/* All had as many, before the same step. */
static void check_equal(uint32_t count, const Dlp__ReplayReply *reply)
{
    ck_assert_uint_eq(reply->n_ranks, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct trainer *it = &trainers[reply->ranks[i]->rank];
        ck_assert_uint_eq(it->replayed, reply->ranks[i]->batches);
        ck_assert_uint_eq(it->replayed, trainers[0].replayed);
        ck_assert_uint_eq(reply->ranks[i]->pid, it->peer->session->peer.pid);
        if (it->replayed) {
            ck_assert(same(it->first, it->last));
            ck_assert(same(it->first, (struct feed_place){reply->epoch, reply->step}));
        }
    }
}

static const Dlp__ReplayReply *good(const Dlp__Envelope *env)
{
    ck_assert_msg(env->body_case == DLP__ENVELOPE__BODY_REPLAY_REPLY, "%s",
                  env->body_case == DLP__ENVELOPE__BODY_ERROR ? env->error->text : "?");
    ck_assert_uint_eq(env->id, 5);
    return env->replay_reply;
}

static const char *bad(const Dlp__Envelope *env, enum dlp_error code)
{
    ck_assert_int_eq(env->body_case, DLP__ENVELOPE__BODY_ERROR);
    ck_assert_msg(env->error->code == code, "%u: %s", env->error->code, env->error->text);
    return env->error->text;
}

static const char *refusal(Dlp__ReplayRequest message, enum dlp_error code)
{
    ask(message);
    const Dlp__Envelope *env = answered();
    ck_assert_ptr_nonnull(env);
    return bad(env, code);
}

START_TEST(one_rank)
{
    join_all(1);
    train_on(1, 2);
    const struct session *session = trainers[0].peer->session;
    ask(request(0.05));
    ck_assert_ptr_nonnull(session->group->replay);
    const Dlp__ReplayReply *reply = good(train_until_answer(1));
    check_equal(1, reply);
    ck_assert_uint_gt(reply->ranks[0]->batches, rig_small.slots);
    ck_assert_uint_eq(reply->ranks[0]->samples, reply->ranks[0]->batches);
    ck_assert(reply->ranks[0]->seconds >= 0.05);
    ck_assert(reply->ranks[0]->compute_samples_per_s > 0);
    ck_assert_ptr_null(session->group->replay);
    ck_assert_uint_eq(session->gauge->samples, trainers[0].nsteps); /* none of it is progress */
    ck_assert_uint_eq(session->gauge->batches, trainers[0].nsteps);
    train_on(1, 60);
    ck_assert_uint_eq(session->gauge->samples, trainers[0].nsteps);
    leave_all(1);
}
END_TEST

/* Ranks that are apart, hold a batch or none, at any place of the epoch. */
START_TEST(ranks_have_as_many)
{
    srand((unsigned)_i + 1);
    rig_small.slots = 2 + (uint32_t)_i % 3;
    join_all(RANKS);
    for (uint32_t i = 0; i < RANKS; i++)
        trainers[i].keep = (uint32_t)rand() % rig_small.slots;
    for (uint32_t i = 0; i < 10U + (uint32_t)_i; i++)
        turn(RANKS);
    ask(request(0.05));
    check_equal(RANKS, good(train_until_answer(RANKS)));
    ck_assert_uint_gt(trainers[0].replayed, 0);
    train_on(RANKS, 20);
    leave_all(RANKS);
}
END_TEST

START_TEST(a_number_of_batches_before_a_step)
{
    join_all(2);
    train_on(2, 1);
    Dlp__ReplayRequest message = request(0);
    message.batches = rig_number(5);
    message.epoch = rig_number(3);
    message.step = rig_number(3);
    ask(message);
    const Dlp__ReplayReply *reply = good(train_until_answer(2));
    check_equal(2, reply);
    ck_assert_uint_eq(reply->ranks[0]->batches, 5);
    ck_assert_uint_eq(reply->epoch, 3);
    ck_assert_uint_eq(reply->step, 3);
    train_on(2, 20);
    leave_all(2);
}
END_TEST

/* Ranks on other nodes: all is to be said. */
START_TEST(a_part_of_the_ranks)
{
    join_all(0);
    trainers[0].peer = rig_attached(100, willing(0, 2));
    rig_expect_text(refusal(request(1), DLP_ERROR_BAD_REQUEST), "1 of the 2 ranks of job j",
                    "every node");
    Dlp__ReplayRequest message = request(0);
    message.batches = rig_number(4);
    message.step = rig_number(6);
    rig_expect_text(refusal(message, DLP_ERROR_BAD_REQUEST), "give the same epoch, step", "");
    message.epoch = rig_number(0);
    ask(message);
    const Dlp__ReplayReply *reply = good(train_until_answer(1));
    check_equal(1, reply);
    ck_assert_uint_eq(trainers[0].replayed, 4);
    leave_all(1);
}
END_TEST

START_TEST(what_is_refused)
{
    join_all(2);
    rig_expect_text(refusal(request(0.01), DLP_ERROR_BAD_REQUEST), "0.01 seconds", "0.05 to 3600");
    Dlp__ReplayRequest message = request(1);
    message.job = "other";
    rig_expect_text(refusal(message, DLP_ERROR_NOT_ATTACHED), "no trainer of a job other",
                    "there are: j");
    message.job = "j";
    message.feed = "secret";
    rig_expect_text(refusal(message, DLP_ERROR_NOT_ATTACHED), "of feed secret", "");
    message.job = "";
    refusal(message, DLP_ERROR_BAD_REQUEST);
    message = request(1);
    message.step = rig_number(0);
    rig_expect_text(refusal(message, DLP_ERROR_BAD_REQUEST), "epoch 0, step 0 is too early",
                    "filled up to");
    message.step = rig_number(99);
    rig_expect_text(refusal(message, DLP_ERROR_BAD_REQUEST), "step 99: rank", "has 13 steps");
    trainers[1].peer->session->allow_replay = false;
    rig_expect_text(refusal(request(1), DLP_ERROR_REPLAY), "pid 101; attach with allow_replay",
                    "repeated data");
    trainers[1].peer->session->allow_replay = true;
    uid_t uid = asker->session->peer.uid;
    asker->session->peer.uid = 4242;
    rig_expect_text(refusal(request(1), DLP_ERROR_NOT_PERMITTED), "another user's", "");
    asker->session->peer.uid = uid;
    ask(request(30));
    rig_expect_text(refusal(request(1), DLP_ERROR_REPLAY), "has a replay already", "");
    leave_all(2);
}
END_TEST

START_TEST(no_replay_of_a_mirror_group)
{
    rig_small.share = SHARE_MIRROR;
    asker = rig_greeted(900);
    memset(trainers, 0, sizeof trainers);
    trainers[0].peer = rig_attached(100, willing(0, 1));
    Dlp__ReplayRequest message = request(1);
    message.job = "default";
    rig_expect_text(refusal(message, DLP_ERROR_SHARED), "default is a group", "same memory");
    leave_all(1);
}
END_TEST

static void train_into_replay(uint32_t count, uint32_t batches)
{
    uint64_t end = clock_ns() + 60 * CLOCK_SECOND;
    for (uint32_t i = 0; i < count; i++)
        while (trainers[i].replayed < batches && clock_ns() < end)
            turn(count);
    ck_assert_uint_lt(clock_ns(), end);
}

/* A rank that goes away, chooses an epoch, or detaches: the others have as many, and go on. */
static void check_left(const char *why, uint32_t first)
{
    rig_expect_text(bad(train_until_answer(RANKS), DLP_ERROR_REPLAY), "ended early", why);
    train_on(RANKS, 20);
    for (uint32_t i = first; i < RANKS; i++) {
        ck_assert_uint_eq(trainers[i].replayed, trainers[first].replayed);
        ck_assert(same(trainers[i].first, trainers[first].last));
    }
}

START_TEST(a_rank_vanishes)
{
    srand((unsigned)_i + 1);
    join_all(RANKS);
    ask(request(30));
    train_into_replay(RANKS, (uint32_t)_i * 3);
    rig_peer_free(trainers[0].peer);
    trainers[0].peer = NULL;
    check_left("rank 0 (pid 100) has left", 1);
    leave_all(RANKS);
}
END_TEST

START_TEST(a_rank_chooses_an_epoch)
{
    srand((unsigned)_i + 1);
    join_all(RANKS);
    ask(request(30));
    train_into_replay(RANKS, (uint32_t)_i * 3);
    Dlp__Seek seek = DLP__SEEK__INIT;
    seek.epoch = 3;
    struct rig_peer *peer = trainers[0].peer;
    SAY(peer, 7, SEEK, seek, &seek);
    rig_await(peer, DLP__ENVELOPE__BODY_SEEK_REPLY);
    uint32_t before = trainers[0].replayed;
    trainers[0].nsteps = 0;
    check_left("rank 0 (pid 100) has chosen another epoch", 1);
    ck_assert_uint_eq(trainers[0].replayed, before);
    ck_assert_uint_eq(trainers[0].steps[0].epoch, 3);
    leave_all(RANKS);
}
END_TEST

/* It is served nothing again that it would have to give back first. */
START_TEST(the_job_is_detached)
{
    Dlp__EvictRequest evict = DLP__EVICT_REQUEST__INIT;
    evict.job = "j";
    join_all(1);
    ask(request(30));
    train_into_replay(1, 3);
    SAY(asker, 6, EVICT_REQUEST, evict_request, &evict);
    rig_expect_text(bad(answered(), DLP_ERROR_REPLAY), "ended early", "gets no batches any more");
    rig_await(asker, DLP__ENVELOPE__BODY_EVICT_REPLY);
    while (trainers[0].peer->session->state == SESSION_STREAMING)
        move(&trainers[0]); /* up to the word that it is detached */
    leave_all(1);
}
END_TEST

/* It is told no more, and the ranks go on. */
START_TEST(whoever_asked_goes_away)
{
    srand((unsigned)_i + 1);
    join_all(RANKS);
    ask(request(30));
    train_into_replay(RANKS, (uint32_t)_i * 3);
    rig_peer_free(asker);
    uint64_t end = clock_ns() + 60 * CLOCK_SECOND;
    while (rig_control->replays && clock_ns() < end)
        turn(RANKS);
    for (uint32_t i = 0; i < RANKS; i++)
        ck_assert_uint_eq(trainers[i].replayed, trainers[0].replayed);
    if (_i == 0)
        ck_assert_uint_eq(trainers[0].replayed, 0);
    train_on(RANKS, 20);
    asker = rig_greeted(901);
    leave_all(RANKS);
}
END_TEST

START_TEST(nobody_takes_anything)
{
    join_all(2);
    ask(request(30));
    train_into_replay(2, 3);
    const Dlp__Envelope *progress = NULL;
    replay_tick(rig_control, clock_ns());
    while (asker->seen < asker->count)
        progress = asker->replies[asker->seen++];
    ck_assert_int_eq(progress->body_case, DLP__ENVELOPE__BODY_ATTACH_PROGRESS);
    replay_tick(rig_control, clock_ns() + REPLAY_PATIENCE);
    const Dlp__Envelope *env = answered();
    ck_assert_ptr_nonnull(env);
    rig_expect_text(bad(env, DLP_ERROR_REPLAY), "no trainer has taken a batch for 60 s", "");
    train_on(2, 20);
    ck_assert_uint_eq(trainers[0].replayed, trainers[1].replayed);
    leave_all(2);
}
END_TEST

/* Its place is that of the epoch, whatever it was served again. */
START_TEST(who_comes_back_goes_on)
{
    join_all(1);
    trainers[0].keep = 1;
    ask(request(30));
    train_into_replay(1, 7);
    struct feed_place place = due(&trainers[0]);
    rig_peer_free(trainers[0].peer);
    bad(train_until_answer(0), DLP_ERROR_REPLAY);
    Dlp__Attach message = willing(0, 1);
    message.token = (char *)"last";
    uint64_t end = clock_ns() + 60 * CLOCK_SECOND;
    while (rig_control->nclosing && clock_ns() < end)
        rig_turn();
    trainers[0] = (struct trainer){.peer = rig_attached(100, message)};
    ck_assert_uint_eq(trainers[0].peer->session->group->job->start.position, place.step);
    leave_all(1);
}
END_TEST

/* A batch that failed has its rows all the same. */
START_TEST(failed_batches)
{
    rig_small.fields[0].classes = 20;
    rig_small.bad_samples = BAD_FAIL;
    join_all(2);
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < 2; i++)
            trainers[i].replayed = 0;
        Dlp__ReplayRequest message = request(0);
        message.batches = rig_number(10);
        ask(message);
        check_equal(2, good(train_until_answer(2)));
        ck_assert_uint_eq(trainers[0].replayed, 10);
        train_on(2, 1 + round);
    }
    ck_assert_uint_gt(trainers[0].nfailed + trainers[1].nfailed, 0);
    leave_all(2);
}
END_TEST

/* 26 records, 4 ranks, one row each: two ranks have a step less. */
START_TEST(ranks_of_unequal_epochs)
{
    rig_small.tail = TAIL_PARTIAL;
    srand((unsigned)_i + 1);
    join_all(RANKS);
    for (uint32_t i = 0; i < 6U * (uint32_t)_i; i++)
        turn(RANKS);
    ask(request(0.05));
    const Dlp__ReplayReply *reply = good(train_until_answer(RANKS));
    check_equal(RANKS, reply);
    ck_assert_uint_lt(reply->step, 6);
    train_on(RANKS, 20);
    leave_all(RANKS);
}
END_TEST

/* What was announced and not taken is given back by the client all the same. */
START_TEST(released_without_being_taken)
{
    join_all(1);
    Dlp__ReplayRequest message = request(0);
    message.batches = rig_number(4);
    ask(message);
    train_into_replay(1, 1);
    for (int i = 0; i < 3; i++) {
        const Dlp__BatchReady *ready = rig_next_ready(trainers[0].peer);
        ck_assert(ready->replay);
        rig_release(trainers[0].peer, ready->slot, ready->generation, 0);
    }
    const Dlp__Envelope *env = answered();
    ck_assert_ptr_nonnull(env);
    ck_assert_uint_eq(good(env)->ranks[0]->batches, 4);
    train_on(1, 20);
    leave_all(1);
}
END_TEST

START_TEST(status_tells_of_it)
{
    join_all(1);
    Dlp__StatusRequest message = DLP__STATUS_REQUEST__INIT;
    ask(request(30));
    train_into_replay(1, 2);
    SAY(asker, 6, STATUS_REQUEST, status_request, &message);
    const Dlp__ClientStatus *client =
        rig_await(asker, DLP__ENVELOPE__BODY_STATUS_REPLY)->status_reply->clients[0];
    ck_assert(client->allow_replay && client->replaying);
    rig_expect_text(client->reason, "replay before epoch 0, step ", "of 30.0 s");
    ck_assert_uint_eq(client->samples, trainers[0].nsteps);
    leave_all(1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replay");
    TCase *test = tcase_create("replay");
    tcase_add_checked_fixture(test, rig_setup, rig_teardown);
    tcase_add_test(test, one_rank);
    tcase_add_loop_test(test, ranks_have_as_many, 0, 24);
    tcase_add_test(test, a_number_of_batches_before_a_step);
    tcase_add_test(test, a_part_of_the_ranks);
    tcase_add_test(test, what_is_refused);
    tcase_add_test(test, no_replay_of_a_mirror_group);
    tcase_add_loop_test(test, a_rank_vanishes, 0, 4);
    tcase_add_loop_test(test, a_rank_chooses_an_epoch, 0, 4);
    tcase_add_test(test, the_job_is_detached);
    tcase_add_loop_test(test, whoever_asked_goes_away, 0, 4);
    tcase_add_test(test, nobody_takes_anything);
    tcase_add_test(test, who_comes_back_goes_on);
    tcase_add_test(test, failed_batches);
    tcase_add_loop_test(test, ranks_of_unequal_epochs, 0, 5);
    tcase_add_test(test, released_without_being_taken);
    tcase_add_test(test, status_tells_of_it);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
