/* A mirror group on two GPUs of the stand-in: one decode, a copy to each; what its members find
 * where they join, and what a lost GPU takes with it. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/admit_parts.h"
#include "device/staging.h"
#include "gpu_trainer.h"

static Dlp__Attach member(const uint8_t *of)
{
    Dlp__Attach message = gtr_wish(of, true);
    message.job = "";
    return message;
}

static void mirror(void)
{
    rig_small.share = SHARE_MIRROR;
}

static uint64_t decoded(const struct gtr *of)
{
    struct feed_stats stats;
    feed_get_stats(of->peer->session->group->feed, &stats);
    return stats.work.decoded;
}

/* Who is ahead gets nothing before the other is there too. */
static void catch_up(struct gtr *behind, const struct gtr *ahead)
{
    while (group_before(behind->peer->session->place, ahead->peer->session->place))
        gtr_take_batches(behind, 1);
}

/* Both sides take turns, so that neither holds up the other. */
static void read_on(struct gtr *one, struct gtr *other, unsigned batches)
{
    for (unsigned i = 0; i < batches; i++) {
        gtr_take_batches(one, 1);
        gtr_take_batches(other, 1);
    }
}

/* It could write over what the members read. */
START_TEST(test_another_user)
{
    struct gtr first, second;
    mirror();
    gtr_attach(&first, 1, member(gtr_uuid));
    struct rig_peer *stranger = rig_greeted(2);
    stranger->session->peer.uid++;
    Dlp__Attach message = member(gtr_uuid);
    SAY(stranger, GTR_ATTACH_ID, ATTACH, attach, &message);
    rig_expect_text(rig_await_error(stranger, GTR_ATTACH_ID, DLP_ERROR_GPU), "uid 1000",
                    "another group");
    ck_assert_int_lt(stranger->fd, 0);
    rig_peer_free(stranger);
    gtr_attach(&second, 3, member(gtr_uuid));
    read_on(&first, &second, 5);
    gtr_leave(&first);
    gtr_leave(&second);
    gtr_await_nothing_lent();
}
END_TEST

/* The later one begins with the first batch that is copied to its GPU, and is told so. */
START_TEST(test_joins_on_another_gpu)
{
    struct gtr first, second, third;
    mirror();
    gtr_attach(&first, 1, member(gtr_uuid));
    gtr_take_batches(&first, 2);
    gtr_attach(&second, 2, member(gtr_other_uuid));
    uint64_t begins = second.offer->step;
    ck_assert_uint_ge(begins, 2);
    ck_assert_uint_le(begins, 2 + first.offer->slots + 1);
    for (uint64_t step = 2; step < begins; step++)
        gtr_take_batches(&first, 1);
    ck_assert_uint_eq(second.peer->session->place.step, begins);
    uint64_t before = decoded(&first);
    read_on(&first, &second, 20);
    ck_assert_uint_le(decoded(&first) - before, (20 + first.offer->slots) * RIG_BATCH);
    gtr_attach(&third, 3, member(gtr_other_uuid)); /* in the memory that is there */
    for (int i = 0; i < 5; i++) {
        read_on(&first, &second, 1);
        gtr_take_batches(&third, 1);
    }
    gtr_leave(&first);
    read_on(&second, &third, 10);
    gtr_leave(&third);
    gtr_take_batches(&second, 10);
    gtr_leave(&second);
    rig_wait_until_free();
}
END_TEST

/* A GPU without members is left out, and found again by the next one. */
START_TEST(test_comes_and_goes)
{
    struct gtr stays, goes;
    mirror();
    gtr_attach(&stays, 1, member(gtr_uuid));
    for (int i = 0; i < 3; i++) {
        gtr_attach(&goes, 2, member(gtr_other_uuid));
        catch_up(&stays, &goes);
        read_on(&stays, &goes, 3);
        gtr_leave(&goes);
        gtr_take_batches(&stays, 8);
    }
    gtr_leave(&stays);
    rig_wait_until_free();
}
END_TEST

/* Its copies begin anew with an epoch that the only member chooses. */
START_TEST(test_after_another_epoch)
{
    struct gtr first, second;
    mirror();
    gtr_attach(&first, 1, member(gtr_uuid));
    gtr_take_batches(&first, 20);
    Dlp__Seek message = DLP__SEEK__INIT;
    message.epoch = 1;
    SAY(first.peer, 5, SEEK, seek, &message);
    rig_await(first.peer, DLP__ENVELOPE__BODY_SEEK_REPLY);
    gtr_take_batches(&first, 1);
    for (int other = 0; other < 2; other++) {
        gtr_attach(&second, 2, member(other ? gtr_other_uuid : gtr_uuid));
        ck_assert_uint_eq(second.offer->epoch, 1);
        catch_up(&first, &second);
        read_on(&first, &second, 1);
        gtr_leave(&second);
    }
    gtr_leave(&first);
    rig_wait_until_free();
}
END_TEST

