#include "base/headroom.h"

#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "base/system.h"

#define GROUPS 32
#define LOOKS 6       /* kept: a window of 5 s */
#define LIMITS_EACH 5 /* looks; limits change seldom */

struct reading { /* of one cgroup, or of the machine's idle CPUs; since their start */
    uint64_t at;
    uint64_t used_ns; /* idle_ns of the machine */
    uint64_t throttled_ns;
    uint64_t periods, throttled_periods;
};

struct history {
    struct reading readings[LOOKS];
    unsigned count, newest;
};

struct group { /* with a quota */
    char *folder;
    bool v2, seen;
    bool tells_use; /* what it has used is known */
    double cpus;
    struct history history;
};

struct headroom {
    const char *root;
    unsigned looks;
    unsigned cpus;
    struct history idle;
    struct group groups[GROUPS];
    unsigned ngroups;
};

static void keep(struct history *history, const struct reading *reading)
{
    history->newest = (history->newest + 1) % LOOKS;
    history->readings[history->newest] = *reading;
    if (history->count < LOOKS)
        history->count++;
}

/* What has grown since so many looks before the last, or the first of them. */
static struct reading grown(const struct history *history, unsigned looks)
{
    if (history->count < 2)
        return (struct reading){0};
    if (looks >= history->count)
        looks = history->count - 1;
    const struct reading *b = &history->readings[history->newest];
    const struct reading *a = &history->readings[(history->newest + LOOKS - looks) % LOOKS];
    return (struct reading){.at = b->at - a->at,
                            .used_ns = b->used_ns - a->used_ns,
                            .throttled_ns = b->throttled_ns - a->throttled_ns,
                            .periods = b->periods - a->periods,
                            .throttled_periods = b->throttled_periods - a->throttled_periods};
}

static uint64_t value_of(const char *line, const char *name, uint64_t unit, uint64_t before)
{
    size_t length = strlen(name);
    if (strncmp(line, name, length) != 0 || line[length] != ' ')
        return before;
    return strtoull(line + length, NULL, 10) * unit;
}

/* v1 tells what was used in another file, where that controller is mounted together. */
static void read_use(const char *folder, struct reading *out)
{
    cleanup_free char *path = mem_format("%s/cpuacct.usage", folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fscanf(file, "%" SCNu64, &out->used_ns) != 1)
        out->used_ns = 0;
    fclose(file);
}

static bool read_group(const struct group *group, struct reading *out)
{
    cleanup_free char *path = mem_format("%s/cpu.stat", group->folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    char line[128];
    while (fgets(line, sizeof line, file)) {
        out->used_ns = value_of(line, "usage_usec", CLOCK_US, out->used_ns);
        out->throttled_ns = value_of(line, "throttled_usec", CLOCK_US, out->throttled_ns);
        out->throttled_ns = value_of(line, "throttled_time", 1, out->throttled_ns);
        out->periods = value_of(line, "nr_periods", 1, out->periods);
        out->throttled_periods = value_of(line, "nr_throttled", 1, out->throttled_periods);
    }
    fclose(file);
    if (!group->v2)
        read_use(group->folder, out);
    return true;
}

static void visit_group(const char *folder, bool v2, void *context)
{
    struct headroom *headroom = context;
    double cpus = system_cgroup_cpus(folder, v2);
    if (cpus <= 0)
        return;
    struct group *group = headroom->groups;
    struct group *end = group + headroom->ngroups;
    while (group < end && strcmp(group->folder, folder) != 0)
        group++;
    if (group == headroom->groups + GROUPS)
        return;
    if (group == end) {
        headroom->ngroups++;
        *group = (struct group){.folder = mem_string(folder), .v2 = v2};
    }
    group->seen = true;
    group->cpus = cpus;
}

static void find_groups(struct headroom *headroom)
{
    for (unsigned i = 0; i < headroom->ngroups; i++)
        headroom->groups[i].seen = false;
    system_each_cpu_cgroup(headroom->root, visit_group, headroom);
    for (unsigned i = headroom->ngroups; i-- > 0;) {
        if (headroom->groups[i].seen)
            continue;
        free(headroom->groups[i].folder);
        headroom->groups[i] = headroom->groups[--headroom->ngroups];
    }
}

/* Of the CPUs that we may use: "cpu3 user nice system idle iowait ...". */
static bool read_idle(const struct headroom *headroom, uint64_t *idle_ns)
{
    cleanup_free char *path = mem_format("%s/proc/stat", headroom->root);
    size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
    cleanup_free cpu_set_t *allowed = mem_new(size);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool known = sched_getaffinity(0, size, allowed) == 0;
    char line[256];
    uint64_t ticks = 0, idle, waits;
    unsigned cpu;
    while (fgets(line, sizeof line, file) && strncmp(line, "cpu", 3) == 0)
        if (sscanf(line, "cpu%u %*u %*u %*u %" SCNu64 " %" SCNu64, &cpu, &idle, &waits) == 3 &&
            (!known || CPU_ISSET_S(cpu, size, allowed)))
            ticks += idle + waits;
    fclose(file);
    *idle_ns = ticks * (CLOCK_SECOND / (uint64_t)sysconf(_SC_CLK_TCK));
    return true;
}

struct headroom *headroom_new(const char *root)
{
    struct headroom *headroom = mem_new(sizeof *headroom);
    headroom->root = root;
    headroom->cpus = system_cpus_at(root);
    return headroom;
}

void headroom_free(struct headroom *headroom)
{
    if (!headroom)
        return;
    for (unsigned i = 0; i < headroom->ngroups; i++)
        free(headroom->groups[i].folder);
    free(headroom);
}

void headroom_look(struct headroom *headroom, uint64_t now)
{
    if (headroom->looks++ % LIMITS_EACH == 0) {
        headroom->cpus = system_cpus_at(headroom->root);
        find_groups(headroom);
    }
    struct reading idle = {.at = now};
    if (read_idle(headroom, &idle.used_ns))
        keep(&headroom->idle, &idle);
    for (unsigned i = 0; i < headroom->ngroups; i++) {
        struct group *group = &headroom->groups[i];
        struct reading reading = {.at = now};
        if (read_group(group, &reading))
            keep(&group->history, &reading);
        group->tells_use = reading.used_ns > 0;
    }
}

unsigned headroom_cpus(const struct headroom *headroom)
{
    return headroom->cpus;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

/* By time where what was used is known; else by the periods in which the quota was reached. */
static double throttled(const struct group *group, unsigned looks)
{
    struct reading last = grown(&group->history, looks);
    if (group->tells_use)
        return share(last.throttled_ns, last.throttled_ns + last.used_ns);
    return share(last.throttled_periods, last.periods);
}

double headroom_free_cpus(const struct headroom *headroom)
{
    double least = headroom->cpus;
    struct reading idle = grown(&headroom->idle, 1);
    if (idle.at && share(idle.used_ns, idle.at) < least)
        least = share(idle.used_ns, idle.at);
    for (unsigned i = 0; i < headroom->ngroups; i++) {
        const struct group *group = &headroom->groups[i];
        struct reading last = grown(&group->history, 1);
        double left = group->cpus - share(last.used_ns, last.at);
        if (throttled(group, 1) > 0)
            left = 0;
        if (left < least)
            least = left;
    }
    return least > 0 ? least : 0;
}

double headroom_throttled(const struct headroom *headroom)
{
    double most = 0;
    for (unsigned i = 0; i < headroom->ngroups; i++) {
        double part = throttled(&headroom->groups[i], LOOKS - 1);
        most = part > most ? part : most;
    }
    return most;
}
