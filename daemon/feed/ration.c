#include "feed/ration.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

struct ration {
    struct budget *budget;
    uint64_t floor, cap;
    pthread_mutex_t mutex;
    pthread_cond_t given;
    uint64_t used[2]; /* by enum ration_from */
    bool news;        /* for ration_wait */
};

int ration_new(struct budget *budget, uint64_t floor, uint64_t cap, struct ration **out,
               struct error *err)
{
    int code = budget_take(budget, BUDGET_SHUFFLE, floor, err);
    if (code < 0)
        return code;
    struct ration *ration = mem_new(sizeof *ration);
    ration->budget = budget;
    ration->floor = floor;
    ration->cap = cap;
    pthread_mutex_init(&ration->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&ration->given, &attributes);
    pthread_condattr_destroy(&attributes);
    *out = ration;
    return 0;
}

void ration_free(struct ration *ration)
{
    if (!ration)
        return;
    budget_give(ration->budget, BUDGET_SHUFFLE, ration->floor);
    pthread_cond_destroy(&ration->given);
    pthread_mutex_destroy(&ration->mutex);
    free(ration);
}

static bool take_from_budget(struct ration *ration, uint64_t bytes, enum ration_use use)
{
    uint64_t used = ration->used[RATION_BUDGET];
    if (use == RATION_AHEAD &&
        (used > ration->cap || bytes > ration->cap - used || budget_pressed(ration->budget)))
        return false;
    return budget_try(ration->budget, BUDGET_SHUFFLE, bytes);
}

bool ration_take(struct ration *ration, uint64_t bytes, enum ration_use use, enum ration_from *from)
{
    pthread_mutex_lock(&ration->mutex);
    bool fits = take_from_budget(ration, bytes, use);
    *from = RATION_BUDGET;
    if (!fits && use == RATION_NOW) {
        *from = RATION_FLOOR;
        fits = bytes <= ration->floor - ration->used[RATION_FLOOR];
    }
    if (fits)
        ration->used[*from] += bytes;
    pthread_mutex_unlock(&ration->mutex);
    return fits;
}

static void give(struct ration *ration, uint64_t bytes, enum ration_from from)
{
    ration->used[from] -= bytes;
    if (from == RATION_BUDGET)
        budget_give(ration->budget, BUDGET_SHUFFLE, bytes);
}

void ration_give(struct ration *ration, uint64_t bytes, enum ration_from from)
{
    pthread_mutex_lock(&ration->mutex);
    give(ration, bytes, from);
    ration->news = true;
    pthread_mutex_unlock(&ration->mutex);
    pthread_cond_signal(&ration->given);
}

void ration_give_unused(struct ration *ration, uint64_t bytes, enum ration_from from)
{
    pthread_mutex_lock(&ration->mutex);
    give(ration, bytes, from);
    pthread_mutex_unlock(&ration->mutex);
}

void ration_wake(struct ration *ration)
{
    pthread_mutex_lock(&ration->mutex);
    ration->news = true;
    pthread_mutex_unlock(&ration->mutex);
    pthread_cond_signal(&ration->given);
}

void ration_wait(struct ration *ration, uint64_t ns)
{
    uint64_t until = clock_ns() + ns;
    struct timespec end = {(time_t)(until / CLOCK_SECOND), (long)(until % CLOCK_SECOND)};
    pthread_mutex_lock(&ration->mutex);
    while (!ration->news && clock_ns() < until)
        pthread_cond_timedwait(&ration->given, &ration->mutex, &end);
    ration->news = false;
    pthread_mutex_unlock(&ration->mutex);
}

uint64_t ration_used(struct ration *ration)
{
    pthread_mutex_lock(&ration->mutex);
    uint64_t used = ration->used[RATION_BUDGET] + ration->used[RATION_FLOOR];
    pthread_mutex_unlock(&ration->mutex);
    return used;
}

bool ration_pressed(const struct ration *ration)
{
    return budget_pressed(ration->budget);
}
