#include "feed/delay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define LATE_MAX (100 * CLOCK_MS)

static struct delay_storage storage_of_all;

static void set(struct delay *delay, const char *word)
{
    uint64_t value;
    if (sscanf(word, "read:%" SCNu64, &value) == 1)
        delay->read_ms = value;
    else if (sscanf(word, "read_rate:%" SCNu64, &value) == 1)
        delay->read_rate = value, delay->storage = &delay->state->storage;
    else if (sscanf(word, "storage_rate:%" SCNu64, &value) == 1)
        delay->read_rate = value, delay->storage = &storage_of_all;
    else if (sscanf(word, "decode:%" SCNu64, &value) == 1)
        delay->decode_us = value;
    else
        sscanf(word, "%" SCNu64 ":%" SCNu64, &delay->seed, &delay->max_us);
}

struct delay delay_from_environment(void)
{
    struct delay delay = {0};
    const char *text = getenv("DATALOADD_TEST_DELAY");
    char words[200], *rest;
    if (text)
        delay.state = mem_new(sizeof *delay.state);
    snprintf(words, sizeof words, "%s", text ? text : "");
    for (char *word = strtok_r(words, ";", &rest); word; word = strtok_r(NULL, ";", &rest))
        set(&delay, word);
    return delay;
}

void delay_free(struct delay *delay)
{
    free(delay->state);
    delay->state = NULL;
}

static void sleep_us(uint64_t us)
{
    struct timespec left = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    while (nanosleep(&left, &left) < 0)
        continue;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Returns how much later it is now. */
static uint64_t sleep_until(uint64_t ns)
{
    struct timespec time = {(time_t)(ns / CLOCK_SECOND), (long)(ns % CLOCK_SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        continue;
    uint64_t late = clock_ns() - ns;
    return smaller(late, LATE_MAX);
}

/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static void sleep_random(const struct delay *delay, uint64_t what)
{
    if (delay->max_us)
        sleep_us(mix(delay->seed + mix(what)) % delay->max_us);
}

/* One read after the other, as they come. */
static void queue_up(struct delay_storage *storage, uint64_t ns)
{
    uint64_t begin = clock_ns() - smaller(atomic_exchange(&storage->late, 0), ns);
    uint64_t busy = atomic_load(&storage->busy_until), end;
    do {
        end = (busy > begin ? busy : begin) + ns;
    } while (!atomic_compare_exchange_weak(&storage->busy_until, &busy, end));
    atomic_store(&storage->late, sleep_until(end));
}

void delay_read(const struct delay *delay, uint64_t what, uint64_t bytes)
{
    if (delay->read_ms)
        sleep_us(delay->read_ms * 1000);
    if (delay->read_rate)
        queue_up(delay->storage, bytes * CLOCK_SECOND / delay->read_rate);
    sleep_random(delay, ~what);
}

void delay_decode(const struct delay *delay, uint64_t what)
{
    sleep_random(delay, what);
}

uint64_t delay_row_begin(const struct delay *delay)
{
    return delay->decode_us ? clock_ns() : 0;
}

/* Pays at most the row's own time of what is owed. */
static uint64_t pay(struct delay_state *state, uint64_t most)
{
    uint64_t owed = atomic_load(&state->owed), paid;
    do {
        paid = smaller(owed, most);
    } while (!atomic_compare_exchange_weak(&state->owed, &owed, owed - paid));
    return paid;
}

void delay_row_end(const struct delay *delay, uint64_t begin)
{
    uint64_t ns = delay->decode_us * CLOCK_US;
    if (ns)
        atomic_fetch_add(&delay->state->owed, sleep_until(begin + ns - pay(delay->state, ns)));
}
