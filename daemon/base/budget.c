#include "base/budget.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>

#include "base/mem.h"

#define MB 1e6

/* No lock: all feeds take from it for each record that they read. */
struct budget {
    _Atomic uint64_t limit;
    uint64_t decode_limit;
    _Atomic uint64_t used[BUDGET_USES + 1]; /* the last is the sum, which alone is limited */
    _Atomic unsigned waiting;
};

static const char *use_name(enum budget_use use)
{
    static const char *const names[] = {[BUDGET_SLOTS] = "slots",
                                        [BUDGET_SHUFFLE] = "the shuffle buffer",
                                        [BUDGET_DECODE] = "decoding"};
    return names[use];
}

/* The setting whose change makes the request smaller. */
static const char *use_setting(enum budget_use use)
{
    static const char *const settings[] = {[BUDGET_SLOTS] = "slots or batch",
                                           [BUDGET_SHUFFLE] = "shuffle",
                                           [BUDGET_DECODE] = "decode_memory"};
    return settings[use];
}

struct budget *budget_new(uint64_t limit, uint64_t decode_limit)
{
    struct budget *budget = mem_new(sizeof *budget);
    budget->limit = limit ? limit : system_memory() / 2;
    budget->decode_limit = decode_limit ? decode_limit : budget->limit / 8;
    if (budget->decode_limit > budget->limit)
        budget->decode_limit = budget->limit;
    return budget;
}

void budget_free(struct budget *budget)
{
    free(budget);
}

/* *used: what others had taken at that moment. */
static bool take(struct budget *budget, enum budget_use use, uint64_t bytes, uint64_t *used)
{
    *used = atomic_load(&budget->used[BUDGET_USES]);
    do {
        uint64_t limit = atomic_load(&budget->limit);
        if (*used > limit || bytes > limit - *used)
            return false;
    } while (!atomic_compare_exchange_weak(&budget->used[BUDGET_USES], used, *used + bytes));
    atomic_fetch_add(&budget->used[use], bytes);
    return true;
}

int budget_take(struct budget *budget, enum budget_use use, uint64_t bytes, struct error *err)
{
    uint64_t used;
    if (take(budget, use, bytes, &used))
        return 0;
    return error_set(err, -ENOMEM,
                     "no memory for %s: %.1f MB (%" PRIu64 " bytes) asked, %.1f MB of %.1f MB in "
                     "use: lower %s, or raise memory to at least %" PRIu64,
                     use_name(use), (double)bytes / MB, bytes, (double)used / MB,
                     (double)budget->limit / MB, use_setting(use), used + bytes);
}

bool budget_try(struct budget *budget, enum budget_use use, uint64_t bytes)
{
    uint64_t used;
    return take(budget, use, bytes, &used);
}

static void let_go(struct budget *budget, enum budget_use use, uint64_t bytes)
{
    uint64_t before = atomic_fetch_sub(&budget->used[use], bytes);
    assert(bytes <= before);
    (void)before;
}

void budget_give(struct budget *budget, enum budget_use use, uint64_t bytes)
{
    let_go(budget, use, bytes);
    let_go(budget, BUDGET_USES, bytes);
}

void budget_move(struct budget *budget, enum budget_use from, enum budget_use to, uint64_t bytes)
{
    let_go(budget, from, bytes);
    atomic_fetch_add(&budget->used[to], bytes);
}

void budget_press(struct budget *budget)
{
    atomic_fetch_add(&budget->waiting, 1);
}

void budget_relax(struct budget *budget)
{
    atomic_fetch_sub(&budget->waiting, 1);
}

bool budget_pressed(const struct budget *budget)
{
    return atomic_load(&budget->waiting) > 0;
}

uint64_t budget_limit(const struct budget *budget)
{
    return budget->limit;
}

/* What is taken meanwhile may lie above it, and is given back in its time. */
void budget_set_limit(struct budget *budget, uint64_t limit)
{
    uint64_t wanted = limit ? limit : system_memory() / 2;
    uint64_t used = budget_used(budget, BUDGET_USES);
    atomic_store(&budget->limit, wanted > used ? wanted : used);
}

uint64_t budget_decode_limit(const struct budget *budget)
{
    return budget->decode_limit;
}

uint64_t budget_used(const struct budget *budget, enum budget_use use)
{
    return atomic_load(&budget->used[use]);
}
