/* When each remedy is named, and with which figures. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "control/advice.h"

static struct transform train = {
    .ops = {{.kind = OP_RANDOM_RESIZED_CROP}}, .count = 1, .height = 224, .width = 224};
static struct transform eval = {.ops = {{.kind = OP_RESIZE}, {.kind = OP_CENTER_CROP}},
                                .count = 2,
                                .height = 224,
                                .width = 224};
static struct advice_input in;
static struct remedy list[ADVICE_MAX];
static uint32_t count;

/* Two of eight CPUs have workers of 420/s, the trainer could take 1,200/s; small exact pictures
 * whose marks are kept. */
static void setup(void)
{
    in = (struct advice_input){
        .figures = {.wait_share = 0.3,
                    .samples_per_s = 840,
                    .demand = 1200,
                    .read_limit = 5000,
                    .decode_limit = 840,
                    .decode_per_worker = 420,
                    .workers = 2,
                    .cpus = 8,
                    .packed = true,
                    .copy_limit = 20000,
                    .window_s = 5},
        .stage = VERDICT_DECODE,
        .transform = &train,
        .marks = true,
        .record_bytes = 28000,
        .data_bytes = 28000000000,
        .shuffle = 10000,
        .memory = 336000000,
        .slots = 4,
        .slot_bytes = 9633792,
    };
}

static const char *said(const char *beginning)
{
    count = advice(&in, list);
    for (uint32_t i = 0; i < count; i++)
        if (strncmp(list[i].text, beginning, strlen(beginning)) == 0)
            return list[i].text;
    return NULL;
}

START_TEST(workers_where_cpus_are_free)
{
    ck_assert_str_eq(said("workers:"), "workers: 3 instead of 2: 1,200/s instead of 840/s; cost: 1 "
                                       "CPU of the 8 of this node");
    ck_assert_ptr_null(said("more CPUs"));
    in.figures.read_limit = 1000; /* what storage lets through is all that comes of it */
    ck_assert_ptr_nonnull(strstr(said("workers:"), ": 1,000/s instead of 840/s;"));
    in.figures.read_limit = 5000;
    in.figures.demand = 0; /* a trainer that takes all there is */
    ck_assert_ptr_nonnull(strstr(said("workers: 8 instead of 2"), ": 3,360/s instead of 840/s"));
}
END_TEST

START_TEST(threads_where_its_user_has_no_more)
{
    in.figures.user_threads = 1;
    in.figures.decode_limit = 420;
    ck_assert_ptr_nonnull(
        strstr(said("threads: 2 instead of 1 for its user"), "cost: workers that"));
    ck_assert_ptr_null(said("workers:"));
    ck_assert_ptr_null(said("more CPUs"));
}
END_TEST

START_TEST(cpus_where_none_is_free)
{
    in.figures.cpus = 2;
    ck_assert_ptr_null(said("workers:"));
    ck_assert_str_eq(said("more CPUs"),
                     "more CPUs: 3 workers would do, this node gives 2: 1,200/s instead of 840/s; "
                     "cost: a larger share of the node, or another one");
    in.figures.demand = 0; /* of a trainer that takes all there is no number can be said */
    ck_assert_ptr_null(said("more CPUs"));
    in.figures.demand = 1200;
    in.figures.decode_per_worker = 0;
    ck_assert_ptr_null(said("more CPUs"));
}
END_TEST

START_TEST(a_cgroup_that_throttles)
{
    ck_assert_ptr_null(said("a higher CPU limit"));
    in.figures.throttled_share = 0.2;
    ck_assert_str_eq(said("a higher CPU limit"),
                     "a higher CPU limit of the cgroup, which holds the daemon 20 % of the time: "
                     "1,050/s instead of 840/s; cost: CPU time of the node");
}
END_TEST

START_TEST(fast_pixels)
{
    ck_assert_str_eq(said("pixels: fast"),
                     "pixels: fast: 890/s instead of 840/s (1.06 times, as measured); cost: pixels "
                     "differ by 0.3 levels of 255 on average");
    in.transform = &eval;
    ck_assert_ptr_nonnull(strstr(said("pixels: fast"), "1.08 times"));
    train.fast = true;
    in.transform = &train;
    ck_assert_ptr_null(said("pixels: fast"));
    train.fast = false;
    train.turbo = true; /* libjpeg-turbo's are always exact */
    ck_assert_ptr_null(said("pixels: fast"));
    ck_assert_ptr_null(said("cache:"));
    ck_assert_ptr_nonnull(said("decoder: auto"));
    train.turbo = false;
    ck_assert_ptr_null(said("decoder: auto"));
    in.transform = NULL;
    ck_assert_ptr_null(said("pixels: fast"));
}
END_TEST

START_TEST(marks_where_none_are_kept)
{
    ck_assert_ptr_null(said("cache:"));
    in.marks = false;
    ck_assert_str_eq(
        said("cache:"),
        "cache: { marks: on }: 1,058/s instead of 840/s from the second epoch on (1.26 "
        "times, as measured); cost: 1.4 % of the bytes of the pictures in the cache "
        "directory");
}
END_TEST

START_TEST(smaller_pictures)
{
    ck_assert_ptr_null(said("pictures made smaller"));
    in.record_bytes = 110000;
    in.figures.demand = 0;
    ck_assert_str_eq(said("pictures made smaller"),
                     "pictures made smaller once, to a short side of 256 at quality 90 (they have "
                     "110 kB): 2,545/s instead of 840/s (3.0 times, as measured from 107 kB to 28 "
                     "kB for 224 x 224); cost: other pixels, and the set once more on disk");
    train.height = train.width = 448;
    ck_assert_ptr_null(said("pictures made smaller"));
    train.height = train.width = 224;
    in.stage = VERDICT_STORAGE;
    in.figures.read_limit = 500;
    ck_assert_ptr_nonnull(strstr(said("pictures made smaller"), "(3.8 times"));
}
END_TEST

