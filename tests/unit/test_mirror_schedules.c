/* Random schedules of members of one mirror group that join, take, give back, lag and go, with an
 * oracle: who joins begins where the furthest is, sees each step from there on (or, where they may
 * pass it by, is told of fewer, and the jumps are counted), with the bytes of that step as long as
 * it holds them; and in the end all go on. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "group_rig.h"

#define MEMBERS 4
#define KNOWN (20 * STEPS) /* steps of which the records are known */

struct held {
    const Dlp__BatchReady *ready;
    uint64_t step;
};

struct member {
    struct rig_peer *peer; /* NULL: it is not there */
    uint64_t next, jumps;
    struct held held[SLOTS];
    uint32_t nheld;
    const uint8_t *arena;
    size_t size, slot_bytes, index;
};

static struct member members[MEMBERS];
static int64_t known[KNOWN][RIG_BATCH];
static unsigned seed;
static uint64_t later; /* of the clock of lag_tick */
static uint64_t front; /* after the last step that any member of this group has taken */

static uint32_t below(uint32_t n)
{
    return (uint32_t)rand_r(&seed) % n;
}

static const int64_t *rows_of(const struct member *member, const Dlp__BatchReady *ready)
{
    return (const int64_t *)(const void *)(member->arena + ready->slot * member->slot_bytes +
                                           member->index);
}

static void map(struct member *member, const Dlp__AttachReply *reply)
{
    member->slot_bytes = reply->slot_bytes;
    member->size = reply->slots * reply->slot_bytes;
    for (size_t t = 0; t < reply->n_tensors; t++)
        if (!strcmp(reply->tensors[t]->name, "index"))
            member->index = reply->tensors[t]->offset;
    member->arena = mmap(NULL, member->size, PROT_READ, MAP_SHARED, member->peer->fd, 0);
    ck_assert_ptr_ne(member->arena, MAP_FAILED);
}

static bool anybody(void)
{
    for (int i = 0; i < MEMBERS; i++)
        if (members[i].peer)
            return true;
    return false;
}

static void join(struct member *member)
{
    Dlp__Attach message = rig_attach("small");
    front = anybody() ? front : 0;
    *member = (struct member){.peer = rig_greeted((pid_t)(100 + (member - members)))};
    SAY(member->peer, 2, ATTACH, attach, &message);
    const Dlp__AttachReply *reply =
        rig_await(member->peer, DLP__ENVELOPE__BODY_ATTACH_REPLY)->attach_reply;
    member->next = reply->epoch * STEPS + reply->step;
    ck_assert_uint_eq(member->next, front);
    map(member, reply);
}

static void check(const struct member *member, const struct held *held)
{
    const int64_t *rows = rows_of(member, held->ready);
    ck_assert_uint_lt(held->step, KNOWN);
    ck_assert_msg(!memcmp(rows, known[held->step], sizeof known[0]), "seed %u, step %lu", seed,
                  (unsigned long)held->step);
}

/* What has come so far; false: nothing. */
static bool take_one(struct member *member)
{
    for (int i = 0; i < 3 && !has_news(member->peer); i++)
        rig_turn();
    if (member->nheld == SLOTS || !has_news(member->peer))
        return false;
    const Dlp__BatchReady *ready = rig_next_ready(member->peer);
    struct held held = {ready, ready->epoch * STEPS + ready->step};
    if (rig_small.lag == LAG_SKIP)
        ck_assert_uint_ge(held.step, member->next);
    else
        ck_assert_uint_eq(held.step, member->next);
    member->jumps += held.step - member->next;
    member->next = held.step + 1;
    front = member->next > front ? member->next : front;
    rig_take(member->peer, ready, 0);
    check(member, &held);
    member->held[member->nheld++] = held;
    return true;
}

static void give_one(struct member *member)
{
    if (!member->nheld)
        return;
    uint32_t which = below(member->nheld);
    check(member, &member->held[which]);
    give(member->peer, member->held[which].ready);
    member->held[which] = member->held[--member->nheld];
}

static void go(struct member *member)
{
    for (uint32_t i = 0; i < member->nheld; i++)
        check(member, &member->held[i]);
    while (has_news(member->peer)) { /* told of, not taken */
        const Dlp__BatchReady *ready = rig_next_ready(member->peer);
        uint64_t step = ready->epoch * STEPS + ready->step;
        member->jumps += step - member->next;
        member->next = step + 1;
    }
    ck_assert_uint_eq(member->peer->session->skipped, member->jumps);
    munmap((void *)member->arena, member->size);
    rig_peer_free(member->peer);
    member->peer = NULL;
    member->nheld = 0;
}

static void time_passes(void)
{
    later += 20 * CLOCK_SECOND;
    for (struct group *group = rig_control->groups; group; group = group->next)
        lag_tick(group, clock_ns() + later);
}

static void act(struct member *member)
{
    if (!member->peer) {
        join(member);
        return;
    }
    switch (below(12)) {
    case 0:
        go(member);
        break;
    case 1:
        time_passes();
        break;
    case 2:
    case 3:
    case 4:
    case 5:
        give_one(member);
        break;
    default:
        take_one(member);
        break;
    }
}

/* Nobody is held up by what has been. */
static void all_go_on(void)
{
    uint64_t target = front + 2 * SLOTS;
    for (int i = 0; i < MEMBERS; i++)
        while (members[i].nheld)
            give_one(&members[i]);
    for (bool behind = true; behind;) {
        behind = false;
        for (int i = 0; i < MEMBERS; i++) {
            if (!members[i].peer || members[i].next >= target)
                continue;
            behind = true;
            if (take_one(&members[i]))
                give_one(&members[i]);
        }
    }
}

static void learn(void)
{
    struct member *member = &members[0];
    join(member);
    for (uint64_t step = 0; step < KNOWN; step++) {
        const Dlp__BatchReady *ready = take(member->peer, step);
        memcpy(known[step], rows_of(member, ready), sizeof known[0]);
        give(member->peer, ready);
        if (member->peer->count > RIG_REPLIES_MAX / 2)
            ck_abort_msg("more steps than the rig has room for");
    }
    member->next = KNOWN;
    go(member);
    rig_wait_until_free();
}

static void schedules(enum feed_lag lag)
{
    const unsigned count = getenv("DATALOADD_LONG") ? 1000 : 100;
    rig_small.lag = lag;
    rig_small.lag_bound = 10;
    uv_timer_stop(&rig_control->tick);
    learn();
    for (unsigned number = 0; number < count; number++) {
        seed = number;
        front = 0;
        for (int i = 0; i < 120 && front < KNOWN - 4 * SLOTS; i++)
            act(&members[below(MEMBERS)]);
        all_go_on();
        for (int i = 0; i < MEMBERS; i++)
            if (members[i].peer)
                go(&members[i]);
        rig_wait_until_free();
    }
}

START_TEST(waited_for)
{
    schedules(LAG_WAIT);
}
END_TEST

START_TEST(passed_by)
{
    schedules(LAG_SKIP);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mirror_schedules");
    TCase *test = tcase_create("mirror_schedules");
    tcase_add_checked_fixture(test, group_rig_setup, rig_teardown);
    tcase_set_timeout(test, 600);
    tcase_add_test(test, waited_for);
    tcase_add_test(test, passed_by);
    suite_add_tcase(suite, test);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
