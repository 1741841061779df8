/* Errands: so many at once, in the order of asking, on threads of low priority. */
#include <check.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "control/errands.h"

#define COUNT 7

struct job {
    struct errand errand; /* first */
    sem_t go;
    _Atomic bool runs;
    int nice;
    bool ran;
};

static uv_loop_t loop;
static struct mailbox *mailbox;
static struct errands *errands;
static struct job jobs[COUNT];

static void run(struct errand *errand)
{
    struct job *job = (struct job *)errand;
    job->nice = getpriority(PRIO_PROCESS, 0);
    job->runs = true;
    while (sem_wait(&job->go))
        continue;
}

static void ran(struct errand *errand)
{
    struct job *job = (struct job *)errand;
    ck_assert_int_eq(errand->err.code, 0);
    job->ran = true;
}

static void setup(void)
{
    uv_loop_init(&loop);
    mailbox = mailbox_new(&loop);
    errands = errands_new(mailbox, ERRANDS_AT_ONCE);
    for (int i = 0; i < COUNT; i++) {
        jobs[i] = (struct job){.errand = {.run = run, .ran = ran}};
        sem_init(&jobs[i].go, 0, 0);
        errands_add(errands, &jobs[i].errand);
    }
}

static void wait_until_runs(int number)
{
    while (!jobs[number].runs)
        uv_run(&loop, UV_RUN_NOWAIT);
}

static void end(int number)
{
    sem_post(&jobs[number].go);
    while (!jobs[number].ran)
        uv_run(&loop, UV_RUN_ONCE);
    errands_end(&jobs[number].errand);
}

static void teardown(void)
{
    errands_free(errands);
    mailbox_free(mailbox);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

START_TEST(so_many_at_once_in_the_order_of_asking)
{
    for (int i = 0; i < ERRANDS_AT_ONCE; i++) {
        wait_until_runs(i);
        ck_assert_uint_eq(errands_before(&jobs[i].errand), 0);
        int ours = getpriority(PRIO_PROCESS, 0);
        ck_assert(jobs[i].nice > ours || ours == 19);
    }
    for (int i = ERRANDS_AT_ONCE; i < COUNT; i++)
        ck_assert_uint_eq(errands_before(&jobs[i].errand), (uint32_t)i);
    sem_post(&jobs[1].go);
    while (!jobs[1].ran)
        uv_run(&loop, UV_RUN_ONCE);
    ck_assert(!jobs[ERRANDS_AT_ONCE].runs); /* its place is kept until its end */
    errands_end(&jobs[1].errand);
    wait_until_runs(ERRANDS_AT_ONCE);
    ck_assert(!jobs[ERRANDS_AT_ONCE + 1].runs);
    for (int i = 0; i < COUNT; i++)
        if (i != 1)
            end(i);
}
END_TEST

START_TEST(those_that_wait_can_be_taken_back)
{
    wait_until_runs(0);
    ck_assert(!errands_leave(&jobs[0].errand));
    ck_assert(errands_leave(&jobs[COUNT - 1].errand));
    ck_assert(errands_leave(&jobs[ERRANDS_AT_ONCE].errand));
    ck_assert(!errands_leave(&jobs[COUNT - 1].errand));
    errands_add(errands, &jobs[COUNT - 1].errand); /* at the end again */
    for (int i = 0; i < COUNT; i++)
        if (i != ERRANDS_AT_ONCE)
            end(i);
    ck_assert(!jobs[ERRANDS_AT_ONCE].runs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("errands");
    TCase *test = tcase_create("errands");
    tcase_add_checked_fixture(test, setup, teardown);
    tcase_add_test(test, so_many_at_once_in_the_order_of_asking);
    tcase_add_test(test, those_that_wait_can_be_taken_back);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
