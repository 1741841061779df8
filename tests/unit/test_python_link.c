/* A handle shared by threads, and batches that end in any of them, against a daemon played by the
 * test. */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/python/link.h"
#include "fake_daemon.h"

#define EPOCHS 40U

static struct fake fake;
static struct link *shared;

static void setup(void)
{
    fake_init(&fake);
}

static void teardown(void)
{
    fake_done(&fake);
}

static void attach(void (*script)(struct fake *))
{
    dataload *handle;
    dataload_options options = DATALOAD_OPTIONS_INIT;
    options.socket = fake.path;
    options.reconnect_ms = 0;
    fake_run(&fake, script);
    int r = dataload_attach("a-feed", &options, &handle);
    ck_assert_msg(r == 0, "%s", dataload_error(handle));
    shared = link_new(handle);
    ck_assert_ptr_nonnull(shared);
}

static bool any_lent(void)
{
    ck_assert(link_lock(shared, false));
    bool any = shared->lent != NULL;
    link_unlock(shared);
    return any;
}

/* The next batch, looked for in short turns, as Python does. */
static struct hold *next(void)
{
    dataload_batch *batch;
    struct hold *hold = NULL;
    int r;
    do {
        ck_assert(link_lock(shared, false));
        struct pollfd poller = {.fd = dataload_fd(shared->handle), .events = POLLIN};
        r = dataload_next(shared->handle, 0, &batch);
        if (r == 0)
            hold = hold_new(shared, batch);
        link_unlock(shared);
        if (r == -ETIMEDOUT)
            poll(&poller, 1, 50);
    } while (r == -ETIMEDOUT || r == DATALOAD_EPOCH_END);
    ck_assert_int_eq(r, 0);
    ck_assert_ptr_nonnull(hold);
    return hold;
}

static dataload_tensor image_of(struct hold *hold)
{
    dataload_tensor tensor;
    ck_assert(link_lock(shared, false));
    ck_assert_int_eq(dataload_batch_tensor_at(hold->batch, 0, &tensor), 0);
    link_unlock(shared);
    return tensor;
}

/* Each batch is asked for and given back before the next one comes. */
static void one_by_one(struct fake *daemon)
{
    fake_attach(daemon);
    for (uint32_t i = 0; i < EPOCHS * FAKE_STEPS; i++) {
        fake_ready(daemon, i % FAKE_SLOTS, i / FAKE_SLOTS + 1, i / FAKE_STEPS, i % FAKE_STEPS);
        fake_heard(daemon, DLP__ENVELOPE__BODY_TAKE);
        fake_heard(daemon, DLP__ENVELOPE__BODY_RELEASE);
    }
    fake_detached(daemon);
}

static void *drop(void *hold)
{
    hold_drop(hold);
    return NULL;
}

START_TEST(ends_in_any_thread)
{
    attach(one_by_one);
    for (uint32_t i = 0; i < EPOCHS * FAKE_STEPS; i++) {
        pthread_t threads[2];
        struct hold *hold = next();
        for (int t = 0; t < 2; t++) {
            hold_take(hold);
            pthread_create(&threads[t], NULL, drop, hold);
        }
        hold_drop(hold);
        any_lent(); /* takes the lock meanwhile */
        for (int t = 0; t < 2; t++)
            pthread_join(threads[t], NULL);
        ck_assert(!any_lent());
    }
    link_drop(shared);
}
END_TEST

static void two_and_the_end(struct fake *daemon)
{
    fake_attach(daemon);
    fake_ready(daemon, 0, 1, 0, 0);
    fake_heard(daemon, DLP__ENVELOPE__BODY_TAKE);
    fake_ready(daemon, 1, 1, 0, 1);
    fake_heard(daemon, DLP__ENVELOPE__BODY_TAKE);
    fake_heard(daemon, DLP__ENVELOPE__BODY_RELEASE);
    fake_detached(daemon);
}

START_TEST(memory_outlives_the_attachment)
{
    attach(two_and_the_end);
    struct hold *kept = next(), *given = next();
    dataload_tensor image = image_of(kept);
    uint8_t *bytes = image.data;
    bytes[0] = 7;
    hold_drop(given);
    link_close(shared);
    ck_assert_ptr_null(shared->handle);
    ck_assert_ptr_null(shared->lent);
    ck_assert_uint_eq(bytes[0], 7);
    bytes[image.bytes - 1] = 8; /* a write, too: it is ours */
    link_drop(shared);
    void *page = (void *)((uintptr_t)bytes & ~(uintptr_t)(sysconf(_SC_PAGESIZE) - 1));
    ck_assert_int_eq(msync(page, 1, MS_ASYNC), 0);
    hold_drop(kept);
    ck_assert_int_eq(msync(page, 1, MS_ASYNC), -1); /* not mapped */
    ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

static void one_and_the_end(struct fake *daemon)
{
    fake_attach(daemon);
    fake_ready(daemon, 0, 1, 0, 0);
    fake_heard(daemon, DLP__ENVELOPE__BODY_TAKE);
    fake_heard(daemon, DLP__ENVELOPE__BODY_RELEASE);
    fake_detached(daemon);
}

START_TEST(a_child_ends_nothing)
{
    attach(one_and_the_end);
    struct hold *hold = next();
    pid_t child = fork();
    if (child == 0) {
        bool refused = !link_lock(shared, false) && !link_is_ours(shared);
        hold_drop(hold);
        link_close(shared);
        link_drop(shared);
        _exit(refused ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    ck_assert(link_lock(shared, true));
    link_unlock(shared);
    hold_drop(hold);
    link_drop(shared);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("python_link");
    TCase *tcase = tcase_create("link");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, ends_in_any_thread);
    tcase_add_test(tcase, memory_outlives_the_attachment);
    tcase_add_test(tcase, a_child_ends_nothing);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