START_TEST(nearer_storage)
{
    in.stage = VERDICT_STORAGE;
    in.figures.read_limit = 640;
    ck_assert_str_eq(said("a local copy"),
                     "a local copy: up to 840/s instead of 640/s; cost: 28 GB "
                     "of local disk");
    ck_assert_ptr_null(said("shards"));
    in.figures.packed = false;
    ck_assert_str_eq(said("shards"),
                     "shards instead of a folder (dataload-pack folder): up to 840/s "
                     "instead of 640/s; cost: 28 GB of disk");
    ck_assert_str_eq(list[0].text, said("shards"));
    in.figures.decode_limit = in.figures.copy_limit = in.figures.demand = 0;
    ck_assert_ptr_nonnull(strstr(said("a local copy"), "by how much is not known"));
}
END_TEST

START_TEST(less_to_copy)
{
    in.stage = VERDICT_COPY;
    in.figures.copy_limit = 400;
    ck_assert_ptr_null(said("output:"));
    ck_assert_ptr_null(said("batch:"));
    train.pixels = PIXELS_F32_NCHW;
    ck_assert_str_eq(said("output:"),
                     "output: uint8, 1/4 of the bytes: up to 840/s instead of "
                     "400/s; cost: the trainer converts and normalizes on its GPU");
    train.pixels = PIXELS_F16_NCHW;
    ck_assert_ptr_nonnull(strstr(said("output:"), "1/2 of the bytes: up to 800/s"));
    train.pixels = PIXELS_U8_NHWC;
    in.slot_bytes = 4096;
    ck_assert_ptr_nonnull(said("batch: twice the rows: up to 800/s"));
}
END_TEST

START_TEST(slots_where_bursts_are_waited_for)
{
    in.stage = VERDICT_TRAINER;
    in.figures.decode_limit = 2000;
    ck_assert_str_eq(said("slots:"), "slots: 8 instead of 4, as batches come in bursts: up to "
                                     "1,200/s instead of 840/s; cost: 39 MB of memory a trainer");
    in.figures.wait_share = 0.01;
    ck_assert_ptr_null(said(""));
    in.figures.wait_share = 0.3;
    in.figures.slow_pid = 4711;
    ck_assert_ptr_null(said(""));
    in.figures.slow_pid = 0;
    in.slots = 64;
    ck_assert_ptr_null(said(""));
}
END_TEST

START_TEST(memory_where_it_is_waited_for)
{
    in.stage = VERDICT_UNKNOWN;
    in.figures.decode_limit = 2000;
    ck_assert_ptr_null(said(""));
    in.figures.cause = "memory_limit";
    ck_assert_str_eq(said("memory:"),
                     "memory: more than 336 MB: up to 1,200/s instead of 840/s; cost: that memory");
    ck_assert_str_eq(said("shuffle:"),
                     "shuffle: fewer than 10000 records: up to 1,200/s instead of 840/s; cost: "
                     "batches are mixed less, which dataloadctl mix tells");
    in.shuffle = 0;
    ck_assert_ptr_null(said("shuffle:"));
}
END_TEST

START_TEST(the_best_comes_first)
{
    in.marks = false;
    in.record_bytes = 110000;
    in.figures.demand = 0;
    count = advice(&in, list);
    ck_assert_uint_eq(count, 4);
    ck_assert_ptr_nonnull(strstr(list[0].text, "workers: 8"));
    ck_assert_ptr_nonnull(strstr(list[1].text, "smaller"));
    ck_assert_ptr_nonnull(strstr(list[2].text, "marks"));
    ck_assert_ptr_nonnull(strstr(list[3].text, "pixels: fast"));
    in.figures.demand = 1000; /* all but the last do as much as the trainer can take */
    count = advice(&in, list);
    ck_assert_uint_eq(count, 4);
    ck_assert_ptr_nonnull(strstr(list[0].text, "workers: 3"));
    ck_assert_ptr_nonnull(strstr(list[1].text, "marks"));
    in.figures.demand = 845; /* nothing is worth it */
    ck_assert_uint_eq(advice(&in, list), 0);
}
END_TEST

START_TEST(nothing_without_figures)
{
    in.figures.window_s = 1;
    ck_assert_ptr_null(said(""));
    in = (struct advice_input){.stage = VERDICT_DECODE, .figures = {.window_s = 5}};
    ck_assert_ptr_null(said(""));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("advice");
    TCase *tcase = tcase_create("remedies");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, workers_where_cpus_are_free);
    tcase_add_test(tcase, threads_where_its_user_has_no_more);
    tcase_add_test(tcase, cpus_where_none_is_free);
    tcase_add_test(tcase, a_cgroup_that_throttles);
    tcase_add_test(tcase, fast_pixels);
    tcase_add_test(tcase, marks_where_none_are_kept);
    tcase_add_test(tcase, smaller_pictures);
    tcase_add_test(tcase, nearer_storage);
    tcase_add_test(tcase, less_to_copy);
    tcase_add_test(tcase, slots_where_bursts_are_waited_for);
    tcase_add_test(tcase, memory_where_it_is_waited_for);
    tcase_add_test(tcase, the_best_comes_first);
    tcase_add_test(tcase, nothing_without_figures);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
