/* What docs/order.md promises, in thousands of random settings: plan, steps and the client's tokens
 * together, record by record. DATALOADD_LONG: five times as many. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/philox.h"
#include "client/client_parts.h"
#include "control/token.h"
#include "plan_data.h"
#include "store/steps.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COMBINATIONS 1500
#else
#define COMBINATIONS 6000
#endif

static uint64_t number; /* of the combination, which is all that it depends on */

/* ck_assert writes to a pipe each time; this only when it fails. */
#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("combination %llu: %s", (unsigned long long)number, #condition);          \
    } while (0)

struct combination {
    struct philox draws;
    struct plan_data *data;
    struct plan_settings settings;
    struct steps steps; /* start 0 */
};

/* O of one epoch, as numbers of records in listed order. */
static uint64_t *order_of(const struct combination *c, uint64_t epoch)
{
    struct plan *plan = plan_new(&c->data->source, &c->settings, epoch);
    uint64_t *order = mem_array(c->steps.records, sizeof *order);
    for (uint64_t i = 0; i < c->steps.records; i++)
        order[i] = plan_data_number(c->data, plan_at(plan, i));
    plan_free(plan);
    return order;
}

static uint32_t draw(struct combination *c, uint32_t n)
{
    return (uint32_t)philox_below(&c->draws, n);
}

static void draw_world(struct combination *c, struct steps *steps)
{
    static const uint32_t worlds[] = {1, 1, 2, 3, 4, 5, 8, 13};
    static const uint32_t batches[] = {1, 1, 2, 3, 4, 8, 16, 31};
    struct error err;
    do {
        steps->world = worlds[draw(c, 8)];
        steps->batch = batches[draw(c, 8)];
    } while (steps_check(steps, &err));
}

static struct combination combination_new(void)
{
    static const uint32_t lanes[] = {1, 2, 3, 4, 7, 8, 16, 64, 200};
    struct combination c = {0};
    philox_start(&c.draws, number, PHILOX_DRAW, 1, 0, 0);
    do {
        plan_data_free(c.data);
        c.data = plan_data_random(philox_u64(&c.draws), 1 + draw(&c, 6),
                                  1 + draw(&c, draw(&c, 2) ? 60 : 300), draw(&c, 2) ? 2 : 100000);
    } while (plan_data_records(c.data) == 0);
    uint64_t records = plan_data_records(c.data);
    const uint64_t shuffles[] = {0, 1, 5, 64, records, 1 + draw(&c, 400), UINT64_MAX};
    c.settings =
        (struct plan_settings){philox_u64(&c.draws), shuffles[draw(&c, 7)], lanes[draw(&c, 9)]};
    c.steps = (struct steps){.records = records,
                             .lanes = c.settings.shuffle ? c.settings.lanes : 1,
                             .tail = (enum tail)draw(&c, 3)};
    draw_world(&c, &c.steps);
    return c;
}

static void combination_free(struct combination *c)
{
    plan_data_free(c->data);
}

/* Calls check with each combination; says what came of it. */
static void for_all(uint64_t (*check)(struct combination *c), const char *what)
{
    uint64_t count = getenv("DATALOADD_LONG") ? 5 * COMBINATIONS : COMBINATIONS, sum = 0;
    for (number = 0; number < count; number++) {
        struct combination c = combination_new();
        sum += check(&c);
        combination_free(&c);
    }
    printf("%llu combinations: %llu %s\n", (unsigned long long)count, (unsigned long long)sum,
           what);
    fflush(stdout);
}

/* One rank's batch of step t: all there, none twice, the repeated ones as specified. */
static uint64_t check_batch(const struct steps *steps, uint64_t t, uint32_t rank,
                            const uint64_t *order, bool *seen)
{
    cleanup_free uint64_t *positions = mem_array(steps->batch, sizeof *positions);
    uint32_t rows = steps_positions(steps, t, rank, positions);
    uint64_t valid = 0;
    require((rows > 0) == (t < steps_of_rank(steps, rank)));
    require(rows == steps->batch || steps->tail == TAIL_PARTIAL);
    for (uint32_t row = 0; row < rows; row++) {
        if (positions[row] >= steps->records) {
            require(steps->tail == TAIL_WRAP && t == steps_total(steps) - 1);
            continue;
        }
        uint64_t record = order[positions[row]];
        require(!seen[record]);
        seen[record] = true;
        valid++;
    }
    return valid;
}

