/* feed/shuffle.c with records of its own making: the order is the plan's whatever is read when,
 * each record is read once, mostly in sequence, and no more is held than said. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"
#include "base/mem.h"
#include "feed/shuffle.h"
#include "plan_data.h"

#define EACH 2000 /* bytes of a record */

struct world {
    struct plan_data *data;
    struct plan_settings settings;
    struct steps steps;
    uint64_t start_step;
    uint64_t room; /* for samples ahead, 0 = none */
};

/* Loads of one run. */
struct loads {
    struct ration *ration;
    const struct plan_data *data;
    uint8_t *times; /* by record number */
    uint64_t ahead, breaks;
    struct plan_place last;
};

static struct sample *load(struct loads *loads, struct plan_place place, enum ration_use use)
{
    struct dataset_record record = {.id = plan_data_number(loads->data, place),
                                    .shard = place.shard};
    record.parts[0].size = EACH;
    struct sample *sample = sample_new(&record, place, 1, EACH, loads->ration, use);
    if (sample)
        loads->times[record.id]++;
    return sample;
}

static struct sample *load_ahead(void *context, struct plan_place place)
{
    struct loads *loads = context;
    struct sample *sample = load(loads, place, RATION_AHEAD);
    if (sample) {
        loads->ahead++;
        loads->breaks += place.shard != loads->last.shard || place.record != loads->last.record + 1;
        loads->last = place;
    }
    return sample;
}

static void hint(void *context, struct plan_place first, struct plan_place last)
{
    (void)context;
    ck_assert_uint_eq(first.shard, last.shard);
    ck_assert_uint_ge(last.record, first.record);
}

struct result {
    uint64_t rows, direct, ahead, breaks, most_held;
};

static uint64_t held_now(const struct loads *loads, const struct result *result)
{
    return loads->ahead + result->direct - result->rows;
}

static void emit_step(struct shuffle *shuffle, uint64_t t, uint32_t rank, struct loads *loads,
                      uint64_t *positions, struct result *result)
{
    const struct steps *steps = shuffle_steps(shuffle);
    uint32_t rows = steps_positions(steps, t, rank, positions);
    for (uint32_t r = 0; r < rows; r++) {
        if (positions[r] >= steps->records)
            continue;
        struct plan_place place;
        struct sample *sample = shuffle_take(shuffle, positions[r], &place);
        struct plan_place right = plan_at(shuffle_plan(shuffle), positions[r]);
        ck_assert_uint_eq(place.shard, right.shard);
        ck_assert_uint_eq(place.record, right.record);
        result->direct += !sample;
        if (!sample)
            sample = load(loads, place, RATION_NOW);
        ck_assert_ptr_nonnull(sample);
        ck_assert_uint_eq(sample->id, plan_data_number(loads->data, right));
        sample_free(sample);
        result->rows++;
    }
}

static struct shuffle *make_shuffle(const struct world *world, uint32_t rank, uint64_t epoch,
                                    struct ration *ration)
{
    struct shuffle_params params = {.source = &world->data->source,
                                    .order = &world->settings,
                                    .epoch = epoch,
                                    .steps = world->steps,
                                    .rank = rank,
                                    .first_step = world->start_step,
                                    .mean_bytes = EACH,
                                    .ration = ration};
    return shuffle_new(&params);
}

static uint64_t lane_after(const struct world *world, uint64_t steps)
{
    uint64_t rows = (uint64_t)world->steps.world * world->steps.batch;
    return (world->steps.start + steps * rows) / world->steps.lanes;
}

/* All that is left of one rank's epoch: its records are read once, and no others. */
static struct result emit_all(const struct world *world, uint32_t rank, struct shuffle *shuffle,
                              struct loads *loads)
{
    struct shuffle_source source = {load_ahead, hint, loads};
    struct result result = {0};
    cleanup_free uint64_t *positions = mem_array(world->steps.batch, sizeof *positions);
    uint64_t block = plan_block(shuffle_plan(shuffle));
    for (uint64_t t = world->start_step; t < steps_of_rank(&world->steps, rank); t++) {
        emit_step(shuffle, t, rank, loads, positions, &result);
        uint64_t from = lane_after(world, t + 1);
        shuffle_ahead(shuffle, from + block, 4 * EACH * world->steps.batch, &source);
        ck_assert_uint_le(shuffle_lack(shuffle, from, from + block), shuffle_target(shuffle));
        if (held_now(loads, &result) > result.most_held)
            result.most_held = held_now(loads, &result);
    }
    ck_assert_uint_eq(held_now(loads, &result), 0);
    ck_assert(shuffle_target(shuffle) > 0 || result.rows == 0);
    result.ahead = loads->ahead;
    result.breaks = loads->breaks;
    return result;
}

