/* Events: two counters, in a page that other processes can map. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "standin_peer.h"
#include "standin_stream.h"

static const char event_magic[8] = "SI-EVT";

struct page { /* all atomic */
    uint64_t recorded;
    uint64_t completed;
    uint32_t destroyed;
};

struct event {
    struct event *next;
    struct si_context *context;
    unsigned flags;
    int fd; /* of the page; -1 = of this process alone */
    struct page *page;
    bool imported;
    bool captured;
    int refs; /* the handle and operations; under si_lock */
};
static struct event *events; /* whose handle lives */

static struct event *event_new(struct si_context *context, unsigned flags, int fd)
{
    struct event *event = calloc(1, sizeof *event);
    int shared = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *page = mmap(NULL, SI_PAGE, PROT_READ | PROT_WRITE, shared, fd, 0);
    if (!event || page == MAP_FAILED)
        si_abort("out of memory");
    *event = (struct event){events, context, flags, fd, page, false, false, 1};
    return events = event;
}

static void drop(struct event *event)
{
    if (--event->refs)
        return;
    munmap(event->page, SI_PAGE);
    if (event->fd >= 0)
        close(event->fd);
    free(event);
}

static struct event *event_of(dlp_cu_event handle, dlp_cu_result *code)
{
    struct event *event = events;
    while (event && event != (struct event *)handle)
        event = event->next;
    *code = DLP_CU_INVALID_HANDLE;
    if (!event || event->context != si_current())
        return NULL;
    if (event->imported && __atomic_load_n(&event->page->destroyed, __ATOMIC_ACQUIRE)) {
        si_report("an event is used after its exporter has destroyed it");
        return NULL;
    }
    *code = event->captured ? DLP_CU_CAPTURED_EVENT : 0;
    return *code ? NULL : event;
}

static bool reached(const struct event *event, uint64_t target)
{
    return __atomic_load_n(&event->page->completed, __ATOMIC_ACQUIRE) >= target;
}

static uint64_t recorded(const struct event *event)
{
    return __atomic_load_n(&event->page->recorded, __ATOMIC_ACQUIRE);
}

dlp_cu_result cuEventCreate(dlp_cu_event *handle, unsigned flags)
{
    SI_ENTER(SI_IN_CONTEXT);
    bool shared = flags & DLP_CU_EVENT_INTERPROCESS;
    if (flags > 7 || (shared && !(flags & DLP_CU_EVENT_DISABLE_TIMING)))
        return DLP_CU_INVALID_VALUE;
    int fd = shared ? memfd_create("standin-event", MFD_CLOEXEC) : -1;
    if (shared && (fd < 0 || ftruncate(fd, SI_PAGE) != 0))
        si_abort("no memfd for an event");
    *handle = (dlp_cu_event)event_new(si_current(), flags, fd);
    return 0;
}

dlp_cu_result cuEventDestroy_v2(dlp_cu_event handle)
{
    SI_ENTER(SI_IN_CONTEXT);
    for (struct event **at = &events; *at; at = &(*at)->next)
        if (*at == (struct event *)handle && (*at)->context == si_current()) {
            struct event *event = *at;
            *at = event->next;
            if (!event->imported)
                __atomic_store_n(&event->page->destroyed, 1, __ATOMIC_RELEASE);
            drop(event);
            return 0;
        }
    return DLP_CU_INVALID_HANDLE;
}

struct mark {
    struct event *event;
    uint64_t target;
};

static void end_mark(struct event *event)
{
    pthread_mutex_lock(&si_lock);
    drop(event);
    pthread_mutex_unlock(&si_lock);
}

