#include "device/slots.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"

static struct slots *slots;

static uint32_t in_state(enum slot_state state)
{
    return slots_count(slots).by_state[state];
}

/* Brings slot 0 of a new table of two into a state; returns its generation. */
static uint64_t bring(enum slot_state state)
{
    uint32_t slot;
    slots = slots_new(2);
    if (state == SLOT_RESERVING)
        return 0;
    slots_reserved(slots, 0);
    if (state == SLOT_FREE)
        return 0;
    ck_assert_int_eq(slots_take(slots, &slot), 0);
    ck_assert_uint_eq(slot, 0);
    uint64_t generation = slots_generation(slots, 0);
    if (state >= SLOT_READY)
        slots_ready(slots, 0);
    if (state == SLOT_HELD)
        ck_assert_int_eq(slots_hold(slots, 0, generation), 0);
    ck_assert_uint_eq(in_state(state), 1);
    return generation;
}

/* What a client may do in which state. */
static const struct {
    enum slot_state state;
    int hold, release;
} rules[] = {
    {SLOT_RESERVING, -EINVAL, -EINVAL},
    {SLOT_FREE, -EINVAL, -EINVAL},
    {SLOT_FILLING, -EINVAL, -EINVAL},
    {SLOT_READY, 0, 0},
    {SLOT_HELD, -EINVAL, 0},
};

START_TEST(state_table)
{
    enum slot_state state = rules[_i].state;
    uint64_t generation = bring(state);
    ck_assert_int_eq(slots_hold(slots, 0, generation), rules[_i].hold);
    ck_assert_uint_eq(in_state(rules[_i].hold ? state : SLOT_HELD),
                      state == SLOT_RESERVING ? 2 : 1);
    slots_free(slots);
    generation = bring(state);
    ck_assert_int_eq(slots_release(slots, 0, generation), rules[_i].release);
    ck_assert_uint_eq(in_state(rules[_i].release ? state : SLOT_FREE),
                      state == SLOT_RESERVING ? 2 : 1);
    slots_free(slots);
}
END_TEST

START_TEST(drop_frees)
{
    bring(SLOT_FILLING);
    slots_drop(slots, 0);
    ck_assert_uint_eq(in_state(SLOT_FREE), 1);
    slots_free(slots);
    bring(SLOT_READY);
    slots_drop(slots, 0);
    ck_assert_uint_eq(in_state(SLOT_FREE), 1);
    ck_assert_uint_eq(in_state(SLOT_RESERVING), 1);
    slots_free(slots);
}
END_TEST

START_TEST(renewed_it_is_another_batch)
{
    for (int state = SLOT_READY; state <= SLOT_HELD; state++) {
        uint64_t old = bring((enum slot_state)state), now = slots_renew(slots, 0);
        ck_assert_uint_gt(now, old);
        ck_assert_uint_eq(slots_generation(slots, 0), now);
        ck_assert_uint_eq(in_state(SLOT_HELD), 1);
        ck_assert_uint_eq(slots_count_ready(slots), 0);
        ck_assert_int_eq(slots_release(slots, 0, old), -EINVAL);
        ck_assert_int_eq(slots_release(slots, 0, now), 0);
        slots_free(slots);
    }
}
END_TEST

START_TEST(other_slots_and_generations_are_refused)
{
    uint32_t slot;
    uint64_t old = bring(SLOT_READY);
    ck_assert_int_eq(slots_hold(slots, 0, old + 1), -EINVAL);
    ck_assert_int_eq(slots_hold(slots, 0, 0), -EINVAL);
    ck_assert_int_eq(slots_hold(slots, 1, old), -EINVAL);
    ck_assert_int_eq(slots_hold(slots, 2, old), -EINVAL);
    ck_assert_int_eq(slots_release(slots, UINT32_MAX, old), -EINVAL);
    ck_assert_int_eq(slots_hold(slots, 0, old), 0);
    ck_assert_int_eq(slots_release(slots, 0, old), 0);
    ck_assert_int_eq(slots_release(slots, 0, old), -EINVAL); /* twice */
    ck_assert_int_eq(slots_take(slots, &slot), 0);
    slots_ready(slots, slot);
    uint64_t now = slots_generation(slots, slot);
    ck_assert_uint_ne(now, old);
    ck_assert_int_eq(slots_release(slots, slot, old), -EINVAL); /* of the batch before */
    ck_assert_int_eq(slots_release(slots, slot, now), 0);
    slots_free(slots);
}
END_TEST

struct taker {
    pthread_t thread;
    int code;
    uint32_t slot;
    _Atomic bool started, done;
};

static void *take(void *context)
{
    struct taker *taker = context;
    taker->started = true;
    taker->code = slots_take(slots, &taker->slot);
    taker->done = true;
    return NULL;
}

/* A taker that has had time to block; nothing may have come. */
static void start_taker(struct taker *taker)
{
    pthread_create(&taker->thread, NULL, take, taker);
    while (!taker->started)
        usleep(1000);
    usleep(50000);
    ck_assert(!taker->done);
}

