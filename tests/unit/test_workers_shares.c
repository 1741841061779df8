/* What of the threads each user and each job has. */
#include <check.h>
#include <stdatomic.h>
#include <unistd.h>

#include "pool_rig.h"

static char order[1000]; /* names in the order served, by the single thread */
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

static _Atomic int busy, most_busy;

static bool run_counted(void *context, void *item, struct decoder *decoder)
{
    (void)item, (void)decoder;
    int now = ++busy;
    if (now > most_busy)
        most_busy = now;
    usleep(((struct client *)context)->cost);
    busy--;
    return true;
}

static const struct workers_work counted = {run_counted, count_done, drop, tell_ahead};

static void set_terms(struct client *client, uid_t uid, uint32_t weight, uint32_t threads,
                      uint64_t job)
{
    const struct share_terms terms = {
        .uid = uid, .user_weight = weight, .threads = threads, .job = job};
    workers_queue_set_terms(client->queue, &terms);
}

/* However many jobs one of them has, and though the other starves last. */
START_TEST(users_share_by_weight)
{
    struct client gate = {0}, a = {.name = 'a', .cost = 2000}, b = {.name = 'b', .cost = 2000},
                  c = {.name = 'c', .cost = 2000, .ahead = 3};
    start(1);
    close_gate(&gate);
    open_queue(&a, &named, false);
    open_queue(&b, &named, false);
    open_queue(&c, &named, false);
    set_terms(&a, 1, 1, 0, 1);
    set_terms(&b, 1, 1, 0, 2);
    set_terms(&c, 2, 3, 0, 3);
    push(&a, 150);
    push(&b, 150);
    push(&c, 150);
    gate_open = true;
    wait_runs(&c, 120);
    unsigned others = a.runs + b.runs;
    ck_assert_uint_ge(others, 25);
    ck_assert_uint_le(others, 40 + 30);
    workers_queue_free(a.queue);
    workers_queue_free(b.queue);
    workers_queue_free(c.queue);
    workers_queue_free(gate.queue);
    stop();
}
END_TEST

/* Within the credit who starves comes first, whose ever it is. */
START_TEST(starving_first_among_users)
{
    struct client gate = {0}, a = {.name = 'a', .ahead = 2}, b = {.name = 'b'};
    start(1);
    close_gate(&gate);
    open_queue(&a, &named, false);
    open_queue(&b, &named, false);
    set_terms(&a, 1, 1, 0, 1);
    set_terms(&b, 2, 1, 0, 2);
    push(&a, 3);
    push(&b, 3);
    gate_open = true;
    wait_runs(&a, 3);
    ck_assert_str_eq(order, "bbbaaa");
    workers_queue_free(a.queue);
    workers_queue_free(b.queue);
    workers_queue_free(gate.queue);
    stop();
}
END_TEST

/* A user's limit leaves threads idle; without one he has all that others leave. */
START_TEST(threads_of_a_user)
{
    struct client a = {.cost = 3000}, b = {.cost = 3000};
    start(4);
    open_queue(&a, &counted, false);
    open_queue(&b, &counted, false);
    set_terms(&a, 1, 1, 2, 1);
    set_terms(&b, 1, 1, 2, 2);
    push(&a, 20);
    push(&b, 20);
    wait_runs(&a, 20);
    wait_runs(&b, 20);
    ck_assert_int_eq(most_busy, 2);
    push(&a, 100);
    set_terms(&a, 1, 1, 0, 1); /* the threads that wait are told */
    wait_runs(&a, 120);
    ck_assert_int_eq(most_busy, 4);
    workers_queue_free(a.queue);
    workers_queue_free(b.queue);
    stop();
}
END_TEST

/* Another user's rows are done beside those of one at his limit. */
START_TEST(a_limit_holds_up_nobody_else)
{
    struct client gate = {0}, a = {.cost = 1000};
    start(2);
    open_queue(&gate, &gated, false);
    set_terms(&gate, 1, 1, 1, 1);
    push(&gate, 2);
    while (!gate_entered)
        usleep(1000);
    open_queue(&a, &counted, false);
    set_terms(&a, 2, 1, 0, 2);
    push(&a, 20);
    wait_runs(&a, 20);
    gate_open = true;
    wait_runs(&gate, 2);
    workers_queue_free(a.queue);
    workers_queue_free(gate.queue);
    stop();
}
END_TEST

/* Whoever ends the last task that a user may have, and is surplus, leaves the next one to a thread
 * that waits. */
START_TEST(a_limit_and_fewer_threads)
{
    struct client a = {.cost = 300};
    start(4);
    open_queue(&a, &counted, false);
    set_terms(&a, 1, 1, 1, 1);
    for (unsigned round = 0; round < 200; round++) {
        push(&a, 4);
        usleep(round % 7 * 100);
        workers_set_active(workers, 1 + round % 4);
        wait_runs(&a, 4 * (round + 1));
    }
    ck_assert_int_eq(most_busy, 1);
    workers_queue_free(a.queue);
    stop();
}
END_TEST

enum { SMALL = 40 };
static struct client limited = {.cost = 1000}, other = {.ahead = 9};

static bool borrow(struct decoder *decoder)
{
    return decoder->limits.borrow(decoder->limits.context, 1);
}

/* Its first row has the common memory. */
static bool run_limited(void *context, void *item, struct decoder *decoder)
{
    struct client *client = context;
    if (!gate_entered)
        return borrow(decoder) && run_gate(context, item, decoder);
    usleep(client->cost);
    return true;
}

static bool run_other(void *context, void *item, struct decoder *decoder)
{
    (void)context, (void)item;
    if (!borrow(decoder)) {
        gate_open = true;
        return false;
    }
    for (int ms = 0; ms < 5000 && limited.runs < 1 + SMALL; ms++)
        usleep(1000);
    return true;
}

static const struct workers_work of_limited = {run_limited, count_done, drop, tell_ahead},
                                 of_other = {run_other, count_done, drop, tell_ahead};

/* Two threads are at it, whichever of them ends the row that had the common memory. */
START_TEST(a_limit_and_rows_that_waited_for_memory)
{
    start(2);
    open_queue(&limited, &of_limited, false);
    open_queue(&other, &of_other, false);
    set_terms(&limited, 1, 1, 1, 1);
    set_terms(&other, 2, 1, 0, 2);
    push(&limited, 1);
    while (!gate_entered)
        usleep(1000);
    push(&limited, SMALL);
    push(&other, 1);
    wait_runs(&other, 1);
    ck_assert_uint_eq(limited.runs, 1 + SMALL);
    workers_queue_free(limited.queue);
    workers_queue_free(other.queue);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shares");
    TCase *tests = tcase_create("shares");
    tcase_add_test(tests, users_share_by_weight);
    tcase_add_test(tests, starving_first_among_users);
    tcase_add_test(tests, threads_of_a_user);
    tcase_add_test(tests, a_limit_holds_up_nobody_else);
    tcase_add_test(tests, a_limit_and_fewer_threads);
    tcase_add_test(tests, a_limit_and_rows_that_waited_for_memory);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