static dlp_cu_result complete(struct si_op *op, bool dead)
{
    const struct mark *mark = (const struct mark *)op->data;
    uint64_t *completed = &mark->event->page->completed, was = 0;
    while (!dead && was < mark->target &&
           !__atomic_compare_exchange_n(completed, &was, mark->target, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
        ;
    end_mark(mark->event);
    return 0;
}

static dlp_cu_result wait_for(struct si_op *op, bool dead)
{
    const struct mark *mark = (const struct mark *)op->data;
    while (!dead && !reached(mark->event, mark->target))
        dead = !si_op_sleep(op, 500);
    end_mark(mark->event);
    return 0;
}

static void queue(struct si_stream *stream, const char *name, struct mark mark,
                  dlp_cu_result (*run)(struct si_op *, bool))
{
    struct si_op *op = si_op_new(name, sizeof mark, run);
    mark.event->refs++;
    memcpy(op->data, &mark, sizeof mark);
    si_stream_queue(stream, op);
}

dlp_cu_result cuEventRecord(dlp_cu_event handle, dlp_cu_stream at)
{
    SI_ENTER(SI_IN_CONTEXT);
    dlp_cu_result code;
    struct si_stream *stream = si_stream_of(at);
    struct event *event = event_of(handle, &code);
    if (!stream || (!event && code != DLP_CU_CAPTURED_EVENT))
        return DLP_CU_INVALID_HANDLE;
    event = (struct event *)handle;
    event->captured = stream->capture == DLP_CU_CAPTURE_ACTIVE;
    if (event->captured)
        return 0;
    uint64_t target = __atomic_add_fetch(&event->page->recorded, 1, __ATOMIC_ACQ_REL);
    queue(stream, "event", (struct mark){event, target}, complete);
    return 0;
}

dlp_cu_result cuStreamWaitEvent(dlp_cu_stream at, dlp_cu_event handle, unsigned flags)
{
    SI_ENTER(SI_IN_CONTEXT);
    dlp_cu_result code;
    struct si_stream *stream = si_stream_of(at);
    struct event *event = event_of(handle, &code);
    if (!stream || !event || flags)
        return !stream ? DLP_CU_INVALID_HANDLE : !event ? code : DLP_CU_INVALID_VALUE;
    queue(stream, "wait for an event", (struct mark){event, recorded(event)}, wait_for);
    return 0;
}

dlp_cu_result cuEventQuery(dlp_cu_event handle)
{
    SI_ENTER(SI_IN_CONTEXT);
    dlp_cu_result code;
    const struct event *event = event_of(handle, &code);
    if (!event)
        return code;
    return reached(event, recorded(event)) ? 0 : DLP_CU_NOT_READY;
}

dlp_cu_result cuEventSynchronize(dlp_cu_event handle)
{
    SI_ENTER(SI_IN_CONTEXT);
    dlp_cu_result code;
    struct event *event = event_of(handle, &code);
    if (!event)
        return code;
    double since = si_now();
    uint64_t target = recorded(event);
    event->refs++;
    while (!reached(event, target) && !event->context->sticky)
        si_wait(__func__, since, event->fd >= 0 ? 200 : 1000000);
    code = event->context->sticky;
    drop(event);
    return code;
}

dlp_cu_result cuIpcGetEventHandle(dlp_cu_ipc_event *result, dlp_cu_event handle)
{
    SI_ENTER(SI_IN_CONTEXT);
    dlp_cu_result code;
    const struct event *event = event_of(handle, &code);
    if (!event || event->fd < 0 || event->imported)
        return event ? DLP_CU_INVALID_HANDLE : code;
    struct si_peer_handle bytes = si_peer_handle(event_magic, event->fd, event->context);
    memcpy(result, &bytes, sizeof *result);
    return 0;
}

dlp_cu_result cuIpcOpenEventHandle(dlp_cu_event *handle, dlp_cu_ipc_event bytes)
{
    SI_ENTER(SI_IN_CONTEXT);
    dlp_cu_result code;
    struct si_peer_handle peer;
    memcpy(&peer, &bytes, sizeof peer);
    int fd = si_peer_open(&peer, event_magic, &code);
    if (fd < 0)
        return code;
    struct event *event =
        event_new(si_current(), DLP_CU_EVENT_INTERPROCESS | DLP_CU_EVENT_DISABLE_TIMING, fd);
    event->imported = true;
    *handle = (dlp_cu_event)event;
    return 0;
}

void si_leaks_events(const struct si_context *context)
{
    unsigned n = 0;
    for (const struct event *event = events; event; event = event->next)
        n += event->context == context;
    if (n)
        si_report("leak: %u events of GPU %u", n, context->device);
}
