#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/verdict.h"

static char text[VERDICT_TEXT_MAX];

/* Two workers of 420/s that are the narrowest, before a trainer that could take 1200/s. */
static const struct verdict_input decode_bound = {
    .wait_share = 0.3,
    .samples_per_s = 840,
    .demand = 1200,
    .read_limit = 5000,
    .decode_limit = 840,
    .decode_per_worker = 420,
    .workers = 2,
    .read_bytes_per_s = 90e6,
    .copy_limit = 20000,
    .window_s = 5,
};

static void ck_stage(struct verdict_input input, enum verdict_stage stage, const char *sentence)
{
    enum verdict_stage got = verdict(&input, text, sizeof(text));
    ck_assert_str_eq(text, sentence);
    ck_assert_str_eq(verdict_stage_name(got), verdict_stage_name(stage));
}

START_TEST(decode_is_named)
{
    ck_stage(decode_bound, VERDICT_DECODE,
             "decode limits: 2 workers x 420/s = 840/s, the trainer could take 1,200/s; 3 workers "
             "would do, more buy nothing");
}
END_TEST

START_TEST(workers_are_not_promised_beyond_storage)
{
    struct verdict_input input = decode_bound;
    input.read_limit = 1000;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 2 workers x 420/s = 840/s, the trainer could take 1,200/s; 3 workers "
             "would reach the 1,000/s of storage, more buy nothing");
    input.read_limit = 845;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 2 workers x 420/s = 840/s, the trainer could take 1,200/s, close to "
             "the 845/s of storage; more workers buy nothing");
}
END_TEST

START_TEST(workers_are_not_promised_beyond_cpus)
{
    struct verdict_input input = decode_bound;
    input.cpus = 2;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 2 workers x 420/s = 840/s, the trainer could take 1,200/s; 3 workers "
             "would do, but this node gives 2 CPUs");
    input.read_limit = 1000;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 2 workers x 420/s = 840/s, the trainer could take 1,200/s; 3 workers "
             "would reach the 1,000/s of storage, but this node gives 2 CPUs");
    input.cpus = 3;
    input.read_limit = 5000;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 2 workers x 420/s = 840/s, the trainer could take 1,200/s; 3 workers "
             "would do, more buy nothing");
}
END_TEST

START_TEST(a_throttled_daemon_says_so)
{
    struct verdict_input input = decode_bound;
    input.throttled_share = 0.4;
    ck_stage(
        input, VERDICT_DECODE,
        "decode limits: throttled 40 % of the time by the CPU limit of its cgroup, 2 workers x "
        "420/s = 840/s, the trainer could take 1,200/s; a higher limit would help");
    input.read_limit = 500;
    verdict(&input, text, sizeof(text));
    ck_assert_ptr_null(strstr(text, "throttled"));
}
END_TEST

START_TEST(shared_workers_are_said)
{
    struct verdict_input input = decode_bound;
    input.samples_per_s = input.decode_limit = 420;
    input.demand = 840;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 420/s of 2 workers x 420/s are left to it, the trainer could take "
             "840/s; 3 workers would do, more buy nothing");
}
END_TEST

START_TEST(what_others_have_is_said)
{
    struct verdict_input input = decode_bound;
    input.samples_per_s = input.decode_limit = 210;
    input.demand = 840;
    input.share = 0.25;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 210/s of 2 workers x 420/s are its share, 25 %, the trainer "
             "could take 840/s; 4 workers would do, more buy nothing");
    input.samples_per_s = input.decode_limit = 420;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 420/s of 2 workers x 420/s are left to it, the trainer could take "
             "840/s; 3 workers would do, more buy nothing");
    input.user_threads = 1;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 420/s of 2 workers x 420/s are all that its user may have, the "
             "trainer could take 840/s; more threads for its user would help");
}
END_TEST

