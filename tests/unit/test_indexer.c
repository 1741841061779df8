/* Indexing many shards at a time, with shards that fail, hang or are slow. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "scratch.h"
#include "store/index_form.h"
#include "store/indexer.h"
#include "store/stamp.h"

static struct scratch scratch;
static struct error err;
static sem_t gate; /* lets a hanging listing go on */
static _Atomic unsigned listed, ended;

static void set_up(void)
{
    scratch_make(&scratch);
    sem_init(&gate, 0, 0);
    err = (struct error){0};
    listed = ended = 0;
}

static void tear_down(void)
{
    scratch_remove(&scratch);
}

/* What the file holds says what happens: it may hang, go on until cancelled, fail, grow. */
static int fake_list(int fd, const char *path, struct index_builder *builder,
                     struct format_progress *progress, struct error *error)
{
    char word[16] = "";
    listed++;
    ck_assert_int_ge(pread(fd, word, sizeof word - 1, 0), 0);
    progress->records = 1;
    if (!strcmp(word, "hang"))
        sem_wait(&gate);
    while (!strcmp(word, "slow") && !progress->cancel) {
        progress->bytes++;
        usleep(1000);
    }
    ended++;
    if (!strcmp(word, "grow"))
        scratch_file(&scratch, "a", "grown", 5);
    if (!strcmp(word, "fail"))
        return error_set(error, -EIO, "cannot read %s", path);
    if (progress->cancel)
        return error_set(error, -ECANCELED, "cancelled");
    index_builder_fault(builder, BAD_NONE, 0, "%05000d", 0); /* no small index: it is mapped */
    return index_builder_part(builder, word, "jpg", PART_STORED, 0, 1);
}

static void fake_read(int fd, const struct index *index, struct format_read *reads, size_t count)
{
    (void)fd, (void)index;
    for (size_t i = 0; i < count; i++)
        reads[i].error = -EIO;
}

static const struct format fake = {
    .name = "fake", .stamp = stamp_file, .list = fake_list, .read = fake_read};

static const char *word_of(char letter)
{
    static const char *const words[] = {"hang", "slow", "fail", "grow", "bytes"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i][0] == letter)
            return words[i];
    return NULL;
}

/* One shard a letter, named "a", "b", ...; '=' leaves it as it is. */
static int run(const char *letters, unsigned threads, const char *cache,
               bool (*progress)(void *, const char *, uint64_t, uint64_t), void *context,
               struct indexer_result *out)
{
    static const char *paths[16];
    size_t count = strlen(letters);
    for (size_t i = 0; i < count; i++) {
        char name[] = {(char)('a' + i), 0};
        const char *word = word_of(letters[i]);
        paths[i] =
            word ? scratch_file(&scratch, name, word, strlen(word)) : scratch_at(&scratch, name);
    }
    struct indexer_options options = {.format = &fake,
                                      .space = "fake",
                                      .paths = paths,
                                      .count = count,
                                      .threads = threads,
                                      .cache_dir = cache,
                                      .cache_bytes = 1 << 20,
                                      .progress = progress,
                                      .context = context,
                                      .patience = 1};
    return indexer_run(&options, out, &err);
}

static void wait_until(_Atomic unsigned *what, unsigned value)
{
    for (int i = 0; i < 60000 && *what < value; i++)
        usleep(1000);
    ck_assert_uint_ge(*what, value);
    usleep(50000); /* the thread lets go of its job */
}

START_TEST(results_in_order)
{
    struct indexer_result results[12] = {0};
    ck_assert_int_eq(run("bbbbbbbbbbbb", 4, NULL, NULL, NULL, results), 0);
    ck_assert_uint_eq(listed, 12);
    for (int i = 0; i < 12; i++) {
        ck_assert_str_eq(index_key(results[i].index, 0), "bytes");
        ck_assert_uint_eq(results[i].stamp.size, 5);
        index_free(results[i].index);
    }
}
END_TEST

