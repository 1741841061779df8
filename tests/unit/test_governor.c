/* control/governor.c against a simulated node: workers and others share its CPUs as the kernel
 * shares them, streams share the workers. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/governor.h"

#define CLIENTS 6
#define MINUTES_10 600

struct client {
    double demand, supply; /* rows/s; supply 0: as much as is asked for */
    double row_cpu;        /* s of a CPU a row takes */
    double row_wait;       /* s that it waits beside */
    double eats;           /* CPUs that its trainer takes while it does not wait */
    unsigned from, to;     /* seconds; to 0: for ever */
};

struct node {
    double cpus, others; /* CPUs taken by others */
    unsigned ceiling;    /* 0: the CPUs */
    bool as_said;
    double noise;         /* of all figures, +- */
    double useless_above; /* workers: what they share lets no more work; 0: none */
    struct client clients[CLIENTS];
};

struct course {
    unsigned active;
    unsigned changes, turns; /* of direction */
    unsigned last_change;    /* second */
    int direction;
    double taken;
    char why[GOVERNOR_WHY_MAX];
};

static struct governor governor;
static struct course course;
static unsigned second;
static struct governor_stream streams[CLIENTS];
static struct governor_input input;

static double noisy(double value, double noise)
{
    return value * (1 + noise * (2.0 * rand() / RAND_MAX - 1));
}

static bool is_there(const struct client *client)
{
    return client->demand > 0 && second >= client->from && (!client->to || second < client->to);
}

/* Rows/s that this client could get. */
static double wanted(const struct client *client, double crowd)
{
    double demand = client->demand * (client->eats ? crowd : 1);
    return client->supply && client->supply < demand ? client->supply : demand;
}

/* Each client's workers, when `crowd` of the CPU time that is asked for is had. */
static double share_workers(const struct node *node, double crowd, double had[CLIENTS])
{
    double left = course.active, busy = 0;
    if (node->useless_above && left > node->useless_above)
        left = node->useless_above;
    unsigned open = 0;
    double need[CLIENTS] = {0};
    memset(had, 0, CLIENTS * sizeof *had);
    for (int i = 0; i < CLIENTS; i++) {
        const struct client *client = &node->clients[i];
        if (is_there(client))
            need[i] = wanted(client, crowd) * (client->row_cpu / crowd + client->row_wait);
        open += need[i] > 0;
    }
    while (open && left > 1e-9) { /* what one leaves goes to the others */
        double each = left / open;
        open = 0;
        for (int i = 0; i < CLIENTS; i++) {
            double more = need[i] - had[i] < each ? need[i] - had[i] : each;
            had[i] += more;
            left -= more;
            busy += more;
            open += need[i] - had[i] > 1e-9;
        }
    }
    return busy;
}

static double cpu_asked(const struct node *node, const double had[CLIENTS], double crowd,
                        double *work)
{
    double asked = node->others;
    *work = 0;
    for (int i = 0; i < CLIENTS; i++) {
        const struct client *client = &node->clients[i];
        if (!is_there(client))
            continue;
        double each = client->row_cpu / crowd / (client->row_cpu / crowd + client->row_wait);
        *work += had[i] * each;
        double rows = had[i] / (client->row_cpu / crowd + client->row_wait);
        asked += client->eats * rows / (client->demand * (client->eats ? crowd : 1));
    }
    return asked + *work;
}

/* One second of the node: the figures that the governor sees. */
static void live(const struct node *node)
{
    double had[CLIENTS], crowd = 1, work = 0, busy = 0;
    for (int i = 0; i < 60; i++) { /* to the balance */
        busy = share_workers(node, crowd, had);
        double asked = cpu_asked(node, had, crowd, &work);
        double next = asked > node->cpus ? node->cpus / asked : 1;
        crowd = 0.7 * crowd + 0.3 * next;
    }
    double queue = node->useless_above && course.active > node->useless_above
                       ? course.active / node->useless_above
                       : 1;
    input = (struct governor_input){.streams = streams,
                                    .active = course.active,
                                    .ceiling = node->ceiling ? node->ceiling : (unsigned)node->cpus,
                                    .as_said = node->as_said,
                                    .busy = busy * queue,
                                    .queued = work > 0 ? 1 - crowd : 0};
    double got = 0, wait = 0;
    course.taken = 0;
    for (int i = 0; i < CLIENTS; i++) {
        const struct client *client = &node->clients[i];
        if (!is_there(client))
            continue;
        double row = client->row_cpu / crowd + client->row_wait;
        double rows = had[i] / row, could = client->demand * (client->eats ? crowd : 1);
        got += had[i] * (client->row_cpu / row);
        wait += had[i] * (client->row_wait / row);
        double waits = noisy(1 - rows / could, node->noise);
        streams[input.nstreams++] = (struct governor_stream){
            .fresh = second < client->from + 2,
            .demand = noisy(could, node->noise),
            .supply = client->supply ? noisy(client->supply, node->noise) : 1e12,
            .rate = noisy(1 / row / queue, node->noise),
            .wait_share = waits > 0 ? waits : 0};
        course.taken += rows;
    }
    input.rows = noisy(course.taken, node->noise);
    input.cpu_each = got + wait > 0 ? got / (got + wait) : 1;
    double left = node->cpus - cpu_asked(node, had, crowd, &work);
    input.free_cpus = left > 0 ? noisy(left, node->noise) : 0;
}

