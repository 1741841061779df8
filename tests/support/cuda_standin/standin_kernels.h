/* The stand-in's kernels: CPU functions by the names and arguments of the real ones. A new kernel
 * is one function and one row of the table in standin_kernels.c. */
#ifndef STANDIN_KERNELS_H
#define STANDIN_KERNELS_H

#include "standin.h"

enum { SI_ARGUMENTS = 8 };

struct si_kernel {
    const char *name;
    unsigned char sizes[SI_ARGUMENTS]; /* of its arguments in bytes, 0 after the last */
    /* Runs in a stream's thread, with pointers to copies of the arguments. A device address that
     * the GPU may not use ends it with DLP_CU_ILLEGAL_ADDRESS. */
    dlp_cu_result (*run)(void *const *arguments, const struct si_context *context);
};

const struct si_kernel *si_kernel(const char *name); /* NULL = none of that name */

#endif
