/* feed/fetch.c: the same bytes and the same faults whether reads are done one after the other or,
 * where storage makes them wait, many at a time; with few descriptors too. */
#include "base/clock.h"
#include "feed/fetch.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "scratch.h"
#include "tar_maker.h"

#define SHARDS 40U
#define RECORDS 30U /* of a shard */
#define WANTED 400U

static struct scratch scratch;
static struct dataset *dataset;
static struct feed_spec spec = {.name = (char *)"fetch", .nfields = 2};
static struct tally tally;
static struct budget *budget;
static struct ration *ration;
static _Atomic bool interrupted;

static uint32_t random_number(void)
{
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return state >> 8;
}

static char *shard_path(uint32_t shard)
{
    return mem_format("%s/%02u.tar", scratch.path, shard);
}

/* Some parts are far larger than the gap that is read over. */
static uint32_t size_of(uint32_t number)
{
    return number % 11 == 0 ? 300000 : 500 + number % 7 * 1000;
}

static uint8_t byte_of(uint32_t number, uint32_t at)
{
    return (uint8_t)(number * 31 + at / 3);
}

static void write_shard(uint32_t shard)
{
    struct tarm *tar = tarm_new();
    cleanup_free uint8_t *bytes = mem_array(300000, 1);
    for (uint32_t r = 0; r < RECORDS; r++) {
        uint32_t number = shard * RECORDS + r;
        char name[32], text[32];
        for (uint32_t i = 0; i < size_of(number); i++)
            bytes[i] = byte_of(number, i);
        snprintf(name, sizeof name, "%05u.bin", number);
        tarm_file(tar, name, bytes, size_of(number));
        snprintf(name, sizeof name, "%05u.txt", number);
        snprintf(text, sizeof text, "%u", number);
        tarm_text(tar, name, text);
    }
    tarm_end(tar);
    cleanup_free char *path = shard_path(shard);
    ck_assert_int_eq(tarm_write(tar, path), 0);
    tarm_free(tar);
}

static void setup(void)
{
    struct error err;
    scratch_make(&scratch);
    for (uint32_t s = 0; s < SHARDS; s++)
        write_shard(s);
    cleanup_free char *pattern = mem_format("%s/*.tar", scratch.path);
    const char *patterns[] = {pattern};
    const char *bin[] = {"bin"}, *txt[] = {"txt"};
    struct dataset_field fields[] = {{"bytes", bin, 1}, {"text", txt, 1}};
    struct dataset_options options = {.name = "fetch",
                                      .source = {patterns, 1, false},
                                      .fields = fields,
                                      .nfields = 2,
                                      .threads = 1};
    ck_assert_int_eq(dataset_open(&options, &dataset, &err), 0);
    budget = budget_new(1 << 30, 0);
    ck_assert_int_eq(ration_new(budget, 1 << 20, 1 << 30, &ration, &err), 0);
}

static void teardown(void)
{
    ration_free(ration);
    budget_free(budget);
    dataset_unref(dataset);
    scratch_remove(&scratch);
}

static struct recipe recipe_of(bool slow)
{
    return (struct recipe){.spec = &spec,
                           .dataset = dataset,
                           .delay = {.read_ms = slow},
                           .record_limit = 1 << 20,
                           .tally = &tally};
}

static void check_sample(const struct sample *sample, struct plan_place place)
{
    uint32_t number = place.shard * RECORDS + (uint32_t)place.record;
    char text[32];
    ck_assert_int_eq(sample->bad, 0);
    ck_assert_uint_eq(sample->parts[0].size, size_of(number));
    for (uint32_t i = 0; i < size_of(number); i++)
        if (sample->parts[0].bytes[i] != byte_of(number, i))
            ck_abort_msg("record %u, byte %u", number, i);
    snprintf(text, sizeof text, "%u", number);
    ck_assert_uint_eq(sample->parts[1].size, strlen(text));
    ck_assert(memcmp(sample->parts[1].bytes, text, strlen(text)) == 0);
}

