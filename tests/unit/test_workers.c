#include "feed/workers.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "pool_rig.h"

static char order[256]; /* names in the order served, by the single thread */
static _Atomic size_t served;

static bool run_named(void *context, void *item, struct decoder *decoder)
{
    (void)item, (void)decoder;
    struct client *client = context;
    if (client->cost)
        usleep(client->cost);
    order[served++] = client->name;
    return true;
}

static const struct workers_work named = {run_named, count_done, drop, tell_ahead};

START_TEST(fewest_ahead_first_low_priority_last)
{
    struct client gate = {0}, a = {.name = 'a', .ahead = 3}, b = {.name = 'b', .ahead = 1},
                  probe = {.name = 'p', .ahead = 0};
    start(1);
    close_gate(&gate);
    open_queue(&probe, &named, true);
    open_queue(&a, &named, false);
    open_queue(&b, &named, false);
    push(&probe, 2);
    push(&a, 3);
    push(&b, 3);
    gate_open = true;
    wait_runs(&probe, 2);
    ck_assert_str_eq(order, "bbbaaapp");
    workers_queue_free(a.queue);
    workers_queue_free(b.queue);
    workers_queue_free(probe.queue);
    workers_queue_free(gate.queue);
    ck_assert_uint_eq(a.drops + b.drops + probe.drops + gate.drops, 0);
    stop();
}
END_TEST

/* Not the rows: the client with small pictures need not wait for the one with large ones. */
START_TEST(equals_share_the_time)
{
    struct client gate = {0}, a = {.name = 'a', .cost = 20000}, b = {.name = 'b', .cost = 2000};
    start(1);
    close_gate(&gate);
    open_queue(&a, &named, false);
    open_queue(&b, &named, false);
    push(&a, 100);
    push(&b, 100);
    gate_open = true;
    wait_runs(&a, 8);
    ck_assert_uint_ge(b.runs, 2 * 8);
    ck_assert_ptr_nonnull(memchr(order, 'b', 4));
    ck_assert_ptr_nonnull(memchr(order, 'a', 4));
    workers_queue_free(a.queue);
    workers_queue_free(b.queue);
    workers_queue_free(gate.queue);
    stop();
}
END_TEST

START_TEST(no_time_is_saved_up)
{
    struct client gate = {0}, a = {.name = 'a', .cost = 3000},
                  b = {.name = 'b', .cost = 3000, .ahead = 1};
    start(1);
    close_gate(&gate);
    open_queue(&a, &named, false);
    open_queue(&b, &named, false);
    push(&a, 120);
    push(&b, 60);
    gate_open = true;
    wait_runs(&a, 40);
    ck_assert_uint_eq(b.runs, 0);
    b.ahead = 0;
    unsigned before = a.runs;
    wait_runs(&b, 40);
    ck_assert_uint_ge(a.runs, before + 8);
    workers_queue_free(a.queue);
    workers_queue_free(b.queue);
    workers_queue_free(gate.queue);
    stop();
}
END_TEST

struct freeing {
    struct client *client;
    _Atomic bool done;
};

static void *free_queue(void *context)
{
    struct freeing *freeing = context;
    workers_queue_free(freeing->client->queue);
    freeing->done = true;
    return NULL;
}

START_TEST(free_waits_for_running_and_drops_the_rest)
{
    struct client gate = {0}, other = {.name = 'o'};
    struct freeing freeing = {.client = &gate};
    pthread_t thread;
    start(2);
    close_gate(&gate);
    pthread_create(&thread, NULL, free_queue, &freeing);
    usleep(50000);
    ck_assert(!freeing.done);
    open_queue(&other, &named, false); /* others are served meanwhile */
    push(&other, 4);
    wait_runs(&other, 4);
    ck_assert(!freeing.done);
    gate_open = true;
    pthread_join(thread, NULL);
    ck_assert_uint_eq(gate.runs, 1);
    workers_queue_free(other.queue);
    stop();
}
END_TEST

START_TEST(what_was_not_begun_is_dropped_once)
{
    struct client gate = {0}, a = {.name = 'a'};
    start(1);
    close_gate(&gate);
    open_queue(&a, &named, false);
    push(&a, 100);
    push(&a, 100);
    workers_queue_free(a.queue);
    ck_assert_uint_eq(a.drops, 200);
    ck_assert_uint_eq(a.runs, 0);
    gate_open = true;
    workers_queue_free(gate.queue);
    stop();
}
END_TEST

START_TEST(a_stuck_row_is_seen)
{
    struct client gate = {0};
    start(2);
    ck_assert_uint_eq(workers_threads(workers), 2);
    ck_assert_uint_eq(workers_stuck_ns(workers), 0);
    close_gate(&gate);
    usleep(60000);
    ck_assert_uint_ge(workers_stuck_ns(workers), 50 * CLOCK_MS);
    gate_open = true;
    workers_queue_free(gate.queue);
    ck_assert_uint_eq(workers_stuck_ns(workers), 0);
    stop();
}
END_TEST

