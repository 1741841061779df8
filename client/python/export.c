#include "client/python/export.h"

#include <stdlib.h>
#include <string.h>

#define COPY_ALIGN 256

static const struct type {
    const char *name, *numpy;
    struct dlpack_dtype dlpack;
} types[] = {
    [DATALOAD_UINT8] = {"uint8", "|u1", {DLPACK_UINT, 8, 1}},
    [DATALOAD_INT32] = {"int32", "<i4", {DLPACK_INT, 32, 1}},
    [DATALOAD_INT64] = {"int64", "<i8", {DLPACK_INT, 64, 1}},
    [DATALOAD_UINT64] = {"uint64", "<u8", {DLPACK_UINT, 64, 1}},
    [DATALOAD_FLOAT16] = {"float16", "<f2", {DLPACK_FLOAT, 16, 1}},
    [DATALOAD_BFLOAT16] = {"bfloat16", NULL, {DLPACK_BFLOAT, 16, 1}},
    [DATALOAD_FLOAT32] = {"float32", "<f4", {DLPACK_FLOAT, 32, 1}},
};

/* What a capsule points into. */
struct exported {
    struct hold *hold; /* NULL: a copy */
    void *copy;
    int64_t shape[VIEW_DIMS_MAX], strides[VIEW_DIMS_MAX];
    union {
        struct dlpack_managed legacy;
        struct dlpack_versioned versioned;
    };
};

void view_of(const dataload_tensor *tensor, bool shared, int device, struct view *view)
{
    *view = (struct view){.data = tensor->data,
                          .dtype = tensor->dtype,
                          .ndim = (int)tensor->ndim,
                          .bytes = tensor->bytes,
                          .device = device,
                          .read_only = shared};
    for (uint32_t i = 0; i < tensor->ndim; i++)
        view->shape[i] = (int64_t)tensor->shape[i];
    if (tensor->offsets) {
        view->ndim = 1;
        view->shape[0] = (int64_t)(tensor->bytes * 8 / types[tensor->dtype].dlpack.bits);
    }
}

struct dlpack_device view_device(const struct view *view)
{
    if (view->device < 0)
        return (struct dlpack_device){DLPACK_CPU, 0};
    return (struct dlpack_device){DLPACK_CUDA, view->device};
}

const char *view_type_name(const struct view *view)
{
    return types[view->dtype].name;
}

const char *view_numpy_type(const struct view *view)
{
    return types[view->dtype].numpy;
}

static void discard(struct exported *exported)
{
    if (exported->hold)
        hold_drop(exported->hold);
    free(exported->copy);
    free(exported);
}

static void delete_legacy(struct dlpack_managed *managed)
{
    discard(managed->context);
}

static void delete_versioned(struct dlpack_versioned *managed)
{
    discard(managed->context);
}

static void destroy_legacy(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor"))
        return; /* the consumer has it */
    struct dlpack_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
    managed->deleter(managed);
}

static void destroy_versioned(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned"))
        return;
    struct dlpack_versioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    managed->deleter(managed);
}

static bool copy_data(struct exported *exported, const struct view *view)
{
    if (posix_memalign(&exported->copy, COPY_ALIGN, view->bytes + 1) != 0) {
        exported->copy = NULL;
        return false;
    }
    memcpy(exported->copy, view->data, view->bytes);
    return true;
}

static struct dlpack_tensor tensor_of(struct exported *exported, const struct view *view)
{
    int64_t stride = 1;
    for (int i = view->ndim - 1; i >= 0; i--) {
        exported->shape[i] = view->shape[i];
        exported->strides[i] = stride;
        stride *= view->shape[i];
    }
    return (struct dlpack_tensor){.data = exported->copy ? exported->copy : view->data,
                                  .device = view_device(view),
                                  .ndim = view->ndim,
                                  .dtype = types[view->dtype].dlpack,
                                  .shape = exported->shape,
                                  .strides = exported->strides};
}

static PyObject *wrap_versioned(struct exported *exported, struct dlpack_tensor tensor,
                                bool read_only)
{
    exported->versioned = (struct dlpack_versioned){
        .major = DLPACK_VERSION_MAJOR,
        .minor = DLPACK_VERSION_MINOR,
        .context = exported,
        .deleter = delete_versioned,
        .flags = exported->copy ? DLPACK_IS_COPIED : (read_only ? DLPACK_READ_ONLY : 0),
        .tensor = tensor};
    return PyCapsule_New(&exported->versioned, "dltensor_versioned", destroy_versioned);
}

static PyObject *wrap_legacy(struct exported *exported, struct dlpack_tensor tensor)
{
    exported->legacy =
        (struct dlpack_managed){.tensor = tensor, .context = exported, .deleter = delete_legacy};
    return PyCapsule_New(&exported->legacy, "dltensor", destroy_legacy);
}

PyObject *export_capsule(struct hold *hold, const struct view *view, bool versioned, bool copy)
{
    if (copy && view->device >= 0) {
        PyErr_SetString(PyExc_BufferError,
                        "on a GPU the consumer makes the copy: clone the tensor");
        return NULL;
    }
    struct exported *exported = calloc(1, sizeof *exported);
    if (!exported || (copy && !copy_data(exported, view))) {
        free(exported);
        return PyErr_NoMemory();
    }
    if (!copy) {
        hold_take(hold);
        exported->hold = hold;
    }
    struct dlpack_tensor tensor = tensor_of(exported, view);
    PyObject *capsule = versioned ? wrap_versioned(exported, tensor, view->read_only)
                                  : wrap_legacy(exported, tensor);
    if (!capsule)
        discard(exported);
    return capsule;
}
