/* How many rows a thread takes at once, where it runs, and what it does when memory lacks. */
#include <check.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#include "base/mem.h"
#include "pool_rig.h"

/* Rows whose time depends on their number: short ones, then long ones. */
static _Atomic unsigned turn;
static unsigned turns[1000];
static _Atomic unsigned nturns;

static bool run_uneven(void *context, void *item, struct decoder *decoder)
{
    (void)decoder;
    const struct client *client = context;
    unsigned number = (unsigned)(uintptr_t)item;
    turns[nturns++] = number;
    if (number >= client->long_from)
        usleep(client->cost);
    return true;
}

static const struct workers_work uneven = {run_uneven, count_done, drop, tell_ahead};

static void push_numbers(struct client *client, unsigned count)
{
    void *items[1000];
    for (unsigned i = 0; i < count; i++)
        items[i] = (void *)(uintptr_t)i;
    workers_push(client->queue, items, count);
}

static _Atomic int borrowers, most_borrowers;

static bool run_borrower(void *context, void *item, struct decoder *decoder)
{
    (void)context, (void)item;
    const struct decoder_limits *limits = &decoder->limits;
    if (!limits->borrow(limits->context, limits->max - limits->share))
        return false;
    int now = ++borrowers;
    if (now > most_borrowers)
        most_borrowers = now;
    usleep(1000);
    borrowers--;
    return true;
}

static const struct workers_work borrowing = {run_borrower, count_done, drop, tell_ahead};

START_TEST(common_part_is_for_one_at_a_time)
{
    struct client client = {0};
    start(8);
    open_queue(&client, &borrowing, false);
    push(&client, 50);
    wait_runs(&client, 50);
    ck_assert_int_eq(most_borrowers, 1);
    workers_queue_free(client.queue);
    stop();
}
END_TEST

static bool run_large_gate(void *context, void *item, struct decoder *decoder)
{
    const struct decoder_limits *limits = &decoder->limits;
    if (!limits->borrow(limits->context, 1))
        return false;
    return run_gate(context, item, decoder);
}

static const struct workers_work large_gated = {run_large_gate, count_done, drop, tell_ahead};

/* Whoever lacks the common memory does other rows, also of the same feed, and comes back. */
START_TEST(no_thread_waits_for_the_common_part)
{
    struct client gate = {0}, large = {0}, small = {.long_from = UINT32_MAX}, ended = {0};
    start(2);
    open_queue(&gate, &large_gated, false);
    push(&gate, 1);
    while (!gate_entered)
        usleep(1000);
    open_queue(&large, &borrowing, false);
    open_queue(&small, &uneven, false);
    open_queue(&ended, &borrowing, false);
    push(&large, 3);
    push(&ended, 3);
    push_numbers(&small, 50);
    wait_runs(&small, 50);
    workers_queue_free(ended.queue);
    ck_assert_uint_eq(ended.drops, 3);
    ck_assert_uint_eq(large.runs, 0);
    gate_open = true;
    wait_runs(&large, 3);
    workers_queue_free(gate.queue);
    workers_queue_free(large.queue);
    workers_queue_free(small.queue);
    ck_assert_uint_eq(large.drops, 0);
    stop();
}
END_TEST

/* Rows of two large pictures: once the first is done the second one needs no new loan, and the
 * first is not done anew. */
static _Atomic unsigned firsts;

static bool run_two_large(void *context, void *item, struct decoder *decoder)
{
    const struct decoder_limits *limits = &decoder->limits;
    (void)context, (void)item;
    for (int picture = 0; picture < 2; picture++) {
        if (!limits->borrow(limits->context, 1))
            return false;
        firsts += picture == 0;
        usleep(500);
        if (limits->give_back)
            limits->give_back(limits->context, 1);
        sched_yield();
    }
    return true;
}

static const struct workers_work two_large = {run_two_large, count_done, drop, tell_ahead};

