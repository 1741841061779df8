#include "control/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/plural.h"
#include "base/trace.h"
#include "control/admit.h"
#include "control/autoscale.h"
#include "control/conn.h"
#include "control/evict.h"
#include "control/giving.h"
#include "control/group.h"
#include "control/heartbeat.h"
#include "control/http.h"
#include "control/inquiry.h"
#include "control/mix_watch.h"
#include "control/own_feeds.h"
#include "control/page_reply.h"
#include "control/pages.h"
#include "control/reclaim.h"
#include "control/replay.h"
#include "control/session.h"
#include "control/settings.h"
#include "control/status.h"
#include "control/trace_reply.h"

#define TICK_MS 1000
#define STOOD_NS (3 * CLOCK_SECOND) /* between two ticks: the process was stopped */
#define SAVE_NS (10 * CLOCK_SECOND) /* between two writes of the bad list */
#define TOOLS 32                    /* connections beside the trainers', for dataloadctl */
#define TOOLS_OF_ONE (TOOLS / 2)    /* of them for a user whose clients are bounded */

static void log_faults(const char *feed, const struct dataset *dataset)
{
    uint32_t count = dataset_faults(dataset);
    if (!count)
        return;
    struct bad_report first = dataset_fault(dataset, 0);
    const struct log_about about = {.id = LOG_SHARD_DAMAGED,
                                    .feed = feed,
                                    .shard = first.shard,
                                    .key = first.key,
                                    .reason = bad_name(first.cls)};
    log_event(
        LOG_WARNING, &about,
        "feed %s: %u fault%s of structure in its shards (dataloadctl bad), the first: %s: %s: %s",
        feed, count, plural(count), about.reason, first.shard, first.reason);
}

static void on_opened(void *context, uint32_t feed, struct dataset *dataset)
{
    struct control *control = context;
    log_faults(control->options.feeds[feed]->name, dataset);
    /* More than the list can hold would only take time. */
    for (uint32_t i = 0; i < dataset_faults(dataset) && i < BADLIST_MAX; i++) {
        struct bad_report fault = dataset_fault(dataset, i);
        badlist_add_once(control->badlist, control->options.feeds[feed]->name, &fault);
    }
}

static struct errands *find_lane(void *context, const struct feed_spec *spec)
{
    const struct control *control = context;
    return own_feeds_lane(control->own_feeds, spec);
}

static void on_ended(void *context)
{
    control_settled(context);
}

static void write_badlist(uv_work_t *work)
{
    struct control *control = work->data;
    struct error err;
    if (badlist_write(control->save_path, control->save_text, control->save_size, &err))
        log_event(LOG_WARNING, log_about(LOG_CACHE_FAILED), "%s", err.text);
}

static void badlist_written(uv_work_t *work, int status)
{
    struct control *control = work->data;
    (void)status;
    free(control->save_text);
    control->save_text = NULL;
    control->saving = false;
    control_settled(control);
}

static void save_badlist(struct control *control)
{
    if (!control->save_path || control->saving || !badlist_dirty(control->badlist))
        return;
    control->save_text = badlist_text(control->badlist, &control->save_size);
    if (!control->save_text)
        return;
    control->saving = true;
    control->saved_at = clock_ns();
    control->save.data = control;
    uv_queue_work(control->options.loop, &control->save, write_badlist, badlist_written);
}

