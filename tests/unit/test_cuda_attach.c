/* Attaching to batches on a GPU, on the stand-in: what is offered, whether the trainer can read it,
 * and what comes where it cannot. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/admit.h"
#include "device/staging.h"
#include "gpu_trainer.h"

static uint8_t no_uuid[16];

static Dlp__Attach member(const uint8_t *of)
{
    Dlp__Attach message = of ? gtr_wish(of, false) : rig_attach("small");
    message.job = "";
    return message;
}

START_TEST(test_batches_on_a_gpu)
{
    struct gtr trainer;
    gtr_attach(&trainer, 1, gtr_wish(gtr_uuid, true));
    gtr_take_batches(&trainer, 40);
    gtr_leave(&trainer);
    rig_wait_until_free();
}
END_TEST

/* And again as many as were meant for who opens it next. */
START_TEST(test_fewer_slots_for_one)
{
    struct gtr first, second;
    setenv("STANDIN_FAULTS", "cuMemCreate:1:2,cuMemCreate:2:2", 1);
    rig_setup();
    rig_small.slots = 8;
    rig_small.share = SHARE_MIRROR;
    Dlp__Attach message = member(gtr_uuid);
    message.gpu_only = true;
    gtr_say_attach(&first, 1, message);
    while (!rig_control->groups->opener)
        rig_turn();
    gtr_say_attach(&second, 2, member(gtr_uuid));
    rig_await_error(first.peer, GTR_ATTACH_ID, DLP_ERROR_GPU);
    gtr_await_offer(&second);
    ck_assert_uint_eq(second.offer->memory, DLP_MEMORY_VMM);
    ck_assert_uint_eq(second.offer->slots, 8);
    rig_peer_free(first.peer);
    rig_peer_free(second.peer);
    rig_wait_until_free();
    rig_teardown();
}
END_TEST

/* Who writes where it must not hurts itself. */
START_TEST(test_writes_after_release)
{
    struct gtr writer, other;
    Dlp__Attach message = gtr_wish(gtr_uuid, true);
    gtr_attach(&writer, 1, message);
    message.job = "k";
    gtr_attach(&other, 2, message);
    for (int i = 0; i < 10; i++) {
        const Dlp__BatchReady *ready = rig_next_ready(writer.peer);
        rig_take(writer.peer, ready, 0);
        rig_release(writer.peer, ready->slot, ready->generation, 0);
        gtr_scribble(&writer);
        gtr_take_batches(&other, 3);
    }
    gtr_leave(&writer);
    gtr_leave(&other);
    rig_wait_until_free();
}
END_TEST

/* No batch is announced before the check, however long it takes. */
START_TEST(test_nothing_before_the_check)
{
    struct gtr trainer;
    gtr_say_attach(&trainer, 1, gtr_wish(gtr_uuid, false));
    gtr_await_offer(&trainer);
    for (int i = 0; i < 50; i++)
        rig_turn();
    ck_assert_uint_eq(trainer.peer->seen, trainer.peer->count);
    gtr_check_offer(&trainer);
    gtr_take_batches(&trainer, 3);
    gtr_leave(&trainer);
    rig_wait_until_free();
}
END_TEST

START_TEST(test_other_bytes)
{
    struct gtr trainer;
    uint8_t nonce[DLP_NONCE] = {0};
    gtr_say_attach(&trainer, 1, gtr_wish(gtr_uuid, false));
    gtr_await_offer(&trainer);
    gtr_say_check(&trainer, nonce, sizeof nonce);
    gtr_expect_host(&trainer, "other bytes");
}
END_TEST

START_TEST(test_cannot_be_mapped)
{
    struct gtr trainer;
    gtr_say_attach(&trainer, 1, gtr_wish(gtr_uuid, false));
    gtr_await_offer(&trainer);
    gtr_say_check(&trainer, NULL, 0);
    gtr_expect_host(&trainer, "the trainer cannot map it: cuMemMap: CUDA_ERROR_MAP_FAILED (205)");
}
END_TEST

