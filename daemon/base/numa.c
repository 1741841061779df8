#include "base/numa.h"

#include <limits.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NODES_MAX = 1024, NODE_BITS = sizeof(unsigned long) * CHAR_BIT };

void numa_prefer(void *at, uint64_t bytes, int node)
{
    unsigned long nodes[NODES_MAX / NODE_BITS] = {0};
    if (node < 0 || node >= NODES_MAX)
        return;
    nodes[node / NODE_BITS] = 1UL << node % NODE_BITS;
    syscall(SYS_mbind, at, bytes, MPOL_PREFERRED, nodes, NODES_MAX, 0);
}
