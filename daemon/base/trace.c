#include "base/trace.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Texts stand one after another, each with its NUL; number 0 is the empty one. A table of open
 * addresses finds those that are there. */
#define TEXT_BYTES (1024U * 1024U)
#define TEXT_MAX 320U /* of one, its end: of a path the end tells most */
#define TABLE (16U * 1024U)
#define EVENTS                                                                                     \
    ((TRACE_BYTES - sizeof(struct trace) - TEXT_BYTES - TABLE * sizeof(uint32_t)) /                \
     sizeof(struct trace_event))

struct trace {
    uint64_t number, begun, ended;
    _Atomic uint64_t next; /* event, also of those that find no room */
    pthread_mutex_t mutex; /* of the texts */
    char *texts;
    uint32_t *table;
    uint32_t used, ntexts;
    struct trace_event *events;
};

_Atomic bool trace_is_on;
static _Atomic(struct trace *) current;
static _Atomic uint32_t writers; /* threads that may be adding an event */
static uint64_t recordings;      /* loop thread */

static __thread struct {
    uint64_t recording;
    uint32_t lane;
} self;

static uint32_t hash_of(const char *text)
{
    uint32_t hash = 2166136261U;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619U;
    return hash;
}

/* Under the mutex. 0 where there is no room for another. */
static uint32_t add_text(struct trace *trace, const char *text, uint32_t *entry)
{
    size_t size = strlen(text) + 1;
    if (trace->used + size > TEXT_BYTES || trace->ntexts >= TABLE / 2)
        return 0;
    *entry = trace->used;
    memcpy(trace->texts + trace->used, text, size);
    trace->used += (uint32_t)size;
    trace->ntexts++;
    return *entry;
}

static uint32_t text_of(struct trace *trace, const char *text)
{
    if (!text || !*text)
        return 0;
    size_t size = strlen(text);
    text += size > TEXT_MAX ? size - TEXT_MAX : 0;
    pthread_mutex_lock(&trace->mutex);
    uint32_t at = hash_of(text) % TABLE;
    while (trace->table[at] && strcmp(trace->texts + trace->table[at], text) != 0)
        at = (at + 1) % TABLE;
    uint32_t found = trace->table[at];
    if (!found)
        found = add_text(trace, text, &trace->table[at]);
    pthread_mutex_unlock(&trace->mutex);
    return found;
}

static uint32_t own_lane(struct trace *trace)
{
    if (self.recording == trace->number)
        return self.lane;
    char name[16] = "", lane[48];
    prctl(PR_GET_NAME, name);
    snprintf(lane, sizeof lane, "%s %ld", name, (long)syscall(SYS_gettid));
    self.lane = text_of(trace, lane);
    self.recording = trace->number;
    return self.lane;
}

/* NULL: there is no recording. Else it stays until leave(). */
static struct trace *enter(void)
{
    atomic_fetch_add(&writers, 1);
    struct trace *trace = atomic_load(&current);
    if (!trace)
        atomic_fetch_sub(&writers, 1);
    return trace;
}

static void leave(void)
{
    atomic_fetch_sub(&writers, 1);
}

/* What began before the recording is cut to it. */
static void add(struct trace *trace, struct trace_event *event, uint64_t begin, uint64_t end)
{
    begin = begin > trace->begun ? begin : trace->begun;
    if (end <= begin)
        return;
    uint64_t number = atomic_fetch_add_explicit(&trace->next, 1, memory_order_relaxed);
    if (number >= EVENTS)
        return;
    event->begin = begin - trace->begun;
    event->ns = end - begin;
    trace->events[number] = *event;
}

void trace_span(const char *name, const char *feed, uint64_t begin, uint64_t end,
                const char *detail, uint64_t step)
{
    struct trace *trace = trace_on() ? enter() : NULL;
    if (!trace)
        return;
    struct trace_event event = {.name = name,
                                .feed = feed,
                                .step = step,
                                .lane = own_lane(trace),
                                .detail = text_of(trace, detail),
                                .group = TRACE_THREADS};
    add(trace, &event, begin, end);
    leave();
}

void trace_long(const char *name, uint64_t begin)
{
    uint64_t now = begin ? trace_now() : 0;
    if (now > begin + TRACE_LONG_NS)
        trace_span(name, NULL, begin, now, NULL, 0);
}

void trace_lane(enum trace_group group, const char *lane, const char *name, const char *feed,
                uint64_t begin, uint64_t end, uint64_t step)
{
    struct trace *trace = trace_on() ? enter() : NULL;
    if (!trace)
        return;
    struct trace_event event = {
        .name = name, .feed = feed, .step = step, .lane = text_of(trace, lane), .group = group};
    add(trace, &event, begin, end);
    leave();
}

struct trace *trace_begin(void)
{
    if (trace_on())
        return NULL;
    char *memory = malloc(TRACE_BYTES); /* what is not used takes no memory */
    if (!memory)
        return NULL;
    struct trace *trace = (struct trace *)(void *)memory;
    memset(trace, 0, sizeof *trace);
    pthread_mutex_init(&trace->mutex, NULL);
    trace->events = (struct trace_event *)(void *)(memory + sizeof *trace);
    trace->table = (uint32_t *)(void *)(trace->events + EVENTS);
    trace->texts = (char *)(trace->table + TABLE);
    memset(trace->table, 0, TABLE * sizeof *trace->table);
    trace->texts[0] = '\0';
    trace->used = 1;
    trace->number = ++recordings;
    trace->begun = clock_ns();
    atomic_store(&current, trace);
    atomic_store(&trace_is_on, true);
    return trace;
}

/* Who has found the recording adds its event in no time. */
void trace_end(struct trace *trace)
{
    atomic_store(&trace_is_on, false);
    atomic_store(&current, NULL);
    trace->ended = clock_ns();
    while (atomic_load(&writers) > 0)
        sched_yield();
}

void trace_free(struct trace *trace)
{
    if (!trace)
        return;
    pthread_mutex_destroy(&trace->mutex);
    free(trace);
}

uint64_t trace_ns(const struct trace *trace)
{
    return trace->ended - trace->begun;
}

uint64_t trace_count(const struct trace *trace)
{
    uint64_t next = atomic_load(&trace->next);
    return next < EVENTS ? next : EVENTS;
}

uint64_t trace_dropped(const struct trace *trace)
{
    return atomic_load(&trace->next) - trace_count(trace);
}

const struct trace_event *trace_at(const struct trace *trace, uint64_t number)
{
    return &trace->events[number];
}

const char *trace_text(const struct trace *trace, uint32_t text)
{
    return trace->texts + text;
}
