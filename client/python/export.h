/* Tensors handed to other libraries by DLPack. A capsule's deleter needs no GIL and no interpreter:
 * it may come from any thread, at any time. */
#ifndef DLPY_EXPORT_H
#define DLPY_EXPORT_H

#include "client/python/dlpack_abi.h"
#include "client/python/python_types.h"

#define VIEW_DIMS_MAX 8

/* Compact, in C order. */
struct view {
    void *data;
    dataload_dtype dtype;
    int ndim;
    int64_t shape[VIEW_DIMS_MAX];
    uint64_t bytes;
    int device; /* number of the GPU, -1 = memory of the CPU */
    bool read_only;
};

/* Of a ragged field: all its rows, one after the other. */
void view_of(const dataload_tensor *tensor, bool shared, int device, struct view *view);
struct dlpack_device view_device(const struct view *view);
const char *view_type_name(const struct view *view);
const char *view_numpy_type(const struct view *view); /* NULL: there is none */

/* A capsule of either kind, which keeps the hold, or has a copy in memory of its own. */
PyObject *export_capsule(struct hold *hold, const struct view *view, bool versioned, bool copy);

#endif
