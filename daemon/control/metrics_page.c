#include "control/metrics_page.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "control/exposition.h"
#include "control/gauge.h"
#include "proto/errors.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define FEED_LABELS (DLP_NAME_MAX + sizeof "feed=\"\"")
#define CLIENT_LABELS (FEED_LABELS + 40)
#define WAITS "dataload_batch_wait_seconds"

#define OF(member) offsetof(Dlp__StatusReply, member)
static const struct figure daemon_figures[] = {
    {"dataload_up_seconds", "gauge", "Seconds since the daemon's start.", EXPOSITION_NS,
     OF(uptime_ns)},
    {"dataload_workers", "gauge", "Decode threads that work now.", EXPOSITION_U32, OF(workers)},
    {"dataload_workers_max", "gauge", "Decode threads that there may be.", EXPOSITION_U32,
     OF(workers_max)},
    {"dataload_throttled_ratio", "gauge",
     "Share of the last seconds in which a cgroup kept the daemon from running.", EXPOSITION_DOUBLE,
     OF(throttled_share)},
    {"dataload_memory_used_bytes", "gauge",
     "Memory in use: slots, shuffle buffers, encoded records.", EXPOSITION_U64, OF(memory_used)},
    {"dataload_memory_limit_bytes", "gauge", "What the memory in use may come to.", EXPOSITION_U64,
     OF(memory_limit)},
    {"dataload_memory_orphaned_bytes", "gauge",
     "Memory in use of ended mirror groups, still mapped by somebody.", EXPOSITION_U64,
     OF(memory_orphaned)},
    {"dataload_malformed_peers_total", "counter", "Connections closed for a malformed message.",
     EXPOSITION_U64, OF(malformed_peers)},
};
#undef OF

#define OF(member) offsetof(Dlp__FeedStatus, member)
static const struct figure feed_figures[] = {
    {"dataload_feed_clients", "gauge", "Trainers that are attached or attaching.", EXPOSITION_U32,
     OF(clients)},
    {"dataload_feed_records", "gauge", "Records of the data set; 0 until it is opened.",
     EXPOSITION_U64, OF(records)},
    {"dataload_feed_shards", "gauge", "Shards of the data set; 0 until it is opened.",
     EXPOSITION_U64, OF(shards)},
    {"dataload_feed_batches_total", "counter", "Batches that its trainers have taken.",
     EXPOSITION_U64, OF(batches)},
    {"dataload_feed_samples_total", "counter", "Samples that its trainers have taken.",
     EXPOSITION_U64, OF(samples)},
    {"dataload_feed_bytes_total", "counter", "Bytes of the batches that its trainers have taken.",
     EXPOSITION_U64, OF(bytes)},
    {"dataload_feed_wait_seconds_total", "counter",
     "Time that its trainers have waited for a batch.", EXPOSITION_NS, OF(wait_ns)},
    {"dataload_feed_hold_seconds_total", "counter", "Time that its trainers have held a batch.",
     EXPOSITION_NS, OF(hold_ns)},
    {"dataload_feed_decoded_samples_total", "counter",
     "Samples that workers have decoded and augmented.", EXPOSITION_U64, OF(decoded)},
    {"dataload_feed_read_bytes_total", "counter", "Bytes read from storage.", EXPOSITION_U64,
     OF(read_bytes)},
    {"dataload_feed_read_errors_total", "counter", "Reads of storage that failed.", EXPOSITION_U64,
     OF(read_errors)},
    {"dataload_feed_bad_samples_total", "counter", "Samples that were bad and were replaced.",
     EXPOSITION_U64, OF(bad)},
    {"dataload_feed_damaged_samples_total", "counter",
     "Pictures with a harmless fault, which were delivered.", EXPOSITION_U64, OF(damaged)},
    {"dataload_feed_bad_limit_stops_total", "counter", "Streams that bad_limit has ended.",
     EXPOSITION_U64, OF(bad_limit_stops)},
    {"dataload_feed_skipped_batches_total", "counter",
     "Batches that passed a trainer by (lag: skip).", EXPOSITION_U64, OF(skipped)},
    {"dataload_feed_lag_detached_clients_total", "counter",
     "Trainers detached because their group waited for them (lag: detach).", EXPOSITION_U64,
     OF(lag_detached)},
    {"dataload_feed_marks_used_total", "counter", "Pictures decoded with their marks.",
     EXPOSITION_U64, OF(marks_used)},
    {"dataload_feed_marks_wrong_total", "counter", "Pictures whose marks were wrong.",
     EXPOSITION_U64, OF(marks_wrong)},
    {"dataload_feed_marks_kept_total", "counter", "Pictures whose marks were kept.", EXPOSITION_U64,
     OF(marks_kept)},
    {"dataload_feed_marks_bytes", "gauge", "Size of the files that marks are kept in.",
     EXPOSITION_U64, OF(marks_bytes)},
    {"dataload_feed_shuffle_fill_ratio", "gauge",
     "How full the shuffle buffers are, of what they are to hold.", EXPOSITION_DOUBLE,
     OF(shuffle_fill)},
};
#undef OF

