/* control/ledger.c: what one daemon has written the next one reads, and nothing else passes. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/ledger.h"

static struct ledger *ledger;
static uint8_t *bytes; /* all of it, as the next daemon would find it */
static size_t size;
static int kept;
static struct error err;

/* The service manager's copy. */
static void setup(void)
{
    struct stat st;
    ledger = ledger_new(&err);
    ck_assert_msg(ledger != NULL, "%s", err.text);
    kept = dup(ledger_fd(ledger));
    ck_assert_int_eq(fstat(kept, &st), 0);
    size = (size_t)st.st_size;
    bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, kept, 0);
    ck_assert_ptr_ne(bytes, MAP_FAILED);
}

static void teardown(void)
{
    ledger_free(ledger);
    munmap(bytes, size);
    close(kept);
}

/* The daemon has ended, and another one starts. */
static void start_again(void)
{
    ledger_free(ledger);
    ledger = ledger_adopt(dup(kept), &err);
    ck_assert_msg(ledger != NULL, "%s", err.text);
}

static struct ledger_job a_job(const char *name)
{
    struct ledger_job job = {.seed = UINT64_MAX,
                             .start_epoch = 3,
                             .start_position = 64,
                             .uid = 1000,
                             .world = 4,
                             .batch = 32,
                             .follows = true,
                             .plan_id = "0123456789abcdef",
                             .feed = "feed"};
    strcpy(job.name, name);
    return job;
}

static struct ledger_rank a_rank(uint32_t job, uint32_t rank)
{
    return (struct ledger_rank){
        .job = job, .rank = rank, .rowless = rank == 1, .epoch = 3, .step = 100 + rank};
}

static uint32_t add(struct ledger_job job)
{
    return ledger_add_job(ledger, &job);
}

static uint32_t add_rank(struct ledger_rank rank)
{
    return ledger_add_rank(ledger, &rank);
}

static uint32_t count_jobs(void)
{
    struct ledger_job job;
    uint64_t since;
    uint32_t count = 0;
    for (uint32_t i = 1; i <= LEDGER_JOBS; i++)
        count += ledger_get_job(ledger, i, &job, &since);
    return count;
}

static uint32_t count_ranks(void)
{
    struct ledger_rank rank;
    uint32_t count = 0;
    for (uint32_t i = 1; i <= LEDGER_RANKS; i++)
        count += ledger_get_rank(ledger, i, &rank);
    return count;
}

START_TEST(what_was_written_is_read)
{
    struct ledger_job first = a_job("first"), got;
    struct ledger_rank rank;
    uint64_t since;
    uint32_t job = add(first), other = add(a_job("other"));
    uint32_t ranks[2] = {add_rank(a_rank(job, 0)), add_rank(a_rank(job, 1))};
    ledger_set_empty(ledger, job, 4711);
    ledger_set_vacant(ledger, ranks[0], 17, true);
    ledger_set_place(ledger, ranks[1], DLP_EPOCH_MAX + 1, 1ULL << 38);
    start_again();
    ck_assert(ledger_get_job(ledger, job, &got, &since));
    ck_assert_mem_eq(&got, &first, sizeof got);
    ck_assert_uint_eq(since, 4711);
    ck_assert(ledger_get_job(ledger, other, &got, &since));
    ck_assert_uint_eq(since, 0);
    ck_assert(ledger_get_rank(ledger, ranks[0], &rank));
    ck_assert(rank.job == job && rank.rank == 0 && !rank.rowless && rank.left);
    ck_assert(rank.vacant == 17 && rank.epoch == 3 && rank.step == 100);
    ck_assert(ledger_get_rank(ledger, ranks[1], &rank));
    ck_assert(rank.job == job && rank.rank == 1 && rank.rowless && !rank.left && !rank.vacant);
    ck_assert(rank.epoch == DLP_EPOCH_MAX + 1 && rank.step == 1ULL << 38);
    ck_assert(fcntl(ledger_fd(ledger), F_GETFD) & FD_CLOEXEC);
}
END_TEST

