/* The CUDA driver of this node, loaded at run time: one program for nodes with and without a GPU.
 *
 * Opening never fails the program: without a usable driver there is a reason, one line, for status
 * and logs. Owner: whoever opens it; the functions may then be called from any thread, but not in a
 * forked child. A driver that has been initialised stays loaded until the process ends: it has
 * threads of its own. */
#ifndef DLP_CUDA_H
#define DLP_CUDA_H

#include <stddef.h>

#include "proto/cuda_abi.h"
#include "proto/cuda_result.h"

/* Older drivers mishandle CUDA_VISIBLE_DEVICES with memory that is passed on as a descriptor. */
#define DLP_CUDA_VERSION_MIN 12000

struct dlp_cuda {
    int version; /* 1000 * major + 10 * minor: the newest CUDA that the driver runs */
#define X(member, symbol, arguments)                                                               \
    dlp_cu_result(*member) arguments; /* NOLINT(bugprone-macro-parentheses): a declaration */
    DLP_CUDA_FUNCTIONS(X)
#undef X
};

/* Loads libcuda.so.1, initialises it (tens of milliseconds to seconds on a real one: not for the
 * loop's thread) and fills the table. 0, or a negative errno with why (one line): -ENOENT no driver
 * is installed, -ENODEV it has no GPU or is not usable, -EOPNOTSUPP it is older than 12.0, others
 * as the driver's result says. On failure the table is all NULL. */
int dlp_cuda_open(struct dlp_cuda *cuda, char *why, size_t size);

#endif
