#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "client/ctl/ctl_json.h"
#include "client/ctl/ctl_sight.h"
#include "client/ctl/ctl_table.h"

#define IDLE_WORTH_SAYING 5000000000U /* ns */

static const struct ctl_column client_columns[] = {
    {"PID", true},    {"USER", false},  {"JOB", false},   {"GROUP", false},    {"RANK", true},
    {"FEED", false},  {"EPOCH", true},  {"STEP", true},   {"SAMPLES/S", true}, {"MB/S", true},
    {"READY", true},  {"WAIT %", true}, {"HOLD %", true}, {"STALLS", true},    {"LONGEST", true},
    {"CAUSE", false}, {"LIMIT", false}, {"LEASE", false}, {"STARTED", false},  {"NOW", false},
};
static const struct ctl_column feed_columns[] = {
    {"FEED", false},     {"CLIENTS", true},  {"SAMPLES/S", true},  {"READ %", true},
    {"READ MB/S", true}, {"DECODE %", true}, {"HAND-OFF %", true}, {"SHUFFLE %", true},
    {"BAD", true},       {"DAMAGED", true},  {"RECORDS", true},    {"SHARDS", true},
};
static const struct ctl_column user_columns[] = {
    {"USER", false},  {"UID", true},     {"CLIENTS", true},   {"MEMORY", true},
    {"WEIGHT", true}, {"THREADS", true}, {"WORKERS %", true},
};
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static double megabytes(double bytes)
{
    return bytes / 1e6;
}

static void add_percent(struct ctl_table *table, double share)
{
    ctl_table_add(table, "%.0f", share * 100);
}

/* What the client does at this moment. */
static void now_text(const Dlp__ClientStatus *client, char *text, size_t size)
{
    char time[CTL_TEXT_MAX];
    const char *who = client->waits_for ? ": " : ": reader ";
    if (client->replaying)
        snprintf(text, size, "%s", client->reason);
    else if (client->waiting_ns > 0)
        snprintf(text, size, "no batch for %s%s%s", ctl_text_time(client->waiting_ns, time),
                 *client->reason ? who : "", client->reason);
    else if (!*client->started && *client->reason)
        snprintf(text, size, "%s: %s", client->state, client->reason);
    else if (client->skipped > 0)
        snprintf(text, size, "%s, %ju skipped", client->state, (uintmax_t)client->skipped);
    else if (client->behind > 0)
        snprintf(text, size, "%s, %ju batch%s behind", client->state, (uintmax_t)client->behind,
                 client->behind == 1 ? "" : "es");
    else if (client->idle_ns > IDLE_WORTH_SAYING)
        snprintf(text, size, "%s, silent for %s", client->state,
                 ctl_text_time(client->idle_ns, time));
    else
        snprintf(text, size, "%s%s", client->state, client->probe ? ", probe" : "");
}

static void add_group(struct ctl_table *table, const Dlp__ClientStatus *client)
{
    if (*client->group)
        ctl_table_add(table, "%s x%u", client->group, client->members);
    else
        ctl_table_add(table, "%s", "");
}

static void add_client(struct ctl_table *table, const Dlp__ClientStatus *client)
{
    char text[DLP_TEXT_MAX], longest[CTL_TEXT_MAX], rate[CTL_TEXT_MAX];
    bool judged = strcmp(client->limiting_stage, "unknown") != 0;
    ctl_table_add(table, "%d", client->pid);
    ctl_table_add(table, "%s", client->user);
    ctl_table_add(table, "%s", client->job);
    add_group(table, client);
    ctl_table_add(table, "%u/%u", client->rank, client->world);
    ctl_table_add(table, "%s", client->feed);
    ctl_table_add(table, "%ju", (uintmax_t)client->epoch);
    ctl_table_add(table, "%ju/%ju", (uintmax_t)client->step, (uintmax_t)client->steps);
    ctl_table_add(table, "%s", ctl_text_rate(client->samples_per_s, rate));
    ctl_table_add(table, "%.1f", megabytes(client->bytes_per_s));
    ctl_table_add(table, "%u/%u", client->ready, client->slots);
    add_percent(table, client->wait_share);
    add_percent(table, client->hold_share);
    ctl_table_add(table, "%ju", (uintmax_t)client->stalls);
    ctl_table_add(table, "%s",
                  client->stalls ? ctl_text_time(client->longest_stall_ns, longest) : "");
    ctl_table_add(table, "%s", client->last_cause);
    ctl_table_add(table, "%s", judged ? client->limiting_stage : "");
    ctl_table_add(table, "%s", client->lease);
    ctl_table_add(table, "%s", client->started);
    now_text(client, text, sizeof(text));
    ctl_table_add(table, "%s", text);
}