static struct result run(const struct world *world, uint32_t rank, uint8_t *times)
{
    struct error err;
    struct budget *budget = budget_new(1ULL << 30, 0);
    struct ration *ration;
    ck_assert_int_eq(ration_new(budget, 2 * EACH, world->room, &ration, &err), 0);
    struct shuffle *shuffle = make_shuffle(world, rank, 3, ration);
    struct loads loads = {.ration = ration, .data = world->data, .times = times};
    struct result result = emit_all(world, rank, shuffle, &loads);
    shuffle_free(shuffle);
    ck_assert_uint_eq(ration_used(ration), 0);
    ration_free(ration);
    budget_free(budget);
    return result;
}

static struct world make(uint64_t shuffle, uint32_t lanes, uint32_t ranks, uint32_t batch,
                         enum tail tail)
{
    struct world world = {.data = plan_data_random(5, 12, 700, EACH),
                          .settings = {.seed = 9, .shuffle = shuffle, .lanes = lanes},
                          .room = 1ULL << 30};
    world.steps = (struct steps){.records = plan_data_records(world.data),
                                 .lanes = shuffle ? lanes : 1,
                                 .world = ranks,
                                 .batch = batch,
                                 .tail = tail};
    return world;
}

static const struct {
    uint64_t shuffle;
    uint32_t lanes, world, batch;
    enum tail tail;
    uint64_t start, start_step;
} cases[] = {
    {256, 16, 1, 32, TAIL_WRAP, 0, 0},     {256, 16, 2, 16, TAIL_DROP, 0, 0},
    {256, 16, 4, 2, TAIL_PARTIAL, 0, 0},   {0, 64, 2, 8, TAIL_PARTIAL, 0, 0},
    {16, 16, 3, 5, TAIL_WRAP, 0, 0},       {1000000, 8, 2, 8, TAIL_WRAP, 0, 0},
    {300, 7, 3, 10, TAIL_PARTIAL, 101, 0}, {256, 16, 2, 16, TAIL_WRAP, 333, 7},
    {1, 1, 1, 1, TAIL_DROP, 0, 0},         {50, 64, 5, 11, TAIL_DROP, 17, 3},
};

START_TEST(test_each_record_once)
{
    struct world world =
        make(cases[_i].shuffle, cases[_i].lanes, cases[_i].world, cases[_i].batch, cases[_i].tail);
    world.steps.start = cases[_i].start;
    world.start_step = cases[_i].start_step;
    uint64_t records = world.steps.records;
    uint64_t rows = (uint64_t)cases[_i].world * cases[_i].batch;
    uint8_t *times = calloc(records, 1);
    uint64_t emitted = 0;
    for (uint32_t rank = 0; rank < world.steps.world; rank++)
        emitted += run(&world, rank, times).rows;
    uint64_t loaded = 0;
    for (uint64_t i = 0; i < records; i++) {
        ck_assert_uint_le(times[i], 1);
        loaded += times[i];
    }
    uint64_t left = records - world.steps.start - world.start_step * rows;
    ck_assert_uint_eq(emitted, world.steps.tail == TAIL_DROP ? left / rows * rows : left);
    ck_assert_uint_eq(loaded, emitted);
    free(times);
    plan_data_free(world.data);
}
END_TEST

START_TEST(test_little_memory)
{
    /* Room for the rings and some records, for a few records, for nothing. */
    static const uint64_t rooms[] = {300 * EACH, 20 * EACH, 0};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        struct world world = make(512, 16, 1, 32, TAIL_WRAP);
        world.room = rooms[i];
        uint8_t *times = calloc(world.steps.records, 1);
        struct result result = run(&world, 0, times);
        ck_assert_uint_eq(result.rows, world.steps.records);
        ck_assert_uint_le(result.most_held * EACH, rooms[i]);
        for (uint64_t k = 0; k < world.steps.records; k++)
            ck_assert_uint_eq(times[k], 1);
        free(times);
        plan_data_free(world.data);
    }
}
END_TEST