#define OF(member) offsetof(Dlp__StageStatus, member)
static const struct figure stage_figures[] = {
    {"dataload_stage_busy_seconds_total", "counter",
     "Threads' time that a stage of a feed has taken.", EXPOSITION_NS, OF(busy_ns)},
    {"dataload_stage_limit_samples_per_second", "gauge",
     "What a stage of a feed could do as it is; 0: not known.", EXPOSITION_DOUBLE, OF(limit)},
    {"dataload_stage_queue_items", "gauge",
     "What waits for a stage: bytes (read), rows (decode), records (shuffle), batches (slots, "
     "copy).",
     EXPOSITION_U64, OF(queued)},
    {"dataload_stage_queue_capacity_items", "gauge",
     "Room for what waits for a stage; 0: not bounded.", EXPOSITION_U64, OF(room)},
};
#undef OF

#define OF(member) offsetof(Dlp__CauseStatus, member)
static const struct figure feed_cause_figures[] = {
    {"dataload_feed_stalls_total", "counter",
     "Waits of its trainers over 1 ms, for a batch that was not there.", EXPOSITION_U64,
     OF(stalls)},
    {"dataload_feed_stall_seconds_total", "counter", "Time of the stalls of its trainers.",
     EXPOSITION_NS, OF(wait_ns)},
};
static const struct figure client_cause_figures[] = {
    {"dataload_client_stalls_total", "counter",
     "Waits of a trainer over 1 ms, for a batch that was not there.", EXPOSITION_U64, OF(stalls)},
    {"dataload_client_stall_seconds_total", "counter", "Time of the stalls of a trainer.",
     EXPOSITION_NS, OF(wait_ns)},
};
#undef OF

#define OF(member) offsetof(Dlp__ClientStatus, member)
static const struct figure client_figures[] = {
    {"dataload_client_batches_total", "counter", "Batches that a trainer has taken.",
     EXPOSITION_U64, OF(batches)},
    {"dataload_client_samples_total", "counter", "Samples that a trainer has taken.",
     EXPOSITION_U64, OF(samples)},
    {"dataload_client_bytes_total", "counter", "Bytes of the batches that a trainer has taken.",
     EXPOSITION_U64, OF(bytes)},
    {"dataload_client_wait_seconds_total", "counter", "Time that a trainer has waited for a batch.",
     EXPOSITION_NS, OF(wait_ns)},
    {"dataload_client_hold_seconds_total", "counter", "Time that a trainer has held a batch.",
     EXPOSITION_NS, OF(hold_ns)},
    {"dataload_client_ready_ratio", "gauge",
     "Share of the last seconds in which a filled batch was there for a trainer.",
     EXPOSITION_DOUBLE, OF(ready_share)},
    {"dataload_client_waiting_seconds", "gauge",
     "How long a trainer has waited by now for a batch that is not there.", EXPOSITION_NS,
     OF(waiting_ns)},
    {"dataload_client_idle_seconds", "gauge", "Seconds since a trainer's last message.",
     EXPOSITION_NS, OF(idle_ns)},
    {"dataload_client_epoch", "gauge", "Epoch of the next batch that a trainer takes.",
     EXPOSITION_U64, OF(epoch)},
    {"dataload_client_step", "gauge",
     "Step of the next batch that a trainer takes, within its epoch.", EXPOSITION_U64, OF(step)},
    {"dataload_client_compute_limit_samples_per_second", "gauge",
     "What a trainer would take if it never waited; 0: not known.", EXPOSITION_DOUBLE,
     OF(compute_limit)},
};
#undef OF