START_TEST(a_job_goes_with_its_ranks)
{
    uint32_t job = add(a_job("first")), other = add(a_job("other"));
    add_rank(a_rank(job, 0));
    add_rank(a_rank(other, 0));
    ledger_remove_job(ledger, job);
    ledger_remove_job(ledger, 0);
    ledger_remove_job(NULL, 1);
    start_again();
    ck_assert_uint_eq(count_jobs(), 1);
    ck_assert_uint_eq(count_ranks(), 1);
    ck_assert_uint_eq(add_rank(a_rank(0, 0)), 0);
    ledger_set_place(ledger, 0, 1, 1);
    ledger_set_vacant(NULL, 1, 1, true);
}
END_TEST

/* Between the two stores that put one job in the place of another. */
START_TEST(of_one_job_twice_the_later_counts)
{
    struct ledger_job moved = a_job("first"), got;
    uint64_t since;
    uint32_t job = add(a_job("first"));
    add_rank(a_rank(job, 0));
    moved.start_position = 4096;
    uint32_t later = add(moved);
    struct ledger_job others[3] = {moved, moved, moved};
    others[0].shared = true;
    others[1].uid++;
    strcpy(others[2].feed, "another");
    for (int i = 0; i < 3; i++)
        add(others[i]);
    start_again();
    ck_assert(!ledger_get_job(ledger, job, &got, &since));
    ck_assert(ledger_get_job(ledger, later, &got, &since));
    ck_assert_uint_eq(got.start_position, 4096);
    ck_assert_uint_eq(count_jobs(), 4);
    ck_assert_uint_eq(count_ranks(), 0);
    add(a_job("first")); /* later than what was there before the start */
    start_again();
    ck_assert(!ledger_get_job(ledger, later, &got, &since));
}
END_TEST

START_TEST(its_room_is_bounded)
{
    uint32_t job = 0;
    for (uint32_t i = 0; i < LEDGER_JOBS; i++) {
        char name[16];
        snprintf(name, sizeof name, "job-%u", i);
        ck_assert_uint_ne(job = add(a_job(name)), 0);
    }
    ck_assert_uint_eq(add(a_job("more")), 0);
    for (uint32_t i = 0; i < LEDGER_RANKS; i++)
        ck_assert_uint_ne(add_rank(a_rank(job - i % 4, i / 4)), 0);
    ck_assert_uint_eq(add_rank(a_rank(job, 0)), 0);
    ledger_remove_job(ledger, job);
    ck_assert_uint_eq(add(a_job("more")), job);
    ck_assert_uint_ne(add_rank(a_rank(job, 0)), 0);
    start_again();
    ck_assert_uint_eq(count_jobs(), LEDGER_JOBS);
    ck_assert_uint_eq(count_ranks(), 3 * 4 + 1); /* their world is 4 */
}
END_TEST

static void expect_none(int fd, const char *text)
{
    ck_assert_ptr_null(ledger_adopt(fd, &err));
    ck_assert_int_eq(err.code, -EPROTO);
    ck_assert_msg(strstr(err.text, text) != NULL, "%s", err.text);
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1); /* closed */
}

START_TEST(what_is_none_is_refused)
{
    int ends[2];
    expect_none(open("/dev/null", O_RDWR), "sealed");
    ck_assert_int_eq(pipe(ends), 0);
    expect_none(ends[0], "sealed");
    close(ends[1]);
    int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    expect_none(dup(fd), "sealed"); /* could shrink under us */
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    expect_none(fd, "of version 0"); /* and has zeros */
    fd = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(ftruncate(fd, (off_t)size - 4096), 0);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    expect_none(fd, "bytes long");
    bytes[8]++; /* the version */
    expect_none(dup(kept), "version 2");
}
END_TEST

START_TEST(jobs_that_cannot_be_are_dropped)
{
    struct ledger_job jobs[12];
    for (int i = 0; i < 12; i++) {
        char name[16];
        snprintf(name, sizeof name, "job-%d", i);
        jobs[i] = a_job(name);
    }
    jobs[0].world = 0;
    jobs[1].world = DLP_WORLD_MAX + 1;
    jobs[2].batch = 0;
    jobs[3].batch = DLP_BATCH_MAX + 1;
    jobs[4].start_epoch = DLP_EPOCH_MAX + 1;
    jobs[5].name[0] = '\0';
    memset(jobs[6].name, 'x', sizeof jobs[6].name); /* without an end */
    strcpy(jobs[7].feed, "with space");
    strcpy(jobs[8].plan_id, "0123456789abcde");
    strcpy(jobs[9].plan_id, "0123456789abcdeX");
    memset(&jobs[10].shared, 7, 1);
    for (int i = 0; i < 12; i++) /* the last one is as it should be */
        ck_assert_uint_ne(add(jobs[i]), 0);
    start_again();
    ck_assert_uint_eq(count_jobs(), 1);
}
END_TEST

