#include "control/account.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/plural.h"
#include "control/group.h"
#include "control/session.h"

#define FIGURES_MAX 16
#define SLURM "slurm-"

struct record {
    struct log_figure figures[FIGURES_MAX];
    unsigned count;
};

struct log_about account_who(const struct session *session, enum log_id id)
{
    struct log_about about = {
        .id = id, .client = session->peer.pid, .uid = session->peer.uid, .user = session->user};
    if (session->group) {
        about.feed = session->spec->name;
        about.job = session->job_name;
        about.rank = session->rank;
    }
    return about;
}

static uint32_t streaming(const struct group *group)
{
    uint32_t count = 0;
    for (const struct session *s = group->members; s; s = s->fellow)
        count += s->state == SESSION_STREAMING;
    return count;
}

/* What does not divide is left for the next time. */
static void share_out(struct group *group)
{
    uint32_t members = streaming(group);
    struct account *shared = &group->shared_out;
    struct feed_stats stats;
    if (!members)
        return;
    feed_get_stats(group->feed, &stats);
    uint64_t cpu_ns = feed_cpu_ns(group->feed);
    uint64_t cpu_part = cpu_ns > shared->cpu_ns ? (cpu_ns - shared->cpu_ns) / members : 0;
    uint64_t read_part = (stats.work.read_bytes - shared->read_bytes) / members;
    for (struct session *s = group->members; s; s = s->fellow) {
        if (s->state != SESSION_STREAMING)
            continue;
        s->account.cpu_ns += cpu_part;
        s->account.read_bytes += read_part;
        s->account.bad += stats.bad - shared->bad;
    }
    shared->cpu_ns += cpu_part * members;
    shared->read_bytes += read_part * members;
    shared->bad = stats.bad;
}

void account_begin(struct session *session)
{
    share_out(session->group);
    session->account = (struct account){0};
}

static void __attribute__((format(printf, 3, 4)))
add(struct record *record, const char *name, const char *format, ...)
{
    struct log_figure *figure = &record->figures[record->count++];
    va_list args;
    figure->name = name;
    va_start(args, format);
    vsnprintf(figure->value, sizeof figure->value, format, args);
    va_end(args);
}

static void add_count(struct record *record, const char *name, uint64_t count)
{
    add(record, name, "%" PRIu64, count);
}

static void add_seconds(struct record *record, const char *name, uint64_t ns)
{
    add(record, name, "%.3f", (double)ns / (double)CLOCK_SECOND);
}

/* Of a job named by default: slurm-JOB.STEP. */
static void add_slurm_job(struct record *record, const char *job)
{
    size_t begin = sizeof SLURM - 1;
    if (strncmp(job, SLURM, begin) != 0)
        return;
    size_t digits = strspn(job + begin, "0123456789");
    if (digits && digits < LOG_FIGURE_MAX && job[begin + digits] == '.')
        add(record, "SLURM_JOB", "%.*s", (int)digits, job + begin);
}

static void fill(const struct session *session, uint64_t now, struct record *record)
{
    const struct gauge *gauge = session->gauge;
    const struct account *account = &session->account;
    add_slurm_job(record, session->job_name);
    add_count(record, "WORLD", session->world);
    add_count(record, "PROBE", session->probe);
    add_seconds(record, "SECONDS", now - session->attached);
    add_count(record, "SAMPLES", gauge->samples);
    add_count(record, "BATCHES", gauge->batches);
    add_count(record, "BYTES", gauge->bytes);
    add_count(record, "READ_BYTES", account->read_bytes);
    add_seconds(record, "CPU_SECONDS", account->cpu_ns);
    add_seconds(record, "WAIT_SECONDS", gauge_waited(gauge, now));
    add_seconds(record, "HOLD_SECONDS", gauge_holding(gauge, now));
    add_count(record, "STALLS", gauge->stalls);
    add_count(record, "BAD", account->bad);
}

void account_end(struct session *session, const char *why)
{
    uint64_t now = clock_ns();
    const struct gauge *gauge = session->gauge;
    char who[SESSION_WORDS_MAX];
    struct record record = {.count = 0};
    share_out(session->group);
    fill(session, now, &record);
    struct log_about about = account_who(session, LOG_DETACHED);
    about.reason = why;
    about.figures = record.figures;
    about.nfigures = record.count;
    log_event(LOG_INFO, &about,
              "%s: %s after %.1f s, %" PRIu64 " batch%s, %" PRIu64 " sample%s, waited %.1f %%",
              session_words(session, who, sizeof who), why,
              (double)(now - gauge->begun) / (double)CLOCK_SECOND, gauge->batches,
              gauge->batches == 1 ? "" : "es", gauge->samples, plural(gauge->samples),
              100 * gauge_wait_share(gauge, now));
}
