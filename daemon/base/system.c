#include "base/system.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/mem.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The number in a one-line file; `none` where the file is missing or says "max" or a negative. */
static uint64_t read_number(const char *folder, const char *name, uint64_t none)
{
    cleanup_free char *path = mem_format("%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return none;
    char word[32] = "";
    if (fscanf(file, "%31s", word) != 1)
        word[0] = '\0';
    fclose(file);
    return word[0] >= '0' && word[0] <= '9' ? strtoull(word, NULL, 10) : none;
}

/* Sum of the lines "name number" whose name is one of two; `none` where the file is missing. */
static uint64_t read_stats(const char *path, const char *first, const char *second, uint64_t none)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return none;
    uint64_t sum = 0, value;
    char name[64];
    while (fscanf(file, "%63[^ :]%*[ :]%" SCNu64 "%*[^\n]", name, &value) == 2) {
        if (strcmp(name, first) == 0 || strcmp(name, second) == 0)
            sum += value;
        if (fscanf(file, "%*1[\n]") == EOF)
            break;
    }
    fclose(file);
    return sum;
}

static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ',') && strchr(",\n", at[length]))
            return true;
    return false;
}

/* Our path in the hierarchy of `controller` ("" = v2), to be freed; NULL = not in one. */
static char *own_path(const char *root, const char *controller)
{
    cleanup_free char *name = mem_format("%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "re");
    if (!file)
        return NULL;
    char *path = NULL, *line = NULL;
    size_t room = 0;
    while (!path && getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':');
        char *after = list ? strchr(list + 1, ':') : NULL;
        if (!after)
            continue;
        *after = '\0';
        if (*controller ? has_word(list + 1, controller) : !list[1])
            path = mem_string(after + 1);
    }
    free(line);
    fclose(file);
    return path;
}

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        unsigned value;
        if (*from == '\\' && sscanf(from, "\\%3o", &value) == 1 && strlen(from) >= 4) {
            *to = (char)value;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* Splits a line of mountinfo; false when it is no mount of the wanted hierarchy. */
static bool parse_mount(char *line, const char *controller, char **inner, char **point)
{
    char *dash = strstr(line, " - "), *save;
    if (!dash)
        return false;
    char type[32], options[1024];
    if (sscanf(dash + 3, "%31s %*s %1023s", type, options) != 2 ||
        strcmp(type, *controller ? "cgroup" : "cgroup2") != 0 ||
        (*controller && !has_word(options, controller)))
        return false;
    *dash = '\0';
    strtok_r(line, " ", &save);
    strtok_r(NULL, " ", &save);
    strtok_r(NULL, " ", &save);
    *inner = strtok_r(NULL, " ", &save);
    *point = strtok_r(NULL, " ", &save);
    if (!*inner || !*point)
        return false;
    unescape(*inner);
    unescape(*point);
    return true;
}

/* The directory of `path` in a hierarchy of which `inner` is mounted at `point`. A path that is not
 * below the mount (a container that keeps its host's names) is the mount itself. */
static char *cgroup_folder(const char *root, const char *point, const char *inner, const char *path)
{
    size_t skip = strcmp(inner, "/") == 0 ? 0 : strlen(inner);
    bool below = strncmp(path, inner, skip) == 0 && (path[skip] == '/' || path[skip] == '\0');
    const char *rest = below && !strstr(path, "/..") ? path + skip : "";
    return mem_format("%s%s%s", root, point, strcmp(rest, "/") == 0 ? "" : rest);
}

static void visit_up(const char *root, char *line, const char *controller, const char *path,
                     system_visit *visit, void *context)
{
    char *inner, *point;
    if (!parse_mount(line, controller, &inner, &point))
        return;
    cleanup_free char *folder = cgroup_folder(root, point, inner, path);
    size_t top = strlen(root) + strlen(point);
    while (true) {
        visit(folder, !*controller, context);
        char *slash = strrchr(folder, '/');
        if (!slash || strlen(folder) <= top)
            break;
        *slash = '\0';
    }
}

/* Visits our cgroup and each above it in one hierarchy: `controller` of v1, or v2 (""). */
static void visit_hierarchy(const char *root, const char *controller, system_visit *visit,
                            void *context)
{
    cleanup_free char *path = own_path(root, controller);
    cleanup_free char *name = mem_format("%s/proc/self/mountinfo", root);
    FILE *file = path ? fopen(name, "re") : NULL;
    if (!file)
        return;
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, file) > 0)
        visit_up(root, line, controller, path, visit, context);
    free(line);
    fclose(file);
}