START_TEST(test_no_answer)
{
    struct gtr trainer;
    gtr_say_attach(&trainer, 1, gtr_wish(gtr_uuid, false));
    gtr_await_offer(&trainer);
    admit_tick(trainer.peer->session->admit, clock_ns() + 29 * CLOCK_SECOND);
    ck_assert(strstr(admit_waits_for(trainer.peer->session->admit, true),
                     "GPU-01010101-0101-0101-0101-010101010101"));
    admit_tick(trainer.peer->session->admit, clock_ns() + 31 * CLOCK_SECOND);
    gtr_expect_host(&trainer, "has not said within 30 s");
}
END_TEST

/* It has read what it takes for the right bytes, and goes on as one that is attached. */
START_TEST(test_takes_itself_for_attached)
{
    struct gtr trainer;
    uint8_t nonce[DLP_NONCE] = {0};
    Dlp__Wait wait = DLP__WAIT__INIT;
    Dlp__Seek seek = DLP__SEEK__INIT;
    gtr_say_attach(&trainer, 1, gtr_wish(gtr_uuid, false));
    gtr_await_offer(&trainer);
    gtr_say_check(&trainer, nonce, sizeof nonce);
    SAY(trainer.peer, 3, WAIT, wait, &wait);
    SAY(trainer.peer, 4, SEEK, seek, &seek);
    gtr_expect_host(&trainer, "other bytes");
}
END_TEST

static const char *expect_refusal(struct gtr *trainer)
{
    const char *text = rig_await_error(trainer->peer, GTR_ATTACH_ID, DLP_ERROR_GPU);
    ck_assert_int_eq(trainer->peer->session->state, SESSION_GREETED);
    return text;
}

START_TEST(test_a_gpu_or_nothing)
{
    struct gtr trainer;
    gtr_say_attach(&trainer, 1, gtr_wish(gtr_uuid, true));
    gtr_await_offer(&trainer);
    gtr_say_check(&trainer, NULL, 0);
    rig_expect_text(expect_refusal(&trainer), "feed small", "CUDA_ERROR_MAP_FAILED");
    Dlp__Attach message = rig_attach("small"); /* and now without */
    SAY(trainer.peer, GTR_ATTACH_ID, ATTACH, attach, &message);
    gtr_expect_host(&trainer, "");
}
END_TEST

START_TEST(test_settings)
{
    struct gtr trainer;
    rig_small.handoff = HANDOFF_HOST;
    gtr_say_attach(&trainer, 1, gtr_wish(gtr_uuid, false));
    gtr_expect_host(&trainer, "handoff: host");
    gtr_say_attach(&trainer, 1, gtr_wish(gtr_uuid, true));
    rig_expect_text(expect_refusal(&trainer), "feed small", "handoff: host");
    rig_peer_free(trainer.peer);
    rig_small.handoff = HANDOFF_VMM;
    Dlp__Attach message = gtr_wish(gtr_uuid, false);
    message.slots = rig_number(2);
    gtr_say_attach(&trainer, 1, message);
    gtr_expect_host(&trainer, "slots are 2, and a GPU needs at least 3");
}
END_TEST

START_TEST(test_wrong_wishes)
{
    struct gtr trainer;
    Dlp__Attach message = gtr_wish(gtr_uuid, false);
    message.gpu.len = 15;
    gtr_say_attach(&trainer, 1, message);
    rig_await_error(trainer.peer, GTR_ATTACH_ID, DLP_ERROR_BAD_REQUEST);
    message.gpu.len = 0;
    message.gpu_only = true;
    SAY(trainer.peer, GTR_ATTACH_ID, ATTACH, attach, &message);
    rig_await_error(trainer.peer, GTR_ATTACH_ID, DLP_ERROR_BAD_REQUEST);
    gtr_say_check(&trainer, NULL, 0);
    rig_await_error(trainer.peer, 0, DLP_ERROR_NOT_ATTACHED);
    rig_peer_free(trainer.peer);
    rig_wait_until_free();
}
END_TEST

START_TEST(test_gpu_elsewhere)
{
    struct gtr trainer;
    gtr_say_attach(&trainer, 1, gtr_wish(no_uuid, false));
    gtr_expect_host(&trainer, "GPU-00000000-0000-0000-0000-000000000000: the daemon does not see");
}
END_TEST

