/* Threads that wait for storage in one reader's place, so that storage which takes its time is
 * asked for many things at once. They start when they are first needed. Owner: one reader thread.
 */
#ifndef CREW_H
#define CREW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CREW_MOST 16 /* things at a time */

struct crew;

/* The CPU time of its threads is added to *cpu_ns. */
struct crew *crew_new(_Atomic uint64_t *cpu_ns);
void crew_free(struct crew *crew);
/* work(context, item) for items 0 .. count - 1, begun in this order, on threads of the crew;
 * returns when all have ended. The caller only waits, and before it waits for an item it calls
 * waits(context, item). Where the system gives no thread the caller does the work. */
void crew_run(struct crew *crew, size_t count, void (*work)(void *context, size_t item),
              void (*waits)(void *context, size_t item), void *context);

#endif
