#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/mem.h"
#include "base/philox.h"
#include "plan_data.h"
#include "store/plan_cursor.h"

static struct plan *make(const struct plan_data *data, uint64_t seed, uint64_t epoch,
                         uint64_t shuffle, uint32_t lanes)
{
    struct plan_settings settings = {seed, shuffle, lanes};
    struct plan *plan = plan_new(&data->source, &settings, epoch);
    ck_assert_ptr_nonnull(plan);
    return plan;
}

/* O as numbers of records in listed order. */
static uint64_t *whole_order(const struct plan *plan, const struct plan_data *data)
{
    uint64_t *order = mem_array(plan_records(plan), sizeof *order);
    for (uint64_t i = 0; i < plan_records(plan); i++)
        order[i] = plan_data_number(data, plan_at(plan, i));
    return order;
}

static void check_each_once(const struct plan *plan, const struct plan_data *data)
{
    uint64_t records = plan_data_records(data);
    ck_assert_uint_eq(plan_records(plan), records);
    cleanup_free uint64_t *order = whole_order(plan, data);
    cleanup_free bool *seen = mem_array(records, sizeof *seen);
    for (uint64_t i = 0; i < records; i++) {
        ck_assert_uint_lt(order[i], records);
        ck_assert(!seen[order[i]]);
        seen[order[i]] = true;
    }
}

/* What a reader does, lane by lane and block by block, gives the same as plan_at. */
static void check_lane_form(const struct plan *plan)
{
    cleanup_free uint32_t *out = mem_array(plan_block(plan), sizeof *out);
    uint64_t records = 0;
    for (uint32_t lane = 0; lane < plan_lanes(plan); lane++) {
        uint64_t of_lane = 0;
        uint32_t count;
        for (uint64_t block = 0; (count = plan_permutation(plan, lane, block, out)) > 0; block++) {
            for (uint32_t e = 0; e < count; e++, of_lane++) {
                struct plan_place a = plan_lane_at(plan, lane, block * plan_block(plan) + out[e]);
                struct plan_place b = plan_at(plan, of_lane * plan_lanes(plan) + lane);
                ck_assert(a.shard == b.shard && a.record == b.record);
            }
        }
        ck_assert_uint_eq(of_lane, plan_lane_records(plan, lane));
        ck_assert_uint_le(plan_lane_records(plan, 0) - of_lane, 1);
        records += of_lane;
    }
    ck_assert_uint_eq(records, plan_records(plan));
    ck_assert_uint_eq(plan_permutation(plan, 0, UINT64_MAX, out), 0);
}

/* A cursor agrees with plan_at in any order of asking, and so do its windows and its way back. */
static void check_window_and_find(const struct plan *plan, uint64_t salt)
{
    uint64_t records = plan_records(plan);
    if (records == 0)
        return;
    uint64_t first = salt % records, count = records - first + salt % 3;
    cleanup_free struct plan_place *places = mem_array(count, sizeof *places);
    struct plan_cursor *cursor = plan_cursor_new(plan);
    plan_cursor_window(cursor, first, count, places);
    for (uint64_t i = first; i < records; i++) {
        struct plan_place at = plan_at(plan, i);
        ck_assert(places[i - first].shard == at.shard && places[i - first].record == at.record);
        if ((i + salt) % 17 == 0)
            ck_assert_uint_eq(plan_cursor_find(cursor, at), i);
        struct plan_place again = plan_cursor_at(cursor, i);
        ck_assert(again.shard == at.shard && again.record == at.record);
    }
    plan_cursor_window(cursor, records, 5, NULL); /* past the end: nothing is written */
    plan_cursor_free(cursor);
}

START_TEST(every_record_once_in_any_setting)
{
    static const uint64_t shuffles[] = {0, 1, 3, 16, 64, 200, 100000, UINT64_MAX};
    static const uint32_t lanes[] = {1, 2, 5, 16, 64, 500};
    uint64_t combination = 0;
    for (uint32_t shards = 0; shards < 9; shards++) {
        struct plan_data *data = plan_data_random(shards, shards, 40, shards % 2 ? 2 : 100000);
        for (size_t s = 0; s < sizeof shuffles / sizeof *shuffles; s++) {
            for (size_t l = 0; l < sizeof lanes / sizeof *lanes; l++) {
                combination++;
                struct plan *plan = make(data, combination, combination % 5, shuffles[s], lanes[l]);
                ck_assert_uint_eq(plan_lanes(plan), shuffles[s] ? lanes[l] : 1);
                check_each_once(plan, data);
                check_lane_form(plan);
                check_window_and_find(plan, combination);
                plan_free(plan);
            }
        }
        plan_data_free(data);
    }
}
END_TEST