static const struct {
    const char *name, *value, *why;
} troubles[] = {
    {"STANDIN_INIT", "34", "CUDA_ERROR_STUB_LIBRARY"},
    {"STANDIN_COMPUTE_MODE", "3", "EXCLUSIVE_PROCESS"},
    {"STANDIN_POSIX_FD", "0", "cannot be passed on as a descriptor"},
    {"STANDIN_FAULTS", "cuDevicePrimaryCtxRetain:1:2", "CUDA_ERROR_OUT_OF_MEMORY"},
    {"STANDIN_FAULTS", "cuMemCreate:1:2", "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY"},
    {"STANDIN_FAULTS", "cuMemExportToShareableHandle:1:304", "CUDA_ERROR_OPERATING_SYSTEM"},
};

START_TEST(test_gpu_in_trouble)
{
    struct gtr trainer;
    setenv(troubles[_i].name, troubles[_i].value, 1);
    rig_setup();
    gtr_say_attach(&trainer, 1, gtr_wish(gtr_uuid, false));
    gtr_expect_host(&trainer, troubles[_i].why);
    rig_teardown();
}
END_TEST

/* The number of slots is the feed's: fewer are tried, once. */
START_TEST(test_fewer_slots)
{
    struct gtr trainer;
    setenv("STANDIN_FAULTS", "cuMemCreate:1:2", 1);
    rig_setup();
    rig_small.slots = 8;
    gtr_attach(&trainer, 1, gtr_wish(gtr_uuid, true));
    ck_assert_uint_eq(trainer.offer->slots, 3);
    rig_expect_text(trainer.offer->memory_why, "3 slots instead of 8, as ", "cuMemCreate: CUDA");
    gtr_take_batches(&trainer, 20);
    gtr_leave(&trainer);
    rig_wait_until_free();
    rig_teardown();
}
END_TEST

START_TEST(test_no_fewer_slots)
{
    struct gtr trainer;
    setenv("STANDIN_FAULTS", "cuMemCreate:*:2", 1);
    rig_setup();
    rig_small.slots = 8;
    gtr_say_attach(&trainer, 1, gtr_wish(gtr_uuid, false));
    gtr_await_offer(&trainer);
    ck_assert_uint_eq(trainer.offer->memory, DLP_MEMORY_HOST);
    ck_assert_uint_eq(trainer.offer->slots, 8);
    rig_peer_free(trainer.peer);
    rig_wait_until_free();
    Dlp__Attach message = gtr_wish(gtr_uuid, false);
    message.slots = rig_number(8);
    gtr_say_attach(&trainer, 1, message);
    gtr_await_offer(&trainer);
    ck_assert(!strstr(trainer.offer->memory_why, "instead of"));
    rig_peer_free(trainer.peer);
    rig_wait_until_free();
    rig_teardown();
}
END_TEST

/* At any moment. */
START_TEST(test_trainer_vanishes)
{
    struct gtr trainer;
    uint8_t nonce[DLP_NONCE] = {0};
    for (int i = 0; i < 4; i++) {
        gtr_say_attach(&trainer, 1, gtr_wish(gtr_uuid, false));
        if (i > 0)
            gtr_await_offer(&trainer);
        if (i == 2)
            gtr_say_check(&trainer, nonce, sizeof nonce);
        if (i == 3)
            gtr_check_offer(&trainer);
        if (trainer.pid) {
            kill(trainer.pid, SIGKILL);
            crig_wait(trainer.pid);
        }
        rig_peer_free(trainer.peer);
        rig_wait_until_free();
    }
}
END_TEST

static struct gtr waiting[6];

/* More of them than there are helper threads; and one without a GPU, which is not held up. */
static void attach_many(void)
{
    static char jobs[6][4];
    for (int i = 0; i < 6; i++) {
        snprintf(jobs[i], sizeof jobs[i], "j%d", i);
        Dlp__Attach message = i < 5 ? gtr_wish(gtr_uuid, false) : rig_attach("small");
        message.job = jobs[i];
        gtr_say_attach(&waiting[i], i + 1, message);
    }
    gtr_await_offer(&waiting[5]);
    rig_next_ready(waiting[5].peer);
}