#define OF(member) offsetof(Dlp__UserStatus, member)
static const struct figure user_figures[] = {
    {"dataload_user_clients", "gauge", "Trainers of a user that are attached or attaching.",
     EXPOSITION_U32, OF(clients)},
    {"dataload_user_clients_limit", "gauge", "Trainers that a user may have; 0: no limit.",
     EXPOSITION_U32, OF(clients_limit)},
    {"dataload_user_memory_bytes", "gauge",
     "Memory promised to the streams of a user: slots, staging.", EXPOSITION_U64, OF(memory)},
    {"dataload_user_memory_limit_bytes", "gauge", "What that may come to; 0: no limit.",
     EXPOSITION_U64, OF(memory_limit)},
    {"dataload_user_threads_limit", "gauge", "Workers that a user may have at a time; 0: no limit.",
     EXPOSITION_U32, OF(threads_limit)},
    {"dataload_user_weight", "gauge", "Weight of a user's share of workers and storage.",
     EXPOSITION_U32, OF(weight)},
    {"dataload_user_busy_ratio", "gauge", "Share of the workers' time that a user's streams take.",
     EXPOSITION_DOUBLE, OF(busy)},
};
#undef OF

static void add_family(struct text *out, const struct figure *figure)
{
    exposition_family(out, figure->name, figure->type, figure->help);
}

static void add_refusals(const struct control *control, struct text *out)
{
    static const struct {
        enum dlp_error code;
        const char *name;
    } errors[] = {
#define X(number, name, err, text) {DLP_ERROR_##name, #name},
        DLP_ERRORS(X)
#undef X
    };
    static const char name[] = "dataload_refusals_total";
    exposition_family(out, name, "counter", "Attaches and questions refused, by the error's name.");
    for (size_t i = 0; i < COUNT(errors); i++) {
        char labels[48];
        int size = snprintf(labels, sizeof labels, "reason=\"%s\"", errors[i].name);
        for (int k = 0; k < size; k++)
            labels[k] = (char)tolower(labels[k]);
        exposition_count(out, name, labels, control->refusals[errors[i].code]);
    }
}

static void add_gpus(const struct control *control, struct text *out)
{
    static const struct figure figures[] = {
        {"dataload_gpu_lent_bytes", "gauge", "Memory of a GPU that holds batches for trainers.",
         EXPOSITION_U64, offsetof(struct uploader_state, lent)},
        {"dataload_gpu_copied_bytes_total", "counter",
         "Bytes of batches that were copied to a GPU.", EXPOSITION_U64,
         offsetof(struct uploader_state, copied)},
    };
    const struct gpu_list *list = gpus_list(control->options.gpus);
    for (size_t i = 0; i < COUNT(figures); i++) {
        add_family(out, &figures[i]);
        for (uint32_t k = 0; list && k < list->n; k++) {
            if (!*list->gpus[k].uuid) /* it cannot even be named */
                continue;
            struct uploader_state state = {0};
            char labels[GPUS_UUID_MAX + sizeof "gpu=\"\""];
            uploaders_state(control->options.uploaders, list->gpus[k].uuid, &state);
            snprintf(labels, sizeof labels, "gpu=\"%s\"", list->gpus[k].uuid);
            exposition_figure(out, &figures[i], labels, &state);
        }
    }
}