static void decide(void)
{
    unsigned to = governor_decide(&governor, &input);
    ck_assert_uint_ge(to, 1);
    ck_assert_uint_le(to, input.ceiling);
    ck_assert_uint_gt(strlen(governor.why), 0);
    int direction = (to > course.active) - (to < course.active);
    if (direction) {
        course.changes++;
        course.turns += course.direction && direction != course.direction;
        course.direction = direction;
        course.last_change = second;
        strcpy(course.why, governor.why);
    }
    course.active = to;
}

static void run(const struct node *node, unsigned seconds)
{
    for (unsigned end = second + seconds; second < end; second++) {
        live(node);
        decide();
    }
    live(node);
}

static void setup(void)
{
    srand(1);
    second = 0;
    memset(&governor, 0, sizeof governor);
    course = (struct course){.active = 1};
}

static void forget_changes(void)
{
    course.changes = course.turns = 0;
    course.direction = 0;
}

/* Rows of 1/90 s that wait rather than compute; the trainer could take 1,200/s. */
static const struct node sleepers = {
    .cpus = 2, .ceiling = 24, .as_said = true, .clients = {{.demand = 1200, .row_wait = 1 / 90.0}}};

START_TEST(the_worked_example)
{
    struct node node = sleepers;
    node.clients[0].demand = 180;
    run(&node, 10);
    ck_assert_uint_eq(course.active, 2);
    node.clients[0].demand = 1200;
    run(&node, 1);
    ck_assert_uint_eq(course.active, 14);
    ck_assert_str_eq(course.why, "the trainers could take 1,200/s, 2 workers x 90/s = 180/s");
    forget_changes();
    run(&node, MINUTES_10);
    ck_assert_uint_eq(course.changes, 0);
    ck_assert_double_eq_tol(course.taken, 1200, 1);
    node.clients[0].demand = 180;
    run(&node, 3);
    ck_assert_uint_eq(course.active, 2);
}
END_TEST

START_TEST(begins_with_all_and_settles)
{
    for (int i = 0; i < 50; i++) {
        struct node node = sleepers;
        node.noise = 0.02;
        setup();
        srand(i);
        run(&node, 1);
        ck_assert_uint_eq(course.active, 24);
        run(&node, 5);
        ck_assert_uint_ge(course.active, 14);
        ck_assert_uint_le(course.active, 15);
    }
}
END_TEST

/* Any step of demand is followed within 3 s, with noise, and nothing moves after it. */
START_TEST(steps_are_followed)
{
    struct node node = {.cpus = 64, .noise = 0.03, .clients = {{.demand = 1000, .row_cpu = 0.004}}};
    run(&node, 10);
    for (int i = 0; i < 200; i++) {
        node.clients[0].demand = 250 * (1 + rand() % 50);
        run(&node, 3);
        double need = node.clients[0].demand / 250;
        ck_assert_double_ge(course.taken, 0.95 * node.clients[0].demand);
        ck_assert_double_le(course.active, need * 1.4 + 1);
        forget_changes();
        run(&node, 200);
        ck_assert_double_le(course.active, need * 1.17 + 1);
        ck_assert_uint_le(course.changes, 2);
        ck_assert_uint_eq(course.turns, 0);
    }
}
END_TEST

START_TEST(ten_minutes_without_oscillating)
{
    static const struct node nodes[] = {
        {.cpus = 16, .noise = 0.1, .clients = {{.demand = 3000, .row_cpu = 0.003}}},
        {.cpus = 16, .noise = 0.1, .clients = {{.demand = 3000, .row_cpu = 0.003, .eats = 4}}},
        {.cpus = 8, .noise = 0.1, .clients = {{.demand = 3000, .row_cpu = 0.003, .eats = 4}}},
        {.cpus = 16, .noise = 0.1, .others = 12, .clients = {{.demand = 3000, .row_cpu = 0.003}}},
        {.cpus = 16, .noise = 0.1, .clients = {{.demand = 3000, .supply = 800, .row_cpu = 0.003}}},
        {.cpus = 16,
         .noise = 0.1,
         .clients = {{.demand = 900, .row_cpu = 0.003},
                     {.demand = 5000, .supply = 500, .row_cpu = 0.004},
                     {.demand = 300, .row_cpu = 0.01, .eats = 1}}},
        {.cpus = 16,
         .noise = 0.1,
         .useless_above = 6,
         .clients = {{.demand = 9000, .row_cpu = 0.001, .row_wait = 0.003}}},
        {.cpus = 2,
         .noise = 0.1,
         .ceiling = 24,
         .as_said = true,
         .clients = {{.demand = 1200, .row_wait = 1 / 90.0}}},
        {.cpus = 192,
         .noise = 0.1,
         .clients = {{.demand = 30000, .row_cpu = 0.003, .eats = 30},
                     {.demand = 3000, .row_cpu = 0.003}}},
        {.cpus = 1, .noise = 0.1, .clients = {{.demand = 3000, .row_cpu = 0.003}}},
    };
    const struct node *node = &nodes[_i / 20];
    setup();
    srand(_i);
    run(node, 20);
    forget_changes();
    run(node, MINUTES_10);
    ck_assert_msg(course.turns <= 6 && course.changes <= 8,
                  "node %d: %u changes, %u turns, %u workers: %s", _i / 20, course.changes,
                  course.turns, course.active, course.why);
}
END_TEST