/* So many of the five wait for this. */
static void await_words(int expected, const char *words)
{
    int count = 0;
    uint64_t end = clock_ns() + 10 * CLOCK_SECOND;
    while (count != expected && clock_ns() < end) {
        rig_turn();
        count = 0;
        for (int i = 0; i < 5; i++)
            count += strcmp(admit_waits_for(waiting[i].peer->session->admit, true), words) == 0;
    }
    ck_assert_int_eq(count, expected);
}

/* The driver does not say what GPUs there are: nobody waits for it on a thread. */
START_TEST(test_driver_without_a_list)
{
    setenv("STANDIN_INIT_S", "600", 1);
    rig_setup();
    attach_many();
    await_words(5, "waiting for the NVIDIA driver, which is asked for its GPUs");
    for (int i = 0; i < 5; i++) {
        struct admit *admit = waiting[i].peer->session->admit;
        admit_tick(admit, clock_ns() + 31 * CLOCK_SECOND);
        gtr_await_offer(&waiting[i]);
        ck_assert_uint_eq(waiting[i].offer->memory, DLP_MEMORY_HOST);
        ck_assert(strstr(waiting[i].offer->memory_why, "has not said within 30 s which GPUs"));
    }
    rig_abandon();
}
END_TEST

/* It answers later. */
START_TEST(test_driver_with_a_late_list)
{
    struct gtr trainer;
    setenv("STANDIN_INIT_S", "1", 1);
    rig_setup();
    gtr_attach(&trainer, 1, gtr_wish(gtr_uuid, true));
    gtr_take_batches(&trainer, 3);
    gtr_leave(&trainer);
    rig_wait_until_free();
    rig_teardown();
}
END_TEST

/* It does not return from a call: some wait for that on threads, others for them, and then all. */
START_TEST(test_driver_that_hangs)
{
    setenv("UV_THREADPOOL_SIZE", "5", 1);
    setenv("STANDIN_FAULTS", "cuDevicePrimaryCtxRetain:1:stay", 1);
    rig_times = uploader_times;
    rig_times.call_ns = 6 * CLOCK_SECOND;
    rig_setup();
    attach_many();
    await_words(1, "waiting for 4 other trainers whose memory on GPUs is being made");
    for (int i = 0; i < 5; i++) {
        gtr_await_offer(&waiting[i]);
        ck_assert_uint_eq(waiting[i].offer->memory, DLP_MEMORY_HOST);
        ck_assert(strstr(waiting[i].offer->memory_why, "its driver has not returned from a call"));
        rig_next_ready(waiting[i].peer);
    }
    rig_abandon();
}
END_TEST