START_TEST(ranks_that_cannot_be_are_dropped)
{
    struct ledger_job large = a_job("large");
    large.world = DLP_WORLD_MAX;
    large.batch = DLP_BATCH_MAX;
    large.start_position = UINT64_MAX - (1ULL << 33);
    uint32_t job = add(a_job("first")), big = add(large), none = add(a_job("none"));
    struct ledger_rank ranks[7];
    for (uint32_t i = 0; i < 7; i++)
        ranks[i] = a_rank(job, i % 4);
    ranks[2].rank = 4;
    ranks[3].job = none;
    /* ranks[4] is rank 0 again */
    ranks[5] = (struct ledger_rank){.job = big, .step = 1ULL << 33};
    ranks[6] = (struct ledger_rank){.job = big, .rank = 1, .step = 3};
    for (uint32_t i = 0; i < 7; i++)
        ck_assert_uint_ne(add_rank(ranks[i]), 0);
    ledger_set_place(ledger, add_rank(a_rank(job, 2)), DLP_EPOCH_MAX + 2, 0);
    ledger_remove_job(ledger, none);
    add_rank(a_rank(none, 3)); /* of a number that is no job's */
    start_again();
    ck_assert_uint_eq(count_ranks(), 2);
}
END_TEST

/* Offsets of bytes that are in use. */
static size_t used_bytes(size_t *offsets, size_t most)
{
    size_t count = 0;
    for (size_t i = 16; i < size && count < most; i++)
        if (bytes[i])
            offsets[count++] = i;
    return count;
}

static void check_all(void)
{
    struct ledger_job job;
    struct ledger_rank rank;
    uint64_t since;
    for (uint32_t i = 1; i <= LEDGER_JOBS; i++)
        if (ledger_get_job(ledger, i, &job, &since))
            ck_assert(job.world && job.world <= DLP_WORLD_MAX && strlen(job.name) && job.batch);
    for (uint32_t i = 1; i <= LEDGER_RANKS; i++)
        if (ledger_get_rank(ledger, i, &rank)) {
            ck_assert(rank.job >= 1 && rank.job <= LEDGER_JOBS);
            ck_assert(ledger_get_job(ledger, rank.job, &job, &since));
            ck_assert(rank.rank < job.world && rank.epoch <= DLP_EPOCH_MAX + 1);
        }
}

START_TEST(damage_drops_entries_only)
{
    static size_t offsets[4096];
    uint8_t *whole = malloc(size);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t job = add(a_job((const char *[]){"a", "b", "c"}[i]));
        for (uint32_t rank = 0; rank < 4; rank++)
            add_rank(a_rank(job, rank));
    }
    memcpy(whole, bytes, size);
    size_t used = used_bytes(offsets, 4096);
    ck_assert_uint_gt(used, 200);
    srand(1);
    for (int turn = 0; turn < 600; turn++) {
        memcpy(bytes, whole, size);
        for (int i = rand() % 4; i >= 0; i--)
            bytes[offsets[(size_t)rand() % used]] ^= (uint8_t)(1 << rand() % 8);
        if (turn % 10 == 0)
            for (size_t i = 16; i < size; i++)
                bytes[i] = (uint8_t)rand();
        start_again();
        check_all();
        ck_assert_uint_ne(turn % 10 ? 1 : add(a_job("more")), 0);
    }
    free(whole);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ledger");
    TCase *test = tcase_create("ledger");
    tcase_add_checked_fixture(test, setup, teardown);
    tcase_add_test(test, what_was_written_is_read);
    tcase_add_test(test, a_job_goes_with_its_ranks);
    tcase_add_test(test, of_one_job_twice_the_later_counts);
    tcase_add_test(test, its_room_is_bounded);
    tcase_add_test(test, what_is_none_is_refused);
    tcase_add_test(test, jobs_that_cannot_be_are_dropped);
    tcase_add_test(test, ranks_that_cannot_be_are_dropped);
    tcase_add_test(test, damage_drops_entries_only);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
