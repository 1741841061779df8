/* feed/storage.c: who waits for a turn, and who does not; what each gets of a storage that gives so
 * much and no more. */
#include "feed/storage.h"

#include <check.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"

#define MIB (1U << 20)
#define READERS 8

static _Atomic bool over, never;

struct reader { /* of a stream: reads one after the other, so many at a time */
    struct storage_member member;
    struct storage_waits waits;
    pthread_t threads[READERS];
    _Atomic uint64_t bytes;
};

static void join(struct reader *reader, dev_t device, uid_t uid, uint64_t job)
{
    const struct share_terms terms = {.uid = uid, .job = job};
    storage_join(device, &terms, &reader->waits, &reader->member);
}

static void leave(struct reader *reader)
{
    storage_leave(&reader->member);
}

START_TEST(one_user_never_waits)
{
    static struct storage_turn turns[200];
    struct reader a = {0}, b = {0};
    join(&a, 1, 1, 1);
    join(&b, 1, 1, 2);
    for (int i = 0; i < 200; i++)
        ck_assert(storage_begin(&turns[i], i % 2 ? &a.member : &b.member, MIB, &never));
    ck_assert(!storage_has_others(&a.member));
    for (int i = 0; i < 200; i++)
        storage_end(&turns[i]);
    ck_assert_uint_eq(storage_waited(&a.waits, clock_ns()), 0);
    leave(&a);
    leave(&b);
}
END_TEST

START_TEST(other_storages_do_not_matter)
{
    static struct storage_turn turns[200];
    struct reader a = {0}, b = {0};
    join(&a, 1, 1, 1);
    join(&b, 2, 2, 2);
    for (int i = 0; i < 200; i++)
        ck_assert(storage_begin(&turns[i], i % 2 ? &a.member : &b.member, MIB, &never));
    ck_assert(!storage_has_others(&a.member));
    for (int i = 0; i < 200; i++)
        storage_end(&turns[i]);
    leave(&a);
    leave(&b);
}
END_TEST

struct asker {
    struct storage_turn turn;
    struct reader *reader;
    const _Atomic bool *interrupted;
    pthread_t thread;
    _Atomic bool has;
};

static void *ask(void *context)
{
    struct asker *asker = context;
    asker->has = storage_begin(&asker->turn, &asker->reader->member, MIB, asker->interrupted);
    return NULL;
}

static void start_asking(struct asker *asker, struct reader *reader,
                         const _Atomic bool *interrupted)
{
    *asker = (struct asker){.reader = reader, .interrupted = interrupted};
    pthread_create(&asker->thread, NULL, ask, asker);
}

/* Both have many under way: who comes next waits, is seen to wait, and begins when one ends. */
START_TEST(a_turn_is_waited_for)
{
    static struct storage_turn turns[40];
    struct reader a = {0}, b = {0};
    struct asker asker, late;
    join(&a, 1, 1, 1);
    join(&b, 1, 2, 2);
    for (int i = 0; i < 36; i++)
        storage_begin(&turns[i], &a.member, MIB, &never);
    for (int i = 36; i < 40; i++)
        storage_begin(&turns[i], &b.member, MIB, &never); /* kept for him */
    ck_assert(storage_has_others(&a.member));
    start_asking(&asker, &b, &never);
    start_asking(&late, &a, &never);
    usleep(100000);
    ck_assert(!asker.has && !late.has);
    ck_assert_uint_eq(b.waits.waiting, 1);
    ck_assert_uint_eq(b.waits.others, 1);
    ck_assert_uint_ge(storage_waited(&b.waits, clock_ns()), 50 * CLOCK_MS);
    for (int i = 39; i >= 25; i--) /* 25 are left, more than may be */
        storage_end(&turns[i]);
    pthread_join(asker.thread, NULL); /* he has less than his part now */
    ck_assert(asker.has && !late.has);
    for (int i = 24; i >= 0; i--)
        storage_end(&turns[i]);
    pthread_join(late.thread, NULL);
    ck_assert(late.has);
    storage_end(&asker.turn);
    storage_end(&late.turn);
    ck_assert_uint_eq(a.waits.waiting + b.waits.waiting, 0);
    leave(&a);
    leave(&b);
}
END_TEST

