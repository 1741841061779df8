#include "control/trace_reply.h"

#include "base/mem.h"
#include "base/trace.h"
#include "control/control.h"
#include "control/trace_lanes.h"
#include "proto/frames.h"

#define EVENTS_A_PART 512 /* of at most some 1 KiB */
#define DETAIL_MAX 512
#define UNREAD_MS 30000 /* for which an answer waits for its reader */

struct right {                    /* to see what is told of a feed */
    const struct feed_spec *spec; /* our reference: events have its name by address */
    bool granted;
};

struct tracer {
    struct control *control;
    uv_timer_t timer;
    struct session *session; /* for whom; NULL: nobody */
    uint64_t id;
    struct trace *trace;
    bool records; /* else it is being sent */
    uint64_t sent, seen;
    struct right *rights; /* by all specs that there were when the recording began */
    uint32_t nrights;
};

struct event_text {
    Dlp__TraceEvent event;
    char detail[DETAIL_MAX];
};

struct tracer *tracer_new(struct control *control)
{
    struct tracer *tracer = mem_new(sizeof *tracer);
    tracer->control = control;
    uv_timer_init(control->options.loop, &tracer->timer);
    tracer->timer.data = tracer;
    return tracer;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void tracer_free(struct tracer *tracer)
{
    uv_close((uv_handle_t *)&tracer->timer, on_closed);
}

/* A running job's feed may be configured otherwise by now: the lists of today count. */
static void add_right(struct tracer *tracer, const struct feed_spec *spec)
{
    const struct control *control = tracer->control;
    int number = control_find_any(control, spec->name);
    const struct feed_spec *now = number < 0 ? spec : control->options.feeds[number];
    tracer->rights[tracer->nrights++] = (struct right){
        .spec = spec_ref(spec), .granted = access_tells(now, &tracer->session->peer)};
}

/* Of feeds as they are configured, and as running jobs have them. */
static void look_up_rights(struct tracer *tracer)
{
    const struct control *control = tracer->control;
    const struct control_options *options = &control->options;
    uint32_t count = options->nfeeds;
    for (const struct group *group = control->groups; group; group = group->next)
        count++;
    tracer->rights = mem_array(count, sizeof *tracer->rights);
    for (uint32_t i = 0; i < options->nfeeds; i++)
        add_right(tracer, options->feeds[i]);
    for (const struct group *group = control->groups; group; group = group->next)
        add_right(tracer, group->params.spec);
}

static void drop_rights(struct tracer *tracer)
{
    while (tracer->nrights)
        spec_unref(tracer->rights[--tracer->nrights].spec);
    free(tracer->rights);
    tracer->rights = NULL;
}

static bool may_see(const struct tracer *tracer, const struct trace_event *event)
{
    for (uint32_t i = 0; event->feed && i < tracer->nrights; i++)
        if (tracer->rights[i].spec->name == event->feed)
            return tracer->rights[i].granted;
    return !event->feed;
}

/* Nobody waits for the recording any more; the caller frees it. */
static struct trace *let_go(struct tracer *tracer)
{
    struct trace *trace = tracer->trace;
    uv_timer_stop(&tracer->timer);
    if (tracer->records)
        trace_end(trace);
    budget_give(tracer->control->options.budget, BUDGET_TRACE, TRACE_BYTES);
    drop_rights(tracer);
    tracer->trace = NULL;
    tracer->session = NULL;
    tracer->records = false;
    return trace;
}

static void fill(const struct trace *trace, const struct trace_event *from, struct event_text *out)
{
    static const char *const groups[] = {
        [TRACE_THREADS] = "threads", [TRACE_TRAINERS] = "trainers", [TRACE_SLOTS] = "slots"};
    Dlp__TraceEvent *event = &out->event;
    dlp__trace_event__init(event);
    event->name = (char *)from->name;
    event->group = (char *)groups[from->group];
    event->lane = (char *)trace_text(trace, from->lane);
    event->feed = (char *)(from->feed ? from->feed : "");
    event->detail = dlp_escape(trace_text(trace, from->detail), out->detail, sizeof out->detail);
    event->begin_ns = from->begin;
    event->length_ns = from->ns;
    event->step = from->step;
}

static void send_part(struct tracer *tracer)
{
    const struct trace *trace = tracer->trace;
    cleanup_free struct event_text *texts = mem_array(EVENTS_A_PART, sizeof *texts);
    Dlp__TraceEvent *list[EVENTS_A_PART];
    Dlp__TraceReply reply = DLP__TRACE_REPLY__INIT;
    for (; tracer->sent < trace_count(trace) && reply.n_events < EVENTS_A_PART; tracer->sent++) {
        const struct trace_event *event = trace_at(trace, tracer->sent);
        if (!may_see(tracer, event))
            continue;
        fill(trace, event, &texts[reply.n_events]);
        list[reply.n_events] = &texts[reply.n_events].event;
        reply.n_events++;
    }
    reply.events = list;
    reply.dropped = trace_dropped(trace);
    reply.seconds = (double)trace_ns(trace) / (double)CLOCK_SECOND;
    reply.more = tracer->sent < trace_count(trace);
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    env.id = tracer->id;
    env.body_case = DLP__ENVELOPE__BODY_TRACE_REPLY;
    env.trace_reply = &reply;
    session_send(tracer->session, &env);
    if (!reply.more)
        trace_free(let_go(tracer));
}

bool trace_reply_is_for(const struct session *session)
{
    return session->control->tracer->session == session;
}

bool trace_reply_continue(struct session *session)
{
    struct tracer *tracer = session->control->tracer;
    if (!trace_reply_is_for(session) || tracer->records)
        return false;
    send_part(tracer);
    return true;
}

void trace_reply_cancel(struct session *session)
{
    if (trace_reply_is_for(session))
        trace_free(let_go(session->control->tracer));
}

/* Of a peer that does not read its answer. */
static void on_unread(uv_timer_t *timer)
{
    struct tracer *tracer = timer->data;
    bool reads = tracer->sent != tracer->seen;
    tracer->seen = tracer->sent;
    if (reads)
        return;
    struct session *session = tracer->session;
    uint64_t id = tracer->id;
    trace_free(let_go(tracer));
    session_refuse(
        session, id, DLP_ERROR_TOO_MANY,
        "the recording was not read for 30 s, and its place goes to the next: ask again");
}

static void on_recorded(uv_timer_t *timer)
{
    struct tracer *tracer = timer->data;
    trace_waits(tracer->control);
    trace_end(tracer->trace);
    tracer->records = false;
    uv_timer_start(&tracer->timer, on_unread, UNREAD_MS, UNREAD_MS);
    struct session *session = tracer->session;
    if (session->sink.more)
        session->sink.more(session->sink.context);
    else
        while (trace_reply_continue(session))
            ;
}

static bool is_busy(struct tracer *tracer, struct session *session, uint64_t id)
{
    const struct session *other = tracer->session;
    if (!other)
        return false;
    session_refuse_format(session, id, DLP_ERROR_TOO_MANY,
                          "a recording for pid %d, uid %u, is under way, one at a time: try again "
                          "in some seconds",
                          (int)other->peer.pid, other->peer.uid);
    return true;
}

void trace_reply_begin(struct session *session, uint64_t id, double seconds)
{
    struct tracer *tracer = session->control->tracer;
    struct budget *budget = session->control->options.budget;
    struct error err;
    if (!(seconds >= TRACE_SECONDS_MIN && seconds <= TRACE_SECONDS_MAX)) {
        session_refuse_format(session, id, DLP_ERROR_BAD_REQUEST,
                              "a recording takes %g to %g seconds", TRACE_SECONDS_MIN,
                              TRACE_SECONDS_MAX);
        return;
    }
    if (is_busy(tracer, session, id))
        return;
    if (budget_take(budget, BUDGET_TRACE, TRACE_BYTES, &err) < 0) {
        session_refuse_format(session, id, DLP_ERROR_NO_MEMORY, "recording: %s", err.text);
        return;
    }
    tracer->trace = trace_begin();
    if (!tracer->trace) {
        budget_give(budget, BUDGET_TRACE, TRACE_BYTES);
        session_refuse(session, id, DLP_ERROR_NO_MEMORY, "no memory for a recording");
        return;
    }
    tracer->session = session;
    tracer->id = id;
    tracer->records = true;
    tracer->sent = tracer->seen = 0;
    look_up_rights(tracer);
    uv_timer_start(&tracer->timer, on_recorded, (uint64_t)(seconds * 1000), 0);
}
