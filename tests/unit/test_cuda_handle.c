/* Batches on a GPU whose memory is passed on by a handle: it is not freed while a process may map
 * it, and nothing else waits for that. */
#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/admit.h"
#include "gpu_trainer.h"

static void attach_by_handle(struct gtr *trainer, Dlp__Attach message)
{
    rig_small.handoff = HANDOFF_IPC;
    gtr_say_attach_watched(trainer, message);
    gtr_await_offer(trainer);
    ck_assert_str_eq(trainer->offer->memory_why, "");
    gtr_check_offer_of(trainer, DLP_MEMORY_IPC);
}

static unsigned descriptors(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void detach(struct gtr *trainer)
{
    Dlp__Detach message = DLP__DETACH__INIT;
    gtr_unmap(trainer);
    SAY(trainer->peer, 3, DETACH, detach, &message);
    rig_await(trainer->peer, DLP__ENVELOPE__BODY_DETACH_REPLY);
    rig_peer_free(trainer->peer);
    ck_assert_int_eq(crig_wait(trainer->pid), 0);
    close(trainer->socket);
    close(trainer->life);
}

START_TEST(test_by_a_handle)
{
    struct gtr trainer;
    attach_by_handle(&trainer, gtr_wish(gtr_uuid, true));
    gtr_take_batches(&trainer, 20);
    detach(&trainer);
    rig_wait_until_free();
}
END_TEST

/* The connection ends and the process does not: its memory stays. */
START_TEST(test_process_outlives_its_connection)
{
    struct gtr trainer;
    for (int streams = 0; streams < 2; streams++) {
        rig_small.handoff = HANDOFF_IPC;
        gtr_say_attach_watched(&trainer, gtr_wish(gtr_uuid, false));
        gtr_await_offer(&trainer);
        if (streams)
            gtr_check_offer_of(&trainer, DLP_MEMORY_IPC);
        else
            gtr_map_offer(&trainer, DLP_MEMORY_IPC);
        if (streams)
            gtr_take_batches(&trainer, 3);
        rig_peer_free(trainer.peer);
        rig_wait_until_free();
        usleep(300000);
        ck_assert_uint_gt(gtr_lent(), 0);
        uint8_t nonce[DLP_NONCE]; /* and can be read */
        gtr_ask(&trainer, trainer.offer_nonce, nonce, sizeof nonce);
        kill(trainer.pid, SIGKILL);
        gtr_await_nothing_lent();
        crig_wait(trainer.pid);
        close(trainer.life);
    }
}
END_TEST

START_TEST(test_daemon_ends_before_the_process)
{
    struct gtr trainer;
    rig_setup();
    attach_by_handle(&trainer, gtr_wish(gtr_uuid, false));
    rig_peer_free(trainer.peer);
    for (int i = 0; i < 50; i++)
        rig_turn();
    rig_kept = true;
    rig_stop();
    kill(trainer.pid, SIGKILL);
    crig_wait(trainer.pid);
    _exit(0);
}
END_TEST

/* It holds up its group for no longer than others may. */
START_TEST(test_member_without_an_answer)
{
    struct gtr first, second;
    rig_small.share = SHARE_MIRROR;
    Dlp__Attach message = gtr_wish(gtr_uuid, false);
    message.job = "";
    attach_by_handle(&first, message);
    gtr_take_batches(&first, 3);
    gtr_say_attach_watched(&second, message);
    gtr_await_offer(&second);
    admit_tick(second.peer->session->admit, clock_ns() + 31 * CLOCK_SECOND);
    rig_expect_text(rig_await_error(second.peer, GTR_ATTACH_ID, DLP_ERROR_GPU), "group default",
                    "has not said within 30 s");
    gtr_take_batches(&first, 8);
    gtr_leave(&first);
    while (rig_control->groups)
        rig_turn();
    ck_assert_uint_gt(gtr_lent(), 0); /* the other may still map it, until it says otherwise */
    Dlp__Detach leave = DLP__DETACH__INIT;
    SAY(second.peer, 5, DETACH, detach, &leave);
    rig_await_error(second.peer, 5, DLP_ERROR_NOT_ATTACHED);
    gtr_await_nothing_lent();
    kill(second.pid, SIGKILL);
    crig_wait(second.pid);
    rig_peer_free(second.peer);
    rig_wait_until_free();
}
END_TEST

/* Of those who have left a group nothing is kept while it goes on. */
START_TEST(test_members_come_and_go)
{
    struct gtr stays, goes;
    rig_small.share = SHARE_MIRROR;
    Dlp__Attach message = gtr_wish(gtr_uuid, false);
    message.job = "";
    attach_by_handle(&stays, message);
    unsigned before = 0;
    for (int i = 0; i < 8; i++) {
        attach_by_handle(&goes, message);
        gtr_take_batches(&goes, 1);
        detach(&goes);
        gtr_take_batches(&stays, 2);
        if (i == 1)
            before = descriptors();
    }
    ck_assert_uint_le(descriptors(), before + 1);
    detach(&stays);
    rig_wait_until_free();
}
END_TEST

/* Nor does who opens the group: all get the next way, and what it comes with later is nothing. */
START_TEST(test_opener_without_an_answer)
{
    struct gtr first, second;
    uint8_t nonce[DLP_NONCE];
    rig_small.share = SHARE_MIRROR;
    rig_small.handoff = HANDOFF_IPC;
    Dlp__Attach message = gtr_wish(gtr_uuid, false);
    message.job = "";
    gtr_say_attach_watched(&first, message);
    gtr_await_offer(&first);
    gtr_map_offer(&first, DLP_MEMORY_IPC);
    gtr_say_attach_watched(&second, message);
    for (int i = 0; i < 20; i++)
        rig_turn();
    struct gtr late = first;
    admit_tick(first.peer->session->admit, clock_ns() + 31 * CLOCK_SECOND);
    gtr_await_offer(&first);
    gtr_await_offer(&second);
    ck_assert_uint_eq(first.offer->memory, DLP_MEMORY_HOST);
    ck_assert_uint_eq(second.offer->memory, DLP_MEMORY_HOST);
    ck_assert(strstr(second.offer->memory_why, "has not said within 30 s"));
    gtr_ask(&late, late.offer_nonce, nonce, sizeof nonce); /* it is there still */
    gtr_say_check(&late, nonce, sizeof nonce);
    rig_next_ready(first.peer);
    rig_next_ready(second.peer);
    ck_assert_uint_gt(gtr_lent(), 0);
    Dlp__Detach leave = DLP__DETACH__INIT;
    gtr_unmap(&first);
    SAY(first.peer, 5, DETACH, detach, &leave);
    rig_await(first.peer, DLP__ENVELOPE__BODY_DETACH_REPLY);
    gtr_await_nothing_lent();
    rig_peer_free(first.peer);
    rig_peer_free(second.peer);
    ck_assert_int_eq(crig_wait(first.pid), 0);
    kill(second.pid, SIGKILL);
    crig_wait(second.pid);
    rig_wait_until_free();
}
END_TEST

/* The answer to an offer that was taken back is not one to the next. */
START_TEST(test_late_answer)
{
    struct gtr trainer;
    uint8_t nonce[DLP_NONCE] = {0};
    gtr_say_attach_watched(&trainer, gtr_wish(gtr_uuid, false));
    gtr_await_offer(&trainer);
    struct gtr late = trainer;
    admit_tick(trainer.peer->session->admit, clock_ns() + 31 * CLOCK_SECOND);
    gtr_say_check(&late, nonce, sizeof nonce); /* while the memory is taken back */
    gtr_await_offer(&trainer);
    ck_assert_uint_eq(trainer.offer->memory, DLP_MEMORY_IPC);
    gtr_say_check(&late, nonce, sizeof nonce); /* and while other memory is offered */
    gtr_check_offer_of(&trainer, DLP_MEMORY_IPC);
    gtr_say_check(&late, nonce, sizeof nonce); /* and afterwards */
    gtr_take_batches(&trainer, 3);
    gtr_leave(&trainer);
    rig_wait_until_free();
}
END_TEST

/* One way after the other, each with its reason. */
START_TEST(test_all_ways)
{
    struct gtr trainer;
    gtr_say_attach_watched(&trainer, gtr_wish(gtr_uuid, false));
    gtr_await_offer(&trainer);
    ck_assert_uint_eq(trainer.offer->memory, DLP_MEMORY_VMM);
    gtr_say_check(&trainer, NULL, 0);
    gtr_await_offer(&trainer);
    ck_assert_uint_eq(trainer.offer->memory, DLP_MEMORY_IPC);
    ck_assert(strstr(trainer.offer->memory_why, "CUDA_ERROR_MAP_FAILED (205)"));
    uint8_t nonce[DLP_NONCE] = {0};
    gtr_say_check(&trainer, nonce, sizeof nonce);
    gtr_await_offer(&trainer);
    ck_assert_uint_eq(trainer.offer->memory, DLP_MEMORY_HOST);
    rig_expect_text(trainer.offer->memory_why, "CUDA_ERROR_MAP_FAILED (205)",
                    "; the trainer has read other");
    rig_next_ready(trainer.peer);
    ck_assert_uint_gt(gtr_lent(), 0); /* it has something mapped there */
    kill(trainer.pid, SIGKILL);
    crig_wait(trainer.pid);
    rig_peer_free(trainer.peer);
    rig_wait_until_free();
    gtr_await_nothing_lent();
}
END_TEST

START_TEST(test_no_descriptors)
{
    struct gtr trainer;
    setenv("STANDIN_POSIX_FD", "0", 1);
    rig_setup();
    gtr_say_attach_watched(&trainer, gtr_wish(gtr_uuid, true));
    gtr_await_offer(&trainer);
    ck_assert(strstr(trainer.offer->memory_why, "cannot be passed on as a descriptor"));
    gtr_check_offer_of(&trainer, DLP_MEMORY_IPC);
    gtr_take_batches(&trainer, 3);
    gtr_leave(&trainer);
    rig_wait_until_free();
    rig_teardown();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        return gtr_main(argc, argv);
    Suite *suite = suite_create("cuda_handle");
    TCase *tcase = tcase_create("attach");
    tcase_add_checked_fixture(tcase, gtr_setup, NULL);
    tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
    tcase_add_test(tcase, test_by_a_handle);
    tcase_add_test(tcase, test_process_outlives_its_connection);
    tcase_add_test(tcase, test_member_without_an_answer);
    tcase_add_test(tcase, test_members_come_and_go);
    tcase_add_test(tcase, test_opener_without_an_answer);
    tcase_add_test(tcase, test_late_answer);
    tcase_add_test(tcase, test_all_ways);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("trouble"); /* of the driver, so that they start it themselves */
    tcase_add_checked_fixture(tcase, gtr_setup, NULL);
    tcase_add_test(tcase, test_no_descriptors);
    tcase_add_test(tcase, test_daemon_ends_before_the_process);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
