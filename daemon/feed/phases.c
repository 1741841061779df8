#include "feed/phases.h"

#include "base/clock.h"

/* Whoever sees a value stored by this sees the odd turn stored before it. */
#define SET(field, value) atomic_store_explicit(&(field), value, memory_order_release)
#define GET(field) atomic_load_explicit(&(field), memory_order_acquire)
#define OWN(field) atomic_load_explicit(&(field), memory_order_relaxed)

static void change(struct phases *phases, uint32_t phase, const char *what, uint64_t now)
{
    SET(phases->at, phase);
    SET(phases->what, what);
    SET(phases->since, now);
}

void phases_begin(struct phases *phases, uint32_t phase)
{
    uint32_t turn = OWN(phases->turn);
    SET(phases->turn, turn + 1);
    change(phases, phase, NULL, clock_ns());
    SET(phases->turn, turn + 2);
}

void phases_enter(struct phases *phases, uint32_t phase, const char *what)
{
    uint32_t turn = OWN(phases->turn), left = OWN(phases->at);
    uint64_t now = clock_ns();
    uint64_t ns = OWN(phases->ns[left]) + (now - OWN(phases->since));
    SET(phases->turn, turn + 1);
    SET(phases->ns[left], ns);
    change(phases, phase, what, now);
    SET(phases->turn, turn + 2);
}

uint64_t phases_past(const struct phases *phases, uint32_t phase)
{
    return OWN(phases->ns[phase]);
}

static void copy(const struct phases *phases, struct phases_now *out)
{
    out->at = GET(phases->at);
    out->what = GET(phases->what);
    out->since = GET(phases->since);
    for (uint32_t phase = 0; phase < PHASES_MAX; phase++)
        out->ns[phase] = GET(phases->ns[phase]);
}

void phases_read(const struct phases *phases, uint64_t now, struct phases_now *out)
{
    uint32_t turn;
    do {
        turn = GET(phases->turn);
        copy(phases, out);
    } while (turn % 2 || turn != GET(phases->turn));
    if (now > out->since)
        out->ns[out->at] += now - out->since;
}
