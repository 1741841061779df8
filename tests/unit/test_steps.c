#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/philox.h"
#include "store/steps.h"

/* ck_assert writes to a pipe each time; this only when it fails. */
#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

static const enum tail tails[] = {TAIL_WRAP, TAIL_DROP, TAIL_PARTIAL};

/* Calls check for thousands of small combinations, and some random larger ones. */
static void for_all(void (*check)(const struct steps *steps))
{
    static const uint64_t starts[] = {0, 1, 5, 24};
    unsigned combinations = 500;
    struct steps steps;
    for (steps.records = 0; steps.records < 40; steps.records += 3)
        for (steps.lanes = 1; steps.lanes < 20; steps.lanes += 3)
            for (steps.world = 1; steps.world < 6; steps.world++)
                for (steps.batch = 1; steps.batch < 8; steps.batch += 2)
                    for (int start = 0; start < 4; start++)
                        for (int tail = 0; tail < 3; tail++) {
                            steps.start = starts[start];
                            steps.tail = tails[tail];
                            if (steps.start > steps.records)
                                continue;
                            check(&steps);
                            combinations++;
                        }
    struct philox stream;
    philox_start(&stream, 1, PHILOX_DRAW, 0, 0, 0);
    for (int i = 0; i < 500; i++) {
        uint64_t records = philox_below(&stream, 3000);
        steps = (struct steps){records,
                               philox_below(&stream, records + 1),
                               1 + (uint32_t)philox_below(&stream, 200),
                               1 + (uint32_t)philox_below(&stream, 20),
                               1 + (uint32_t)philox_below(&stream, 40),
                               tails[philox_below(&stream, 3)]};
        check(&steps);
    }
    printf("%u combinations\n", combinations);
    fflush(stdout);
}

/* All ranks' rows of a batch are the window's positions, each once, in the order of lanes; the
 * inverse gives rank and batch back; nobody has more than a row more than another. */
static void check_batch(const struct steps *steps, uint64_t t)
{
    uint64_t first = steps->start + t * steps->world * steps->batch;
    uint64_t rows = steps_rows(steps, t);
    uint64_t before = 0, seen = 0;
    uint32_t least = UINT32_MAX, most = 0;
    cleanup_free uint64_t *out = mem_array(steps->batch, sizeof *out);
    for (uint32_t rank = 0; rank < steps->world; rank++) {
        uint32_t count = steps_positions(steps, t, rank, out);
        require(count <= steps->batch);
        least = count < least ? count : least;
        most = count > most ? count : most;
        for (uint32_t i = 0; i < count; i++, seen++) {
            require(out[i] >= first && out[i] < first + rows);
            uint64_t lane = out[i] % steps->lanes;
            uint64_t place = lane * (1ULL << 32) + (out[i] - first); /* strictly ascending */
            require(seen == 0 || place > before);
            before = place;
            struct steps_row row = steps_row_of(steps, out[i]);
            require(row.step == t && row.rank == rank && row.row == i);
        }
    }
    require(seen == rows);
    require(most - least <= 1);
    require(rows < (uint64_t)steps->world * steps->batch || least == steps->batch);
}

static void check_epoch(const struct steps *steps)
{
    uint64_t rows = (uint64_t)steps->world * steps->batch;
    uint64_t left = steps->records - steps->start;
    uint64_t total = steps_total(steps);
    uint64_t shown = 0;
    for (uint64_t t = 0; t < total; t++) {
        require(steps_rows(steps, t) > 0);
        shown += steps_rows(steps, t);
        check_batch(steps, t);
    }
    if (steps->tail == TAIL_WRAP)
        require(shown >= left && shown < left + rows && shown % rows == 0);
    if (steps->tail == TAIL_DROP)
        require(shown <= left && shown + rows > left && shown % rows == 0);
    if (steps->tail == TAIL_PARTIAL)
        require(shown == left);
}

START_TEST(each_position_once_to_one_rank)
{
    for_all(check_epoch);
}
END_TEST

static void check_rank_steps(const struct steps *steps)
{
    cleanup_free uint64_t *out = mem_array(steps->batch, sizeof *out);
    for (uint32_t rank = 0; rank < steps->world; rank++) {
        uint64_t own = 0;
        for (uint64_t t = 0; t < steps_total(steps); t++)
            own += steps_positions(steps, t, rank, out) > 0;
        require(steps_of_rank(steps, rank) == own);
        require(steps->tail == TAIL_PARTIAL || own == steps_total(steps));
    }
}