START_TEST(shuffle_0_is_the_listed_order)
{
    struct plan_data *data = plan_data_random(3, 7, 60, 30000);
    struct plan *plan = make(data, 99, 1, 0, 64);
    ck_assert_uint_eq(plan_lanes(plan), 1);
    ck_assert_uint_eq(plan_block(plan), 1);
    for (uint64_t i = 0; i < plan_records(plan); i++)
        ck_assert_uint_eq(plan_data_number(data, plan_at(plan, i)), i);
    plan_free(plan);
    plan_data_free(data);
}
END_TEST

static uint64_t places_alike(const struct plan_data *data, struct plan *a, struct plan *b)
{
    cleanup_free uint64_t *x = whole_order(a, data);
    cleanup_free uint64_t *y = whole_order(b, data);
    uint64_t alike = 0;
    for (uint64_t i = 0; i < plan_records(a); i++)
        alike += x[i] == y[i];
    plan_free(a);
    plan_free(b);
    return alike;
}

START_TEST(seed_and_epoch_give_other_orders)
{
    struct plan_data *data = plan_data_random(5, 8, 400, 100000);
    uint64_t records = plan_data_records(data);
    ck_assert_uint_eq(places_alike(data, make(data, 1, 0, 256, 64), make(data, 1, 0, 256, 64)),
                      records);
    ck_assert_uint_lt(places_alike(data, make(data, 1, 0, 256, 64), make(data, 1, 1, 256, 64)), 20);
    ck_assert_uint_lt(places_alike(data, make(data, 1, 0, 256, 64), make(data, 2, 0, 256, 64)), 20);
    /* The upper half of the seed counts too. */
    ck_assert_uint_lt(
        places_alike(data, make(data, 1, 0, 256, 64), make(data, 1ULL << 32 | 1, 0, 256, 64)), 20);
    plan_data_free(data);
}
END_TEST

START_TEST(a_large_shuffle_permutes_whole_lanes)
{
    struct plan_data *data = plan_data_random(6, 4, 300, 100000);
    uint64_t records = plan_data_records(data);
    struct plan *plan = make(data, 1, 0, records, 8);
    ck_assert_uint_eq(plan_block(plan), records / 8 + (records % 8 != 0));
    plan_free(plan);
    ck_assert_uint_eq(
        places_alike(data, make(data, 1, 0, records, 8), make(data, 1, 0, UINT64_MAX, 8)), records);
    plan_data_free(data);
}
END_TEST

/* Bytes of the heaviest less those of the lightest of n ranks with neighbouring lanes, over the
 * mean. */
static double byte_spread(const struct plan_data *data, const struct plan *plan, uint32_t ranks)
{
    double least = 1e300, most = 0, sum = 0;
    uint32_t each = plan_lanes(plan) / ranks;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        double bytes = 0;
        for (uint32_t lane = rank * each; lane < (rank + 1) * each; lane++) {
            for (uint64_t x = 0; x < plan_lane_records(plan, lane); x++) {
                struct plan_place place = plan_lane_at(plan, lane, x);
                bytes += (double)data->source.span_bytes(data, place.shard, place.record, 1);
            }
        }
        least = bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
        sum += bytes;
    }
    return (most - least) / (sum / ranks);
}

START_TEST(ranks_get_nearly_equal_bytes)
{
    /* Sizes that depend on the shard, 1 : 3, as on class-sorted shards; 100,000 records. */
    enum { SHARDS = 100, RECORDS = 1000 };
    struct plan_data *data = plan_data_new(SHARDS);
    struct philox stream;
    philox_start(&stream, 1, PHILOX_DRAW, 0, 0, 0);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        uint64_t sizes[RECORDS];
        uint64_t mean = 50000 + 1000 * shard;
        for (int i = 0; i < RECORDS; i++)
            sizes[i] = mean / 2 + philox_below(&stream, mean);
        plan_data_shard(data, shard, RECORDS, sizes, 0);
    }
    struct plan *plan = make(data, 1, 0, 16384, 64);
    ck_assert_double_lt(byte_spread(data, plan, 8), 0.01);
    ck_assert_double_lt(byte_spread(data, plan, 64), 0.03);
    plan_free(plan);
    plan_data_free(data);
}
END_TEST