/* The rest of an epoch from any place: each record of it once, to one rank; as many steps for all;
 * nobody has an empty batch. */
static uint64_t check_epoch(struct combination *c)
{
    struct steps steps = c->steps;
    steps.start = draw(c, 2) ? philox_below(&c->draws, steps.records + 1) : 0;
    cleanup_free uint64_t *order = order_of(c, number % 7);
    cleanup_free bool *seen = mem_array(steps.records, sizeof *seen);
    uint64_t valid = 0, total = steps_total(&steps);
    for (uint64_t t = 0; t < total; t++)
        for (uint32_t rank = 0; rank < steps.world; rank++)
            valid += check_batch(&steps, t, rank, order, seen);
    for (uint32_t rank = 0; rank < steps.world; rank++)
        require(steps_of_rank(&steps, rank) == total ||
                (steps.tail == TAIL_PARTIAL && steps_of_rank(&steps, rank) == total - 1));
    for (uint64_t i = 0; i < steps.start; i++)
        require(!seen[order[i]]);
    uint64_t left = steps.records - steps.start, rows = (uint64_t)steps.world * steps.batch;
    require(valid == (steps.tail == TAIL_DROP ? left - left % rows : left));
    return valid;
}

START_TEST(each_record_once_to_one_rank)
{
    for_all(check_epoch, "records, each in one batch of one rank");
}
END_TEST

/* The records of global batch t, rank after rank. */
static uint64_t *global_batch(const struct steps *steps, uint64_t t, const uint64_t *order)
{
    uint64_t *rows = mem_array((size_t)steps->world * steps->batch, sizeof *rows), *end = rows;
    for (uint32_t rank = 0; rank < steps->world; rank++)
        end += steps_positions(steps, t, rank, end);
    for (uint64_t *row = rows; row < end; row++)
        *row = order[*row % steps->records] << 1 | (*row >= steps->records);
    return rows;
}

static void check_same_batches(const struct steps *a, const struct steps *b, const uint64_t *order)
{
    require(steps_total(a) == steps_total(b));
    for (uint64_t t = 0; t < steps_total(a); t++) {
        cleanup_free uint64_t *x = global_batch(a, t, order);
        cleanup_free uint64_t *y = global_batch(b, t, order);
        require(steps_rows(a, t) == steps_rows(b, t));
        require(memcmp(x, y, steps_rows(a, t) * sizeof *x) == 0);
    }
}

/* Every world and batch of the same product, from the beginning and from a place in the middle. */
static uint64_t check_elastic(struct combination *c)
{
    cleanup_free uint64_t *order = order_of(c, 3);
    uint32_t rows = c->steps.world * c->steps.batch;
    uint64_t worlds = 0;
    for (uint32_t world = 1; world <= rows; world++) {
        struct steps one = c->steps, other = c->steps;
        if (rows % world)
            continue;
        other.world = world;
        other.batch = rows / world;
        check_same_batches(&one, &other, order);
        one.start = other.start = philox_below(&c->draws, one.records + 1);
        check_same_batches(&one, &other, order);
        worlds++;
    }
    return worlds;
}

START_TEST(the_same_rows_a_step_are_the_same_global_batches)
{
    for_all(check_elastic, "worlds of the same rows a step");
}
END_TEST

/* A job that goes on from token to token, each time in another world. */
struct journey {
    struct combination *c;
    struct steps steps; /* of the present world */
    uint64_t epoch;
    uint64_t *order;
    bool *seen;
    uint64_t count; /* of records seen in this epoch */
    uint64_t tokens;
};

static void enter_epoch(struct journey *j, uint64_t epoch)
{
    j->epoch = epoch;
    j->steps.start = 0;
    free(j->order);
    j->order = order_of(j->c, epoch);
    memset(j->seen, 0, j->steps.records * sizeof *j->seen);
    j->count = 0;
}

