/* What the machine lets us use: RAM and CPUs, within the limits of every cgroup from ours up to the
 * root that we can see (v1 and v2, also both at once). Any thread; read anew at each call. */
#ifndef SYSTEM_H
#define SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes: least of RAM and the cgroups' limits (memory.max, memory.high, memory.limit_in_bytes). */
uint64_t system_memory(void);
/* Bytes free now: least of the machine's MemAvailable and, for each cgroup, its limit less what is
 * used other than by files' pages, which the kernel takes back by itself. */
uint64_t system_memory_free(void);
/* CPUs by affinity and cgroup quota (rounded up), at least 1. */
unsigned system_cpus(void);

/* The same with every path below `root` ("" = the real one); system_quota_at: CPUs by quota alone,
 * UINT32_MAX = none. */
uint64_t system_memory_at(const char *root);
uint64_t system_memory_free_at(const char *root);
uint32_t system_quota_at(const char *root);

unsigned system_cpus_at(const char *root);

/* Visits our cgroup and each above it that rules over CPUs, of v2 and of v1, by its folder. */
typedef void system_visit(const char *folder, bool v2, void *context);
void system_each_cpu_cgroup(const char *root, system_visit *visit, void *context);
double system_cgroup_cpus(const char *folder, bool v2); /* that its quota allows; 0 = no quota */

#endif
