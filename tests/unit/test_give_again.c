/* A feed of the client's own after a restart of the daemon: it is given again, and has to be what
 * it was. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/dataload.h"
#include "fake_daemon.h"
#include "give_rig.h"
#include "proto/errors.h"

static struct fake fake;
static dataload *handle;
static dataload_options options;

static void setup(void)
{
    fake_init(&fake);
    options = (dataload_options)DATALOAD_OPTIONS_INIT;
    options.socket = fake.path;
    give_start();
}

static void teardown(void)
{
    if (fake.script)
        fake_done(&fake);
    give_end();
}

static void attaches(void (*script)(struct fake *))
{
    fake_run(&fake, script);
    int r = dataload_attach(NULL, &options, &handle);
    ck_assert_msg(r == 0, "%s", dataload_error(handle));
}

/* The daemon dies after a batch and comes back. */
static void die(struct fake *f)
{
    give_hear_all(f, DLP_FDS_MAX, 0);
    fake_ready(f, 0, 1, 0, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_silence(f);
    fake_close(f);
    fake_listen(f);
}

static void take(uint64_t step)
{
    dataload_batch *batch;
    int r = dataload_next(handle, 60000, &batch);
    ck_assert_msg(r == 0, "%d: %s", r, dataload_error(handle));
    ck_assert_uint_eq(dataload_batch_step(batch), step);
}

static void script_restart(struct fake *f)
{
    die(f);
    f->reply.step = 1;
    give_hear_all(f, DLP_FDS_MAX, 0);
    fake_ready(f, 0, 1, 0, 1);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

START_TEST(given_again_after_a_restart)
{
    give_shards(40, "", &options);
    attaches(script_restart);
    ck_assert_int_eq(chdir("/"), 0);
    options.recipe = NULL; /* and the list are the caller's no longer */
    options.files = NULL;
    take(0);
    take(1);
    dataload_detach(handle);
}
END_TEST

/* Who polls dataload_fd is not held up: each call gives the next portion at most. */
START_TEST(restart_under_a_poll_loop)
{
    dataload_batch *batch;
    int r;
    give_shards(100, "", &options);
    attaches(script_restart);
    take(0);
    while ((r = dataload_next(handle, 0, &batch)) == -ETIMEDOUT) {
        struct pollfd ready = {.fd = dataload_fd(handle), .events = POLLIN};
        ck_assert_int_eq(poll(&ready, 1, 60000), 1);
    }
    ck_assert_msg(r == 0, "%d: %s", r, dataload_error(handle));
    dataload_detach(handle);
}
END_TEST

/* It has waited for us for too long: what it says then is no answer to what we have sent since. */
static void script_given_up(struct fake *f)
{
    die(f);
    give_hear_beginning(f);
    uint64_t begun = f->id;
    give_hear_portion(f, 0);
    fake_error(f, begun, DLP_ERROR_BAD_REQUEST, "no file has come for 30 s");
    fake_heard_end(f);
    fake_close(f);
    f->reply.step = 1;
    give_hear_all(f, DLP_FDS_MAX, 0);
    fake_ready(f, 0, 1, 0, 1);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_detached(f);
}

START_TEST(given_up_meanwhile)
{
    give_shards(40, "", &options);
    attaches(script_given_up);
    take(0);
    take(1);
    dataload_detach(handle);
}
END_TEST

static void script_comes_back(struct fake *f)
{
    die(f);
    give_hear_beginning(f);
    fake_heard_end(f);
}

static void removed(const char *path)
{
    unlink(path);
}

static void replaced(const char *path)
{
    FILE *file = fopen("new", "w");
    fputs("another one", file);
    fclose(file);
    rename("new", path);
}

static void touched(const char *path)
{
    utimensat(AT_FDCWD, path, NULL, 0);
}

START_TEST(changed_while_the_daemon_was_away)
{
    static const struct {
        void (*change)(const char *path);
        const char *text;
    } kinds[] = {{replaced, "has changed since it was given (4 bytes, now 11); attach again"},
                 {touched, "has changed since it was given"},
                 {removed, "cannot be opened: No such file or directory"}};
    dataload_batch *batch;
    char text[400];
    give_shards(3, "", &options);
    usleep(20000); /* of a file system's clock */
    attaches(script_comes_back);
    kinds[_i].change("1.tar");
    take(0);
    snprintf(text, sizeof text, "dataloadd has come back, but shard %s/1.tar %s", give_folder(),
             kinds[_i].text);
    int r = dataload_next(handle, 60000, &batch);
    ck_assert_msg(r == -ESTALE && strstr(dataload_error(handle), text), "%d: %s", r,
                  dataload_error(handle));
    dataload_detach(handle);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("give_again");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, given_again_after_a_restart);
    tcase_add_test(tcase, restart_under_a_poll_loop);
    tcase_add_test(tcase, given_up_meanwhile);
    tcase_add_loop_test(tcase, changed_while_the_daemon_was_away, 0, 3);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
