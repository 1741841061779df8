/* feed/feed.c with real shards, workers, a loop: the order is the plan's, whatever the number of
 * threads, their timing and the memory. */
#include <check.h>
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "feed/sample.h"
#include "feed_rig.h"

static struct feed_data *data;

static void setup(void)
{
    data = feed_data_new(&(struct feed_data_recipe){.shards = 4, .records = 50});
}

static void teardown(void)
{
    feed_data_free(data);
    unsetenv("DATALOADD_TEST_DELAY");
}

static const struct {
    enum tail tail;
    uint64_t shuffle;
    uint32_t lanes, world, rank, batch;
    uint64_t start;
    struct feed_place first;
    uint32_t batches;
} orders[] = {
    {TAIL_WRAP, 64, 8, 1, 0, 16, 0, {0, 0}, 40},
    {TAIL_DROP, 64, 8, 1, 0, 16, 0, {0, 0}, 40},
    {TAIL_PARTIAL, 64, 8, 1, 0, 16, 0, {0, 0}, 40},
    {TAIL_PARTIAL, 0, 64, 2, 1, 16, 0, {0, 0}, 20},
    {TAIL_WRAP, 100000, 8, 2, 0, 8, 0, {0, 0}, 40},
    {TAIL_WRAP, 1, 1, 2, 1, 7, 0, {2, 5}, 40},
    {TAIL_DROP, 30, 7, 3, 2, 5, 41, {0, 3}, 40},
    {TAIL_PARTIAL, 64, 16, 3, 1, 4, 199, {0, 0}, 40},
    {TAIL_WRAP, 64, 8, 1, 0, 16, 200, {0, 0}, 20},
    {TAIL_WRAP, 64, 8, 5, 4, 128, 0, {0, 0}, 4},
};

static struct rig_options options_of(int i)
{
    data->spec.tail = orders[i].tail;
    data->spec.shuffle = orders[i].shuffle;
    data->spec.lanes = orders[i].lanes;
    return (struct rig_options){.world = orders[i].world,
                                .rank = orders[i].rank,
                                .batch = orders[i].batch,
                                .start_position = orders[i].start,
                                .first = orders[i].first};
}

START_TEST(test_order_is_the_plans)
{
    struct rig_options options = options_of(_i);
    feed_data_open(data);
    struct rig *rig = rig_new(data, &options);
    rig_run(rig, orders[_i].batches);
    rig_check_order(rig, data, 0, orders[_i].first);
    ck_assert_uint_eq(rig->nbad, 0);
    rig_free(rig);
}
END_TEST

START_TEST(test_same_bytes_for_all_threads)
{
    uint64_t first = 0;
    feed_data_open(data);
    for (unsigned run = 0; run < 7; run++) {
        static const unsigned threads[] = {1, 1, 2, 8, 2, 16, 4};
        static const char *const delays[] = {"0:0", "1:600", "2:1500", "3:3000",
                                             "0:0", "0:0",   "0:0"};
        /* Of the last run each picture needs the part that only one of them gets at a time. */
        static const uint64_t decode[] = {0, 0, 0, 0, 0, 0, 160 << 10};
        setenv("DATALOADD_TEST_DELAY", delays[run], 1);
        struct rig *rig =
            rig_new(data, &(struct rig_options){.threads = threads[run], .decode = decode[run]});
        rig_run(rig, 20);
        rig_trim(rig, 20);
        uint64_t hash = rig_hash(rig);
        first = run ? first : hash;
        ck_assert_uint_eq(hash, first);
        rig_free(rig);
    }
}
END_TEST

START_TEST(test_ranks_are_disjoint_and_complete)
{
    static const uint32_t worlds[] = {1, 2, 3, 4};
    uint32_t world = worlds[_i];
    uint8_t seen[200] = {0};
    data->spec.tail = TAIL_PARTIAL;
    feed_data_open(data);
    for (uint32_t rank = 0; rank < world; rank++) {
        struct rig *rig =
            rig_new(data, &(struct rig_options){.world = world, .rank = rank, .batch = 8});
        uint32_t steps = (uint32_t)feed_steps(rig->feed, 0);
        rig_run(rig, steps);
        for (uint32_t b = 0; b < steps; b++)
            for (uint32_t r = 0; r < rig->batches[b].ready.rows; r++)
                seen[rig->batches[b].index[r]]++;
        rig_free(rig);
    }
    for (uint32_t i = 0; i < 200; i++)
        ck_assert_uint_eq(seen[i], 1);
}
END_TEST

