#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"

#define SECONDS 5
#define FILE_NAME "dataload-trace.json"

/* A row of the picture: a thread, a trainer, a slot. Numbers of processes stand for groups, so that
 * a viewer shows them one below another. */
struct lane {
    const char *group, *name;
    int process, number;
};

struct picture {
    FILE *out;
    Dlp__TraceEvent **events; /* by lane, then begin, the longer first */
    size_t count;
    bool begun; /* an event was written */
};

static int process_of(const char *group)
{
    static const char *const groups[] = {"threads", "trainers", "slots"};
    for (int i = 0; i < 3; i++)
        if (strcmp(groups[i], group) == 0)
            return i + 1;
    return 4;
}

static int compare(const void *left, const void *right)
{
    const Dlp__TraceEvent *a = *(Dlp__TraceEvent *const *)left;
    const Dlp__TraceEvent *b = *(Dlp__TraceEvent *const *)right;
    int order = process_of(a->group) - process_of(b->group);
    order = order ? order : strcmp(a->lane, b->lane);
    if (order)
        return order;
    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns ? -1 : 1;
    return (a->length_ns < b->length_ns) - (a->length_ns > b->length_ns);
}

/* Takes the object. */
static void put(struct picture *picture, json_t *object)
{
    fputs(picture->begun ? ",\n" : "\n", picture->out);
    picture->begun = true;
    json_dumpf(ctl_must(object), picture->out, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(object);
}

static void put_name(struct picture *picture, const char *what, const struct lane *lane,
                     const char *name)
{
    put(picture, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", what, "ph", "M", "pid",
                           lane->process, "tid", lane->number, "args", "name", name));
}

static void put_event(struct picture *picture, const struct lane *lane,
                      const Dlp__TraceEvent *event)
{
    json_t *args = ctl_must(json_object());
    if (*event->feed)
        json_object_set_new(args, "feed", ctl_json_text(event->feed));
    if (*event->detail)
        json_object_set_new(args, "shard", ctl_json_text(event->detail));
    if (lane->process != 1 || strcmp(event->name, "decode") == 0 ||
        strcmp(event->name, "finish") == 0 || strcmp(event->name, "copy") == 0)
        json_object_set_new(args, "step", json_integer((json_int_t)event->step));
    put(picture, json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:o}", "name", event->name, "cat",
                           event->group, "ph", "X", "ts", (double)event->begin_ns / 1e3, "dur",
                           (double)event->length_ns / 1e3, "pid", lane->process, "tid",
                           lane->number, "args", args));
}

static bool is_in(const struct lane *lane, const Dlp__TraceEvent *event)
{
    return lane->name && strcmp(lane->group, event->group) == 0 &&
           strcmp(lane->name, event->lane) == 0;
}

static void put_events(struct picture *picture)
{
    struct lane lane = {0};
    for (size_t i = 0; i < picture->count; i++) {
        const Dlp__TraceEvent *event = picture->events[i];
        if (!is_in(&lane, event)) {
            bool same = lane.name && strcmp(lane.group, event->group) == 0;
            lane =
                (struct lane){event->group, event->lane, process_of(event->group), lane.number + 1};
            if (!same)
                put_name(picture, "process_name", &lane, lane.group);
            put_name(picture, "thread_name", &lane, lane.name);
        }
        put_event(picture, &lane, event);
    }
}

/* How many batches wait for trainers: each is ready from here to there. */
struct change {
    uint64_t at;
    int by;
};

static int compare_changes(const void *left, const void *right)
{
    const struct change *a = left, *b = right;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->by - b->by;
}

