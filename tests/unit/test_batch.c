/* feed/batch.c: bad rows replaced, flags, ids, packed ragged rows; feed/belt.c: order. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "feed/belt.h"

#define ROWS 6
#define RAGGED_MAX 16

static struct feed_spec spec;
static struct recipe recipe;
static struct tally tally;
static struct batch *batch;
static uint8_t *memory;

/* Fields: "n" int64, "b" ragged bytes. */
static void setup(void)
{
    struct error err;
    spec = (struct feed_spec){.name = "f", .nfields = 2};
    spec.fields[0] = (struct field_spec){.name = "n", .kind = FIELD_INT};
    spec.fields[1] = (struct field_spec){.name = "b", .kind = FIELD_BYTES, .max_bytes = RAGGED_MAX};
    tally = (struct tally){0};
    recipe = (struct recipe){.spec = &spec, .batch = ROWS, .tally = &tally};
    ck_assert_int_eq(layout_make(&spec, NULL, ROWS, &recipe.layout, &err), 0);
    batch = batch_new(&recipe, NULL);
    memory = malloc(recipe.layout.wire.slot_bytes);
    memset(memory, 0xaa, recipe.layout.wire.slot_bytes);
    batch->memory = memory;
}

static void teardown(void)
{
    batch_free(batch);
    free(memory);
}

static int64_t *number(uint32_t row)
{
    return (int64_t *)(void *)layout_row(&recipe.layout, memory, 0, row);
}

/* Rows as workers leave them: row r holds 10 + r and r + 1 bytes of 'a' + r, unless bad[r]. */
static void fill(uint32_t count, const char *bad)
{
    batch->count = count;
    for (uint32_t r = 0; r < count; r++) {
        batch->rows[r] = (struct row){.batch = batch, .number = r, .id = 100 + r};
        if (bad[r] == 'x') {
            batch->rows[r].bad = BAD_CORRUPT;
            continue;
        }
        *number(r) = 10 + r;
        *batch_length(batch, 1, r) = r + 1;
        memset(layout_row(&recipe.layout, memory, 1, r), 'a' + (int)r, r + 1);
    }
}

static const uint64_t *offsets(void)
{
    return (const uint64_t *)(void *)layout_tensor(&recipe.layout, memory,
                                                   recipe.layout.fields[1].tensor);
}

/* Row r shows what row `of` was made of; of < 0: nothing. */
static void check_row(uint32_t r, int of)
{
    const uint8_t *bytes = layout_row(&recipe.layout, memory, 1, 0) + offsets()[r];
    uint64_t size = offsets()[r + 1] - offsets()[r];
    ck_assert_int_eq(*number(r), of < 0 ? 0 : 10 + of);
    ck_assert_uint_eq(size, of < 0 ? 0 : (uint64_t)of + 1);
    for (uint64_t i = 0; i < size; i++)
        ck_assert_int_eq(bytes[i], 'a' + of);
}

static const struct {
    uint32_t count;
    const char *bad;
    int shows[ROWS]; /* -1 = zeros */
    uint32_t valid, nbad;
} cases[] = {
    {6, "......", {0, 1, 2, 3, 4, 5}, 6, 0}, {6, "..x...", {0, 1, 1, 3, 4, 5}, 5, 1},
    {6, "x....x", {4, 1, 2, 3, 4, 4}, 4, 2}, {6, "xx..xx", {3, 3, 2, 3, 3, 3}, 2, 4},
    {6, "xxxxx.", {5, 5, 5, 5, 5, 5}, 1, 5}, {6, "xxxxxx", {-1, -1, -1, -1, -1, -1}, 0, 6},
    {3, "..x", {0, 1, 1, -1, -1, -1}, 2, 1}, {2, "x.", {1, 1, -1, -1, -1, -1}, 1, 1},
};

START_TEST(test_replace)
{
    fill(cases[_i].count, cases[_i].bad);
    batch_finish(batch);
    const uint8_t *valid = layout_tensor(&recipe.layout, memory, recipe.layout.valid);
    const int64_t *index =
        (const int64_t *)(void *)layout_tensor(&recipe.layout, memory, recipe.layout.index);
    for (uint32_t r = 0; r < ROWS; r++) {
        bool present = r < cases[_i].count;
        check_row(r, cases[_i].shows[r]);
        ck_assert_int_eq(valid[r], present && cases[_i].bad[r] == '.');
        ck_assert_int_eq(index[r], present ? 100 + (int)r : -1);
    }
    ck_assert_uint_eq(batch->valid, cases[_i].valid);
    ck_assert_uint_eq(batch->bad, cases[_i].nbad);
    ck_assert_uint_eq(tally_get(&tally.samples), cases[_i].count);
}
END_TEST

START_TEST(test_repeated_rows)
{
    fill(6, "...x..");
    batch->rows[2].repeated = batch->rows[3].repeated = true;
    batch_finish(batch);
    ck_assert_uint_eq(batch->valid, 4);
    ck_assert_uint_eq(batch->bad, 0);
    check_row(2, 2);
    check_row(3, 2);
}
END_TEST

static void count_news(void *context)
{
    ++*(int *)context;
}

START_TEST(test_belt_order)
{
    int news = 0;
    struct belt *belt = belt_new(&recipe, 2, (struct feed_place){0}, count_news, &news);
    struct batch *a = belt_get(belt);
    struct batch *b = belt_get(belt);
    struct batch *c = belt_get(belt);
    ck_assert(belt_append(belt, a, belt_round(belt)) && belt_append(belt, b, belt_round(belt)));
    belt_complete(belt, b);
    ck_assert_int_eq(news, 1);
    ck_assert_ptr_null(belt_take(belt));
    belt_complete(belt, a);
    ck_assert_ptr_eq(belt_take(belt), a);
    ck_assert_ptr_eq(belt_take(belt), b);
    ck_assert_ptr_null(belt_take(belt));
    belt_put(belt, a);
    belt_put(belt, b);
    belt_put(belt, c);
    belt_free(belt);
}
END_TEST

START_TEST(test_belt_void)
{
    int news = 0;
    struct belt *belt = belt_new(&recipe, 2, (struct feed_place){0}, count_news, &news);
    struct batch *a = belt_get(belt);
    struct batch *b = belt_get(belt);
    uint64_t round = belt_round(belt);
    ck_assert(belt_append(belt, a, round));
    ck_assert_uint_eq(belt_void(belt, (struct feed_place){0}), 1);
    ck_assert_uint_eq(belt_void(belt, (struct feed_place){0}), 0);
    ck_assert(atomic_load(&a->is_void));
    ck_assert(!belt_append(belt, b, round));
    ck_assert(belt_append(belt, b, belt_round(belt)));
    ck_assert(!atomic_load(&b->is_void));
    belt_complete(belt, a);
    ck_assert_ptr_eq(belt_take(belt), a);
    belt_put(belt, a);
    ck_assert(!atomic_load(&a->is_void));
    belt_free(belt);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batch");
    TCase *tcase = tcase_create("batch");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, test_replace, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tcase, test_repeated_rows);
    tcase_add_test(tcase, test_belt_order);
    tcase_add_test(tcase, test_belt_void);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
