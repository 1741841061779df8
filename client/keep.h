/* Views that outlive their handle, for bindings whose callers cannot be told to drop them in time.
 * Not part of the installed interface. */
#ifndef DLC_KEEP_H
#define DLC_KEEP_H

#include <stddef.h>

#include "client/dataload.h"

/* Just before dataload_detach, by the handle's thread: what a lent batch holds becomes private
 * memory of the process at the same addresses, in one step for whoever reads it. The detach leaves
 * that memory alone: the caller gives it to munmap. 0; -EOPNOTSUPP on a GPU, -ENOMEM: nothing has
 * changed. */
int keep_batch(dataload_batch *batch, void **memory, size_t *size);

#endif