START_TEST(storage_is_named)
{
    struct verdict_input input = decode_bound;
    input.read_limit = 850;
    input.decode_limit = 3360;
    input.workers = 8;
    input.read_bytes_per_s = 210e6;
    ck_stage(input, VERDICT_STORAGE,
             "storage limits: 210 MB/s read, 850/s, the trainer could take 1,200/s; packing into "
             "shards or a local copy would help");
    input.packed = true;
    ck_stage(input, VERDICT_STORAGE,
             "storage limits: 210 MB/s read, 850/s, the trainer could take 1,200/s; a local copy "
             "would help");
    input.share_wait_share = 0.4;
    ck_stage(input, VERDICT_STORAGE,
             "storage limits: 210 MB/s read, its share beside other users, 850/s, the trainer "
             "could take 1,200/s; a local copy would help");
    input.share_wait_share = 0.05;
    input.samples_per_s = 600;
    ck_stage(input, VERDICT_STORAGE,
             "storage limits: 210 MB/s read, 850/s, of which 600/s come through, the trainer could "
             "take 1,200/s; more slots, or a local copy would help");
}
END_TEST

START_TEST(copy_is_named)
{
    struct verdict_input input = decode_bound;
    input.decode_limit = 3360;
    input.workers = 8;
    input.copy_limit = 845;
    ck_stage(input, VERDICT_COPY,
             "copy limits: 845/s, the trainer could take 1,200/s; a larger batch would help");
}
END_TEST

START_TEST(trainer_is_named)
{
    struct verdict_input input = decode_bound;
    input.wait_share = 0.01;
    input.samples_per_s = 600;
    input.decode_limit = 1440;
    ck_stage(input, VERDICT_TRAINER,
             "the trainer limits: it takes 600/s, input could deliver 1,440/s");
}
END_TEST

START_TEST(held_slots_name_the_trainer)
{
    struct verdict_input input = decode_bound;
    input.slots_held_share = 0.8;
    input.decode_limit = 1440;
    ck_stage(input, VERDICT_TRAINER,
             "the trainer limits: it takes 840/s and holds all its slots 80 % of the time, input "
             "could deliver 1,440/s; more slots would even it out");
}
END_TEST

START_TEST(a_slow_member_is_named)
{
    struct verdict_input input = decode_bound;
    input.slots_held_share = 0.8;
    input.decode_limit = 1440;
    input.slow_pid = 4711;
    ck_stage(input, VERDICT_TRAINER,
             "the trainer with pid 4711 limits its group: it takes 840/s, input could deliver "
             "1,440/s");
    input.samples_per_s = 0;
    input.wait_share = 1;
    ck_stage(input, VERDICT_TRAINER,
             "the trainer with pid 4711 limits its group: it took no batch in the last 5.0 s");
}
END_TEST

START_TEST(bursts_are_no_lack_of_capacity)
{
    struct verdict_input input = decode_bound; /* demand 1200/s, capacity 2000/s */
    input.decode_limit = 2000;
    ck_assert_int_eq(verdict(&input, text, sizeof(text)), VERDICT_TRAINER);
    ck_assert_ptr_nonnull(strstr(text, "input could deliver 2,000/s"));
}
END_TEST

START_TEST(close_calls_say_so)
{
    struct verdict_input input = decode_bound;
    input.read_limit = 880;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 2 workers x 420/s = 840/s, the trainer could take 1,200/s, close to "
             "the 880/s of storage; 3 workers would reach the 880/s of storage, more buy nothing");
    input.read_limit = 5000;
    input.demand = 950;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 2 workers x 420/s = 840/s, close to the 950/s that the trainer could "
             "take; 3 workers would do, more buy nothing");
    input.read_limit = 5000;
    input.wait_share = 0.02;
    input.decode_limit = 850;
    ck_stage(input, VERDICT_TRAINER,
             "the trainer limits: it takes 840/s, close to the 850/s of decode");
}
END_TEST