/* Records here and there, each shard's mixed with others'. */
static struct sample **fetch_some(struct fetch *fetch)
{
    struct sample **samples = mem_array(WANTED, sizeof *samples);
    for (uint32_t i = 0; i < WANTED; i++) {
        struct plan_place place = {random_number() % SHARDS, random_number() % RECORDS};
        samples[i] = fetch_add(fetch, place, RATION_NOW);
        ck_assert_ptr_nonnull(samples[i]);
    }
    fetch_run(fetch);
    return samples;
}

static void free_samples(struct sample **samples)
{
    for (uint32_t i = 0; i < WANTED; i++)
        sample_free(samples[i]);
    free(samples);
}

static void run_rounds(bool slow)
{
    struct recipe recipe = recipe_of(slow);
    struct fetch *fetch = fetch_new(&recipe, ration, &interrupted);
    for (int round = 0; round < 4; round++) {
        struct sample **samples = fetch_some(fetch);
        for (uint32_t i = 0; i < WANTED; i++)
            check_sample(samples[i], samples[i]->place);
        free_samples(samples);
        if (slow)
            ck_assert(fetch_waits(fetch));
    }
    fetch_free(fetch);
    ck_assert_uint_eq(ration_used(ration), 0);
}

START_TEST(the_bytes_of_each_record)
{
    run_rounds(_i);
}
END_TEST

/* Fewer descriptors than shards that are kept open. */
START_TEST(few_descriptors)
{
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct rlimit few = {(rlim_t)next + 5, (rlim_t)next + 5};
    close(next);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    run_rounds(_i);
}
END_TEST

/* None at all is free: it says so, and goes on when there is one. Of a folder each file takes one.
 */
static void *raise_limit(void *context)
{
    while (atomic_load(&tally.reader.at) != FEED_WAITS_DESCRIPTOR)
        usleep(1000);
    setrlimit(RLIMIT_NOFILE, context);
    return NULL;
}

static void take_descriptors(struct rlimit *before)
{
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    getrlimit(RLIMIT_NOFILE, before);
    struct rlimit none = {(rlim_t)next, before->rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
}

START_TEST(no_descriptor_for_a_while)
{
    struct rlimit before;
    pthread_t thread;
    take_descriptors(&before);
    pthread_create(&thread, NULL, raise_limit, &before);
    run_rounds(_i);
    pthread_join(thread, NULL);
}
END_TEST

static void open_folder(void)
{
    struct error err;
    for (uint32_t i = 0; i < RECORDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "pictures/a/%02u.jpg", i);
        scratch_file(&scratch, name, name, strlen(name));
    }
    const char *folder = scratch_at(&scratch, "pictures"), *jpg[] = {"jpg"}, *cls[] = {"cls"};
    struct dataset_field fields[] = {{"image", jpg, 1}, {"label", cls, 1}};
    struct dataset_options options = {.name = "fetch",
                                      .source = {&folder, 1, true},
                                      .fields = fields,
                                      .nfields = 2,
                                      .threads = 1};
    dataset_unref(dataset);
    ck_assert_int_eq(dataset_open(&options, &dataset, &err), 0);
}

START_TEST(no_descriptor_for_a_file)
{
    open_folder();
    struct recipe recipe = recipe_of(_i);
    struct fetch *fetch = fetch_new(&recipe, ration, &interrupted);
    struct rlimit before;
    pthread_t thread;
    for (uint32_t round = 0; round < 2; round++) {
        struct sample *samples[RECORDS];
        for (uint32_t i = 0; i < RECORDS; i++)
            samples[i] = fetch_add(fetch, (struct plan_place){0, i}, RATION_NOW);
        if (round == 1) {
            take_descriptors(&before); /* the folder itself is open */
            pthread_create(&thread, NULL, raise_limit, &before);
        }
        fetch_run(fetch);
        for (uint32_t i = 0; i < RECORDS; i++) {
            ck_assert_int_eq(samples[i]->bad, 0);
            ck_assert_uint_eq(samples[i]->parts[0].size, strlen("pictures/a/00.jpg"));
            ck_assert_int_eq(samples[i]->parts[0].bytes[11], '0' + (int)(i / 10));
            ck_assert_int_eq(samples[i]->parts[0].bytes[12], '0' + (int)(i % 10));
            sample_free(samples[i]);
        }
    }
    pthread_join(thread, NULL);
    fetch_free(fetch);
}
END_TEST

