/* feed/feed_events.c and the ends of a feed: bad rows and what is done about them, seek, back
 * pressure, slow and broken storage, close at any moment. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "feed_rig.h"

static const uint32_t cut[] = {7, 60, 61, 143};
static const uint32_t labels[] = {99};
#define NBAD 5

static struct feed_data *data;

static void setup(void)
{
    data = feed_data_new(&(struct feed_data_recipe){
        .shards = 4, .records = 50, .cut_images = cut, .ncut = 4, .bad_labels = labels, .nbad = 1});
    data->spec.tail = TAIL_DROP;
}

static void teardown(void)
{
    feed_data_free(data);
    unsetenv("DATALOADD_TEST_DELAY");
}

/* What the order itself does not say. */
static void setup_good(void)
{
    data = feed_data_new(&(struct feed_data_recipe){.shards = 4, .records = 50});
    data->spec.tail = TAIL_DROP;
}

static bool is_bad(int64_t id)
{
    return id == 7 || id == 60 || id == 61 || id == 143 || id == 99;
}

static void check_replaced(const struct rig_batch *batch, uint32_t rows)
{
    for (uint32_t r = 0; r < rows; r++) {
        ck_assert_int_eq(batch->valid[r], !is_bad(batch->index[r]));
        if (batch->valid[r])
            continue;
        uint32_t good = r;
        while (!batch->valid[good])
            good = (good + rows - 1) % rows;
        ck_assert_int_eq(batch->label[r], batch->label[good]);
        ck_assert_uint_eq(batch->image[r], batch->image[good]);
        ck_assert_uint_eq(batch->text[r], batch->text[good]);
    }
}

START_TEST(test_bad_rows_are_replaced)
{
    feed_data_open(data);
    setenv("DATALOADD_TEST_DELAY", "5:1000", 1);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20, .threads = 4});
    rig_run(rig, 20);
    rig_trim(rig, 20);
    for (uint32_t b = 0; b < 20; b++)
        check_replaced(&rig->batches[b], 20);
    rig_check_order(rig, data, 0, (struct feed_place){0, 0});
    ck_assert_uint_ge(rig->nbad, 2 * NBAD);
    for (uint32_t i = 0; i < rig->nbad; i++) {
        int number = atoi(rig->bad[i].key + 1);
        ck_assert(is_bad(number));
        ck_assert_int_eq(rig->bad[i].cls, number == 99 ? BAD_LABEL : BAD_TRUNC);
        cleanup_free char *shard = feed_data_path(data, (uint32_t)number / 50);
        ck_assert_str_eq(rig->bad[i].shard, shard);
        ck_assert(i == 0 || rig->bad[i].place.epoch > rig->bad[i - 1].place.epoch ||
                  (rig->bad[i].place.epoch == rig->bad[i - 1].place.epoch &&
                   rig->bad[i].place.step >= rig->bad[i - 1].place.step));
    }
    struct feed_stats stats;
    feed_get_stats(rig->feed, &stats);
    ck_assert_uint_ge(stats.bad, rig->nbad);
    rig_free(rig);
}
END_TEST

START_TEST(test_fail_policy)
{
    data->spec.bad_samples = BAD_FAIL;
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20});
    rig_run(rig, 10);
    ck_assert_uint_gt(rig->nfailed, 0);
    uint32_t nbad = 0;
    while (nbad < rig->nbad && rig->bad[nbad].place.epoch == 0)
        nbad++;
    ck_assert_uint_eq(nbad, NBAD);
    bool seen[10] = {false};
    for (uint32_t i = 0; i < rig->nfailed; i++) {
        ck_assert_ptr_nonnull(strstr(rig->failed_text[i], ".tar"));
        ck_assert_ptr_nonnull(strstr(rig->failed_text[i], "r0"));
        if (rig->failed[i].epoch == 0)
            seen[rig->failed[i].step] = true;
    }
    for (uint32_t b = 0; b < rig->nbatches && rig->batches[b].ready.place.epoch == 0; b++) {
        ck_assert_uint_eq(rig->batches[b].ready.valid, 20);
        seen[rig->batches[b].ready.place.step] = true;
    }
    for (int step = 0; step < 10; step++)
        ck_assert(seen[step]);
    rig_free(rig);
}
END_TEST