static void add_feed(struct ctl_table *table, const Dlp__FeedStatus *feed)
{
    char rate[CTL_TEXT_MAX];
    ctl_table_add(table, "%s", feed->name);
    ctl_table_add(table, "%u", feed->clients);
    ctl_table_add(table, "%s", ctl_text_rate(feed->samples_per_s, rate));
    add_percent(table, feed->read_busy);
    ctl_table_add(table, "%.1f", megabytes(feed->read_bytes_per_s));
    add_percent(table, feed->decode_busy);
    add_percent(table, feed->handoff_busy);
    add_percent(table, feed->shuffle_fill);
    ctl_table_add(table, "%ju", (uintmax_t)feed->bad);
    ctl_table_add(table, "%ju", (uintmax_t)feed->damaged);
    ctl_table_add(table, "%ju", (uintmax_t)feed->records);
    ctl_table_add(table, "%ju", (uintmax_t)feed->shards);
}

/* Where the workers set their number themselves, and where others keep them from the CPUs. */
static void print_workers(const struct ctl *ctl, const Dlp__StatusReply *status)
{
    if (*status->workers_why)
        ctl_print(ctl, "workers: %u of up to %u: %s", status->workers, status->workers_max,
                  status->workers_why);
    if (status->throttled_share >= 0.01)
        ctl_print(
            ctl,
            "throttled: the CPU quota of a cgroup kept %.0f %% of the CPU time that was wanted "
            "from the daemon",
            100 * status->throttled_share);
}

static void print_daemon(const struct ctl *ctl, const Dlp__StatusReply *status)
{
    char up[CTL_TEXT_MAX], used[CTL_TEXT_MAX], limit[CTL_TEXT_MAX], orphaned[CTL_TEXT_MAX];
    ctl_print(ctl, "dataloadd %s, pid %d, up %s, %u worker%s%s%s, %s%s%s", status->version,
              status->pid, ctl_text_time(status->uptime_ns, up), status->workers,
              status->workers == 1 ? "" : "s", *status->worker_cpus ? " on CPUs " : "",
              status->worker_cpus, status->socket, *status->http ? ", " : "", status->http);
    ctl_text_bytes(status->memory_orphaned, orphaned);
    ctl_print(ctl, "memory %s of %s%s%s; %s", ctl_text_bytes(status->memory_used, used),
              ctl_text_bytes(status->memory_limit, limit),
              status->memory_orphaned ? ", orphaned " : "", status->memory_orphaned ? orphaned : "",
              status->device);
    print_workers(ctl, status);
    if (status->draining_ns)
        ctl_print(ctl, "draining for %s: no new job is let in",
                  ctl_text_time(status->draining_ns, up));
    for (size_t i = 0; i < status->n_notes; i++)
        ctl_print(ctl, "note: %s", status->notes[i]);
}

static void print_clients(const struct ctl *ctl, const Dlp__StatusReply *status)
{
    struct ctl_table table;
    if (status->n_clients == 0)
        return;
    ctl_table_init(&table, client_columns, COUNT(client_columns));
    for (size_t i = 0; i < status->n_clients; i++)
        add_client(&table, status->clients[i]);
    ctl_table_print(&table, ctl->out, ctl->headers);
    ctl_table_free(&table);
    fputc('\n', ctl->out);
}

/* What the table has no room for. */
static void print_memory(const struct ctl *ctl, const Dlp__StatusReply *status)
{
    for (size_t i = 0; i < status->n_clients; i++) {
        const Dlp__ClientStatus *client = status->clients[i];
        if (*client->gpu)
            ctl_print(
                ctl, "pid %d: batches on %s, by %s%s", client->pid, client->gpu, client->memory,
                *client->group ? "; nothing keeps members of its group from writing there" : "");
        else if (*client->memory_why)
            ctl_print(ctl, "pid %d: batches in shared memory: %s", client->pid, client->memory_why);
    }
}

static void print_feeds(const struct ctl *ctl, const Dlp__StatusReply *status)
{
    struct ctl_table table;
    ctl_table_init(&table, feed_columns, COUNT(feed_columns));
    for (size_t i = 0; i < status->n_feeds; i++)
        add_feed(&table, status->feeds[i]);
    ctl_table_print(&table, ctl->out, ctl->headers);
    ctl_table_free(&table);
}

/* "3 of 32"; without a limit "3". */
static void add_of_limit(struct ctl_table *table, const char *now, const char *limit)
{
    ctl_table_add(table, "%s%s%s", now, limit ? " of " : "", limit ? limit : "");
}

static void add_user(struct ctl_table *table, const Dlp__UserStatus *user)
{
    char now[CTL_TEXT_MAX], limit[CTL_TEXT_MAX];
    ctl_table_add(table, "%s", user->user);
    ctl_table_add(table, "%u", user->uid);
    snprintf(now, sizeof now, "%u", user->clients);
    snprintf(limit, sizeof limit, "%u", user->clients_limit);
    add_of_limit(table, now, user->clients_limit ? limit : NULL);
    ctl_text_bytes(user->memory, now);
    ctl_text_bytes(user->memory_limit, limit);
    add_of_limit(table, now, user->memory_limit ? limit : NULL);
    ctl_table_add(table, "%u", user->weight);
    ctl_table_add_known(table, user->threads_limit);
    add_percent(table, user->busy);
}