/* What it waits for is no stage, and the stages could do more. */
START_TEST(other_causes_are_named)
{
    struct verdict_input input = decode_bound;
    input.cause = "memory_limit";
    input.decode_limit = 1440;
    ck_stage(
        input, VERDICT_UNKNOWN,
        "memory limits: the reader waits for some: the trainer waits 30 % of its time and takes "
        "840/s, input could deliver 1,440/s; a larger memory or a smaller shuffle would help");
    input.cause = "shuffle_fill";
    ck_stage(input, VERDICT_UNKNOWN,
             "the shuffle buffer is being filled: the trainer waits 30 % of its time and takes "
             "840/s, input could deliver 1,440/s");
    input.decode_limit = 850; /* as much as comes: it is the stage after all */
    ck_assert_int_eq(verdict(&input, text, sizeof(text)), VERDICT_DECODE);
}
END_TEST

START_TEST(thousands_are_separated)
{
    char rate[VERDICT_RATE_MAX];
    ck_assert_str_eq(verdict_rate(0, rate), "0.0/s");
    ck_assert_str_eq(verdict_rate(9.94, rate), "9.9/s");
    ck_assert_str_eq(verdict_rate(999.4, rate), "999/s");
    ck_assert_str_eq(verdict_rate(999.6, rate), "1,000/s");
    ck_assert_str_eq(verdict_rate(12345678, rate), "12,345,678/s");
    ck_assert_str_eq(verdict_rate(1e300, rate), "1e+300/s");
}
END_TEST

START_TEST(distant_calls_do_not)
{
    verdict(&decode_bound, text, sizeof(text));
    ck_assert_ptr_null(strstr(text, "close to"));
}
END_TEST

START_TEST(always_waiting_sets_no_demand)
{
    struct verdict_input input = decode_bound;
    input.demand = 0;
    input.read_limit = 0;
    input.copy_limit = 0;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 2 workers x 420/s = 840/s; more workers would help");
    input.cpus = 2;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 2 workers x 420/s = 840/s; this node gives no more than 2 CPUs");
    input.cpus = 16;
    input.read_limit = 5000;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 2 workers x 420/s = 840/s; 12 workers would reach the 5,000/s of "
             "storage, more buy nothing");
    input.cpus = 4;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 2 workers x 420/s = 840/s; more workers would help, this node gives 4 "
             "CPUs");
    ck_assert_double_eq(verdict_demand(840, 1), 0);
    ck_assert_double_eq_tol(verdict_demand(840, 0.3), 1200, 1e-9);
}
END_TEST

START_TEST(one_worker_and_small_rates)
{
    struct verdict_input input = decode_bound;
    input.workers = 1;
    input.decode_per_worker = input.decode_limit = input.samples_per_s = 3.5;
    input.demand = 7;
    ck_stage(input, VERDICT_DECODE,
             "decode limits: 1 worker x 3.5/s = 3.5/s, the trainer could take 7.0/s; 2 workers "
             "would do, more buy nothing");
}
END_TEST

START_TEST(short_window_is_measuring)
{
    struct verdict_input input = decode_bound;
    input.window_s = 0.4;
    ck_stage(input, VERDICT_UNKNOWN, "measuring: 0.4 s of the 2 s needed");
    input.window_s = NAN;
    ck_assert_int_eq(verdict(&input, text, sizeof(text)), VERDICT_UNKNOWN);
}
END_TEST

START_TEST(nobody_is_attached)
{
    ck_assert_int_eq(verdict(NULL, text, sizeof(text)), VERDICT_UNKNOWN);
    ck_assert_str_eq(text, "no trainer is attached");
}
END_TEST

