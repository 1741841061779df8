/* The CPUs that affinity and cgroups let us use, where they lie, and how a thread is put on one.
 * Read anew at each call; any thread. */
#ifndef CPUS_H
#define CPUS_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define CPUS_MAX 8192 /* of one machine, as of Linux's CONFIG_NR_CPUS */

struct cpus_one {
    uint32_t number;
    uint32_t node; /* NUMA; 0 where the system does not tell */
};

struct cpus {
    uint32_t count;
    struct cpus_one list[];
};

/* Those that we may use, at most so many, in the order in which threads are put on them: one of
 * each core before a second one, the nodes by turns. Freed with free(). */
struct cpus *cpus_allowed(uint32_t most);
/* The NUMA node on which all CPUs lie that a process may use; -1: several, none known, or the
 * machine has no other. */
int cpus_node(pid_t pid);
/* The same for a given set of CPUs (size: its bytes), with every path below `root`. */
struct cpus *cpus_at(const char *root, const cpu_set_t *allowed, size_t size, uint32_t most);
int cpus_node_at(const char *root, const cpu_set_t *allowed, size_t size);
/* As the system writes them ("0-3,8"), ascending; cut at size. Returns text. */
#define CPUS_TEXT_MAX 256
char *cpus_text(const struct cpus *cpus, char *text, size_t size);
/* The calling thread stays on this CPU. -EINVAL: it may not be used any more. */
int cpus_pin(uint32_t number);

#endif