static uint64_t memory_limit(const char *folder, bool v2)
{
    if (!v2)
        return read_number(folder, "memory.limit_in_bytes", UINT64_MAX);
    return least(read_number(folder, "memory.max", UINT64_MAX),
                 read_number(folder, "memory.high", UINT64_MAX));
}

static void visit_limit(const char *folder, bool v2, void *context)
{
    uint64_t *lowest = context;
    *lowest = least(*lowest, memory_limit(folder, v2));
}

static void visit_free(const char *folder, bool v2, void *context)
{
    uint64_t *lowest = context;
    uint64_t limit = memory_limit(folder, v2);
    if (limit == UINT64_MAX)
        return;
    uint64_t used = read_number(folder, v2 ? "memory.current" : "memory.usage_in_bytes", 0);
    cleanup_free char *stat = mem_format("%s/memory.stat", folder);
    uint64_t files = v2 ? read_stats(stat, "inactive_file", "active_file", 0)
                        : read_stats(stat, "total_inactive_file", "total_active_file", 0);
    used -= least(used, files);
    *lowest = least(*lowest, limit - least(limit, used));
}

double system_cgroup_cpus(const char *folder, bool v2)
{
    uint64_t quota = 0, period = 0;
    if (v2) {
        cleanup_free char *path = mem_format("%s/cpu.max", folder);
        FILE *file = fopen(path, "re");
        if (!file)
            return 0;
        if (fscanf(file, "%" SCNu64 " %" SCNu64, &quota, &period) != 2)
            period = 0; /* "max" */
        fclose(file);
    } else {
        quota = read_number(folder, "cpu.cfs_quota_us", 0);
        period = read_number(folder, "cpu.cfs_period_us", 0);
    }
    return quota && period ? (double)quota / (double)period : 0;
}

static void visit_quota(const char *folder, bool v2, void *context)
{
    uint32_t *lowest = context;
    double cpus = ceil(system_cgroup_cpus(folder, v2));
    if (cpus > 0 && cpus < *lowest)
        *lowest = (uint32_t)cpus;
}

/* Where no more files may be open it is all that the machine has: whoever needs one is told so. */
static uint64_t machine_memory(const char *root, const char *name)
{
    cleanup_free char *path = mem_format("%s/proc/meminfo", root);
    uint64_t kib = read_stats(path, name, name, UINT64_MAX);
    struct sysinfo info;
    if (kib != UINT64_MAX)
        return kib * 1024;
    return sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : UINT64_MAX;
}

uint64_t system_memory_at(const char *root)
{
    uint64_t lowest = machine_memory(root, "MemTotal");
    visit_hierarchy(root, "", visit_limit, &lowest);
    visit_hierarchy(root, "memory", visit_limit, &lowest);
    return lowest;
}

uint64_t system_memory_free_at(const char *root)
{
    uint64_t lowest = machine_memory(root, "MemAvailable");
    visit_hierarchy(root, "", visit_free, &lowest);
    visit_hierarchy(root, "memory", visit_free, &lowest);
    return lowest;
}

uint32_t system_quota_at(const char *root)
{
    uint32_t lowest = UINT32_MAX;
    system_each_cpu_cgroup(root, visit_quota, &lowest);
    return lowest;
}

void system_each_cpu_cgroup(const char *root, system_visit *visit, void *context)
{
    visit_hierarchy(root, "", visit, context);
    visit_hierarchy(root, "cpu", visit, context);
}

uint64_t system_memory(void)
{
    return system_memory_at("");
}

uint64_t system_memory_free(void)
{
    return system_memory_free_at("");
}

unsigned system_cpus(void)
{
    return system_cpus_at("");
}

unsigned system_cpus_at(const char *root)
{
    cpu_set_t set;
    unsigned cpus = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cpus = (unsigned)CPU_COUNT(&set);
    return (unsigned)least(cpus, system_quota_at(root));
}
