#include "client/ctl/ctl_sight.h"

#include <string.h>
#include <time.h>

#include "client/ctl/ctl_json.h"
#include "client/ctl/ctl_table.h"
#include "proto/socket_path.h"

#define PATIENCE_MS 2000
#define STALE_S (PATIENCE_MS / 1e3) /* the loop writes a heartbeat each second */
#define STUCK_NS 1000000000U        /* worth saying */
#define NS 1e9

static double since(clockid_t clock, uint64_t then_ns)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / NS - (double)then_ns / NS;
}

/* Of a time that both clocks have: the one that does not jump, unless the machine was started
 * since. */
static double age_of_beat(const struct dlp_counters *counters)
{
    double age = since(CLOCK_MONOTONIC, counters->beat_ns);
    double wall = since(CLOCK_REALTIME, counters->beat_wall_ns);
    return age >= 0 ? age : wall > 0 ? wall : 0;
}

/* The state of a process of ours to look at, by its letter in /proc; 0: it is not seen here. */
static char state_of(uint32_t pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%*d (dataloadd) %c", &state) != 1)
        state = 0;
    fclose(file);
    return state;
}

static const char *words_of(char state)
{
    switch (state) {
    case 0:
        return "no process of its number is seen here";
    case 'T':
    case 't':
        return "its process is stopped";
    case 'D':
        return "its loop waits for a device or a file system";
    case 'R':
        return "its loop is busy";
    case 'Z':
        return "its process has ended";
    default:
        return "its loop waits for something";
    }
}

static void explain(struct ctl_sight *sight)
{
    char time[CTL_TEXT_MAX];
    const struct dlp_counters *written = &sight->written;
    size_t size = sizeof(sight->hangs);
    int used = snprintf(sight->hangs, size, "%s", words_of(state_of(written->pid)));
    if (written->stuck_ns > STUCK_NS)
        snprintf(sight->hangs + used, size - (size_t)used, "; a worker had been at one row for %s",
                 ctl_text_time(written->stuck_ns, time));
}

/* Of the socket that was connected to, else of the first that has such a file. */
static bool read_counters(struct ctl_sight *sight)
{
    char paths[DLP_SOCKET_CANDIDATES][DLP_SOCKET_PATH_MAX + 1], text[512];
    if (sight->link.channel)
        return dlp_counters_read(sight->link.text, &sight->written) == 0;
    int count = dlp_socket_candidates(sight->ctl->socket, paths, text, sizeof(text));
    for (int i = 0; i < count; i++)
        if (dlp_counters_read(paths[i], &sight->written) == 0)
            return true;
    return false;
}

static int not_running(struct ctl_sight *sight)
{
    char time[CTL_TEXT_MAX];
    if (!read_counters(sight))
        return ctl_fail(sight->ctl, CTL_NOT_RUNNING, "%s", sight->link.text);
    double ago = age_of_beat(&sight->written);
    return ctl_fail(sight->ctl, CTL_NOT_RUNNING,
                    "%s; the last one, pid %u, ended without a word: its last heartbeat was %s ago",
                    sight->link.text, sight->written.pid,
                    ctl_text_time((uint64_t)(ago * NS), time));
}

/* What it has written last, where its heart does not beat any more. */
static bool use_counters(struct ctl_sight *sight)
{
    if (!read_counters(sight))
        return false;
    sight->heartbeat_age = age_of_beat(&sight->written);
    if (sight->heartbeat_age < STALE_S)
        return false;
    sight->late = true;
    sight->status = sight->written.status;
    sight->figures_age = sight->status ? since(CLOCK_MONOTONIC, sight->written.taken_ns) : 0;
    explain(sight);
    return true;
}

static int tell(const struct ctl_sight *sight)
{
    char left_out[64] = "";
    if (sight->written.left_out)
        snprintf(left_out, sizeof(left_out), ", without %ju clients",
                 (uintmax_t)sight->written.left_out);
    return ctl_fail(sight->ctl, CTL_UNAVAILABLE,
                    "dataloadd does not answer: heartbeat %.0f s old; %s%s; pid %u: %s",
                    sight->heartbeat_age,
                    sight->status ? "figures are of then" : "there are no figures of then",
                    left_out, sight->written.pid, sight->hangs);
}

static int ask(struct ctl_sight *sight, int patience_ms)
{
    int code = sight->link.channel
                   ? CTL_OK
                   : ctl_link_try(sight->ctl, sight->program, patience_ms, &sight->link);
    sight->link.patience_ms = patience_ms;
    if (code == CTL_OK)
        code = ctl_status_ask(&sight->link, &sight->reply);
    if (code == CTL_OK)
        sight->status = ctl_reply_body(&sight->reply);
    return code;
}

static void forget(struct ctl_sight *sight)
{
    ctl_reply_free(&sight->reply);
    dlp_counters_free(&sight->written);
    sight->status = NULL;
    sight->late = false;
    sight->heartbeat_age = sight->figures_age = 0;
    *sight->hangs = '\0';
}

int ctl_sight_look(struct ctl_sight *sight)
{
    forget(sight);
    int code = ask(sight, PATIENCE_MS);
    bool hangs = code == CTL_LATE && use_counters(sight);
    if (code != CTL_OK)
        ctl_link_close(&sight->link);
    if (hangs)
        return tell(sight);
    if (code == CTL_LATE) /* it lives, or nothing is known of it */
        code = ask(sight, 0);
    return code == CTL_NOT_RUNNING ? not_running(sight) : code;
}

void ctl_sight_json(const struct ctl_sight *sight, json_t *object)
{
    json_object_set_new(object, "answers", json_boolean(!sight->late));
    json_object_set_new(object, "heartbeat_age_s", ctl_json_number(sight->heartbeat_age));
    json_object_set_new(object, "figures_age_s", ctl_json_number(sight->figures_age));
    json_object_set_new(object, "hangs", ctl_json_text(sight->hangs));
}

void ctl_sight_free(struct ctl_sight *sight)
{
    forget(sight);
    ctl_link_close(&sight->link);
}