START_TEST(test_bad_limit)
{
    data->spec.bad_limit = 2;
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20});
    rig_run(rig, 1000);
    ck_assert_int_eq(rig->stopped.code, -ECANCELED);
    ck_assert_uint_eq(rig->nbad, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_nonnull(strstr(rig->stopped.text, rig->bad[i].key));
    ck_assert_ptr_nonnull(strstr(rig->stopped.text, "bad_limit 2"));
    uint32_t batches = rig->nbatches;
    ck_assert_uint_eq(batches, rig->bad[2].place.step);
    rig_idle(rig, 50);
    ck_assert_uint_eq(rig->nbatches, batches);
    struct feed_stats stats;
    feed_get_stats(rig->feed, &stats);
    ck_assert_int_eq(stats.wait, FEED_ENDED);
    rig_free(rig);
}
END_TEST

START_TEST(test_bad_limit_counts_by_epoch)
{
    data->spec.bad_limit_share = NBAD / 200.0;
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20});
    rig_run(rig, 40);
    ck_assert_int_eq(rig->stopped.code, 0);
    ck_assert_uint_ge(rig->nbad, 4 * NBAD);
    rig_free(rig);
}
END_TEST

START_TEST(test_seek)
{
    feed_data_open(data);
    setenv("DATALOADD_TEST_DELAY", "5:500", 1);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20});
    uint32_t from = 0;
    for (uint64_t round = 0; round < 30; round++) {
        rig_run(rig, from + 1 + (uint32_t)(round % 3));
        rig_check_order(rig, data, from, (struct feed_place){round, 0});
        rig_idle(rig, round % 7);
        feed_seek(rig->feed, round + 1);
        from = rig->nbatches;
    }
    rig_run(rig, from + 15);
    rig_check_order(rig, data, from, (struct feed_place){30, 0});
    rig_free(rig);
}
END_TEST

START_TEST(test_seek_drops_what_was_not_taken)
{
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20, .take_none = true});
    rig_run(rig, 4);
    rig_idle(rig, 30);
    ck_assert_uint_eq(rig->nbatches, 4);
    const struct feed_batch kept = rig->batches[0].ready;
    const struct feed_batch dropped = rig->batches[1].ready;
    ck_assert_int_eq(feed_hold(rig->feed, kept.slot, kept.generation), 0);
    ck_assert_uint_eq(feed_seek(rig->feed, 9), 3);
    ck_assert_int_eq(feed_hold(rig->feed, dropped.slot, dropped.generation), -EINVAL);
    rig_run(rig, 7);
    rig_check_order(rig, data, 4, (struct feed_place){9, 0});
    ck_assert_int_eq(feed_hold(rig->feed, dropped.slot, dropped.generation), -EINVAL);
    ck_assert_int_eq(
        feed_release(rig->feed, rig->batches[0].ready.slot, rig->batches[0].ready.generation), 0);
    struct feed_stats stats;
    feed_get_stats(rig->feed, &stats);
    ck_assert_uint_eq(stats.dropped, 3);
    rig_free(rig);
}
END_TEST

static void seek_at_bad(struct rig *rig, const struct feed_batch *batch)
{
    if (batch->place.epoch == 0 && batch->place.step == 2)
        feed_seek(rig->feed, 3);
}

START_TEST(test_seek_within_an_event)
{
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20});
    rig->on_ready = seek_at_bad;
    rig_run(rig, 13);
    rig_check_order(rig, data, 3, (struct feed_place){3, 0});
    rig_free(rig);
}
END_TEST

START_TEST(test_back_pressure)
{
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20, .slots = 3, .keep = true});
    rig_run(rig, 3);
    rig_idle(rig, 50);
    ck_assert_uint_eq(rig->nbatches, 3);
    struct feed_stats stats;
    feed_get_stats(rig->feed, &stats);
    ck_assert_int_eq(stats.wait, FEED_WAITS_SLOT);
    ck_assert_uint_eq(stats.held, 3);
    ck_assert_uint_eq(stats.rows_queued, 0);
    const struct feed_batch first = rig->batches[0].ready;
    ck_assert_int_eq(feed_release(rig->feed, first.slot, first.generation + 1), -EINVAL);
    ck_assert_int_eq(feed_release(rig->feed, first.slot, first.generation), 0);
    rig_run(rig, 4);
    ck_assert_uint_eq(rig->batches[3].ready.place.step, 3);
    rig_free(rig);
}
END_TEST