START_TEST(steps_of_a_rank_are_those_with_rows)
{
    for_all(check_rank_steps);
}
END_TEST

/* The rows of global batch t, rank after rank. */
static uint64_t *global_batch(const struct steps *steps, uint64_t t)
{
    uint64_t *rows = mem_array((size_t)steps->world * steps->batch, sizeof *rows);
    uint64_t *end = rows;
    for (uint32_t rank = 0; rank < steps->world; rank++)
        end += steps_positions(steps, t, rank, end);
    return rows;
}

static void check_elastic(const struct steps *steps)
{
    for (uint32_t world = 1; world <= steps->world * steps->batch; world++) {
        struct steps other = *steps;
        if (steps->world * steps->batch % world != 0)
            continue;
        other.world = world;
        other.batch = steps->world * steps->batch / world;
        require(steps_total(&other) == steps_total(steps));
        for (uint64_t t = 0; t < steps_total(steps); t++) {
            cleanup_free uint64_t *a = global_batch(steps, t);
            cleanup_free uint64_t *b = global_batch(&other, t);
            require(memcmp(a, b, steps_rows(steps, t) * sizeof *a) == 0);
        }
    }
}

START_TEST(another_world_with_the_same_rows_gives_the_same_global_batches)
{
    for_all(check_elastic);
}
END_TEST

static void check_resume(const struct steps *steps)
{
    for (uint64_t done = 0; done < steps_total(steps); done++) {
        struct steps rest = *steps;
        rest.start += done * steps->world * steps->batch;
        require(steps_total(&rest) == steps_total(steps) - done);
        cleanup_free uint64_t *a = global_batch(steps, done);
        cleanup_free uint64_t *b = global_batch(&rest, 0);
        require(memcmp(a, b, steps_rows(steps, done) * sizeof *a) == 0);
    }
}

START_TEST(going_on_from_a_step_gives_the_same_batches)
{
    for_all(check_resume);
}
END_TEST

/* Over many windows, counted one by one. */
static uint32_t lanes_counted(const struct steps *steps, uint32_t rank)
{
    struct steps endless = *steps;
    endless.records = UINT64_MAX / 2;
    cleanup_free uint64_t *out = mem_array(steps->batch, sizeof *out);
    cleanup_free bool *touched = mem_array(steps->lanes, sizeof *touched);
    for (uint64_t t = 0; t < steps->lanes; t++)
        for (uint32_t i = 0; i < steps_positions(&endless, t, rank, out); i++)
            touched[out[i] % steps->lanes] = true;
    uint32_t count = 0;
    for (uint32_t lane = 0; lane < steps->lanes; lane++)
        count += touched[lane];
    return count;
}

static void check_lanes(const struct steps *steps)
{
    if (steps->records % 9 != 0)
        return; /* N has no part in it */
    uint32_t most = 0;
    for (uint32_t rank = 0; rank < steps->world; rank++) {
        uint32_t touched = lanes_counted(steps, rank);
        require(steps_lanes_touched(steps, rank) == touched);
        most = touched > most ? touched : most;
    }
    uint32_t lanes, batch;
    double factor = steps_lane_factor(steps, &lanes, &batch);
    ck_assert_double_eq_tol(factor, (double)most * steps->world / steps->lanes, 1e-9);
    struct steps better = *steps;
    better.lanes = lanes;
    require(lanes > 0);
    for (uint32_t rank = 0; rank < steps->world; rank++)
        require(steps_lanes_touched(&better, rank) * steps->world == lanes);
    better = *steps;
    better.batch = batch;
    for (uint32_t rank = 0; batch && rank < steps->world; rank++)
        require(steps_lanes_touched(&better, rank) * steps->world == steps->lanes);
    require(factor >= 1);
    require((lanes == steps->lanes) == (batch == steps->batch));
    require(lanes != steps->lanes || factor == 1);
    if (factor == 1 && steps->start == 0)
        require(lanes == steps->lanes);
}

START_TEST(lanes_touched_and_their_remedy)
{
    for_all(check_lanes);
}
END_TEST

