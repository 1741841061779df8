/* The client library as a member of a mirror group, against a daemon played by the test. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "client/dataload.h"
#include "fake_daemon.h"
#include "proto/errors.h"

static struct fake fake;
static dataload *handle;

static void setup(void)
{
    fake_init(&fake);
    fake.seals |= F_SEAL_FUTURE_WRITE;
    fake.reply.shared = true;
}

static void teardown(void)
{
    fake_done(&fake);
}

static void attach(void (*script)(struct fake *))
{
    dataload_options options = DATALOAD_OPTIONS_INIT;
    options.socket = fake.path;
    options.reconnect_ms = 0;
    fake_run(&fake, script);
    int r = dataload_attach("a-feed", &options, &handle);
    ck_assert_msg(r == 0, "%s", dataload_error(handle));
}

static void script_views(struct fake *f)
{
    fake_attach(f);
    fake_ready(f, 1, 2, 0, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    f->arena[f->layout.slot_bytes + f->layout.tensors[0].offset] = 77;
    fake_heard(f, DLP__ENVELOPE__BODY_RELEASE);
    fake_detached(f);
}

/* Asked of the kernel, which would have to write for us. */
static bool writable(void *data)
{
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    ssize_t got = read(zero, data, 1);
    int err = errno;
    close(zero);
    ck_assert(got == 1 || err == EFAULT);
    return got == 1;
}

START_TEST(views_are_read_only)
{
    attach(script_views);
    dataload_info info = {.size = sizeof info};
    ck_assert_int_eq(dataload_get_info(handle, &info), 0);
    ck_assert_int_eq(info.shared, 1);
    dataload_batch *batch;
    dataload_tensor image;
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), 0);
    ck_assert_int_eq(dataload_batch_tensor(batch, "image", &image), 0);
    const volatile uint8_t *bytes = image.data;
    for (int i = 0; i < 5000 && bytes[0] != 77; i++)
        usleep(1000);
    ck_assert_uint_eq(bytes[0], 77); /* written after our first look: no copy of ours */
    ck_assert(!writable(image.data));
    ck_assert_int_eq(dataload_release(handle, batch), 0);
    dataload_detach(handle);
}
END_TEST

static void next(uint64_t epoch, uint64_t step)
{
    dataload_batch *batch;
    int r = dataload_next(handle, 60000, &batch);
    ck_assert_msg(r == 0, "%d: %s", r, dataload_error(handle));
    ck_assert_uint_eq(dataload_batch_epoch(batch), epoch);
    ck_assert_uint_eq(dataload_batch_step(batch), step);
    ck_assert_int_eq(dataload_release(handle, batch), 0);
}

static void epoch_ends(void)
{
    dataload_batch *batch;
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), DATALOAD_EPOCH_END);
}

static uint64_t skipped(void)
{
    dataload_stats stats = {.size = sizeof stats};
    ck_assert_int_eq(dataload_get_stats(handle, &stats), 0);
    return stats.skipped;
}

static void fake_taken(struct fake *f)
{
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_heard(f, DLP__ENVELOPE__BODY_RELEASE);
}

static void script_skips(struct fake *f)
{
    f->reply.skips = true;
    fake_attach(f);
    const uint64_t places[] = {0, 3, FAKE_STEPS + 1, 2 * FAKE_STEPS - 1, 4 * FAKE_STEPS + 2};
    for (uint64_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (places[i] == 4 * FAKE_STEPS + 2)
            fake_heard(f, DLP__ENVELOPE__BODY_WAIT);
        fake_ready(f, 0, i + 1, places[i] / FAKE_STEPS, places[i] % FAKE_STEPS);
        fake_taken(f);
    }
    fake_detached(f);
}

/* Each pass that was begun ends once, however much of it and of those after it was left out. */
START_TEST(steps_pass_by)
{
    char token[DATALOAD_TOKEN_MAX], before[DATALOAD_TOKEN_MAX];
    attach(script_skips);
    next(0, 0);
    next(0, 3);
    ck_assert_uint_eq(skipped(), 2);
    ck_assert_int_gt(dataload_token(handle, before, sizeof before), 0);
    epoch_ends();
    ck_assert_int_gt(dataload_token(handle, token, sizeof token), 0);
    ck_assert_str_ne(token, before);
    next(1, 1);
    ck_assert_uint_eq(skipped(), 2 + 2);
    next(1, FAKE_STEPS - 1);
    epoch_ends();
    epoch_ends(); /* the pass that had begun when it was passed by */
    next(4, 2);
    ck_assert_uint_eq(skipped(), 4 + FAKE_STEPS - 3 + 2 * FAKE_STEPS + 2);
    dataload_detach(handle);
}
END_TEST

static void script_back(struct fake *f)
{
    f->reply.skips = true;
    fake_attach(f);
    fake_ready(f, 0, 1, 0, 2);
    fake_taken(f);
    fake_ready(f, 0, 2, 0, 1);
    fake_heard_end(f);
}

START_TEST(steps_do_not_go_back)
{
    dataload_batch *batch;
    attach(script_back);
    next(0, 2);
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), -EPROTO);
    dataload_detach(handle);
}
END_TEST

static void script_gap(struct fake *f)
{
    fake_attach(f);
    fake_ready(f, 0, 1, 0, 1);
    fake_heard_end(f);
}

START_TEST(steps_pass_by_only_where_they_may)
{
    dataload_batch *batch;
    attach(script_gap);
    ck_assert_int_eq(dataload_next(handle, 60000, &batch), -EPROTO);
    dataload_detach(handle);
}
END_TEST

static void script_lagged(struct fake *f)
{
    fake_attach(f);
    fake_ready(f, 0, 1, 0, 0);
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_ready(f, 1, 2, 0, 1);
    fake_error(f, 0, DLP_ERROR_LAGGED, "the group goes on without it");
    fake_heard(f, DLP__ENVELOPE__BODY_TAKE);
    fake_heard(f, DLP__ENVELOPE__BODY_RELEASE);
    fake_heard(f, DLP__ENVELOPE__BODY_RELEASE);
    fake_heard_end(f);
}

/* What it was told of and what it holds is its own until it gives it back. */
START_TEST(detached_for_lagging)
{
    dataload_batch *held, *told, *none;
    attach(script_lagged);
    ck_assert_int_eq(dataload_next(handle, 60000, &held), 0);
    usleep(50000);
    ck_assert_int_eq(dataload_next(handle, 60000, &told), 0);
    ck_assert_int_eq(dataload_next(handle, 60000, &none), -ESTALE);
    ck_assert_str_eq(dataload_error(handle), "the group goes on without it");
    dataload_tensor image;
    ck_assert_int_eq(dataload_batch_tensor(held, "image", &image), 0);
    ck_assert_int_eq(dataload_release(handle, told), 0);
    ck_assert_int_eq(dataload_release(handle, held), 0);
    dataload_detach(handle);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_mirror");
    TCase *tc = tcase_create("client_mirror");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, views_are_read_only);
    tcase_add_test(tc, steps_pass_by);
    tcase_add_test(tc, steps_do_not_go_back);
    tcase_add_test(tc, steps_pass_by_only_where_they_may);
    tcase_add_test(tc, detached_for_lagging);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
