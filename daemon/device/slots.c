#include "device/slots.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"

struct slot {
    enum slot_state state;
    uint64_t generation;
};

struct slots {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* for slots_take */
    _Atomic uint32_t ready; /* slots in that state; written under the mutex */
    uint64_t generation;    /* the last one given; never twice, so an old one fits no slot */
    bool cancelled, interrupted, nudged;
    uint32_t count;
    struct slot slots[];
};

struct slots *slots_new(uint32_t count)
{
    struct slots *slots = mem_new(sizeof *slots + count * sizeof slots->slots[0]);
    pthread_mutex_init(&slots->mutex, NULL);
    pthread_cond_init(&slots->changed, NULL);
    slots->count = count;
    return slots;
}

void slots_free(struct slots *slots)
{
    if (!slots)
        return;
    pthread_cond_destroy(&slots->changed);
    pthread_mutex_destroy(&slots->mutex);
    free(slots);
}

/* Under the mutex. */
static void set_state(struct slots *slots, struct slot *slot, enum slot_state state)
{
    if (slot->state == SLOT_READY)
        slots->ready--;
    if (state == SLOT_READY)
        slots->ready++;
    slot->state = state;
}

/* Who is woken while the mutex is held runs into it: two switches more on one core. */
static void unlock_and_tell(struct slots *slots)
{
    pthread_mutex_unlock(&slots->mutex);
    pthread_cond_signal(&slots->changed);
}

void slots_reserved(struct slots *slots, uint32_t slot)
{
    pthread_mutex_lock(&slots->mutex);
    assert(slot < slots->count && slots->slots[slot].state == SLOT_RESERVING);
    set_state(slots, &slots->slots[slot], SLOT_FREE);
    unlock_and_tell(slots);
}

static bool find_free(const struct slots *slots, uint32_t *slot)
{
    for (uint32_t i = 0; i < slots->count; i++) {
        if (slots->slots[i].state == SLOT_FREE) {
            *slot = i;
            return true;
        }
    }
    return false;
}

/* Under the mutex. */
static int wait_free(struct slots *slots, uint32_t *slot)
{
    while (true) {
        if (slots->cancelled)
            return -ECANCELED;
        if (slots->interrupted)
            return -EINTR;
        if (find_free(slots, slot))
            return 0;
        if (slots->nudged) {
            slots->nudged = false;
            return -EAGAIN;
        }
        pthread_cond_wait(&slots->changed, &slots->mutex);
    }
}

int slots_take(struct slots *slots, uint32_t *slot)
{
    pthread_mutex_lock(&slots->mutex);
    int code = wait_free(slots, slot);
    if (code == 0) {
        set_state(slots, &slots->slots[*slot], SLOT_FILLING);
        slots->slots[*slot].generation = ++slots->generation;
    }
    pthread_mutex_unlock(&slots->mutex);
    return code;
}

void slots_cancel(struct slots *slots)
{
    pthread_mutex_lock(&slots->mutex);
    slots->cancelled = true;
    pthread_cond_broadcast(&slots->changed);
    pthread_mutex_unlock(&slots->mutex);
}

void slots_interrupt(struct slots *slots, bool on)
{
    pthread_mutex_lock(&slots->mutex);
    slots->interrupted = on;
    pthread_cond_broadcast(&slots->changed);
    pthread_mutex_unlock(&slots->mutex);
}

void slots_nudge(struct slots *slots)
{
    pthread_mutex_lock(&slots->mutex);
    slots->nudged = true;
    pthread_cond_broadcast(&slots->changed);
    pthread_mutex_unlock(&slots->mutex);
}

uint64_t slots_generation(struct slots *slots, uint32_t slot)
{
    pthread_mutex_lock(&slots->mutex);
    assert(slot < slots->count);
    uint64_t generation = slots->slots[slot].generation;
    pthread_mutex_unlock(&slots->mutex);
    return generation;
}

void slots_ready(struct slots *slots, uint32_t slot)
{
    pthread_mutex_lock(&slots->mutex);
    assert(slot < slots->count && slots->slots[slot].state == SLOT_FILLING);
    set_state(slots, &slots->slots[slot], SLOT_READY);
    pthread_mutex_unlock(&slots->mutex);
}

void slots_drop(struct slots *slots, uint32_t slot)
{
    pthread_mutex_lock(&slots->mutex);
    assert(slot < slots->count &&
           (slots->slots[slot].state == SLOT_FILLING || slots->slots[slot].state == SLOT_READY));
    set_state(slots, &slots->slots[slot], SLOT_FREE);
    unlock_and_tell(slots);
}

/* The slot a client means, or NULL where it is not its to name. Under the mutex. */
static struct slot *handed_out(struct slots *slots, uint32_t slot, uint64_t generation)
{
    if (slot >= slots->count)
        return NULL;
    struct slot *it = &slots->slots[slot];
    bool out = it->state == SLOT_READY || it->state == SLOT_HELD;
    return out && it->generation == generation ? it : NULL;
}

int slots_hold(struct slots *slots, uint32_t slot, uint64_t generation)
{
    pthread_mutex_lock(&slots->mutex);
    struct slot *it = handed_out(slots, slot, generation);
    int code = it && it->state == SLOT_READY ? 0 : -EINVAL;
    if (code == 0)
        set_state(slots, it, SLOT_HELD);
    pthread_mutex_unlock(&slots->mutex);
    return code;
}

int slots_release(struct slots *slots, uint32_t slot, uint64_t generation)
{
    pthread_mutex_lock(&slots->mutex);
    struct slot *it = handed_out(slots, slot, generation);
    if (it)
        set_state(slots, it, SLOT_FREE);
    unlock_and_tell(slots);
    return it ? 0 : -EINVAL;
}

uint64_t slots_renew(struct slots *slots, uint32_t slot)
{
    pthread_mutex_lock(&slots->mutex);
    struct slot *it = &slots->slots[slot];
    assert(slot < slots->count && (it->state == SLOT_READY || it->state == SLOT_HELD));
    set_state(slots, it, SLOT_HELD);
    uint64_t generation = it->generation = ++slots->generation;
    pthread_mutex_unlock(&slots->mutex);
    return generation;
}

struct slots_count slots_count(struct slots *slots)
{
    struct slots_count count = {0};
    pthread_mutex_lock(&slots->mutex);
    for (uint32_t i = 0; i < slots->count; i++)
        count.by_state[slots->slots[i].state]++;
    pthread_mutex_unlock(&slots->mutex);
    return count;
}

uint32_t slots_count_ready(const struct slots *slots)
{
    return atomic_load_explicit(&slots->ready, memory_order_relaxed);
}