START_TEST(test_shared_memory_is_for_reading)
{
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.shared = true});
    rig_run(rig, 8);
    rig_check_order(rig, data, 0, (struct feed_place){0, 0});
    struct feed_arena arena;
    feed_get_arena(rig->feed, 0, &arena);
    if (arena.kind == DLP_MEMORY_HOST) { /* on a GPU it is the reader's mapping that decides */
        ck_assert_int_eq(fcntl(arena.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
        ck_assert(fcntl(arena.fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE);
    }
    rig_free(rig);
}
END_TEST

/* A reader that waits for a slot holds records ahead of need until somebody else needs the memory.
 */
START_TEST(test_what_is_held_ahead_goes_under_pressure)
{
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 10, .slots = 6, .keep = true});
    rig_run(rig, 6);
    rig_idle(rig, 100);
    struct feed_stats stats;
    feed_get_stats(rig->feed, &stats);
    ck_assert_int_eq(stats.wait, FEED_WAITS_SLOT);
    ck_assert_uint_gt(stats.shuffle_held, 0);
    uint64_t before = budget_used(rig->budget, BUDGET_SHUFFLE);
    feed_shed(rig->feed); /* nobody waits: nothing happens */
    rig_idle(rig, 50);
    ck_assert_uint_eq(budget_used(rig->budget, BUDGET_SHUFFLE), before);
    budget_press(rig->budget);
    feed_shed(rig->feed);
    rig_idle(rig, 50);
    uint64_t floor = budget_used(rig->budget, BUDGET_SHUFFLE);
    ck_assert_uint_lt(floor, before);
    for (uint32_t b = 0; b < 40; b++) { /* over the end of the epoch */
        const struct feed_batch *batch = &rig->batches[b].ready;
        ck_assert_int_eq(feed_release(rig->feed, batch->slot, batch->generation), 0);
        rig_run(rig, b + 7);
        if (b == 30) {
            feed_get_stats(rig->feed, &stats);
            ck_assert_uint_eq(stats.shuffle_held, 0);
            budget_relax(rig->budget);
        }
    }
    rig_idle(rig, 50);
    feed_get_stats(rig->feed, &stats);
    ck_assert_uint_gt(stats.shuffle_held, 0);
    rig_check_order(rig, data, 0, (struct feed_place){0, 0});
    rig_free(rig);
}
END_TEST

START_TEST(test_slow_storage_is_named)
{
    feed_data_open(data);
    setenv("DATALOADD_TEST_DELAY", "read:400", 1);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20});
    rig_idle(rig, 150);
    struct feed_stats stats;
    feed_get_stats(rig->feed, &stats);
    ck_assert_int_eq(stats.wait, FEED_WAITS_STORAGE);
    ck_assert_ptr_nonnull(strstr(stats.wait_what, ".tar"));
    ck_assert_uint_ge(clock_ns() - stats.wait_since_ns, 50 * CLOCK_MS);
    ck_assert_uint_eq(rig->nbatches, 0);
    rig_free(rig);
}
END_TEST

static void count_classes(const struct rig *rig, uint32_t counts[BAD_CLASSES_COUNT])
{
    memset(counts, 0, BAD_CLASSES_COUNT * sizeof *counts);
    for (uint32_t i = 0; i < rig->nbad; i++)
        counts[rig->bad[i].cls]++;
}

/* Storage that makes the reader wait is read many places at a time. */
static void slow_down(bool slow)
{
    if (slow)
        setenv("DATALOADD_TEST_DELAY", "read:2", 1);
}

/* After the index: one shard is gone, one cut, one changed. The rest is served. */
START_TEST(test_broken_shards)
{
    slow_down(_i);
    feed_data_open(data);
    cleanup_free char *gone = feed_data_path(data, 0);
    cleanup_free char *changed = feed_data_path(data, 1);
    ck_assert_int_eq(unlink(gone), 0);
    int fd = open(changed, O_WRONLY | O_APPEND);
    ck_assert_int_eq(write(fd, "x", 1), 1);
    close(fd);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20});
    rig_run(rig, 10);
    uint32_t counts[BAD_CLASSES_COUNT];
    uint32_t valid = 0;
    for (uint32_t i = 0; i < rig->nbad; i++)
        if (rig->bad[i].place.epoch > 0)
            rig->nbad = i;
    count_classes(rig, counts);
    ck_assert_uint_eq(counts[BAD_SHARD_MISSING], 50);
    ck_assert_uint_eq(counts[BAD_SHARD_CHANGED], 50);
    for (uint32_t b = 0; b < 10; b++)
        valid += rig->batches[b].ready.valid;
    ck_assert_uint_eq(valid, 100);
    rig_free(rig);
}
END_TEST