/* Kept, so that the order of a version never changes: shards of 3, 0, 5 and 4 records. */
START_TEST(order_is_kept)
{
    static const uint64_t sizes[][5] = {{10, 200, 30}, {0}, {1, 2, 3, 400, 5}, {7, 7, 7, 7}};
    static const uint64_t counts[] = {3, 0, 5, 4};
    static const struct {
        uint64_t seed, epoch, shuffle;
        uint32_t lanes;
        uint8_t order[12];
    } kept[] = {
        {0ULL, 0, 0, 64, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
        {1ULL, 0, 4, 4, {6, 10, 1, 0, 4, 2, 8, 9, 11, 3, 5, 7}},
        {1ULL, 0, 8, 4, {6, 10, 8, 0, 4, 2, 1, 9, 11, 3, 5, 7}}, /* docs/order.md */
        {1ULL, 1, 8, 4, {4, 7, 3, 5, 2, 11, 8, 1, 9, 6, 0, 10}},
        {1ULL, 1, 12, 3, {11, 2, 6, 1, 4, 5, 3, 7, 8, 9, 10, 0}},
        {18446744073709551615ULL, 5, 64, 64, {11, 3, 6, 9, 7, 8, 4, 2, 10, 1, 0, 5}},
    };
    struct plan_data *data = plan_data_new(4);
    for (uint32_t shard = 0; shard < 4; shard++)
        plan_data_shard(data, shard, counts[shard], sizes[shard], 0);
    struct plan *plan = make(data, kept[_i].seed, kept[_i].epoch, kept[_i].shuffle, kept[_i].lanes);
    for (uint64_t i = 0; i < 12; i++)
        ck_assert_uint_eq(plan_data_number(data, plan_at(plan, i)), kept[_i].order[i]);
    plan_free(plan);
    plan_data_free(data);
}
END_TEST

START_TEST(large_order_is_kept)
{
    struct plan_data *data = plan_data_new(16);
    for (uint32_t shard = 0; shard < 16; shard++)
        plan_data_shard(data, shard, 1000, NULL, 90000 + 1000 * shard);
    struct plan *plan = make(data, 1234567890123456789, 16777215, 2048, 64);
    uint64_t hash = 14695981039346656037ULL; /* FNV-1a over the numbers */
    for (uint64_t i = 0; i < plan_records(plan); i++)
        hash = (hash ^ plan_data_number(data, plan_at(plan, i))) * 1099511628211ULL;
    ck_assert_uint_eq(plan_runs(plan), 4104);
    ck_assert_msg(hash == 0xd0579e846bceebf5ULL, "%llx", (unsigned long long)hash);
    plan_free(plan);
    plan_data_free(data);
}
END_TEST

/* A data set too large to list: equal records, computed. */
struct vast {
    uint64_t records; /* of each shard */
    uint64_t size;
};

static uint64_t vast_records(const void *context, uint32_t shard)
{
    (void)shard;
    return ((const struct vast *)context)->records;
}

static uint64_t vast_span(const void *context, uint32_t shard, uint64_t first, uint64_t count)
{
    (void)shard;
    (void)first;
    return ((const struct vast *)context)->size * count;
}

static uint64_t vast_bytes(const void *context, uint32_t shard)
{
    return vast_span(context, shard, 0, ((const struct vast *)context)->records);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 10, LARGER = 10 };
#elif defined(__OPTIMIZE__)
enum { SLOWER = 1, LARGER = 1 };
#else
enum { SLOWER = 3, LARGER = 1 };
#endif

/* Of this process: other work on the machine does not count. */
static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

START_TEST(planner_memory_grows_with_runs_not_records)
{
    struct vast vast = {10000, 110000};
    struct plan_source source = {10000, vast_records, vast_bytes, vast_span, &vast};
    struct plan_settings settings = {1, 16384, 64};
    double began = cpu_seconds();
    struct plan *plan = plan_new(&source, &settings, 0);
    double took = cpu_seconds() - began;
    ck_assert_ptr_nonnull(plan);
    struct rusage usage; /* of this test's own process */
    getrusage(RUSAGE_SELF, &usage);
    ck_assert_uint_eq(plan_records(plan), 100000000);
    ck_assert_uint_gt(plan_runs(plan), 1000000);
    ck_assert_uint_le(plan_runs(plan), (1 << 20) + 10000);
    ck_assert_msg(took < SLOWER, "%g s", took);
    ck_assert_msg(usage.ru_maxrss < LARGER * 64 * 1024, "%ld KiB", usage.ru_maxrss);

    began = cpu_seconds();
    for (uint64_t i = 0; i < 10000; i++)
        plan_at(plan, i * 9999);
    took = cpu_seconds() - began;
    ck_assert_msg(took < SLOWER, "%g s", took);
    plan_free(plan);
}
END_TEST

START_TEST(vast_numbers_do_not_overflow)
{
    struct vast vast = {1ULL << 40, 1ULL << 20}; /* 2^60 bytes a shard, 2^64 in all */
    struct plan_source source = {16, vast_records, vast_bytes, vast_span, &vast};
    struct plan_settings settings = {1, 1 << 20, 65536};
    struct plan *plan = plan_new(&source, &settings, 0);
    ck_assert_ptr_nonnull(plan);
    ck_assert_uint_eq(plan_records(plan), 1ULL << 44);
    ck_assert_uint_eq(plan_runs(plan), 1 << 20);
    ck_assert_uint_eq(plan_block(plan), 16);
    /* Neighbours in a lane before the shuffle are neighbours in a shard, but for run ends. */
    struct plan_place last = plan_lane_at(plan, 65535, plan_lane_records(plan, 65535) - 1);
    struct plan_place before = plan_lane_at(plan, 65535, plan_lane_records(plan, 65535) - 2);
    ck_assert(last.shard == before.shard && last.record == before.record + 1);
    ck_assert_uint_lt(plan_at(plan, (1ULL << 44) - 1).record, 1ULL << 40);
    plan_free(plan);

    settings.shuffle = UINT64_MAX; /* blocks of 2^44 / 2^16 records fit */
    plan = plan_new(&source, &settings, 0);
    ck_assert_ptr_nonnull(plan);
    ck_assert_uint_eq(plan_block(plan), 1 << 28);
    plan_free(plan);
    settings.lanes = 1; /* 2^44 records a block do not */
    ck_assert_ptr_null(plan_new(&source, &settings, 0));
}
END_TEST

START_TEST(id_covers_every_input)
{
    static const struct {
        const char *fingerprint;
        struct plan_settings settings;
        const char *tail;
    } others[] = {
        {"00112233445566778899aabbccddeefe", {1, 16384, 64}, "wrap"},
        {"00112233445566778899aabbccddeeff", {2, 16384, 64}, "wrap"},
        {"00112233445566778899aabbccddeeff", {1, 16383, 64}, "wrap"},
        {"00112233445566778899aabbccddeeff", {1, 16384, 65}, "wrap"},
        {"00112233445566778899aabbccddeeff", {1, 16384, 64}, "drop"},
    };
    struct plan_settings settings = {1, 16384, 64};
    char id[17], other[17];
    plan_id("00112233445566778899aabbccddeeff", &settings, "wrap", id);
    ck_assert_str_eq(id, "02e8ebd694aa2be7");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        plan_id(others[i].fingerprint, &others[i].settings, others[i].tail, other);
        ck_assert_str_ne(id, other);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("plan");
    tcase_add_test(tests, every_record_once_in_any_setting);
    tcase_add_test(tests, shuffle_0_is_the_listed_order);
    tcase_add_test(tests, seed_and_epoch_give_other_orders);
    tcase_add_test(tests, a_large_shuffle_permutes_whole_lanes);
    tcase_add_test(tests, ranks_get_nearly_equal_bytes);
    tcase_add_loop_test(tests, order_is_kept, 0, 6);
    tcase_add_test(tests, large_order_is_kept);
    tcase_add_test(tests, planner_memory_grows_with_runs_not_records);
    tcase_add_test(tests, vast_numbers_do_not_overflow);
    tcase_add_test(tests, id_covers_every_input);
    Suite *suite = suite_create("plan");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
