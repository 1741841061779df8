/* Where memory lies on a machine with several NUMA nodes. Any thread. */
#ifndef NUMA_H
#define NUMA_H

#include <stdint.h>

/* Pages of this mapping, none of which is there yet, are to lie on the node where that has room;
 * of a file's, for all who map it. What the system refuses is left as it was; -1 = no node. */
void numa_prefer(void *at, uint64_t bytes, int node);

#endif