START_TEST(test_shard_cut_while_open)
{
    slow_down(_i);
    data->spec.shuffle = 0;
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 5, .slots = 2, .keep = true});
    rig_run(rig, 2);
    cleanup_free char *path = feed_data_path(data, 0);
    ck_assert_int_eq(truncate(path, 1024), 0);
    for (uint32_t b = 0; b < 10; b++) {
        const struct feed_batch *batch = &rig->batches[b].ready;
        ck_assert_int_eq(feed_release(rig->feed, batch->slot, batch->generation), 0);
        rig_run(rig, b + 3);
    }
    uint32_t counts[BAD_CLASSES_COUNT];
    count_classes(rig, counts);
    /* Some were read before; the handle stays open, so the rest is cut and nothing crashes. */
    ck_assert_uint_gt(counts[BAD_SHARD_TRUNC], 0);
    ck_assert_uint_eq(counts[BAD_SHARD_TRUNC], rig->nbad);
    rig_check_order(rig, data, 0, (struct feed_place){0, 0});
    rig_free(rig);
}
END_TEST

/* The job began where its first epoch was over: from an earlier one the reader goes past it. */
START_TEST(test_epoch_without_a_step_is_passed)
{
    feed_data_open(data);
    struct rig *rig =
        rig_new(data, &(struct rig_options){
                          .batch = 20, .start_epoch = 1, .start_position = 200, .first = {1, 0}});
    rig_run(rig, 3);
    rig_check_order(rig, data, 0, (struct feed_place){2, 0});
    feed_seek(rig->feed, 0);
    uint32_t from = rig->nbatches;
    rig_run(rig, from + 25);
    rig_check_order(rig, data, from, (struct feed_place){0, 0});
    rig_free(rig);
}
END_TEST

START_TEST(test_waits_for_decoding)
{
    feed_data_open(data);
    setenv("DATALOADD_TEST_DELAY", "5:40000", 1);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20, .slots = 2, .threads = 1});
    struct feed_stats stats = {.wait = FEED_RUNS};
    for (int i = 0; i < 500 && stats.wait != FEED_WAITS_DECODE; i++) {
        rig_idle(rig, 1);
        feed_get_stats(rig->feed, &stats);
    }
    ck_assert_int_eq(stats.wait, FEED_WAITS_DECODE);
    ck_assert_uint_eq(stats.ready, 0);
    ck_assert_uint_gt(stats.rows_queued, 0);
    ck_assert_ptr_nonnull(strstr(stats.wait_what, "rows queued"));
    rig_free(rig);
}
END_TEST

START_TEST(test_close_at_any_moment)
{
    feed_data_open(data);
    for (int i = 0; i < 40; i++) {
        setenv("DATALOADD_TEST_DELAY", i % 2 ? "5:3000" : "read:5", 1);
        struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20, .keep = i % 3 == 0});
        for (int k = 0; k < i / 4; k++)
            uv_run(&rig->loop, UV_RUN_ONCE);
        if (i % 5 == 0)
            feed_seek(rig->feed, 2);
        rig_free(rig);
    }
}
END_TEST

static struct rig *to_close;

static void close_at_once(struct rig *rig, const struct feed_batch *batch)
{
    (void)batch;
    to_close = rig;
    feed_close(rig->feed);
}

START_TEST(test_close_within_an_event)
{
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20});
    rig->on_ready = close_at_once;
    rig_run(rig, 1);
    ck_assert_ptr_eq(to_close, rig);
    rig_free(rig);
}
END_TEST

START_TEST(test_rank_without_a_step_waits)
{
    data->spec.tail = TAIL_PARTIAL;
    feed_data_open(data);
    /* 200 rows over 300 ranks: the last has none in any epoch. */
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 1, .world = 300, .rank = 299});
    ck_assert_uint_eq(feed_steps(rig->feed, 0), 0);
    rig_idle(rig, 50);
    ck_assert_uint_eq(rig->nbatches, 0);
    struct feed_stats stats;
    feed_get_stats(rig->feed, &stats);
    ck_assert_int_eq(stats.wait, FEED_ENDED);
    rig_free(rig);
}
END_TEST