/* Nothing may be left but what `drop` leaves of the world that ended the epoch. */
static void leave_epoch(struct journey *j)
{
    uint64_t lost = j->steps.records - j->count;
    if (j->steps.tail == TAIL_DROP)
        require(lost < (uint64_t)j->steps.world * j->steps.batch);
    else
        require(lost == 0);
    enter_epoch(j, j->epoch + 1);
}

/* The token that a trainer has after its batch of step t. */
static struct token client_token(const struct journey *j, uint32_t rank, uint64_t t)
{
    static struct dataload handle;
    static struct mapping mapping;
    struct token token = {.order_version = 1, .fingerprint = "f", .tail = "wrap"};
    struct steps whole = j->steps;
    struct refusal refusal;
    char text[DLP_TOKEN_MAX];
    whole.start = 0;
    handle.world = whole.world;
    handle.batch = whole.batch;
    handle.start_epoch = j->epoch;
    handle.start_position = j->steps.start;
    handle.first_steps = steps_of_rank(&j->steps, rank);
    handle.steps = steps_of_rank(&whole, rank);
    token_template(&token, handle.token);
    mapping.handle = &handle;
    mapping.owner = getpid();
    struct dataload_batch batch = {.mapping = &mapping, .state = BATCH_HELD, .at = {j->epoch, t}};
    require(dataload_batch_token(&batch, text, sizeof text) > 0);
    require(token_parse(text, &token, &refusal) == 0);
    return token;
}

/* The same for all ranks; but one without a row in the last batch is done a step before. */
static struct token check_tokens(struct journey *j, uint64_t t)
{
    struct token first = client_token(j, 0, t);
    uint64_t total = steps_total(&j->steps);
    uint64_t rows = (uint64_t)j->steps.world * j->steps.batch;
    require(first.epoch == (t + 1 == total ? j->epoch + 1 : j->epoch));
    require(first.next == (t + 1 == total ? 0 : j->steps.start + (t + 1) * rows));
    for (uint32_t rank = 1; rank < j->steps.world; rank++) {
        uint64_t own = steps_of_rank(&j->steps, rank);
        if (t >= own)
            continue;
        struct token other = client_token(j, rank, t);
        bool done = t + 1 == own;
        require(other.epoch == (done ? j->epoch + 1 : first.epoch));
        require(other.next == (done ? 0 : first.next));
    }
    j->tokens += j->steps.world;
    return first;
}

/* Some steps of the present world, from its start on; then the next world is to begin. */
static void travel(struct journey *j)
{
    uint64_t total = steps_total(&j->steps);
    if (total == 0) { /* no step is left for this world: it begins with the next epoch */
        require(j->steps.start > 0);
        leave_epoch(j);
        return;
    }
    uint64_t steps = 1 + philox_below(&j->c->draws, total);
    struct token token = {0};
    for (uint64_t t = 0; t < steps; t++) {
        for (uint32_t rank = 0; rank < j->steps.world; rank++)
            j->count += check_batch(&j->steps, t, rank, j->order, j->seen);
        token = check_tokens(j, t);
    }
    if (token.epoch != j->epoch)
        leave_epoch(j);
    j->steps.start = token.next;
}

static uint64_t check_journey(struct combination *c)
{
    struct journey j = {.c = c, .steps = c->steps};
    j.seen = mem_array(c->steps.records, sizeof *j.seen);
    enter_epoch(&j, 0);
    while (j.epoch < 3) {
        uint64_t start = j.steps.start;
        j.steps.start = 0;
        draw_world(c, &j.steps);
        j.steps.start = start;
        travel(&j);
    }
    free(j.order);
    free(j.seen);
    return j.tokens;
}

START_TEST(from_token_to_token_in_other_worlds_nothing_is_repeated_or_lost)
{
    for_all(check_journey, "tokens on the way through three epochs in changing worlds");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("order_properties");
    tcase_set_timeout(tests, 240);
    tcase_add_test(tests, each_record_once_to_one_rank);
    tcase_add_test(tests, the_same_rows_a_step_are_the_same_global_batches);
    tcase_add_test(tests, from_token_to_token_in_other_worlds_nothing_is_repeated_or_lost);
    Suite *suite = suite_create("order_properties");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
