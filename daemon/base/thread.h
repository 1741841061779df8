/* Start of a thread of ours: named, with all signals blocked (they belong to the loop thread).
 * Joined with pthread_join, or as below. */
#ifndef THREAD_H
#define THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* name: at most 15 characters are kept; run gets context. -EAGAIN when the system gives none. */
int thread_try(const char *name, void *(*run)(void *context), void *context, pthread_t *out,
               struct error *err);
/* The same, but ends the process then. */
pthread_t thread_start(const char *name, void *(*run)(void *context), void *context);
/* False: it has not ended until then (clock_ns). */
bool thread_join_until(pthread_t thread, uint64_t until);

#endif