START_TEST(the_common_part_is_lent_for_a_whole_row)
{
    struct client client = {0};
    start(8);
    open_queue(&client, &two_large, false);
    push(&client, 100);
    wait_runs(&client, 100);
    ck_assert_uint_eq(firsts, 100);
    workers_queue_free(client.queue);
    stop();
}
END_TEST

/* A row that never comes to want the memory that was kept for it. */
static _Atomic unsigned tries;

static bool run_once_large(void *context, void *item, struct decoder *decoder)
{
    const struct decoder_limits *limits = &decoder->limits;
    (void)context, (void)item;
    if (tries++ > 0)
        return true;
    return limits->borrow(limits->context, 1);
}

static const struct workers_work once_large = {run_once_large, count_done, drop, tell_ahead};

START_TEST(the_common_part_is_free_after_a_row_that_did_not_take_it)
{
    struct client gate = {0}, once = {0}, large = {0};
    start(2);
    open_queue(&gate, &large_gated, false);
    push(&gate, 1);
    while (!gate_entered)
        usleep(1000);
    open_queue(&once, &once_large, false);
    push(&once, 1);
    while (tries == 0)
        usleep(1000);
    gate_open = true;
    wait_runs(&once, 1);
    open_queue(&large, &borrowing, false);
    push(&large, 4);
    wait_runs(&large, 4);
    workers_queue_free(gate.queue);
    workers_queue_free(once.queue);
    workers_queue_free(large.queue);
    stop();
}
END_TEST

/* By one thread, so that what was pushed waits together. */
static void run_uneven_rows(struct client *client, unsigned threads, unsigned count)
{
    struct client gate = {0};
    start(threads);
    nturns = 0;
    gate_open = gate_entered = false;
    close_gate(&gate);
    open_queue(client, &uneven, false);
    push_numbers(client, count);
    gate_open = true;
    wait_runs(client, count);
    workers_queue_free(client->queue);
    workers_queue_free(gate.queue);
    stop();
}

START_TEST(short_rows_are_taken_together_and_in_order)
{
    struct client client = {.long_from = UINT32_MAX};
    run_uneven_rows(&client, 1, 1000);
    ck_assert_uint_eq(client.runs, 1000);
    ck_assert_uint_le(client.tasks, 500);
    for (unsigned i = 0; i < 1000; i++)
        ck_assert_uint_eq(turns[i], i);
}
END_TEST

START_TEST(long_rows_are_taken_one_by_one)
{
    struct client client = {.long_from = 0, .cost = 1000};
    run_uneven_rows(&client, 1, 30);
    ck_assert_uint_eq(client.tasks, 30);
}
END_TEST

/* The thread has many rows in hand when the first long one comes: it gives back what it has not
 * begun, in its place. */
START_TEST(rows_that_turn_out_long_are_given_back)
{
    struct client client = {.long_from = 500, .cost = 2000};
    run_uneven_rows(&client, 1, 520);
    ck_assert_uint_eq(client.runs, 520);
    for (unsigned i = 0; i < 520; i++)
        ck_assert_uint_eq(turns[i], i);
    ck_assert_uint_ge(client.tasks, 20);
}
END_TEST

/* ... also when so many came meanwhile that there is no room left where they were taken from. */
static bool run_stop_once(void *context, void *item, struct decoder *decoder)
{
    unsigned number = (unsigned)(uintptr_t)item;
    turns[nturns++] = number;
    return number != ((const struct client *)context)->long_from ||
           run_gate(context, item, decoder);
}

static const struct workers_work stopping = {run_stop_once, count_done, drop, tell_ahead};