START_TEST(test_sequential_and_bounded)
{
    struct world world = make(512, 16, 2, 16, TAIL_DROP);
    plan_data_free(world.data);
    world.data = plan_data_new(8);
    for (uint32_t s = 0; s < 8; s++)
        plan_data_shard(world.data, s, 4000, NULL, EACH);
    world.steps.records = 32000;
    uint8_t *times = calloc(32000, 1);
    struct result result = run(&world, 0, times);
    /* A block of 32 records for each of 8 lanes is filled up by 3 records for one emitted. */
    ck_assert_uint_eq(result.rows, 16000);
    ck_assert_uint_le(result.direct, 8 * 32);
    ck_assert_uint_eq(result.ahead, 16000 - result.direct);
    /* A chunk of 1 MiB has 524 records, a run of the plan 31 at least. */
    ck_assert_uint_le(result.breaks, result.ahead / 25);
    ck_assert_uint_le(result.most_held, 8 * (32 + 32 + 524 + 1));
    free(times);
    plan_data_free(world.data);
}
END_TEST

/* While one epoch's records fill the memory, the next one's lanes get none; later they do. */
START_TEST(test_memory_comes_back)
{
    struct error err;
    struct world world = make(512, 16, 1, 32, TAIL_WRAP);
    struct budget *budget = budget_new(1ULL << 30, 0);
    struct ration *ration;
    ck_assert_int_eq(ration_new(budget, 2 * EACH, 300 * EACH, &ration, &err), 0);
    cleanup_free uint8_t *times = calloc(world.steps.records, 1);
    cleanup_free uint8_t *later = calloc(world.steps.records, 1);
    struct loads loads[] = {{.ration = ration, .data = world.data, .times = times},
                            {.ration = ration, .data = world.data, .times = later}};
    struct shuffle *now = make_shuffle(&world, 0, 3, ration);
    struct shuffle *next = make_shuffle(&world, 0, 4, ration);
    for (int i = 0; i < 2; i++) {
        struct shuffle_source source = {load_ahead, hint, &loads[i]};
        shuffle_ahead(i ? next : now, 32, UINT64_MAX, &source);
    }
    ck_assert_uint_gt(loads[0].ahead, 200);
    ck_assert_uint_eq(loads[1].ahead, 0);
    ck_assert_uint_eq(shuffle_lack(next, 0, 32), shuffle_target(next));
    shuffle_free(now);
    struct result result = emit_all(&world, 0, next, &loads[1]);
    ck_assert_uint_eq(result.rows, world.steps.records);
    ck_assert_uint_gt(result.ahead, world.steps.records / 2);
    for (uint64_t k = 0; k < world.steps.records; k++)
        ck_assert_uint_eq(later[k], 1);
    shuffle_free(next);
    ration_free(ration);
    budget_free(budget);
    plan_data_free(world.data);
}
END_TEST

START_TEST(test_lack_is_what_is_not_here)
{
    struct error err;
    struct world world = make(512, 16, 2, 16, TAIL_DROP);
    struct budget *budget = budget_new(1ULL << 30, 0);
    struct ration *ration;
    ck_assert_int_eq(ration_new(budget, 2 * EACH, 1ULL << 30, &ration, &err), 0);
    cleanup_free uint8_t *times = calloc(world.steps.records, 1);
    struct loads loads = {.ration = ration, .data = world.data, .times = times};
    struct shuffle_source source = {load_ahead, hint, &loads};
    struct shuffle *shuffle = make_shuffle(&world, 0, 3, ration);
    /* 8 of the 16 lanes are this rank's, and K is 32. */
    ck_assert_uint_eq(shuffle_target(shuffle), 8 * 32);
    ck_assert_uint_eq(shuffle_lack(shuffle, 0, 32), 8 * 32);
    shuffle_ahead(shuffle, 32, 1, &source);
    ck_assert_uint_eq(shuffle_lack(shuffle, 0, 32), 7 * 32);
    shuffle_ahead(shuffle, 32, UINT64_MAX, &source);
    ck_assert_uint_ge(loads.ahead, 8 * 32);
    ck_assert_uint_eq(shuffle_lack(shuffle, 0, 32), 0);
    shuffle_free(shuffle);
    ration_free(ration);
    budget_free(budget);
    plan_data_free(world.data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shuffle");
    TCase *tcase = tcase_create("shuffle");
    tcase_add_loop_test(tcase, test_each_record_once, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tcase, test_little_memory);
    tcase_add_test(tcase, test_sequential_and_bounded);
    tcase_add_test(tcase, test_memory_comes_back);
    tcase_add_test(tcase, test_lack_is_what_is_not_here);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