START_TEST(test_gpu_is_lost)
{
    struct gtr trainer, next;
    setenv("STANDIN_FAULTS", "cuMemcpyHtoDAsync_v2:4:!700", 1);
    setenv("STANDIN_STRICT", "0", 1);
    rig_setup();
    gtr_attach(&trainer, 1, gtr_wish(gtr_uuid, false));
    uint64_t trainer_slot = trainer.offer->slot_bytes;
    const char *text = rig_await_error(trainer.peer, 0, DLP_ERROR_GPU);
    rig_expect_text(text, "GPU-01010101", "CUDA_ERROR_ILLEGAL_ADDRESS");
    Dlp__Attach other = rig_attach("small"); /* others go on */
    other.job = "k";
    gtr_say_attach(&next, 2, other);
    gtr_await_offer(&next);
    rig_next_ready(next.peer);
    rig_peer_free(next.peer);
    kill(trainer.pid, SIGKILL);
    crig_wait(trainer.pid);
    rig_peer_free(trainer.peer);
    gtr_say_attach(&next, 3, gtr_wish(gtr_uuid, false));
    gtr_await_offer(&next);
    ck_assert_uint_eq(next.offer->memory, DLP_MEMORY_HOST);
    ck_assert(strstr(next.offer->memory_why, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    rig_next_ready(next.peer);
    rig_peer_free(next.peer);
    gtr_say_attach(&next, 4, gtr_wish(gtr_other_uuid, true)); /* which goes on, too */
    gtr_await_offer(&next);
    ck_assert_uint_eq(next.offer->memory, DLP_MEMORY_VMM);
    rig_peer_free(next.peer);
    rig_kept_bytes = STAGING_SLOTS * trainer_slot; /* that the driver may read */
    rig_teardown();
}
END_TEST

static const Dlp__Gpu *ask_gpus(struct rig_peer *peer)
{
    Dlp__GpuRequest request = DLP__GPU_REQUEST__INIT;
    SAY(peer, 9, GPU_REQUEST, gpu_request, &request);
    return rig_await(peer, DLP__ENVELOPE__BODY_GPU_REPLY)->gpu_reply->gpus[0];
}

START_TEST(test_letting_go)
{
    struct gtr trainer;
    gtr_attach(&trainer, 1, gtr_wish(gtr_uuid, false));
    gtr_take_batches(&trainer, 3);
    const Dlp__Gpu *gpu = ask_gpus(trainer.peer);
    ck_assert(gpu->context);
    ck_assert_uint_eq(gpu->lent, trainer.offer->arena_bytes);
    ck_assert_uint_ge(gpu->copied, 3 * trainer.offer->slot_bytes);
    Dlp__GpuRequest request = DLP__GPU_REQUEST__INIT;
    char uuid[64];
    request.release = strcpy(uuid, gpu->uuid);
    struct rig_peer *tool = rig_greeted(2);
    tool->session->peer.uid = geteuid() + 1;
    SAY(tool, 3, GPU_REQUEST, gpu_request, &request);
    rig_await_error(tool, 3, DLP_ERROR_NOT_PERMITTED);
    tool->session->peer.uid = geteuid();
    SAY(tool, 4, GPU_REQUEST, gpu_request, &request);
    rig_expect_text(rig_await_error(tool, 4, DLP_ERROR_GPU), "GPU-01010101", "1 feed has");
    gtr_leave(&trainer);
    while (rig_control->nclosing)
        rig_turn();
    SAY(tool, 5, GPU_REQUEST, gpu_request, &request);
    gpu = rig_await(tool, DLP__ENVELOPE__BODY_GPU_REPLY)->gpu_reply->gpus[0];
    ck_assert(!gpu->context);
    ck_assert_uint_eq(gpu->lent, 0);
    rig_peer_free(tool);
    rig_wait_until_free();
}
END_TEST

START_TEST(test_members_of_a_group)
{
    struct gtr first, second, third;
    rig_small.share = SHARE_MIRROR;
    gtr_attach(&first, 1, member(gtr_uuid));
    gtr_take_batches(&first, 5);
    gtr_attach(&second, 2, member(gtr_uuid));
    ck_assert(second.offer->shared);
    gtr_take_batches(&second, 2);
    gtr_take_batches(&first, 2);
    gtr_say_attach(&third, 3, member(NULL));
    rig_expect_text(expect_refusal(&third), "group default", "shared memory");
    rig_peer_free(third.peer);
    gtr_say_attach(&third, 3, member(gtr_uuid)); /* who cannot read it holds up nobody */
    gtr_await_offer(&third);
    gtr_say_check(&third, NULL, 0);
    rig_expect_text(expect_refusal(&third), "group default", "CUDA_ERROR_MAP_FAILED");
    rig_peer_free(third.peer);
    gtr_take_batches(&first, 3);
    gtr_take_batches(&second, 3);
    gtr_leave(&first);
    gtr_take_batches(&second, 3);
    gtr_leave(&second);
    rig_wait_until_free();
}
END_TEST

/* The others leave while it maps, and then it cannot read it: the group's end comes first. */
START_TEST(test_last_member_is_refused)
{
    struct gtr first, last;
    rig_small.share = SHARE_MIRROR;
    gtr_attach(&first, 1, member(gtr_uuid));
    gtr_take_batches(&first, 3);
    gtr_say_attach(&last, 2, member(gtr_uuid));
    gtr_await_offer(&last);
    gtr_leave(&first);
    gtr_say_check(&last, NULL, 0);
    rig_expect_text(rig_await_error(last.peer, GTR_ATTACH_ID, DLP_ERROR_GPU), "group default",
                    "CUDA_ERROR_MAP_FAILED");
    ck_assert_int_eq(last.peer->session->state, SESSION_CLOSING);
    Dlp__Attach again = member(NULL);
    SAY(last.peer, 7, ATTACH, attach, &again);
    rig_await_error(last.peer, 7, DLP_ERROR_BAD_REQUEST);
    while (last.peer->session->state != SESSION_GREETED)
        rig_turn();
    SAY(last.peer, GTR_ATTACH_ID, ATTACH, attach, &again);
    gtr_expect_host(&last, "");
}
END_TEST

/* The one who was to open it has gone, or could not read it. */
START_TEST(test_opener_gives_up)
{
    struct gtr first, second;
    rig_small.share = SHARE_MIRROR;
    for (int vanishes = 0; vanishes < 2; vanishes++) {
        gtr_say_attach(&first, 1, member(gtr_uuid));
        gtr_await_offer(&first);
        gtr_say_attach(&second, 2, member(gtr_uuid));
        for (int i = 0; i < 20; i++)
            rig_turn();
        if (vanishes) {
            rig_peer_free(first.peer);
            gtr_await_offer(&second);
            gtr_check_offer(&second);
            gtr_take_batches(&second, 3);
            gtr_leave(&second);
        } else {
            gtr_say_check(&first, NULL, 0);
            gtr_await_offer(&first);
            ck_assert_uint_eq(first.offer->memory, DLP_MEMORY_HOST);
            gtr_await_offer(&second);
            ck_assert_uint_eq(second.offer->memory, DLP_MEMORY_HOST);
            ck_assert(strstr(second.offer->memory_why, "CUDA_ERROR_MAP_FAILED"));
            rig_peer_free(first.peer);
            rig_peer_free(second.peer);
        }
        rig_wait_until_free();
    }
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        return gtr_main(argc, argv);
    Suite *suite = suite_create("cuda_attach");
    TCase *tcase = tcase_create("attach");
    tcase_add_checked_fixture(tcase, gtr_setup, NULL);
    tcase_add_checked_fixture(tcase, rig_setup, rig_teardown);
    tcase_add_test(tcase, test_batches_on_a_gpu);
    tcase_add_test(tcase, test_writes_after_release);
    tcase_add_test(tcase, test_nothing_before_the_check);
    tcase_add_test(tcase, test_other_bytes);
    tcase_add_test(tcase, test_cannot_be_mapped);
    tcase_add_test(tcase, test_no_answer);
    tcase_add_test(tcase, test_takes_itself_for_attached);
    tcase_add_test(tcase, test_a_gpu_or_nothing);
    tcase_add_test(tcase, test_settings);
    tcase_add_test(tcase, test_wrong_wishes);
    tcase_add_test(tcase, test_gpu_elsewhere);
    tcase_add_test(tcase, test_trainer_vanishes);
    tcase_add_test(tcase, test_letting_go);
    tcase_add_test(tcase, test_members_of_a_group);
    tcase_add_test(tcase, test_last_member_is_refused);
    tcase_add_test(tcase, test_opener_gives_up);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("trouble"); /* of the driver, so that they start it themselves */
    tcase_add_checked_fixture(tcase, gtr_setup, NULL);
    tcase_add_loop_test(tcase, test_gpu_in_trouble, 0, sizeof troubles / sizeof *troubles);
    tcase_add_test(tcase, test_fewer_slots);
    tcase_add_test(tcase, test_fewer_slots_for_one);
    tcase_add_test(tcase, test_no_fewer_slots);
    tcase_add_test(tcase, test_driver_without_a_list);
    tcase_add_test(tcase, test_driver_with_a_late_list);
    tcase_add_test(tcase, test_driver_that_hangs);
    tcase_add_test(tcase, test_gpu_is_lost);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
