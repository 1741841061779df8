/* The C code against tests/support/order_model.py, a second implementation of docs/order.md. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "plan_data.h"
#include "store/steps.h"

#define MODEL "python3 " SOURCE_DIR "/tests/support/order_model.py"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CASES 400
#else
#define CASES 2000
#endif

static FILE *model;
static unsigned long long places, batches; /* compared */

static uint64_t number(void)
{
    uint64_t value;
    ck_assert_int_eq(fscanf(model, "%" SCNu64, &value), 1);
    return value;
}

static void word(char out[16])
{
    ck_assert_int_eq(fscanf(model, "%15s", out), 1);
}

static void expect_word(const char *expected)
{
    char text[16];
    word(text);
    ck_assert_str_eq(text, expected);
}

static enum tail tail(void)
{
    char text[16];
    word(text);
    enum tail tail = TAIL_WRAP;
    while (strcmp(text, tail_name(tail)) != 0)
        tail++;
    return tail;
}

static struct plan_data *read_shards(uint32_t shards)
{
    struct plan_data *data = plan_data_new(shards);
    for (uint32_t shard = 0; shard < shards; shard++) {
        expect_word("shard");
        uint64_t records = number();
        cleanup_free uint64_t *sizes = mem_array(records, sizeof *sizes);
        for (uint64_t i = 0; i < records; i++)
            sizes[i] = number();
        plan_data_shard(data, shard, records, sizes, 0);
    }
    return data;
}

static void compare_order(const struct plan *plan)
{
    expect_word("order");
    ck_assert_uint_eq(plan_records(plan), number());
    for (uint64_t i = 0; i < plan_records(plan); i++) {
        struct plan_place place = plan_at(plan, i);
        ck_assert_uint_eq(place.shard, number());
        ck_assert_uint_eq(place.record, number());
    }
    places += plan_records(plan);
}

static void compare_rows(const struct steps *steps)
{
    expect_word("steps");
    uint64_t total = number();
    ck_assert_uint_eq(steps_total(steps), total);
    cleanup_free uint64_t *positions = mem_array(steps->batch, sizeof *positions);
    batches += total * steps->world;
    for (uint64_t t = 0; t < total; t++) {
        for (uint32_t rank = 0; rank < steps->world; rank++) {
            expect_word("rows");
            ck_assert_uint_eq(number(), t);
            ck_assert_uint_eq(number(), rank);
            uint32_t rows = steps_positions(steps, t, rank, positions);
            ck_assert_uint_eq(number(), rows);
            for (uint32_t row = 0; row < rows; row++)
                ck_assert_uint_eq(number(), positions[row]);
        }
    }
}

static void compare_case(void)
{
    struct plan_settings settings = {.seed = number()};
    uint64_t epoch = number();
    settings.shuffle = number();
    settings.lanes = (uint32_t)number();
    struct steps steps = {.world = (uint32_t)number()};
    steps.batch = (uint32_t)number();
    steps.start = number();
    steps.tail = tail();
    struct plan_data *data = read_shards((uint32_t)number());
    struct plan *plan = plan_new(&data->source, &settings, epoch);
    ck_assert_ptr_nonnull(plan);
    compare_order(plan);
    steps.records = plan_records(plan);
    steps.lanes = plan_lanes(plan);
    compare_rows(&steps);
    expect_word("end");
    plan_free(plan);
    plan_data_free(data);
}

START_TEST(equals_the_model)
{
    int cases = getenv("DATALOADD_LONG") ? 3 * CASES : CASES;
    char command[sizeof MODEL + 64];
    snprintf(command, sizeof command, MODEL " %d %d", 2024, cases);
    model = popen(command, "r");
    ck_assert_ptr_nonnull(model);
    char text[16];
    int seen = 0;
    for (; fscanf(model, "%15s", text) == 1; seen++) {
        ck_assert_str_eq(text, "case");
        compare_case();
    }
    ck_assert_int_eq(pclose(model), 0);
    ck_assert_int_eq(seen, cases);
    printf("%d combinations equal the model: %llu places, %llu batches\n", seen, places, batches);
    fflush(stdout);
}
END_TEST

int main(void)
{
    if (system("python3 -c '' >/dev/null 2>&1") != 0) {
        puts("skipped: no python3 to run the reference model");
        return 77;
    }
    TCase *tests = tcase_create("order");
    tcase_add_test(tests, equals_the_model);
    tcase_set_timeout(tests, 240);
    Suite *suite = suite_create("order");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