/* In any state, with batches held and copies under way. */
START_TEST(test_killed_member)
{
    struct gtr stays, dies;
    setenv("STANDIN_OP_US", "2000", 1);
    rig_setup();
    mirror();
    gtr_attach(&stays, 1, member(gtr_uuid));
    for (int state = 0; state < 4; state++) {
        gtr_say_attach(&dies, 2, member(gtr_other_uuid));
        if (state > 0)
            gtr_await_offer(&dies);
        if (state > 1)
            gtr_check_offer(&dies);
        if (state > 2) {
            catch_up(&stays, &dies);
            rig_take(dies.peer, rig_next_ready(dies.peer), 0);
        }
        if (dies.pid) {
            kill(dies.pid, SIGKILL);
            crig_wait(dies.pid);
        }
        rig_peer_free(dies.peer);
        gtr_take_batches(&stays, 8);
    }
    gtr_leave(&stays);
    rig_wait_until_free();
    rig_teardown();
}
END_TEST

/* While it is made its group ends: the memory waits for it. */
START_TEST(test_group_ends_while_a_gpu_is_added)
{
    struct gtr first, second;
    mirror();
    for (int i = 0; i < 10; i++) {
        gtr_attach(&first, 1, member(gtr_uuid));
        gtr_say_attach(&second, 2, member(gtr_other_uuid));
        rig_peer_free(second.peer);
        gtr_leave(&first);
        rig_wait_until_free();
    }
}
END_TEST

static bool has_reply(const struct gtr *trainer, int body_case)
{
    for (uint32_t i = trainer->peer->seen; i < trainer->peer->count; i++)
        if ((int)trainer->peer->replies[i]->body_case == body_case)
            return true;
    return false;
}

/* One of them opens the group, and it is not said which. */
static void attach_both(struct gtr both[2])
{
    gtr_say_attach(&both[0], 1, member(gtr_uuid));
    gtr_say_attach(&both[1], 2, member(gtr_other_uuid));
    for (unsigned offered = 0; offered < 3;) {
        rig_turn();
        for (unsigned i = 0; i < 2; i++) {
            if (offered & 1U << i || !has_reply(&both[i], DLP__ENVELOPE__BODY_ATTACH_REPLY))
                continue;
            gtr_await_offer(&both[i]);
            gtr_check_offer(&both[i]);
            offered |= 1U << i;
        }
    }
}

/* Who waits while the group is opened has its GPU from the first batch on. */
START_TEST(test_waits_for_the_opener)
{
    struct gtr both[2];
    mirror();
    attach_both(both);
    ck_assert_uint_eq(both[0].offer->step, 0);
    ck_assert_uint_eq(both[1].offer->step, 0);
    read_on(&both[0], &both[1], 10);
    gtr_leave(&both[0]);
    gtr_leave(&both[1]);
    rig_wait_until_free();
}
END_TEST

static uint64_t copied(const char *name)
{
    struct uploader_state state;
    ck_assert(uploaders_state(rig_control->options.uploaders, name, &state));
    return state.copied;
}

static int stage_of(const struct gtr *trainer)
{
    const struct admit *admit = trainer->peer->session->admit;
    return admit ? (int)admit->stage : -1;
}

/* Who waits for the opener, and does not come after all, gets no copies for ever. */
START_TEST(test_vanishes_while_it_waits)
{
    static const char *const names[] = {"GPU-01010101-0101-0101-0101-010101010101",
                                        "GPU-02020202-0202-0202-0202-020202020202"};
    struct gtr both[2];
    mirror();
    gtr_say_attach(&both[0], 1, member(gtr_uuid));
    gtr_say_attach(&both[1], 2, member(gtr_other_uuid));
    while (stage_of(&both[0]) != ADMIT_CHECK && stage_of(&both[1]) != ADMIT_CHECK)
        rig_turn();
    int opener = stage_of(&both[1]) == ADMIT_CHECK;
    ck_assert_int_eq(stage_of(&both[!opener]), ADMIT_GROUP);
    rig_peer_free(both[!opener].peer);
    gtr_await_offer(&both[opener]);
    gtr_check_offer(&both[opener]);
    gtr_take_batches(&both[opener], 10); /* more than there were slots */
    uint64_t before = copied(names[!opener]);
    gtr_take_batches(&both[opener], 10);
    ck_assert_uint_eq(copied(names[!opener]), before);
    gtr_leave(&both[opener]);
    rig_wait_until_free();
}
END_TEST

/* The others have their GPUs from the first batch on all the same. */
START_TEST(test_opener_vanishes)
{
    struct gtr both[2];
    mirror();
    gtr_say_attach(&both[0], 1, member(gtr_uuid));
    gtr_say_attach(&both[1], 2, member(gtr_other_uuid));
    while (stage_of(&both[0]) != ADMIT_OPEN && stage_of(&both[1]) != ADMIT_OPEN)
        rig_turn();
    int opener = stage_of(&both[1]) == ADMIT_OPEN;
    rig_peer_free(both[opener].peer);
    gtr_await_offer(&both[!opener]);
    ck_assert_uint_eq(both[!opener].offer->step, 0);
    gtr_check_offer(&both[!opener]);
    gtr_take_batches(&both[!opener], 10);
    gtr_leave(&both[!opener]);
    rig_wait_until_free();
}
END_TEST