START_TEST(test_augmentation_depends_on_sample_and_epoch)
{
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 200});
    rig_run(rig, 2);
    struct rig *other = rig_new(data, &(struct rig_options){.batch = 8, .world = 2, .rank = 1});
    rig_run(other, 2);
    uint64_t by_id[2][200];
    for (uint32_t b = 0; b < 2; b++)
        for (uint32_t r = 0; r < 200; r++)
            by_id[b][rig->batches[b].index[r]] = rig->batches[b].image[r];
    for (uint32_t r = 0; r < 8; r++)
        ck_assert_uint_eq(other->batches[0].image[r], by_id[0][other->batches[0].index[r]]);
    uint32_t same = 0;
    for (uint32_t i = 0; i < 200; i++)
        same += by_id[0][i] == by_id[1][i];
    ck_assert_uint_lt(same, 20);
    rig_free(rig);
    rig_free(other);
}
END_TEST

START_TEST(test_little_memory_same_order)
{
    feed_data_open(data);
    data->spec.shuffle = 200;
    struct rig *rig = rig_new(data, &(struct rig_options){0});
    rig_run(rig, 30);
    rig_trim(rig, 30);
    uint64_t hash = rig_hash(rig);
    uint64_t slots = feed_get_layout(rig->feed)->slot_bytes * 4;
    rig_free(rig);
    /* The floor, a batch of records of mean size, and nothing or next to nothing beyond it. */
    uint64_t mean = dataset_bytes(data->dataset) / 200 + 1;
    uint64_t memory = slots + 16 * sample_charge(mean, 3) + (_i ? 0 : 6000);
    rig = rig_new(data, &(struct rig_options){.memory = memory});
    rig_run(rig, 30);
    rig_trim(rig, 30);
    ck_assert_uint_eq(rig_hash(rig), hash);
    rig_free(rig);
}
END_TEST

START_TEST(test_next_epoch_without_a_pause)
{
    data->spec.tail = TAIL_DROP;
    feed_data_open(data); /* 12 steps of 16 */
    struct rig *rig = rig_new(data, &(struct rig_options){.first = {4, 10}, .keep = true});
    rig_run(rig, 4);
    rig_check_order(rig, data, 0, (struct feed_place){4, 10});
    ck_assert_uint_eq(rig->batches[3].ready.place.epoch, 5);
    ck_assert_uint_eq(rig->batches[3].ready.place.step, 1);
    rig_free(rig);
}
END_TEST

START_TEST(test_records_are_read_once_an_epoch)
{
    data->spec.tail = TAIL_DROP;
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20});
    rig_run(rig, 50);
    struct feed_stats stats;
    feed_get_stats(rig->feed, &stats);
    /* 50 batches delivered, 4 filled ahead and one gathered; a block and a chunk taken in. More,
     * where others were ready before the loop looked. */
    uint64_t rows = 20 * rig->nbatches;
    ck_assert_uint_ge(stats.work.reads.samples, rows);
    ck_assert_uint_le(stats.work.reads.samples, rows + 5 * 20 + 2 * 200);
    ck_assert_uint_gt(stats.shuffle_target, 0);
    ck_assert_uint_eq(stats.shuffle_held, stats.shuffle_target);
    ck_assert_uint_ge(stats.work.decoded, 1000);
    ck_assert_uint_eq(stats.bad, 0);
    rig_free(rig);
}
END_TEST

static bool wait_for_end(void *context, void *item, struct decoder *decoder)
{
    (void)item, (void)decoder;
    sem_wait(context);
    return true;
}

static void ended(void *context, void **items, uint32_t count, uint64_t ns)
{
    (void)context, (void)items, (void)count, (void)ns;
}

static uint32_t none_ahead(void *context)
{
    (void)context;
    return 0;
}