START_TEST(rows_are_given_back_into_a_full_queue)
{
    struct client client = {.long_from = 60};
    start(1);
    open_queue(&client, &stopping, false);
    push_numbers(&client, 40);
    wait_runs(&client, 40); /* they were short */
    nturns = 0;
    push_numbers(&client, 100);
    while (!gate_entered)
        usleep(1000);
    for (unsigned i = 0; i < 4; i++)
        push_numbers(&client, 50);
    gate_open = true;
    wait_runs(&client, 340);
    for (unsigned i = 0; i < 300; i++)
        ck_assert_uint_eq(turns[i], i < 100 ? i : i % 50);
    workers_queue_free(client.queue);
    ck_assert_uint_eq(client.drops, 0);
    stop();
}
END_TEST

/* ... so that others do it too: after a long row come two that end when both have begun. */
static bool run_meet(void *context, void *item, struct decoder *decoder)
{
    (void)decoder;
    unsigned number = (unsigned)(uintptr_t)item;
    const struct client *client = context;
    if (number == client->long_from)
        usleep(client->cost);
    if (number <= client->long_from)
        return true;
    for (turn++; turn < 2;)
        usleep(1000);
    return true;
}

static const struct workers_work meeting = {run_meet, count_done, drop, tell_ahead};

START_TEST(long_rows_in_one_hand_go_to_other_threads)
{
    struct client gate = {0}, client = {.long_from = 100, .cost = 20000};
    start(2);
    close_gate(&gate);
    open_queue(&client, &meeting, false);
    push_numbers(&client, 50);
    wait_runs(&client, 50); /* they were short */
    gate_open = true;
    wait_runs(&gate, 1);
    push_numbers(&client, 103);
    wait_runs(&client, 50 + 103);
    workers_queue_free(client.queue);
    workers_queue_free(gate.queue);
    stop();
}
END_TEST

/* ------- CPUs ------- */

static cpu_set_t seen_cpus[2];

static bool run_where(void *context, void *item, struct decoder *decoder)
{
    (void)context, (void)decoder;
    unsigned number = (unsigned)(uintptr_t)item;
    sched_getaffinity(0, sizeof seen_cpus[number], &seen_cpus[number]);
    for (turn++; turn < 2;) /* two threads, a row each */
        usleep(1000);
    return true;
}

static const struct workers_work placed = {run_where, count_done, drop, tell_ahead};

START_TEST(threads_stay_on_their_cpus)
{
    struct client client = {0};
    cleanup_free struct cpus *cpus = cpus_allowed(2);
    cpu_set_t ours;
    sched_getaffinity(0, sizeof ours, &ours);
    budget = budget_new(80 << 20, 0);
    workers = workers_new(2, cpus, budget);
    open_queue(&client, &placed, false);
    push_numbers(&client, 2);
    wait_runs(&client, 2);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(CPU_COUNT(&seen_cpus[i]), 1);
    CPU_OR(&seen_cpus[0], &seen_cpus[0], &seen_cpus[1]);
    ck_assert_int_eq(CPU_COUNT(&seen_cpus[0]), (int)cpus->count);
    for (uint32_t i = 0; i < cpus->count; i++)
        ck_assert(CPU_ISSET(cpus->list[i].number, &seen_cpus[0]));
    cpu_set_t after;
    sched_getaffinity(0, sizeof after, &after);
    ck_assert(CPU_EQUAL(&ours, &after));
    workers_queue_free(client.queue);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tasks");
    TCase *tests = tcase_create("tasks");
    tcase_add_test(tests, common_part_is_for_one_at_a_time);
    tcase_add_test(tests, no_thread_waits_for_the_common_part);
    tcase_add_test(tests, the_common_part_is_lent_for_a_whole_row);
    tcase_add_test(tests, the_common_part_is_free_after_a_row_that_did_not_take_it);
    tcase_add_test(tests, short_rows_are_taken_together_and_in_order);
    tcase_add_test(tests, long_rows_are_taken_one_by_one);
    tcase_add_test(tests, rows_that_turn_out_long_are_given_back);
    tcase_add_test(tests, rows_are_given_back_into_a_full_queue);
    tcase_add_test(tests, long_rows_in_one_hand_go_to_other_threads);
    tcase_add_test(tests, threads_stay_on_their_cpus);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