START_TEST(the_first_error_ends_all)
{
    struct indexer_result results[12] = {0};
    ck_assert_int_eq(run("bbfbbbbbbbbb", 1, NULL, NULL, NULL, results), -EIO);
    ck_assert_ptr_nonnull(strstr(err.text, "/c"));
    ck_assert_uint_eq(listed, 3);
    for (int i = 0; i < 12; i++)
        ck_assert_ptr_null(results[i].index);
    ck_assert_int_eq(run("sfs", 3, NULL, NULL, NULL, results), -EIO); /* the slow ones are told */
    ck_assert_uint_eq(ended, listed);
}
END_TEST

/* The same with few tasks, as another user where we are root, who has no limit. */
static int run_limited(const char *letters, rlim_t most, struct indexer_result *out)
{
    struct rlimit before, limit;
    uid_t uid = getuid();
    getrlimit(RLIMIT_NPROC, &before);
    limit = (struct rlimit){most, before.rlim_max};
    ck_assert_int_eq(chmod(scratch.path, 0755), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NPROC, &limit), 0);
    ck_assert(uid != 0 || setresuid(64123, 64123, 0) == 0);
    int rc = run(letters, (unsigned)strlen(letters), NULL, NULL, NULL, out);
    ck_assert(uid != 0 || setresuid(0, 0, 0) == 0);
    setrlimit(RLIMIT_NPROC, &before);
    return rc;
}

START_TEST(without_any_thread_it_is_refused)
{
    struct indexer_result results[4] = {0};
    ck_assert_int_eq(run("bbbb", 4, NULL, NULL, NULL, results), 0);
    for (int i = 0; i < 4; i++)
        index_free(results[i].index);
    memset(results, 0, sizeof results);
    ck_assert_int_eq(run_limited("====", 0, results), -EAGAIN);
    ck_assert_msg(strstr(err.text, "cannot start thread index"), "%s", err.text);
    ck_assert_ptr_null(results[0].index);
}
END_TEST

START_TEST(fewer_threads_will_do)
{
    struct indexer_result results[12] = {0};
    ck_assert_int_eq(run("bbbbbbbbbbbb", 1, NULL, NULL, NULL, results), 0);
    for (int i = 0; i < 12; i++)
        index_free(results[i].index);
    if (getuid() != 0)
        return; /* this user may have many tasks already */
    /* Those of a sanitizer are among the 6. */
    ck_assert_int_eq(run_limited("============", 6, results), 0);
    for (int i = 0; i < 12; i++)
        index_free(results[i].index);
}
END_TEST

/* One line says it for all of the shards. */
START_TEST(a_full_disk_is_told_once)
{
    struct indexer_result results[12] = {0};
    struct rlimit none = {0};
    char said[4096];
    struct rlimit before;
    ck_assert_int_eq(run("bbbbbbbbbbbb", 2, NULL, NULL, NULL, results), 0);
    for (int i = 0; i < 12; i++)
        index_free(results[i].index);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    none.rlim_max = before.rlim_max;
    int kept = dup(STDERR_FILENO), pipes[2];
    ck_assert_int_eq(pipe(pipes), 0); /* which has no size limit */
    dup2(pipes[1], STDERR_FILENO);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    int rc = run("============", 2, scratch_at(&scratch, "cache"), NULL, NULL, results);
    setrlimit(RLIMIT_FSIZE, &before);
    dup2(kept, STDERR_FILENO);
    close(pipes[1]);
    ssize_t size = read(pipes[0], said, sizeof said - 1);
    said[size > 0 ? size : 0] = 0;
    ck_assert_int_eq(rc, 0);
    const char *first = strstr(said, "cannot be kept");
    ck_assert_msg(first && strstr(first, "(and 11 more like it)"), "%s", said);
    ck_assert_ptr_null(strstr(first + 1, "cannot be kept"));
    for (int i = 0; i < 12; i++)
        index_free(results[i].index);
}
END_TEST