static void put_ready(struct picture *picture)
{
    struct change *changes = ctl_must(calloc(2 * picture->count + 1, sizeof(*changes)));
    size_t count = 0;
    int ready = 0;
    for (size_t i = 0; i < picture->count; i++) {
        const Dlp__TraceEvent *event = picture->events[i];
        if (strcmp(event->name, "ready") != 0)
            continue;
        changes[count++] = (struct change){event->begin_ns, 1};
        changes[count++] = (struct change){event->begin_ns + event->length_ns, -1};
    }
    qsort(changes, count, sizeof(*changes), compare_changes);
    for (size_t i = 0; i < count; i++) {
        ready += changes[i].by;
        if (i + 1 < count && changes[i + 1].at == changes[i].at)
            continue;
        put(picture, json_pack("{s:s, s:s, s:f, s:i, s:i, s:{s:i}}", "name", "ready batches", "ph",
                               "C", "ts", (double)changes[i].at / 1e3, "pid", 3, "tid", 0, "args",
                               "batches", ready));
    }
    free(changes);
}

static int write_file(const struct ctl *ctl, FILE *out, const char *file,
                      const Dlp__TraceReply *reply)
{
    struct picture picture = {.out = out, .events = reply->events, .count = reply->n_events};
    qsort(picture.events, picture.count, sizeof(Dlp__TraceEvent *), compare);
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
    put_events(&picture);
    put_ready(&picture);
    fprintf(out, "\n],\"otherData\":{\"seconds\":%.3f,\"dropped\":%ju}}\n", reply->seconds,
            (uintmax_t)reply->dropped);
    bool failed = ferror(out);
    if (fclose(out) || failed)
        return ctl_fail(ctl, CTL_UNAVAILABLE, "cannot write %s: %m", file);
    return CTL_OK;
}

static void print_report(const struct ctl *ctl, const char *file, const Dlp__TraceReply *reply)
{
    if (ctl->json) {
        json_t *json = ctl_must(json_pack("{s:o, s:I, s:I, s:f}", "file", ctl_json_text(file),
                                          "events", (json_int_t)reply->n_events, "dropped",
                                          (json_int_t)reply->dropped, "seconds", reply->seconds));
        ctl_json_print(ctl->out, json, true);
        return;
    }
    ctl_print(ctl, "%s: %zu events of %.1f s; open it in ui.perfetto.dev or chrome://tracing", file,
              reply->n_events, reply->seconds);
    if (reply->dropped)
        ctl_print(ctl, "%ju events found no room: record fewer seconds", (uintmax_t)reply->dropped);
}

static int record(const struct ctl *ctl, double seconds, struct ctl_reply *reply)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__TraceRequest request = DLP__TRACE_REQUEST__INIT;
    env.body_case = DLP__ENVELOPE__BODY_TRACE_REQUEST;
    env.trace_request = &request;
    request.seconds = seconds;
    return ctl_ask_once(ctl, "dataloadctl trace", &env, DLP__ENVELOPE__BODY_TRACE_REPLY,
                        (int)(seconds * 1000) + CTL_DEADLINE_MS, reply);
}

/* The file is opened first: a wrong name costs no recording. What it holds stays until there is
 * something new. */
int ctl_trace(const struct ctl *ctl)
{
    const char *file = ctl->file ? ctl->file : FILE_NAME;
    struct ctl_reply reply;
    FILE *out = fopen(file, "ae");
    if (!out)
        return ctl_fail(ctl, errno == EACCES || errno == EPERM ? CTL_PERMISSION : CTL_UNAVAILABLE,
                        "cannot write %s: %m", file);
    int code = record(ctl, ctl->seconds > 0 ? ctl->seconds : SECONDS, &reply);
    if (code) {
        fclose(out);
        return code;
    }
    if (ftruncate(fileno(out), 0) < 0 && errno != EINVAL) /* no file of the disk */
        ctl_fail(ctl, CTL_OK, "cannot empty %s: %m", file);
    code = write_file(ctl, out, file, ctl_reply_body(&reply));
    if (code == CTL_OK)
        print_report(ctl, file, ctl_reply_body(&reply));
    ctl_reply_free(&reply);
    return code;
}