/* Where there is something to tell apart. */
static bool users_matter(const Dlp__StatusReply *status)
{
    for (size_t i = 0; i < status->n_users; i++) {
        const Dlp__UserStatus *user = status->users[i];
        if (user->clients_limit || user->memory_limit || user->threads_limit)
            return true;
    }
    return status->n_users > 1;
}

static void print_users(const struct ctl *ctl, const Dlp__StatusReply *status)
{
    struct ctl_table table;
    if (!users_matter(status))
        return;
    ctl_table_init(&table, user_columns, COUNT(user_columns));
    for (size_t i = 0; i < status->n_users; i++)
        add_user(&table, status->users[i]);
    ctl_table_print(&table, ctl->out, ctl->headers);
    ctl_table_free(&table);
    fputc('\n', ctl->out);
}

static void print_vacant(const struct ctl *ctl, const Dlp__StatusReply *status)
{
    char time[CTL_TEXT_MAX];
    for (size_t i = 0; i < status->n_vacant; i++) {
        const Dlp__VacantRank *rank = status->vacant[i];
        ctl_print(ctl,
                  "%s: %s %s: nobody has had rank %u of %u for %s; it has released what is before "
                  "epoch %ju, step %ju, and lost %ju samples since; a trainer with resume \"last\" "
                  "takes it",
                  rank->feed, rank->shared ? "group" : "job", rank->job, rank->rank, rank->world,
                  ctl_text_time(rank->vacant_ns, time), (uintmax_t)rank->epoch,
                  (uintmax_t)rank->step, (uintmax_t)rank->lost);
    }
}

static void print_marks(const struct ctl *ctl, const Dlp__FeedStatus *feed)
{
    char bytes[CTL_TEXT_MAX];
    if (!feed->marks_bytes)
        return;
    ctl_print(ctl, "%s: marks: %ju of %ju pictures decoded with them, %ju kept, %ju wrong; room %s",
              feed->name, (uintmax_t)feed->marks_used, (uintmax_t)feed->decoded,
              (uintmax_t)feed->marks_kept, (uintmax_t)feed->marks_wrong,
              ctl_text_bytes(feed->marks_bytes, bytes));
}

void ctl_status_table(const struct ctl *ctl, const Dlp__StatusReply *status)
{
    if (ctl->headers) {
        print_daemon(ctl, status);
        fputc('\n', ctl->out);
    }
    print_clients(ctl, status);
    print_users(ctl, status);
    print_feeds(ctl, status);
    fputc('\n', ctl->out);
    for (size_t i = 0; i < status->n_feeds; i++) {
        const Dlp__FeedStatus *feed = status->feeds[i];
        if (*feed->verdict) /* an older daemon leaves it out */
            ctl_print(ctl, "%s: %s", feed->name, feed->verdict);
        print_marks(ctl, feed);
        for (size_t j = 0; j < feed->n_notes; j++)
            ctl_print(ctl, "%s: note: %s", feed->name, feed->notes[j]);
    }
    print_memory(ctl, status);
    print_vacant(ctl, status);
}

void ctl_status_json(const struct ctl *ctl, const struct ctl_sight *sight)
{
    json_t *json = ctl_json_message(&sight->status->base);
    ctl_sight_json(sight, json);
    ctl_json_print(ctl->out, json, ctl->watch < 0);
}

int ctl_status_ask(struct ctl_link *link, struct ctl_reply *reply)
{
    Dlp__Envelope env = DLP__ENVELOPE__INIT;
    Dlp__StatusRequest request = DLP__STATUS_REQUEST__INIT;
    env.body_case = DLP__ENVELOPE__BODY_STATUS_REQUEST;
    env.status_request = &request;
    return ctl_link_ask(link, &env, DLP__ENVELOPE__BODY_STATUS_REPLY,
                        link->patience_ms ? link->patience_ms : CTL_DEADLINE_MS, reply);
}

static int report(const struct ctl *ctl, struct ctl_sight *sight, bool first)
{
    int code = ctl_sight_look(sight);
    if (!sight->status)
        return code;
    if (ctl->json) {
        ctl_status_json(ctl, sight);
    } else {
        bool screen = ctl->watch > 0 && isatty(fileno(ctl->out));
        fputs(screen ? "\033[H\033[2J" : first ? "" : "\n", ctl->out);
        ctl_status_table(ctl, sight->status);
    }
    return fflush(ctl->out) ? ctl_fail(ctl, CTL_UNAVAILABLE, "cannot write the report: %m") : code;
}

static void pause_for(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

int ctl_status(const struct ctl *ctl)
{
    struct ctl_sight sight = {.ctl = ctl, .program = "dataloadctl status"};
    int code = CTL_OK;
    for (int64_t done = 0; code == CTL_OK; done++) {
        code = report(ctl, &sight, done == 0);
        if (ctl->watch < 0 || done + 1 == ctl->count)
            break;
        pause_for(ctl->watch);
    }
    ctl_sight_free(&sight);
    return code;
}