START_TEST(take_blocks_until_a_release)
{
    struct taker taker = {0};
    uint64_t generation = bring(SLOT_HELD);
    start_taker(&taker);
    ck_assert_int_eq(slots_release(slots, 0, generation), 0);
    pthread_join(taker.thread, NULL);
    ck_assert_int_eq(taker.code, 0);
    ck_assert_uint_eq(taker.slot, 0);
    ck_assert_uint_eq(in_state(SLOT_FILLING), 1);
    slots_free(slots);
}
END_TEST

START_TEST(take_blocks_until_one_is_reserved)
{
    struct taker taker = {0};
    bring(SLOT_RESERVING);
    start_taker(&taker);
    slots_reserved(slots, 1);
    pthread_join(taker.thread, NULL);
    ck_assert_int_eq(taker.code, 0);
    ck_assert_uint_eq(taker.slot, 1);
    slots_free(slots);
}
END_TEST

START_TEST(take_blocks_until_a_drop)
{
    struct taker taker = {0};
    bring(SLOT_READY);
    start_taker(&taker);
    slots_drop(slots, 0);
    pthread_join(taker.thread, NULL);
    ck_assert_int_eq(taker.code, 0);
    slots_free(slots);
}
END_TEST

START_TEST(cancel_is_for_good)
{
    struct taker taker = {0};
    bring(SLOT_HELD);
    start_taker(&taker);
    slots_cancel(slots);
    pthread_join(taker.thread, NULL);
    ck_assert_int_eq(taker.code, -ECANCELED);
    slots_reserved(slots, 1); /* even with a free slot, even when interrupted */
    slots_interrupt(slots, true);
    ck_assert_int_eq(slots_take(slots, &taker.slot), -ECANCELED);
    slots_free(slots);
}
END_TEST

START_TEST(interrupt_holds_while_on)
{
    struct taker taker = {0};
    bring(SLOT_HELD);
    start_taker(&taker);
    slots_interrupt(slots, true);
    pthread_join(taker.thread, NULL);
    ck_assert_int_eq(taker.code, -EINTR);
    slots_reserved(slots, 1);
    ck_assert_int_eq(slots_take(slots, &taker.slot), -EINTR);
    slots_interrupt(slots, false);
    ck_assert_int_eq(slots_take(slots, &taker.slot), 0);
    ck_assert_uint_eq(taker.slot, 1);
    slots_free(slots);
}
END_TEST

#define ROUNDS 20000

static void *fill(void *context)
{
    (void)context;
    uint64_t last = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t slot;
        if (slots_take(slots, &slot) < 0)
            return "cancelled";
        if (slots_generation(slots, slot) <= last)
            return "generation came again";
        last = slots_generation(slots, slot);
        slots_ready(slots, slot);
    }
    return NULL;
}

START_TEST(a_nudge_ends_one_wait)
{
    struct taker taker = {0};
    bring(SLOT_FREE);
    slots_nudge(slots);
    ck_assert_int_eq(slots_take(slots, &taker.slot), 0); /* no wait, no nudge */
    ck_assert_int_eq(slots_take(slots, &taker.slot), -EAGAIN);
    start_taker(&taker);
    slots_nudge(slots);
    pthread_join(taker.thread, NULL);
    ck_assert_int_eq(taker.code, -EAGAIN);
    slots_reserved(slots, 1);
    ck_assert_int_eq(slots_take(slots, &taker.slot), 0);
    slots_free(slots);
}
END_TEST

START_TEST(reader_and_client_at_full_speed)
{
    pthread_t reader;
    void *fault;
    int released = 0;
    slots = slots_new(3);
    for (uint32_t i = 0; i < 3; i++)
        slots_reserved(slots, i);
    pthread_create(&reader, NULL, fill, NULL);
    for (uint32_t i = 0; released < ROUNDS; i = (i + 1) % 3) {
        uint64_t generation = slots_generation(slots, i);
        if (slots_hold(slots, i, generation) == 0)
            released += slots_release(slots, i, generation) == 0;
    }
    pthread_join(reader, &fault);
    ck_assert_ptr_null(fault);
    ck_assert_uint_eq(in_state(SLOT_FREE), 3);
    slots_free(slots);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slots");
    TCase *tests = tcase_create("slots");
    tcase_add_loop_test(tests, state_table, 0, (int)(sizeof rules / sizeof rules[0]));
    tcase_add_test(tests, drop_frees);
    tcase_add_test(tests, renewed_it_is_another_batch);
    tcase_add_test(tests, other_slots_and_generations_are_refused);
    tcase_add_test(tests, take_blocks_until_a_release);
    tcase_add_test(tests, take_blocks_until_one_is_reserved);
    tcase_add_test(tests, take_blocks_until_a_drop);
    tcase_add_test(tests, cancel_is_for_good);
    tcase_add_test(tests, interrupt_holds_while_on);
    tcase_add_test(tests, a_nudge_ends_one_wait);
    tcase_add_test(tests, reader_and_client_at_full_speed);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
