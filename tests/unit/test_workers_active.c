/* A pool whose number of active threads changes. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "pool_rig.h"

#define ROOM 8
#define ROWS 3000

static const struct workers_work plain = {run_gate, count_done, drop, tell_ahead};

static void start_room(unsigned threads, unsigned most)
{
    budget = budget_new(80 << 20, 0);
    workers = workers_new_room(threads, most, NULL, budget);
    ck_assert_ptr_nonnull(workers);
}

static void wait_decoders(int count)
{
    while (decoders != count)
        usleep(1000);
}

START_TEST(threads_and_decoders_are_made_when_needed_and_parked_without)
{
    start_room(2, ROOM);
    ck_assert_uint_eq(workers_most(workers), ROOM);
    for (unsigned active = 2; active <= ROOM; active += 3) {
        workers_set_active(workers, active);
        ck_assert_uint_eq(workers_threads(workers), active);
        wait_decoders((int)active);
    }
    workers_set_active(workers, 1);
    wait_decoders(1);
    workers_set_active(workers, 3);
    wait_decoders(3);
    stop();
}
END_TEST

START_TEST(a_surplus_thread_ends_its_row_first)
{
    struct client gate = {0};
    start_room(2, 2);
    open_queue(&gate, &plain, false);
    push(&gate, 2); /* both threads are at one */
    while (gate.runs == 0 && workers_stuck_ns(workers) < 20 * CLOCK_MS)
        usleep(1000);
    workers_set_active(workers, 1);
    push(&gate, 5);
    gate_open = true;
    wait_runs(&gate, 7);
    wait_decoders(1);
    workers_queue_free(gate.queue);
    ck_assert_uint_eq(gate.drops, 0);
    stop();
}
END_TEST

static struct decoder_limits limits[ROOM];
static _Atomic unsigned nlimits;
static _Atomic bool all_there;

/* Each thread keeps one row until all are at one. */
static bool run_limits(void *context, void *item, struct decoder *decoder)
{
    (void)context, (void)item;
    limits[nlimits++] = decoder->limits;
    while (!all_there)
        usleep(1000);
    return true;
}

static const struct workers_work limiting = {run_limits, count_done, drop, tell_ahead};

static void look_at_limits(unsigned threads)
{
    struct client client = {0};
    nlimits = 0;
    all_there = false;
    open_queue(&client, &limiting, false);
    for (unsigned i = 0; i < threads; i++)
        push(&client, 1);
    while (nlimits < threads)
        usleep(1000);
    all_there = true;
    workers_queue_free(client.queue);
}

START_TEST(memory_is_shared_out_among_the_most_that_were_active)
{
    start_room(2, ROOM);
    uint64_t half = budget_decode_limit(budget) / 2;
    uint64_t max = half + half / ROOM;
    static const unsigned active[] = {2, 4, 3, 8, 1}, sharers[] = {2, 4, 4, 8, 8};
    for (unsigned i = 0; i < sizeof active / sizeof *active; i++) {
        workers_set_active(workers, active[i]);
        look_at_limits(active[i]);
        for (unsigned j = 0; j < active[i]; j++) {
            ck_assert_uint_eq(limits[j].share, half / sharers[i]);
            ck_assert_uint_eq(limits[j].max, max);
        }
        ck_assert_uint_le((active[i] - 1) * limits[0].share + max, 2 * half);
    }
    stop();
}
END_TEST

static bool run_once(void *context, void *item, struct decoder *decoder)
{
    (void)context, (void)decoder;
    ++*(_Atomic unsigned *)item;
    return true;
}

static const struct workers_work counting = {run_once, count_done, drop, tell_ahead};

static void *push_rows(void *context)
{
    struct client *client = context;
    static _Atomic unsigned seen[4][ROWS];
    _Atomic unsigned *mine = seen[(int)client->name];
    open_queue(client, &counting, false);
    for (uint32_t i = 0; i < ROWS; i++) {
        void *item = (void *)&mine[i];
        workers_push(client->queue, &item, 1);
        if (i % 64 == 0)
            wait_runs(client, i); /* threads go idle between */
    }
    wait_runs(client, ROWS);
    workers_queue_free(client->queue);
    for (uint32_t i = 0; i < ROWS; i++)
        if (mine[i] != 1)
            return "a row was not run just once";
    return NULL;
}

/* Nobody else is there to run a row whose thread is parked. */
START_TEST(no_row_is_lost_while_the_number_changes)
{
    pthread_t threads[4];
    struct client clients[4];
    memset((void *)clients, 0, sizeof clients);
    start_room(1, ROOM);
    for (int i = 0; i < 4; i++) {
        clients[i].name = (char)i;
        pthread_create(&threads[i], NULL, push_rows, &clients[i]);
    }
    unsigned draw = 1;
    for (bool over = false; !over;) {
        draw = draw * 1664525 + 1013904223;
        workers_set_active(workers, 1 + (draw >> 16) % ROOM);
        usleep((draw >> 8) % 500);
        over = true;
        for (int i = 0; i < 4; i++)
            over = over && clients[i].runs == ROWS;
    }
    for (int i = 0; i < 4; i++) {
        void *fault;
        pthread_join(threads[i], &fault);
        ck_assert_ptr_null(fault);
    }
    stop();
}
END_TEST

static bool run_nap(void *context, void *item, struct decoder *decoder)
{
    (void)context, (void)item, (void)decoder;
    usleep(10000);
    return true;
}

static const struct workers_work napping = {run_nap, count_done, drop, tell_ahead};

START_TEST(times_of_threads_that_wait_at_their_rows)
{
    struct client client = {0};
    struct workers_times times;
    start_room(2, ROOM);
    open_queue(&client, &napping, false);
    push(&client, 20);
    wait_runs(&client, 20);
    workers_queue_free(client.queue);
    workers_sample(workers, &times);
    ck_assert_uint_ge(times.busy_ns, 200 * CLOCK_MS);
    ck_assert_uint_eq(times.few_busy_ns, times.busy_ns);
    ck_assert_uint_lt(times.few_cpu_ns, times.busy_ns / 2);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("active");
    TCase *tests = tcase_create("active");
    tcase_add_test(tests, threads_and_decoders_are_made_when_needed_and_parked_without);
    tcase_add_test(tests, a_surplus_thread_ends_its_row_first);
    tcase_add_test(tests, memory_is_shared_out_among_the_most_that_were_active);
    tcase_add_test(tests, no_row_is_lost_while_the_number_changes);
    tcase_add_test(tests, times_of_threads_that_wait_at_their_rows);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