static void on_tick(uv_timer_t *timer)
{
    struct control *control = timer->data;
    uint64_t now = clock_ns(), begin = trace_now();
    bool stood = now - control->ticked > STOOD_NS; /* rates over that time would be of nothing */
    bool throttled = autoscale_throttled(control->autoscale) > GAUGE_THROTTLED_SHARE;
    if (control->options.heartbeat)
        heartbeat_beat(control->options.heartbeat, control->instance,
                       workers_stuck_ns(control->options.workers));
    datasets_tick(control->datasets, now);
    jobs_expire(control->jobs, now);
    for (struct session *s = control->sessions, *next; s; s = next) {
        next = s->next;
        now = clock_ns(); /* what begins in this tick, by another's end, is not ahead of it */
        evict_tick(s, now);
        if (s->inquiry)
            inquiry_tick(s->inquiry);
        page_reply_tick(s);
        giving_tick(s, now);
        if (s->admit) {
            admit_tick(s->admit, now);
        } else if (s->state == SESSION_STREAMING) {
            struct feed_stats stats;
            feed_get_stats(s->group->feed, &stats);
            s->gauge->throttled = throttled;
            if (stood)
                gauge_restart(s->gauge, now, &stats);
            gauge_look(s->gauge, now, &stats);
        }
    }
    for (struct group *group = control->groups; group; group = group->next) {
        lag_tick(group, now);
        group_tell_members(group);
    }
    autoscale_tick(control->autoscale, now);
    replay_tick(control, now);
    settings_tick(control);
    own_feeds_tick(control->own_feeds, now);
    mix_watch_tick(control->mix_watch);
    uploaders_watch(control->options.uploaders);
    reclaim_look(control->reclaim);
    if (now - control->saved_at >= SAVE_NS)
        save_badlist(control);
    control->ticked = now;
    status_keep(control);
    trace_long("tick", begin);
}

static void read_badlist(struct control *control)
{
    struct error err;
    if (!control->options.cache_dir)
        return;
    control->save_path = mem_format("%s/bad.tsv", control->options.cache_dir);
    int rc = badlist_read(control->badlist, control->save_path, &err);
    if (rc && rc != -ENOENT)
        log_event(LOG_WARNING, log_about(LOG_CACHE_FAILED), "%s", err.text);
}

static const struct feed_spec *spec_of(void *context, const char *feed)
{
    const struct control *control = context;
    int number = control_find_feed(control, feed);
    return number < 0 ? NULL : control->options.feeds[number];
}

static void restore_jobs(struct control *control)
{
    struct ledger *ledger = control->options.ledger;
    uint32_t gone = 0;
    if (!ledger)
        return;
    uint32_t count = jobs_restore(control->jobs, ledger, spec_of, control, clock_ns(), &gone);
    if (count)
        log_event(LOG_NOTICE, log_about(LOG_RESTORED), "jobs of the daemon before: %u", count);
    if (gone)
        log_event(LOG_WARNING, log_about(LOG_RESTORED),
                  "jobs of the daemon before whose feeds are not configured any more, and that "
                  "cannot go on: %u",
                  gone);
}

static uint64_t make_instance(void)
{
    uint64_t instance = 0;
    while (!instance)
        if (getrandom(&instance, sizeof instance, 0) != (ssize_t)sizeof instance)
            instance = clock_ns();
    return instance;
}

struct control *control_new(const struct control_options *options)
{
    struct control *control = mem_new(sizeof *control);
    control->options = *options;
    control->started = control->ticked = control->saved_at = control->deserted = clock_ns();
    control->instance = make_instance();
    control->options.feeds = NULL;
    control->options.users = NULL;
    users_copy(&control->users, options->users);
    control->options.nfeeds = 0;
    control->jobs = jobs_new(options->job_linger * CLOCK_SECOND);
    control->badlist = badlist_new(BADLIST_MAX);
    read_badlist(control);
    struct datasets_options datasets = {.loop = options->loop,
                                        .cache_dir = options->cache_dir,
                                        .cache_bytes = options->cache_bytes,
                                        .cache_marks = options->cache_marks,
                                        .threads = options->threads,
                                        .lane = find_lane,
                                        .opened = on_opened,
                                        .ended = on_ended,
                                        .context = control};
    control->datasets = datasets_new(&datasets);
    control->own_feeds = own_feeds_new(control);
    for (uint32_t i = 0; i < options->nfeeds; i++)
        control_add_feed(control, options->feeds[i]);
    restore_jobs(control);
    control->errands = errands_new(options->mailbox, ERRANDS_AT_ONCE);
    control->pages = pages_new(control);
    control->http = http_new(options->loop, control->pages, &options->metrics);
    control->mix_watch = mix_watch_new(control);
    control->reclaim = reclaim_new(control);
    control->autoscale = autoscale_new(control);
    control->tracer = tracer_new(control);
    uv_timer_init(options->loop, &control->tick);
    uv_timer_init(options->loop, &control->gpu_look);
    control->tick.data = control->gpu_look.data = control;
    uv_timer_start(&control->tick, on_tick, TICK_MS, TICK_MS);
    uv_prepare_init(options->loop, &control->flush);
    control->flush.data = control;
    control->handles = 3;
    return control;
}

