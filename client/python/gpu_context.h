/* What the module itself asks of the CUDA driver; the library does the rest. Any thread. */
#ifndef DLPY_GPU_CONTEXT_H
#define DLPY_GPU_CONTEXT_H

#include <stddef.h>

/* Makes the primary context of the process's n-th GPU current for this thread; 0, or a negative
 * errno with why. gpu_leave undoes it. */
int gpu_enter(int number, char *why, size_t size);
void gpu_leave(int number);
/* Waits for the work on a stream of a context whose GPU the batches lie on. */
void gpu_finish(void *stream);

#endif
