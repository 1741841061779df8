/* feed/ferry.c where the GPU fails: no batch is left out, the feed ends with the reason, and all
 * but what the driver may still read comes back. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/staging.h"
#include "feed_rig.h"

static struct feed_data *data;

static void setup(void)
{
    data = feed_data_new(&(struct feed_data_recipe){.shards = 2, .records = 50});
    feed_data_open(data);
    setenv("FEED_RIG_CUDA", "1", 1);
    setenv("STANDIN_UUIDS", "01010101010101010101010101010101", 1);
    setenv("STANDIN_STRICT", "0", 1); /* what a lost GPU had stays with it */
    setenv("STANDIN_REPORT", "/dev/null", 1);
}

static void teardown(void)
{
    feed_data_free(data);
}

static struct rig *break_copy(const char *faults, uint64_t copy_ms)
{
    setenv("STANDIN_FAULTS", faults, 1);
    struct rig *rig = rig_new(data, &(struct rig_options){.keep = true,
                                                          .slots = 8,
                                                          .times = {.copy_ns = copy_ms * CLOCK_MS,
                                                                    .idle_ns = CLOCK_SECOND}});
    rig_run(rig, UINT32_MAX);
    ck_assert_int_eq(rig->stopped.code, -ENODEV);
    rig_check_order(rig, data, 0, (struct feed_place){0, 0});
    rig->kept = STAGING_SLOTS * feed_get_layout(rig->feed)->slot_bytes;
    return rig;
}

/* Of the GPU: no copy after the one that fails is made. */
static struct rig *lose(const char *faults, uint64_t copy_ms)
{
    struct rig *rig = break_copy(faults, copy_ms);
    ck_assert_uint_le(rig->nbatches, 5); /* copies: the nonce, 5 batches, and one that fails */
    return rig;
}

START_TEST(test_dead_context)
{
    struct rig *rig = lose("cuMemcpyHtoDAsync_v2:7:!700", 10000);
    ck_assert_msg(strstr(rig->stopped.text, "CUDA_ERROR_ILLEGAL_ADDRESS"), "%s", rig->stopped.text);
    rig_free(rig);
}
END_TEST

START_TEST(test_copy_fails_when_it_runs)
{
    struct rig *rig = lose("cuMemcpyHtoDAsync_v2:7:@719", 10000);
    ck_assert_msg(strstr(rig->stopped.text, "CUDA_ERROR_LAUNCH_FAILED"), "%s", rig->stopped.text);
    rig_free(rig);
}
END_TEST

START_TEST(test_copy_without_end)
{
    struct rig *rig = lose("cuMemcpyHtoDAsync_v2:7:hang", 200);
    ck_assert_msg(strstr(rig->stopped.text, "a copy has not ended within 0.2 s"), "%s",
                  rig->stopped.text);
    rig_free(rig);
}
END_TEST

/* The context is as it was: only this feed ends, where that batch should come, which need not be
 * the sixth: they are complete in any order. */
START_TEST(test_copy_that_cannot_be_made)
{
    struct rig *rig = break_copy("cuMemcpyHtoDAsync_v2:7:1", 10000);
    struct uploader_state state;
    uploader_state(rig->gpu.uploader, &state);
    ck_assert(!state.lost);
    rig->kept = 0;
    rig_free(rig);
}
END_TEST

/* Copies that are slower than decoding hold the reader up, and it says so. */
START_TEST(test_slow_copies_are_named)
{
    setenv("STANDIN_OP_US", "50000", 1);
    struct rig *rig = rig_new(data, &(struct rig_options){.slots = 8});
    struct feed_stats stats = {.wait = FEED_RUNS};
    for (int i = 0; i < 500 && stats.wait != FEED_WAITS_COPY; i++) {
        rig_idle(rig, 5);
        feed_get_stats(rig->feed, &stats);
    }
    ck_assert_int_eq(stats.wait, FEED_WAITS_COPY);
    rig_free(rig);
}
END_TEST

static void try_fault(const char *faults, int code)
{
    struct error err;
    struct uploaders_gpu gpu;
    uint8_t uuid[UPLOADERS_UUID];
    memset(uuid, 1, sizeof uuid);
    setenv("STANDIN_STRICT", "1", 1);
    setenv("STANDIN_FAULTS", faults, 1);
    struct uploaders *uploaders = uploaders_new(&uploader_times);
    ck_assert_int_eq(uploaders_find(uploaders, uuid, &gpu, &err), 0);
    struct budget *budget = budget_new(64 << 20, 1 << 20);
    struct workers *workers = workers_new(1, NULL, budget);
    struct feed_params params = {.spec = &data->spec,
                                 .dataset = data->dataset,
                                 .world = 1,
                                 .batch = 16,
                                 .slots = 4,
                                 .memory = DLP_MEMORY_VMM,
                                 .uploader = gpu.uploader,
                                 .workers = workers,
                                 .budget = budget};
    struct feed *feed;
    ck_assert_int_eq(feed_open(&params, &feed, &err), code);
    ck_assert_uint_eq(budget_used(budget, BUDGET_SLOTS), 0);
    workers_free(workers);
    budget_free(budget);
    ck_assert(uploaders_free(uploaders, UINT64_MAX));
}

static const struct {
    const char *fault;
    int code;
} faults[] = {{"cuDevicePrimaryCtxRetain:1:2", -ENODEV},
              {"cuMemCreate:1:2", -ENOSPC},
              {"cuMemMap:1:2", -ENODEV},
              {"cuMemExportToShareableHandle:1:304", -ENODEV}};

START_TEST(test_gpu_without_room)
{
    try_fault(faults[_i].fault, faults[_i].code);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cuda_feed");
    TCase *tcase = tcase_create("feed");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_dead_context);
    tcase_add_test(tcase, test_copy_fails_when_it_runs);
    tcase_add_test(tcase, test_copy_without_end);
    tcase_add_test(tcase, test_copy_that_cannot_be_made);
    tcase_add_test(tcase, test_slow_copies_are_named);
    tcase_add_loop_test(tcase, test_gpu_without_room, 0, sizeof faults / sizeof *faults);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