static void kill_and_free(struct gtr *trainer)
{
    kill(trainer->pid, SIGKILL);
    crig_wait(trainer->pid);
    rig_peer_free(trainer->peer);
}

/* Copies fail on one of the two, whichever comes to it: its member ends, the other goes on. */
static const char *const losses[] = {"cuMemcpyHtoDAsync_v2:25:!700", "cuMemcpyHtoDAsync_v2:25:@719",
                                     "cuMemcpyHtoDAsync_v2:25:1", "cuEventRecord:30:!214"};

START_TEST(test_lost_gpu)
{
    struct gtr both[2];
    setenv("STANDIN_FAULTS", losses[_i], 1);
    setenv("STANDIN_STRICT", "0", 1);
    setenv("STANDIN_REPORT", "/dev/null", 1);
    rig_setup();
    mirror();
    attach_both(both);
    uint64_t slot = both[0].offer->slot_bytes, end = clock_ns() + 60 * CLOCK_SECOND;
    int lost = -1;
    while (lost < 0) {
        ck_assert(clock_ns() < end);
        rig_turn();
        for (int i = 0; i < 2; i++)
            if (has_reply(&both[i], DLP__ENVELOPE__BODY_ERROR))
                lost = i;
        for (int i = 0; lost < 0 && i < 2; i++)
            if (has_reply(&both[i], DLP__ENVELOPE__BODY_BATCH_READY))
                gtr_take_batches(&both[i], 1);
    }
    rig_expect_text(rig_await_error(both[lost].peer, 0, DLP_ERROR_GPU), "GPU-0", "CUDA_ERROR");
    kill_and_free(&both[lost]);
    gtr_take_batches(&both[!lost], 30);
    gtr_leave(&both[!lost]);
    while (rig_control->sessions || rig_control->nclosing)
        rig_turn();
    rig_kept_bytes = budget_used(rig_budget, BUDGET_SLOTS);
    ck_assert_uint_le(rig_kept_bytes, 2 * STAGING_SLOTS * slot);
    ck_assert_uint_eq(rig_kept_bytes % slot, 0);
    rig_teardown();
}
END_TEST

/* Of another group's GPU: who joins waits for those who wait for it on threads, and says so. */
START_TEST(test_joins_while_drivers_hang)
{
    static char groups[4][4];
    static const char words[] = "waiting for 4 other trainers whose memory on GPUs is being made";
    struct gtr first, others[4], joins;
    setenv("UV_THREADPOOL_SIZE", "5", 1);
    setenv("STANDIN_FAULTS", "cuDevicePrimaryCtxRetain:2:stay", 1);
    rig_times = uploader_times;
    rig_times.call_ns = 600 * CLOCK_SECOND;
    rig_setup();
    mirror();
    gtr_attach(&first, 1, member(gtr_uuid));
    gtr_take_batches(&first, 3);
    for (int i = 0; i < 4; i++) {
        Dlp__Attach message = member(gtr_other_uuid);
        message.gpu_only = false;
        snprintf(groups[i], sizeof groups[i], "g%d", i);
        message.group = groups[i];
        gtr_say_attach(&others[i], i + 2, message);
    }
    while (rig_control->gpu_opens < 4)
        rig_turn();
    gtr_say_attach(&joins, 6, member(gtr_uuid));
    while (strcmp(admit_waits_for(joins.peer->session->admit, true), words) != 0)
        rig_turn();
    kill(first.pid, SIGKILL);
    crig_wait(first.pid);
    rig_abandon();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        return gtr_main(argc, argv);
    Suite *suite = suite_create("cuda_mirror");
    TCase *tcase = tcase_create("mirror");
    tcase_add_checked_fixture(tcase, gtr_setup, NULL);
    tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
    tcase_add_test(tcase, test_another_user);
    tcase_add_test(tcase, test_joins_on_another_gpu);
    tcase_add_test(tcase, test_comes_and_goes);
    tcase_add_test(tcase, test_after_another_epoch);
    tcase_add_test(tcase, test_group_ends_while_a_gpu_is_added);
    tcase_add_test(tcase, test_waits_for_the_opener);
    tcase_add_test(tcase, test_vanishes_while_it_waits);
    tcase_add_test(tcase, test_opener_vanishes);
    suite_add_tcase(suite, tcase);
    TCase *losing = tcase_create("losing"); /* with settings of the driver, before it starts */
    tcase_add_checked_fixture(losing, gtr_setup, NULL);
    tcase_add_test(losing, test_killed_member);
    tcase_add_test(losing, test_joins_while_drivers_hang);
    tcase_add_loop_test(losing, test_lost_gpu, 0, sizeof losses / sizeof *losses);
    suite_add_tcase(suite, losing);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