static void add_daemon(const struct status *status, uint32_t hidden, struct text *out)
{
    const Dlp__StatusReply *reply = &status->reply;
    const struct control *control = status->census.control;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    exposition_family(out, "dataload_up", "gauge", "1 where a daemon answers, 0 where none does.");
    exposition_count(out, "dataload_up", "", 1);
    exposition_family(out, "dataload_build_info", "gauge", "1, with the daemon's version.");
    exposition_count(out, "dataload_build_info", "version=\"" DATALOADD_VERSION "\"", 1);
    exposition_family(out, "dataload_heartbeat_timestamp_seconds", "gauge",
                      "Unix time at which these figures were taken.");
    exposition_seconds(out, "dataload_heartbeat_timestamp_seconds", "",
                       (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec);
    for (size_t i = 0; i < COUNT(daemon_figures); i++) {
        add_family(out, &daemon_figures[i]);
        exposition_figure(out, &daemon_figures[i], "", reply);
    }
    add_refusals(control, out);
    exposition_family(out, "dataload_vacant_ranks", "gauge",
                      "Ranks of running jobs that nobody has now.");
    exposition_count(out, "dataload_vacant_ranks", "", reply->n_vacant);
    exposition_family(out, "dataload_clients_without_series", "gauge",
                      "Trainers beyond those that have series of their own here.");
    exposition_count(out, "dataload_clients_without_series", "", hidden);
    add_gpus(control, out);
}

/* A further label behind those of a feed or client. */
static void with_label(const char *labels, const char *name, const char *value,
                       char out[CLIENT_LABELS + 64])
{
    snprintf(out, CLIENT_LABELS + 64, "%s,%s=\"%s\"", labels, name, value);
}

static void add_stages(const Dlp__StatusReply *reply, char (*labels)[FEED_LABELS], struct text *out)
{
    for (size_t i = 0; i < COUNT(stage_figures); i++) {
        add_family(out, &stage_figures[i]);
        for (size_t k = 0; k < reply->n_feeds; k++) {
            for (size_t s = 0; s < reply->feeds[k]->n_stages; s++) {
                const Dlp__StageStatus *stage = reply->feeds[k]->stages[s];
                char all[CLIENT_LABELS + 64];
                with_label(labels[k], "stage", stage->name, all);
                exposition_figure(out, &stage_figures[i], all, stage);
            }
        }
    }
}

static void add_causes(struct text *out, const struct figure *figure, const char *labels,
                       Dlp__CauseStatus **causes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char all[CLIENT_LABELS + 64];
        with_label(labels, "cause", causes[i]->name, all);
        exposition_figure(out, figure, all, causes[i]);
    }
}

/* Waits by their length, as a histogram of Prometheus: each class with all shorter ones. */
static void add_waits(const Dlp__FeedStatus *feed, const char *labels, struct text *out)
{
    static const char *const bounds[] = {
#define BOUND(ns) #ns,
        DLP_WAIT_BOUNDS(BOUND)
#undef BOUND
    };
    char all[CLIENT_LABELS + 64], bound[32];
    uint64_t count = 0;
    for (size_t i = 0; i < feed->n_wait_counts; i++) {
        count += feed->wait_counts[i];
        if (i < COUNT(bounds))
            snprintf(bound, sizeof bound, "%.9g", strtod(bounds[i], NULL) / (double)CLOCK_SECOND);
        with_label(labels, "le", i < COUNT(bounds) ? bound : "+Inf", all);
        exposition_count(out, WAITS "_bucket", all, count);
    }
    if (!feed->n_wait_counts)
        return;
    exposition_seconds(out, WAITS "_sum", labels, feed->wait_ns);
    exposition_count(out, WAITS "_count", labels, count);
}

/* One of the closed list is 1. */
static void add_verdict(const Dlp__FeedStatus *feed, const char *labels, struct text *out)
{
    static const char *const stages[] = {"storage", "decode", "copy", "trainer", "unknown"};
    for (size_t i = 0; i < COUNT(stages); i++) {
        char all[CLIENT_LABELS + 64];
        with_label(labels, "stage", stages[i], all);
        exposition_count(out, "dataload_feed_limited_by", all,
                         strcmp(feed->limiting_stage, stages[i]) == 0);
    }
}

/* Of streams that several read, once. */
static void add_slots(const struct census *census, const char *feed, const char *labels,
                      struct text *out)
{
    uint64_t ready = 0, held = 0, all = 0;
    char with[CLIENT_LABELS + 64];
    for (uint32_t i = 0; i < census->count; i++) {
        const struct view *view = &census->views[i];
        if (!view->counts || strcmp(view->session->spec->name, feed) != 0)
            continue;
        ready += view->stats.ready;
        held += view->stats.held;
        all += view->stats.slots;
    }
    with_label(labels, "state", "ready", with);
    exposition_count(out, "dataload_feed_slots", with, ready);
    with_label(labels, "state", "held", with);
    exposition_count(out, "dataload_feed_slots", with, held);
    with_label(labels, "state", "filling", with);
    exposition_count(out, "dataload_feed_slots", with, all > ready + held ? all - ready - held : 0);
}