void control_accept(struct control *control, int fd)
{
    char text[ERROR_TEXT_MAX], name[ACCESS_USER_MAX];
    uid_t uid = conn_user(fd);
    uint32_t clients = users_limits(control, uid).clients, own = conn_count(control, uid);
    bool over = clients && own >= clients + TOOLS_OF_ONE;
    bool full = control->nconns >= control->options.clients + TOOLS;
    if ((!over && !full) || conn_make_room(control, uid, over)) {
        conn_new(control, fd);
        return;
    }
    if (over)
        snprintf(text, sizeof text,
                 "%u connections of user %s are at work, the most that its clients: %u allows", own,
                 users_name(control, uid, name), clients);
    else
        snprintf(text, sizeof text, "%u connections are at work, the most that clients: %u allows",
                 control->nconns, control->options.clients);
    conn_turn_away(control, fd, DLP_ERROR_TOO_MANY, text);
}

int control_find_feed(const struct control *control, const char *name)
{
    int number = control_find_any(control, name);
    return number < 0 || control->totals[number].removed ? -1 : number;
}

int control_find_any(const struct control *control, const char *name)
{
    for (uint32_t i = 0; i < control->options.nfeeds; i++)
        if (!strcmp(control->options.feeds[i]->name, name))
            return (int)i;
    return -1;
}

static void retry_attaches(struct control *control)
{
    for (struct session *s = control->sessions, *next; s; s = next) {
        next = s->next;
        if (s->admit)
            admit_retry(s->admit);
    }
}

void control_settled(struct control *control)
{
    if (!control->stopping) {
        reclaim_look(control->reclaim); /* a session that has ended may have been the last reader */
        retry_attaches(control);
        return;
    }
    if (!control->stopped || control->sessions || control->saving ||
        datasets_stop(control->datasets) || mix_watch_stop(control->mix_watch) ||
        reclaim_stop(control->reclaim))
        return;
    save_badlist(control); /* what the feeds have found since the stop began */
    if (control->saving)
        return;
    void (*stopped)(void *context) = control->stopped;
    control->stopped = NULL;
    stopped(control->context);
}

void control_stop(struct control *control, void (*stopped)(void *context), void *context)
{
    control->stopping = true;
    jobs_let_be(control->jobs);
    uv_timer_stop(&control->tick);
    uv_timer_stop(&control->gpu_look);
    http_free(control->http);
    control->http = NULL;
    while (control->conns)
        conn_close(control->conns, "the daemon stops");
    datasets_stop(control->datasets);
    save_badlist(control);
    control->stopped = stopped;
    control->context = context;
    control_settled(control);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct control *control = handle->data;
    if (--control->handles == 0)
        free(control);
}

void control_free(struct control *control)
{
    if (!control)
        return;
    jobs_free(control->jobs);
    datasets_free(control->datasets);
    mix_watch_free(control->mix_watch);
    reclaim_free(control->reclaim);
    autoscale_free(control->autoscale);
    tracer_free(control->tracer);
    errands_free(control->errands);
    http_free(control->http);
    pages_free(control->pages);
    badlist_free(control->badlist);
    users_clear(&control->users);
    free(control->totals);
    for (uint32_t i = 0; i < control->options.nfeeds; i++)
        spec_unref(control->feeds[i]);
    free(control->feeds);
    own_feeds_free(control->own_feeds);
    settings_forget_notes(control);
    free(control->save_path);
    uv_close((uv_handle_t *)&control->tick, on_handle_closed);
    uv_close((uv_handle_t *)&control->gpu_look, on_handle_closed);
    uv_close((uv_handle_t *)&control->flush, on_handle_closed);
}