static void damage(void)
{
    cleanup_free char *gone = shard_path(3);
    cleanup_free char *grown = shard_path(5);
    ck_assert_int_eq(unlink(gone), 0);
    cleanup_close int fd = open(grown, O_WRONLY | O_APPEND | O_CLOEXEC);
    ck_assert_int_eq(write(fd, "x", 1), 1);
}

/* A shard that is cut while it is open ends where it ends. */
static void cut(uint32_t shard)
{
    cleanup_free char *path = shard_path(shard);
    ck_assert_int_eq(truncate(path, 1000), 0);
}

START_TEST(faults_are_those_of_the_record)
{
    struct recipe recipe = recipe_of(_i);
    struct fetch *fetch = fetch_new(&recipe, ration, &interrupted);
    free_samples(fetch_some(fetch));
    fetch_free(fetch);
    damage();
    fetch = fetch_new(&recipe, ration, &interrupted);
    free_samples(fetch_some(fetch)); /* opens the shards */
    cut(7);
    struct sample **samples = fetch_some(fetch);
    uint32_t counts[3] = {0};
    for (uint32_t i = 0; i < WANTED; i++) {
        struct plan_place place = samples[i]->place;
        enum bad_class bad = place.shard == 3   ? BAD_SHARD_MISSING
                             : place.shard == 5 ? BAD_SHARD_CHANGED
                                                : BAD_SHARD_TRUNC;
        if (place.shard == 3 || place.shard == 5 || (place.shard == 7 && place.record > 0)) {
            ck_assert_int_eq(samples[i]->bad, bad);
            ck_assert_ptr_nonnull(samples[i]->reason);
            counts[bad == BAD_SHARD_MISSING ? 0 : bad == BAD_SHARD_CHANGED ? 1 : 2]++;
        } else if (place.shard != 7) {
            check_sample(samples[i], place);
        }
    }
    ck_assert(counts[0] && counts[1] && counts[2]);
    free_samples(samples);
    fetch_free(fetch);
}
END_TEST

static void *interrupt(void *context)
{
    (void)context;
    usleep(100000);
    atomic_store(&interrupted, true);
    return NULL;
}

/* What was begun is ended, the rest is not begun. */
START_TEST(an_interrupt_ends_a_run)
{
    struct recipe recipe = recipe_of(true);
    struct fetch *fetch = fetch_new(&recipe, ration, &interrupted);
    free_samples(fetch_some(fetch));
    recipe.delay.read_ms = 2000;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, interrupt, NULL), 0);
    uint64_t begin = clock_ns();
    free_samples(fetch_some(fetch)); /* would take more than 40 s */
    ck_assert_uint_lt(clock_ns() - begin, 30 * CLOCK_SECOND);
    pthread_join(thread, NULL);
    fetch_free(fetch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fetch");
    TCase *tests = tcase_create("fetch");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, the_bytes_of_each_record, 0, 2);
    tcase_add_loop_test(tests, few_descriptors, 0, 2);
    tcase_add_loop_test(tests, no_descriptor_for_a_while, 0, 2);
    tcase_add_loop_test(tests, no_descriptor_for_a_file, 0, 2);
    tcase_add_loop_test(tests, faults_are_those_of_the_record, 0, 2);
    tcase_add_test(tests, an_interrupt_ends_a_run);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