static struct decoder_limits seen_limits;

static bool run_see(void *context, void *item, struct decoder *decoder)
{
    (void)context, (void)item;
    seen_limits = decoder->limits;
    return true;
}

static const struct workers_work seeing = {run_see, count_done, drop, tell_ahead};

START_TEST(decode_memory_is_shared_out)
{
    struct client client = {0};
    start(4);
    uint64_t all = budget_decode_limit(budget);
    ck_assert_uint_eq(budget_used(budget, BUDGET_DECODE), all);
    open_queue(&client, &seeing, false);
    push(&client, 1);
    wait_runs(&client, 1);
    ck_assert_uint_eq(seen_limits.share, all / 2 / 4);
    ck_assert_uint_eq(3 * seen_limits.share + seen_limits.max, all);
    while (decoders < 4) /* each thread makes its own */
        usleep(1000);
    workers_queue_free(client.queue);
    stop();
}
END_TEST

START_TEST(no_room_for_decode_memory)
{
    struct budget *small = budget_new(1000, 500);
    ck_assert(budget_try(small, BUDGET_SLOTS, 501));
    ck_assert_ptr_null(workers_new(1, NULL, small));
    ck_assert_uint_eq(budget_used(small, BUDGET_DECODE), 0);
    budget_free(small);
}
END_TEST

static char thread_name[16];
static sigset_t thread_mask;

static bool run_look(void *context, void *item, struct decoder *decoder)
{
    (void)context, (void)item, (void)decoder;
    usleep(10000); /* the name is set by the starter */
    pthread_getname_np(pthread_self(), thread_name, sizeof thread_name);
    pthread_sigmask(SIG_BLOCK, NULL, &thread_mask);
    return true;
}

static const struct workers_work looking = {run_look, count_done, drop, tell_ahead};

START_TEST(threads_have_names_and_no_signals)
{
    struct client client = {0};
    sigset_t ours;
    start(1);
    open_queue(&client, &looking, false);
    push(&client, 1);
    wait_runs(&client, 1);
    ck_assert_str_eq(thread_name, "decode-0");
    ck_assert_int_eq(sigismember(&thread_mask, SIGTERM), 1);
    ck_assert_int_eq(sigismember(&thread_mask, SIGCHLD), 1);
    pthread_sigmask(SIG_BLOCK, NULL, &ours);
    ck_assert_int_eq(sigismember(&ours, SIGTERM), 0);
    workers_queue_free(client.queue);
    stop();
}
END_TEST

#define CLIENTS 6
#define ROWS 5000

static bool run_count(void *context, void *item, struct decoder *decoder)
{
    (void)context, (void)decoder;
    ++*(_Atomic unsigned *)item;
    return true;
}

static void drop_count(void *context, void *item)
{
    ++*(_Atomic unsigned *)item;
    ((struct client *)context)->drops++;
}

static const struct workers_work counting = {run_count, count_done, drop_count, tell_ahead};

/* One client's reader: pushes in parts, at times frees its queue with rows still in it. */
static void *push_many(void *context)
{
    struct client *client = context;
    _Atomic unsigned *seen = calloc(ROWS, sizeof *seen);
    void *fault = NULL;
    open_queue(client, &counting, client->name & 1);
    for (uint32_t i = 0; i < ROWS;) {
        void *items[64];
        uint32_t count = 0;
        for (; count < 1 + i % 64 && i < ROWS; count++)
            items[count] = (void *)&seen[i++];
        client->ahead = i % 5;
        workers_push(client->queue, items, count);
    }
    workers_queue_free(client->queue);
    for (uint32_t i = 0; i < ROWS; i++)
        if (seen[i] != 1)
            fault = "a row was run or dropped not just once";
    free((void *)seen);
    return fault;
}

START_TEST(eight_threads_and_six_clients)
{
    pthread_t threads[CLIENTS];
    struct client clients[CLIENTS];
    memset((void *)clients, 0, sizeof clients);
    start(8);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].name = (char)i;
        pthread_create(&threads[i], NULL, push_many, &clients[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        void *fault;
        pthread_join(threads[i], &fault);
        ck_assert_ptr_null(fault);
        ck_assert_uint_eq(clients[i].runs + clients[i].drops, ROWS);
    }
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("workers");
    TCase *tests = tcase_create("workers");
    tcase_add_test(tests, fewest_ahead_first_low_priority_last);
    tcase_add_test(tests, equals_share_the_time);
    tcase_add_test(tests, no_time_is_saved_up);
    tcase_add_test(tests, free_waits_for_running_and_drops_the_rest);
    tcase_add_test(tests, what_was_not_begun_is_dropped_once);
    tcase_add_test(tests, a_stuck_row_is_seen);
    tcase_add_test(tests, decode_memory_is_shared_out);
    tcase_add_test(tests, no_room_for_decode_memory);
    tcase_add_test(tests, threads_have_names_and_no_signals);
    tcase_add_test(tests, eight_threads_and_six_clients);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