static void mark(void *context)
{
    *(bool *)context = true;
}

START_TEST(test_no_room)
{
    feed_data_open(data);
    bool closed = false;
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct mailbox *mailbox = mailbox_new(&loop);
    struct budget *budget = budget_new(1 << 20, 1 << 10);
    struct workers *workers = workers_new(1, NULL, budget);
    struct feed_params params = {.spec = &data->spec,
                                 .dataset = data->dataset,
                                 .world = 1,
                                 .batch = 200,
                                 .slots = 8,
                                 .workers = workers,
                                 .budget = budget,
                                 .mailbox = mailbox,
                                 .events = {.closed = mark},
                                 .context = &closed};
    struct feed *feed;
    struct error err;
    ck_assert_int_eq(feed_open(&params, &feed, &err), -ENOMEM);
    ck_assert_ptr_nonnull(strstr(err.text, "test"));
    ck_assert_uint_eq(budget_used(budget, BUDGET_SHUFFLE) + budget_used(budget, BUDGET_SLOTS), 0);
    params.slots = 2;
    params.batch = 2;
    ck_assert_int_eq(feed_open(&params, &feed, &err), 0);
    feed_close(feed); /* never started; its end comes as news, like any other's */
    ck_assert(!closed);
    while (!closed)
        uv_run(&loop, UV_RUN_ONCE);
    ck_assert_uint_eq(budget_used(budget, BUDGET_SHUFFLE) + budget_used(budget, BUDGET_SLOTS), 0);
    workers_free(workers);
    budget_free(budget);
    mailbox_free(mailbox);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}
END_TEST

/* Where the system gives no threads a trainer is refused; nobody else suffers. */
START_TEST(test_no_thread)
{
    feed_data_open(data);
    struct rig *rig = rig_new(data, &(struct rig_options){.batch = 20});
    struct feed_params params = {.spec = &data->spec,
                                 .dataset = data->dataset,
                                 .world = 1,
                                 .batch = 2,
                                 .slots = 2,
                                 .workers = rig->workers,
                                 .budget = rig->budget};
    struct rlimit none = {0};
    struct feed *feed;
    struct error err;
    ck_assert_int_eq(setrlimit(RLIMIT_NPROC, &none), 0);
    uid_t uid = getuid();
    ck_assert(uid != 0 || setresuid(65534, 65534, 0) == 0); /* root has no limit */
    ck_assert_int_eq(feed_open(&params, &feed, &err), -EAGAIN);
    ck_assert(uid != 0 || setresuid(0, 0, 0) == 0);
    ck_assert_ptr_nonnull(strstr(err.text, "feed test: cannot start thread"));
    rig_free(rig); /* needs none, and checks that all memory was given back */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("feed_life");
    TCase *bad = tcase_create("bad");
    tcase_add_checked_fixture(bad, setup, teardown);
    tcase_add_test(bad, test_bad_rows_are_replaced);
    tcase_add_test(bad, test_fail_policy);
    tcase_add_test(bad, test_bad_limit);
    tcase_add_test(bad, test_bad_limit_counts_by_epoch);
    TCase *life = tcase_create("life");
    tcase_add_checked_fixture(life, setup_good, teardown);
    tcase_add_test(life, test_shared_memory_is_for_reading);
    tcase_add_test(life, test_seek);
    tcase_add_test(life, test_seek_drops_what_was_not_taken);
    tcase_add_test(life, test_seek_within_an_event);
    tcase_add_test(life, test_back_pressure);
    tcase_add_test(life, test_slow_storage_is_named);
    tcase_add_test(life, test_what_is_held_ahead_goes_under_pressure);
    tcase_add_loop_test(life, test_broken_shards, 0, 2);
    tcase_add_loop_test(life, test_shard_cut_while_open, 0, 2);
    tcase_add_test(life, test_epoch_without_a_step_is_passed);
    tcase_add_test(life, test_waits_for_decoding);
    tcase_add_test(life, test_close_at_any_moment);
    tcase_add_test(life, test_close_within_an_event);
    tcase_add_test(life, test_rank_without_a_step_waits);
    tcase_add_test(life, test_no_room);
    tcase_add_test(life, test_no_thread);
    suite_add_tcase(suite, bad);
    suite_add_tcase(suite, life);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