static void add_feeds(const struct status *status, struct text *out)
{
    const Dlp__StatusReply *reply = &status->reply;
    cleanup_free char(*labels)[FEED_LABELS] = mem_array(reply->n_feeds + 1, sizeof *labels);
    for (size_t k = 0; k < reply->n_feeds; k++)
        snprintf(labels[k], sizeof *labels, "feed=\"%s\"", reply->feeds[k]->name);
    for (size_t i = 0; i < COUNT(feed_figures); i++) {
        add_family(out, &feed_figures[i]);
        for (size_t k = 0; k < reply->n_feeds; k++)
            exposition_figure(out, &feed_figures[i], labels[k], reply->feeds[k]);
    }
    for (size_t i = 0; i < COUNT(feed_cause_figures); i++) {
        add_family(out, &feed_cause_figures[i]);
        for (size_t k = 0; k < reply->n_feeds; k++)
            add_causes(out, &feed_cause_figures[i], labels[k], reply->feeds[k]->causes,
                       reply->feeds[k]->n_causes);
    }
    exposition_family(out, WAITS, "histogram", "How long its trainers waited for a batch.");
    for (size_t k = 0; k < reply->n_feeds; k++)
        add_waits(reply->feeds[k], labels[k], out);
    exposition_family(out, "dataload_feed_limited_by", "gauge",
                      "1 for the stage that limits the feed, 0 for the others.");
    for (size_t k = 0; k < reply->n_feeds; k++)
        add_verdict(reply->feeds[k], labels[k], out);
    exposition_family(
        out, "dataload_feed_slots", "gauge",
        "Slots for batches of a feed: ready for a trainer, held by one, being filled.");
    for (size_t k = 0; k < reply->n_feeds; k++)
        add_slots(&status->census, reply->feeds[k]->name, labels[k], out);
    add_stages(reply, labels, out);
}

static void add_info(const Dlp__ClientStatus *client, const char *labels, struct text *out)
{
    char user[EXPOSITION_LABEL_MAX], program[EXPOSITION_LABEL_MAX];
    char all[CLIENT_LABELS + 2 * EXPOSITION_LABEL_MAX + DLP_NAME_MAX + 200];
    snprintf(all, sizeof all,
             "%s,pid=\"%d\",uid=\"%u\",user=\"%s\",train_job=\"%s\",rank=\"%u\",world=\"%u\","
             "program=\"%s\",memory=\"%s\",gpu=\"%s\",probe=\"%u\"",
             labels, client->pid, client->uid, exposition_label(client->user, user), client->job,
             client->rank, client->world, exposition_label(client->program, program),
             client->memory, client->gpu, client->probe);
    exposition_count(out, "dataload_client_info", all, 1);
}

/* clients: the `count` that are shown */
static void add_clients(Dlp__ClientStatus *const *clients, size_t count, struct text *out)
{
    cleanup_free char(*labels)[CLIENT_LABELS] = mem_array(count + 1, sizeof *labels);
    exposition_family(out, "dataload_client_info", "gauge",
                      "1, with what the number of a trainer stands for.");
    for (size_t k = 0; k < count; k++) {
        snprintf(labels[k], sizeof *labels, "client=\"%" PRIu64 "\",feed=\"%s\"",
                 clients[k]->number, clients[k]->feed);
        add_info(clients[k], labels[k], out);
    }
    for (size_t i = 0; i < COUNT(client_figures); i++) {
        add_family(out, &client_figures[i]);
        for (size_t k = 0; k < count; k++)
            exposition_figure(out, &client_figures[i], labels[k], clients[k]);
    }
    for (size_t i = 0; i < COUNT(client_cause_figures); i++) {
        add_family(out, &client_cause_figures[i]);
        for (size_t k = 0; k < count; k++)
            add_causes(out, &client_cause_figures[i], labels[k], clients[k]->causes,
                       clients[k]->n_causes);
    }
}

static void add_users(const Dlp__StatusReply *reply, struct text *out)
{
    for (size_t i = 0; i < COUNT(user_figures); i++) {
        add_family(out, &user_figures[i]);
        for (size_t k = 0; k < reply->n_users; k++) {
            char user[EXPOSITION_LABEL_MAX], labels[EXPOSITION_LABEL_MAX + 40];
            snprintf(labels, sizeof labels, "user=\"%s\",uid=\"%u\"",
                     exposition_label(reply->users[k]->user, user), reply->users[k]->uid);
            exposition_figure(out, &user_figures[i], labels, reply->users[k]);
        }
    }
}

/* A census has the newest first: those that are shown stay so until they leave. */
void metrics_page(const struct status *status, struct text *out)
{
    size_t all = status->reply.n_clients;
    size_t hidden = all > METRICS_CLIENTS_MAX ? all - METRICS_CLIENTS_MAX : 0;
    add_daemon(status, (uint32_t)hidden, out);
    add_users(&status->reply, out);
    add_feeds(status, out);
    add_clients(status->reply.clients + hidden, all - hidden, out);
}
