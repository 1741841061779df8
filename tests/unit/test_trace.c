/* The recorder: events of many threads, its bounds, and that it is off when it is off. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/trace.h"

#define THREADS 4
#define EACH 5000

static void *add_events(void *context)
{
    const char *feed = context;
    for (uint64_t i = 0; i < EACH; i++) {
        uint64_t now = clock_ns();
        char detail[32];
        snprintf(detail, sizeof detail, "shard-%ju", (uintmax_t)(i % 100));
        trace_span("work", feed, now - 10, now, detail, i);
    }
    return NULL;
}

static void run_threads(void *(*run)(void *), void *context)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, context);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

START_TEST(events_of_many_threads)
{
    static const char feed[] = "feed";
    uint32_t lanes[THREADS] = {0}, counts[THREADS] = {0}, nlanes = 0;
    struct trace *trace = trace_begin();
    ck_assert_ptr_nonnull(trace);
    usleep(100);
    run_threads(add_events, (void *)feed);
    trace_end(trace);
    ck_assert_uint_eq(trace_count(trace), THREADS * EACH);
    ck_assert_uint_eq(trace_dropped(trace), 0);
    uint64_t wrong = 0; /* counted, since a check takes longer than an event */
    for (uint64_t i = 0; i < trace_count(trace); i++) {
        const struct trace_event *event = trace_at(trace, i);
        char want[32];
        snprintf(want, sizeof want, "shard-%ju", (uintmax_t)(event->step % 100));
        wrong += strcmp(trace_text(trace, event->detail), want) != 0 ||
                 strcmp(event->name, "work") != 0 || event->feed != feed || event->ns == 0 ||
                 event->begin + event->ns > trace_ns(trace);
        uint32_t lane = 0;
        while (lane < nlanes && lanes[lane] != event->lane)
            lane++;
        if (lane == THREADS)
            ck_abort_msg("more lanes than threads");
        lanes[lane] = event->lane;
        nlanes += lane == nlanes;
        counts[lane]++;
    }
    ck_assert_uint_eq(wrong, 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_uint_eq(counts[i], EACH);
    trace_free(trace);
}
END_TEST

START_TEST(off_is_off)
{
    ck_assert(!trace_on());
    ck_assert_uint_eq(trace_now(), 0);
    trace_span("nobody hears", NULL, 0, clock_ns(), "", 0);
    struct trace *trace = trace_begin();
    ck_assert(trace_on());
    ck_assert_ptr_null(trace_begin()); /* one at a time */
    trace_end(trace);
    trace_span("nobody hears", NULL, 0, clock_ns(), "", 0);
    ck_assert_uint_eq(trace_count(trace), 0);
    trace_free(trace);
    trace_free(NULL);
}
END_TEST

START_TEST(cut_to_the_recording)
{
    uint64_t before = clock_ns();
    struct trace *trace = trace_begin();
    usleep(1000);
    uint64_t now = clock_ns();
    trace_span("began before", NULL, 0, now, NULL, 0);
    trace_span("ended before", NULL, before - 100, before, NULL, 0);
    trace_lane(TRACE_SLOTS, "slot 1", "held", "feed", now, now + 5, 7);
    trace_long("short", clock_ns() + CLOCK_SECOND);
    trace_long("long", now - 3 * TRACE_LONG_NS);
    trace_end(trace);
    ck_assert_uint_eq(trace_count(trace), 3);
    ck_assert_uint_eq(trace_at(trace, 0)->begin, 0);
    ck_assert_uint_ge(trace_at(trace, 0)->ns, 1000000);
    ck_assert_str_eq(trace_text(trace, trace_at(trace, 0)->detail), "");
    const struct trace_event *held = trace_at(trace, 1);
    ck_assert_str_eq(trace_text(trace, held->lane), "slot 1");
    ck_assert_uint_eq(held->ns, 5);
    ck_assert_uint_eq(held->step, 7);
    ck_assert_int_eq(held->group, TRACE_SLOTS);
    ck_assert_str_eq(trace_at(trace, 2)->name, "long");
    trace_free(trace);
}
END_TEST

START_TEST(what_finds_no_room_is_counted)
{
    uint64_t most = TRACE_BYTES / sizeof(struct trace_event), now = clock_ns() + CLOCK_SECOND;
    struct trace *trace = trace_begin();
    for (uint64_t i = 0; i < most + 100; i++)
        trace_lane(TRACE_TRAINERS, "one", "compute", NULL, 0, now, i);
    trace_end(trace);
    ck_assert_uint_gt(trace_count(trace), most / 2);
    ck_assert_uint_ge(trace_dropped(trace), 100);
    ck_assert_uint_eq(trace_count(trace) + trace_dropped(trace), most + 100);
    ck_assert_uint_eq(trace_at(trace, trace_count(trace) - 1)->step, trace_count(trace) - 1);
    trace_free(trace);
}
END_TEST

START_TEST(texts_have_bounds)
{
    struct trace *trace = trace_begin();
    char text[1000];
    uint64_t now = clock_ns() + CLOCK_SECOND;
    for (int i = 0; i < 20000; i++) {
        memset(text, 'a', sizeof text);
        snprintf(text + 900, 100, "/%d.tar", i);
        trace_span("read", NULL, 0, now, text, (uint64_t)i);
    }
    trace_end(trace);
    ck_assert_uint_eq(trace_count(trace), 20000);
    const char *first = trace_text(trace, trace_at(trace, 0)->detail);
    ck_assert_uint_le(strlen(first), 320);
    ck_assert_str_eq(first + strlen(first) - 6, "/0.tar"); /* the end tells most */
    ck_assert_str_eq(trace_text(trace, trace_at(trace, 19999)->detail), "");
    trace_free(trace);
}
END_TEST

static _Atomic bool ends;

static void *add_until(void *context)
{
    (void)context;
    while (!ends) {
        uint64_t begin = trace_now();
        trace_span("work", "feed", begin, clock_ns(), "shard", 0);
    }
    return NULL;
}

/* Recordings come and go while threads add. */
START_TEST(ends_under_way)
{
    pthread_t threads[THREADS];
    uint64_t total = 0;
    ends = false;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, add_until, NULL);
    for (int i = 0; i < 20; i++) {
        struct trace *trace = trace_begin();
        usleep(500);
        trace_end(trace);
        uint64_t count = trace_count(trace);
        uint64_t wrong = 0;
        for (uint64_t j = 0; j < count; j++)
            wrong += strcmp(trace_at(trace, j)->name, "work") != 0;
        ck_assert_uint_eq(wrong, 0);
        total += count;
        trace_free(trace);
    }
    ends = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_gt(total, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace");
    TCase *tests = tcase_create("all");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, events_of_many_threads);
    tcase_add_test(tests, off_is_off);
    tcase_add_test(tests, cut_to_the_recording);
    tcase_add_test(tests, what_finds_no_room_is_counted);
    tcase_add_test(tests, texts_have_bounds);
    tcase_add_test(tests, ends_under_way);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