START_TEST(lane_factor_of_known_settings)
{
    static const struct {
        uint32_t lanes, world, batch;
        double factor;
        uint32_t better_lanes, better_batch;
    } known[] = {
        {64, 8, 256, 1, 64, 256}, {64, 1, 100, 1, 64, 100},    {64, 8, 1, 1, 64, 1},
        {64, 8, 4, 1, 64, 4},     {64, 8, 250, 1.25, 80, 248}, {64, 3, 256, 1.03125, 48, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct steps steps = {1000000, 0, known[i].lanes, known[i].world, known[i].batch};
        uint32_t lanes, batch;
        double factor = steps_lane_factor(&steps, &lanes, &batch);
        ck_assert_msg(factor == known[i].factor && lanes == known[i].better_lanes &&
                          batch == known[i].better_batch,
                      "%zu: %g, lanes %u, batch %u", i, factor, lanes, batch);
    }
}
END_TEST

START_TEST(lane_factor_of_the_largest_settings_is_quick)
{
    struct steps steps = {1ULL << 40, 12345, 65535, 65536, 65536};
    uint32_t lanes, batch;
    ck_assert_double_gt(steps_lane_factor(&steps, &lanes, &batch), 1);
    ck_assert_uint_eq(lanes, 65536);
    ck_assert_uint_eq(batch, 0);
}
END_TEST

START_TEST(large_numbers)
{
    struct steps steps = {1ULL << 60, (1ULL << 59) + 7, 65536, 65536, 65536, TAIL_WRAP};
    ck_assert_uint_eq(steps_total(&steps), (1ULL << 27));
    uint64_t t = (1ULL << 27) - 1;
    cleanup_free uint64_t *out = mem_array(65536, sizeof *out);
    ck_assert_uint_eq(steps_positions(&steps, t, 65535, out), 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        struct steps_row row = steps_row_of(&steps, out[i]);
        ck_assert_uint_eq(out[i] % 65536, 65535);
        ck_assert(row.step == t && row.rank == 65535 && row.row == i);
    }
}
END_TEST

START_TEST(impossible_settings_are_refused_with_the_numbers)
{
    struct error err;
    struct steps steps = {100, 0, 64, 8, 16, TAIL_DROP};
    ck_assert_int_eq(steps_check(&steps, &err), -EINVAL);
    ck_assert(strstr(err.text, "100 records") && strstr(err.text, "128 rows") &&
              strstr(err.text, "drop"));
    steps.start = 100; /* the epoch is over: no error */
    ck_assert_int_eq(steps_check(&steps, &err), 0);
    steps.start = 101;
    ck_assert_int_eq(steps_check(&steps, &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "101"));
    steps = (struct steps){0, 0, 64, 1, 1, TAIL_WRAP};
    ck_assert_int_eq(steps_check(&steps, &err), -EINVAL);
    steps = (struct steps){1, 0, 64, 8, 16, TAIL_WRAP};
    ck_assert_int_eq(steps_check(&steps, &err), 0);
    steps.tail = TAIL_PARTIAL;
    ck_assert_int_eq(steps_check(&steps, &err), 0);
    steps.batch = 0;
    ck_assert_int_eq(steps_check(&steps, &err), -EINVAL);
}
END_TEST

/* Kept: N = 10, L = 4, two ranks of 3 rows, wrap. */
START_TEST(rows_are_kept)
{
    static const uint64_t kept[2][2][3] = {{{0, 4, 1}, {5, 2, 3}}, {{8, 9, 6}, {10, 7, 11}}};
    struct steps steps = {10, 0, 4, 2, 3, TAIL_WRAP};
    ck_assert_uint_eq(steps_total(&steps), 2);
    for (uint64_t t = 0; t < 2; t++)
        for (uint32_t rank = 0; rank < 2; rank++) {
            uint64_t out[3];
            ck_assert_uint_eq(steps_positions(&steps, t, rank, out), 3);
            ck_assert_mem_eq(out, kept[t][rank], sizeof out);
        }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("steps");
    tcase_add_test(tests, each_position_once_to_one_rank);
    tcase_add_test(tests, steps_of_a_rank_are_those_with_rows);
    tcase_add_test(tests, another_world_with_the_same_rows_gives_the_same_global_batches);
    tcase_add_test(tests, going_on_from_a_step_gives_the_same_batches);
    tcase_add_test(tests, lanes_touched_and_their_remedy);
    tcase_add_test(tests, lane_factor_of_known_settings);
    tcase_add_test(tests, lane_factor_of_the_largest_settings_is_quick);
    tcase_add_test(tests, large_numbers);
    tcase_add_test(tests, impossible_settings_are_refused_with_the_numbers);
    tcase_add_test(tests, rows_are_kept);
    Suite *suite = suite_create("steps");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