START_TEST(standing_still)
{
    struct verdict_input input = {.window_s = 5, .wait_share = 1, .cause = "storage"};
    ck_stage(input, VERDICT_STORAGE,
             "storage limits: no batch came in the last 5.0 s while the trainer waited");
    input.cause = "throttled";
    ck_stage(input, VERDICT_DECODE,
             "decode limits: no batch came in the last 5.0 s while the trainer waited");
    input.cause = "shuffle_fill";
    ck_stage(
        input, VERDICT_UNKNOWN,
        "the shuffle buffer is being filled: no batch came in the last 5.0 s while the trainer "
        "waited");
    input.cause = "memory_limit";
    ck_stage(input, VERDICT_UNKNOWN,
             "memory limits: the reader waits for some: no batch came in the last 5.0 s while the "
             "trainer waited; a larger memory or a smaller shuffle would help");
    input.cause = "slots_held";
    ck_stage(
        input, VERDICT_TRAINER,
        "the trainer limits: it holds all its slots: no batch came in the last 5.0 s while the "
        "trainer waited");
    input.cause = NULL;
    ck_assert_int_eq(verdict(&input, text, sizeof(text)), VERDICT_UNKNOWN);
    input.wait_share = 0;
    ck_stage(input, VERDICT_TRAINER, "the trainer limits: it took no batch in the last 5.0 s");
}
END_TEST

/* Every combination of absent, absurd and sound numbers gives a sentence without inf or nan. */
START_TEST(no_number_breaks_it)
{
    static const double odd[] = {0, -1, NAN, INFINITY, 1e-300, 0.5, 700, 1e300};
    const size_t n = sizeof(odd) / sizeof(*odd);
    for (size_t i = 0; i < n * n * n * n * n; i++) {
        struct verdict_input input = {
            .wait_share = odd[i % n],
            .samples_per_s = odd[i / n % n],
            .demand = odd[i / 3 % n],
            .cpus = (uint32_t)(i % 5),
            .throttled_share = odd[i / 7 % n],
            .read_limit = odd[i / n / n % n],
            .decode_limit = odd[i / n / n / n % n],
            .decode_per_worker = odd[i / n / n / n / n],
            .workers = (uint32_t)(i % 3),
            .read_bytes_per_s = odd[i % n],
            .slots_held_share = odd[(i + 1) % n],
            .window_s = 3,
        };
        memset(text, 0, sizeof(text));
        enum verdict_stage stage = verdict(&input, text, sizeof(text));
        ck_assert_int_le(stage, VERDICT_TRAINER);
        ck_assert_msg(text[0] && !strstr(text, "inf") && !strstr(text, "nan"), "%s", text);
    }
}
END_TEST

START_TEST(short_buffers_are_cut)
{
    char small[8];
    memset(small, 'x', sizeof(small));
    verdict(&decode_bound, small, sizeof(small));
    ck_assert_str_eq(small, "decode ");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verdict");
    TCase *tcase = tcase_create("sentences");
    tcase_add_test(tcase, decode_is_named);
    tcase_add_test(tcase, workers_are_not_promised_beyond_storage);
    tcase_add_test(tcase, workers_are_not_promised_beyond_cpus);
    tcase_add_test(tcase, a_throttled_daemon_says_so);
    tcase_add_test(tcase, shared_workers_are_said);
    tcase_add_test(tcase, what_others_have_is_said);
    tcase_add_test(tcase, storage_is_named);
    tcase_add_test(tcase, copy_is_named);
    tcase_add_test(tcase, trainer_is_named);
    tcase_add_test(tcase, held_slots_name_the_trainer);
    tcase_add_test(tcase, bursts_are_no_lack_of_capacity);
    tcase_add_test(tcase, a_slow_member_is_named);
    tcase_add_test(tcase, close_calls_say_so);
    tcase_add_test(tcase, other_causes_are_named);
    tcase_add_test(tcase, thousands_are_separated);
    tcase_add_test(tcase, distant_calls_do_not);
    tcase_add_test(tcase, always_waiting_sets_no_demand);
    tcase_add_test(tcase, one_worker_and_small_rates);
    tcase_add_test(tcase, short_window_is_measuring);
    tcase_add_test(tcase, nobody_is_attached);
    tcase_add_test(tcase, standing_still);
    tcase_add_test(tcase, no_number_breaks_it);
    tcase_add_test(tcase, short_buffers_are_cut);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