START_TEST(clients_come_and_go)
{
    struct node node = {.cpus = 32, .noise = 0.03};
    for (int i = 0; i < CLIENTS; i++)
        node.clients[i] =
            (struct client){.demand = 1000, .row_cpu = 0.004, .from = 20 * i, .to = 400 - 20 * i};
    run(&node, 118);
    ck_assert_double_ge(course.taken, 5900);
    ck_assert_uint_le(course.active, 29);
    run(&node, 400 - 118 - 3);
    ck_assert_uint_le(course.active, 7);
    run(&node, 30);
    ck_assert_uint_eq(course.active, 1);
    ck_assert_uint_le(course.changes, 40);
}
END_TEST

START_TEST(storage_does_not_make_it_grow)
{
    struct node node = {.cpus = 64,
                        .clients = {{.demand = 5000, .supply = 1000, .row_cpu = 0.004}}};
    run(&node, 20);
    ck_assert_uint_ge(course.active, 4);
    ck_assert_uint_le(course.active, 5);
    ck_assert_double_eq_tol(course.taken, 1000, 1);
    ck_assert_ptr_nonnull(strstr(governor.why, "of what is read"));
}
END_TEST

/* 12 of 16 CPUs are others': half are the workers', and no more. */
START_TEST(cores_of_others_are_left_to_them)
{
    struct node node = {.cpus = 16, .others = 12, .clients = {{.demand = 5000, .row_cpu = 0.004}}};
    run(&node, 60);
    ck_assert_uint_eq(course.active, 8);
    ck_assert_ptr_nonnull(strstr(governor.why, "no CPU is free"));
    node.others = 2;
    run(&node, 4);
    ck_assert_uint_ge(course.active, 13);
    node.others = 12;
    run(&node, 10);
    ck_assert_uint_le(course.active, 11);
    ck_assert_ptr_nonnull(strstr(course.why, "others use the CPUs"));
}
END_TEST

START_TEST(what_brings_nothing_is_taken_back)
{
    struct node node = {.cpus = 32,
                        .useless_above = 6,
                        .clients = {{.demand = 1000, .row_cpu = 0.001, .row_wait = 0.003}}};
    run(&node, 20);
    ck_assert_uint_le(course.active, 5);
    node.clients[0].demand = 9000;
    run(&node, 10);
    ck_assert_uint_eq(course.active, 6);
    ck_assert_ptr_nonnull(strstr(course.why, "next to nothing"));
    ck_assert_ptr_nonnull(strstr(governor.why, "more have brought nothing"));
    forget_changes();
    run(&node, MINUTES_10);
    ck_assert_uint_le(course.changes, 8); /* it is tried again, ever more seldom */
}
END_TEST

START_TEST(the_ceiling_is_kept_as_it_changes)
{
    struct node node = {.cpus = 32, .ceiling = 16, .clients = {{.demand = 1e5, .row_cpu = 0.004}}};
    run(&node, 10);
    ck_assert_uint_eq(course.active, 16);
    node.ceiling = 4;
    run(&node, 1);
    ck_assert_uint_eq(course.active, 4);
    ck_assert_str_eq(course.why, "no more than 4 may be now");
    node.ceiling = 32;
    run(&node, 3);
    ck_assert_uint_eq(course.active, 32);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("governor");
    TCase *tests = tcase_create("governor");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, the_worked_example);
    tcase_add_test(tests, begins_with_all_and_settles);
    tcase_add_test(tests, steps_are_followed);
    tcase_add_loop_test(tests, ten_minutes_without_oscillating, 0, 200);
    tcase_add_test(tests, clients_come_and_go);
    tcase_add_test(tests, storage_does_not_make_it_grow);
    tcase_add_test(tests, cores_of_others_are_left_to_them);
    tcase_add_test(tests, what_brings_nothing_is_taken_back);
    tcase_add_test(tests, the_ceiling_is_kept_as_it_changes);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