/* The only worker is busy all the time. */
START_TEST(test_small_batches_need_no_worker)
{
    sem_t end;
    sem_init(&end, 0, 0);
    data->spec.fields[0].kind = FIELD_BYTES;
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.threads = 1, .batch = 4});
    ck_assert_uint_le(feed_get_layout(rig->feed)->slot_bytes, 64 << 10);
    const struct workers_work work = {.run = wait_for_end, .done = ended, .ahead = none_ahead};
    struct workers_queue *queue = workers_queue_new(rig->workers, &work, &end, false);
    workers_push(queue, (void *[]){data}, 1);
    rig_run(rig, 80);
    rig_check_order(rig, data, 0, (struct feed_place){0, 0});
    sem_post(&end);
    workers_queue_free(queue);
    rig_free(rig);
    sem_destroy(&end);
}
END_TEST

START_TEST(test_images_of_their_own_size)
{
    struct error err;
    ck_assert_int_eq(transform_preset(&data->spec.transform, "none", &err), 0);
    ck_assert_int_eq(transform_check(&data->spec.transform, &err), 0);
    data->spec.fields[0].max_bytes = 30 * 36 * 3;
    data->spec.shuffle = 0;
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 50});
    rig_run(rig, 4);
    for (uint32_t i = 0; i < 200; i++) {
        const struct rig_batch *batch = &rig->batches[i / 50];
        ck_assert_int_eq(batch->index[i % 50], i);
        if (!batch->valid[i % 50])
            continue;
        ck_assert_int_eq(batch->shape[i % 50 * 2], 20 + (int)i % 17);
        ck_assert_int_eq(batch->shape[i % 50 * 2 + 1], 20 + (int)i % 13);
    }
    /* Larger pictures than max_bytes are bad, and no others. */
    uint32_t nbad = 0;
    for (uint32_t i = 0; i < 200; i++)
        nbad += (20 + i % 13) * (20 + i % 17) > 30 * 36;
    ck_assert_uint_gt(nbad, 0);
    for (uint32_t b = 0; b < 4; b++)
        nbad -= 50 - rig->batches[b].ready.valid;
    ck_assert_uint_eq(nbad, 0);
    ck_assert_int_eq(rig->bad[0].cls, BAD_SIZE);
    rig_free(rig);
}
END_TEST

START_TEST(test_memory_is_as_said)
{
    data->spec.shuffle = 100;
    feed_data_open(data);
    struct feed_memory memory;
    struct error err;
    ck_assert_int_eq(feed_memory(&data->spec, data->dataset, 1, 16, 4, &memory, &err), 0);
    ck_assert_double_eq(memory.lane_factor, 1);
    struct rig *rig = rig_new(data, &(struct rig_options){0});
    ck_assert_uint_eq(memory.slot_bytes, feed_get_layout(rig->feed)->slot_bytes);
    ck_assert_uint_eq(memory.arena, 4 * memory.slot_bytes);
    for (uint32_t b = 1; b < 40; b++) {
        struct feed_stats stats;
        rig_run(rig, b);
        feed_get_stats(rig->feed, &stats);
        ck_assert_uint_le(stats.shuffle_bytes, memory.shuffle);
    }
    rig_free(rig); /* whose threads read what changes below */
    ck_assert_int_eq(feed_memory(&data->spec, data->dataset, 1, 0, 4, &memory, &err), -EINVAL);
    data->spec.tail = TAIL_DROP;
    ck_assert_int_eq(feed_memory(&data->spec, data->dataset, 100, 16, 4, &memory, &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "200"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("feed");
    TCase *tcase = tcase_create("feed");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, test_order_is_the_plans, 0, sizeof orders / sizeof *orders);
    tcase_add_test(tcase, test_same_bytes_for_all_threads);
    tcase_add_loop_test(tcase, test_ranks_are_disjoint_and_complete, 0, 4);
    tcase_add_test(tcase, test_augmentation_depends_on_sample_and_epoch);
    tcase_add_loop_test(tcase, test_little_memory_same_order, 0, 2);
    tcase_add_test(tcase, test_next_epoch_without_a_pause);
    tcase_add_test(tcase, test_records_are_read_once_an_epoch);
    tcase_add_test(tcase, test_small_batches_need_no_worker);
    tcase_add_test(tcase, test_images_of_their_own_size);
    tcase_add_test(tcase, test_memory_is_as_said);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
