/* The same work on many items by several threads, the caller and as many others as the system
 * gives, all of which end before it returns. */
#ifndef PARALLEL_H
#define PARALLEL_H

#include <stddef.h>

void parallel_run(unsigned threads, size_t count, void (*work)(void *context, size_t item),
                  void *context);

#endif