START_TEST(a_shard_that_hangs_is_named_and_left_behind)
{
    struct indexer_result results[3] = {0};
    uint64_t begin = clock_ns();
    ck_assert_int_eq(run("bhb", 2, NULL, NULL, NULL, results), -ETIMEDOUT);
    ck_assert_uint_lt(clock_ns() - begin, 60 * CLOCK_SECOND);
    ck_assert_ptr_nonnull(strstr(err.text, "/b gives no data"));
    ck_assert_uint_eq(ended, 2);
    sem_post(&gate); /* it comes back: nothing of the caller's is touched */
    wait_until(&ended, 3);
}
END_TEST

struct reports {
    unsigned count, stop_at;
    uint64_t done, total;
    char text[200];
};

static bool report(void *context, const char *text, uint64_t done, uint64_t total)
{
    struct reports *reports = context;
    reports->count++;
    reports->done = done;
    reports->total = total;
    strncpy(reports->text, text, sizeof reports->text - 1);
    return reports->count < reports->stop_at;
}

START_TEST(progress_and_cancel)
{
    struct indexer_result results[3] = {0};
    struct reports reports = {.stop_at = 2};
    uint64_t begin = clock_ns();
    ck_assert_int_eq(run("bsb", 2, NULL, report, &reports, results), -ECANCELED);
    uint64_t took = clock_ns() - begin;
    ck_assert_uint_gt(took, CLOCK_SECOND * 3 / 2);
    ck_assert_uint_lt(took, CLOCK_SECOND * 40);
    ck_assert_uint_eq(reports.count, 2);
    ck_assert_uint_eq(reports.done, 2);
    ck_assert_uint_eq(reports.total, 3);
    ck_assert_ptr_nonnull(strstr(reports.text, "2 of 3"));
    wait_until(&ended, 3);
}
END_TEST

static void *run_hanging(void *context)
{
    struct indexer_result *result = context;
    const char *path = scratch_at(&scratch, "a");
    struct indexer_options options = {.format = &fake,
                                      .space = "fake",
                                      .paths = &path,
                                      .count = 1,
                                      .threads = 1,
                                      .cache_dir = scratch_at(&scratch, "cache"),
                                      .cache_bytes = 1 << 20,
                                      .patience = 60};
    ck_assert_int_eq(indexer_run(&options, result, NULL), 0);
    return NULL;
}

/* Somebody else is at the same set: he is waited for, and what he made is used. */
START_TEST(one_set_is_indexed_once)
{
    struct indexer_result first = {0}, second = {0};
    struct reports reports = {.stop_at = 1};
    const char *cache = scratch_at(&scratch, "cache");
    pthread_t thread;
    scratch_file(&scratch, "a", "hang", 4);
    pthread_create(&thread, NULL, run_hanging, &first);
    wait_until(&listed, 1);
    ck_assert_int_eq(run("=", 1, cache, report, &reports, &second), -ECANCELED);
    ck_assert_ptr_nonnull(strstr(reports.text, "another process"));
    sem_post(&gate);
    ck_assert_int_eq(run("=", 1, cache, NULL, NULL, &second), 0);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(listed, 1);
    ck_assert_str_eq(index_key(second.index, 0), "hang");
    ck_assert(first.index->mapped && second.index->mapped); /* takes no memory of ours */
    index_free(first.index);
    index_free(second.index);
}
END_TEST

START_TEST(a_shard_that_is_written_meanwhile)
{
    struct indexer_result result = {0};
    ck_assert_int_eq(run("g", 1, scratch_at(&scratch, "cache"), NULL, NULL, &result), -ESTALE);
    ck_assert_ptr_nonnull(strstr(err.text, "/a changed"));
    ck_assert_ptr_null(result.index);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("indexer");
    TCase *tests = tcase_create("indexer");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, results_in_order);
    tcase_add_test(tests, the_first_error_ends_all);
    tcase_add_test(tests, without_any_thread_it_is_refused);
    tcase_add_test(tests, fewer_threads_will_do);
    tcase_add_test(tests, a_full_disk_is_told_once);
    tcase_add_test(tests, a_shard_that_hangs_is_named_and_left_behind);
    tcase_add_test(tests, progress_and_cancel);
    tcase_add_test(tests, one_set_is_indexed_once);
    tcase_add_test(tests, a_shard_that_is_written_meanwhile);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
