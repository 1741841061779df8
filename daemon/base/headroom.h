/* What there is of CPU time: how many CPUs we may use, what nobody used in the last second, and how
 * much the quotas of the cgroups above us have kept from us. One thread. */
#ifndef HEADROOM_H
#define HEADROOM_H

#include <stdint.h>

struct headroom;

/* Every path lies below `root` ("" = the real one), which is borrowed. */
struct headroom *headroom_new(const char *root);
void headroom_free(struct headroom *headroom);
/* Once a second; now: clock_ns. Reads a few small files: of each cgroup with a quota, and of the
 * machine. */
void headroom_look(struct headroom *headroom, uint64_t now);

unsigned headroom_cpus(const struct headroom *headroom); /* system_cpus(), of late */
/* CPUs' worth of time, of those we may use and within all quotas. What is not known counts as
 * free. */
double headroom_free_cpus(const struct headroom *headroom);
/* Of the last seconds: of the CPU time that the processes of one cgroup wanted, what its quota kept
 * from them; of several cgroups the most. 0..1 */
double headroom_throttled(const struct headroom *headroom);

#endif