START_TEST(interrupted)
{
    static struct storage_turn turns[20];
    _Atomic bool stops = false;
    struct reader a = {0}, b = {0};
    struct asker asker;
    join(&a, 1, 1, 1);
    join(&b, 1, 2, 2);
    storage_begin(&turns[0], &b.member, MIB, &never);
    for (int i = 1; i < 16; i++)
        storage_begin(&turns[i], &a.member, MIB, &never);
    start_asking(&asker, &a, &stops);
    usleep(20000);
    stops = true;
    pthread_join(asker.thread, NULL);
    ck_assert(!asker.has);
    for (int i = 0; i < 16; i++)
        storage_end(&turns[i]);
    leave(&a);
    leave(&b);
}
END_TEST

/* One user's reads hang: the other waits for a while, and then for nothing. */
START_TEST(reads_that_hang)
{
    static struct storage_turn turns[40];
    struct reader a = {0}, b = {0};
    struct asker askers[40];
    join(&a, 1, 1, 1);
    join(&b, 1, 2, 2);
    for (int i = 0; i < 40; i++)
        storage_begin(&turns[i], &a.member, MIB, &never);
    for (int i = 0; i < 40; i++)
        start_asking(&askers[i], &b, &never);
    usleep(100000);
    ck_assert(askers[0].has || askers[39].has || b.waits.waiting < 40); /* his part */
    for (int i = 0; i < 40; i++)
        pthread_join(askers[i].thread, NULL);
    ck_assert_uint_lt(storage_waited(&b.waits, clock_ns()), 3 * CLOCK_SECOND);
    for (int i = 0; i < 40; i++)
        storage_end(&askers[i].turn);
    for (int i = 0; i < 40; i++)
        storage_end(&turns[i]);
    leave(&a);
    leave(&b);
}
END_TEST

/* ------- a storage with one rate for all ------- */

static _Atomic uint64_t busy_until;

static void read_slowly(void)
{
    uint64_t busy = busy_until, now = clock_ns(), end;
    do {
        end = (busy > now ? busy : now) + 2 * CLOCK_MS;
    } while (!atomic_compare_exchange_weak(&busy_until, &busy, end));
    usleep((useconds_t)((end - now) / 1000));
}

static void *read_on(void *context)
{
    struct reader *reader = context;
    struct storage_turn turn;
    while (!over && storage_begin(&turn, &reader->member, MIB, &over)) {
        read_slowly();
        reader->bytes += MIB;
        storage_end(&turn);
    }
    return NULL;
}

/* Of three streams of one user and one of another each user has about half, not a quarter. */
START_TEST(half_for_each)
{
    struct reader readers[4] = {0};
    for (uint64_t i = 0; i < 4; i++) {
        join(&readers[i], 1, i < 3 ? 1 : 2, i);
        for (int t = 0; t < READERS; t++)
            pthread_create(&readers[i].threads[t], NULL, read_on, &readers[i]);
    }
    usleep(1500000);
    over = true;
    for (int i = 0; i < 4; i++) {
        for (int t = 0; t < READERS; t++)
            pthread_join(readers[i].threads[t], NULL);
        leave(&readers[i]);
    }
    uint64_t three = readers[0].bytes + readers[1].bytes + readers[2].bytes, one = readers[3].bytes;
    ck_assert_uint_gt(one * 10, (three + one) * 38 / 10);
    ck_assert_uint_lt(one * 10, (three + one) * 62 / 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("storage");
    TCase *tests = tcase_create("storage");
    tcase_add_test(tests, one_user_never_waits);
    tcase_add_test(tests, other_storages_do_not_matter);
    tcase_add_test(tests, a_turn_is_waited_for);
    tcase_add_test(tests, interrupted);
    tcase_add_test(tests, reads_that_hang);
    tcase_add_test(tests, half_for_each);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
