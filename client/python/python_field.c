#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/python/export.h"
#include "client/python/python_types.h"

struct field {
    PyObject ob_base;
    struct hold *hold;
    struct view view;
    const uint64_t *offsets; /* of a ragged field, else NULL */
    uint64_t rows;
};

static struct field *field_of(PyObject *self)
{
    return (struct field *)self;
}

static PyObject *make(struct hold *hold, const struct view *view)
{
    struct field *self = (struct field *)PyType_GenericAlloc(field_type, 0);
    if (!self)
        return NULL;
    hold_take(hold);
    self->hold = hold;
    self->view = *view;
    return (PyObject *)self;
}

PyObject *field_new(struct hold *hold, const dataload_tensor *tensor, bool shared, int device)
{
    struct view view;
    view_of(tensor, shared, device, &view);
    PyObject *self = make(hold, &view);
    if (self) {
        field_of(self)->offsets = tensor->offsets;
        field_of(self)->rows = tensor->shape[0];
    }
    return self;
}

static void field_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    hold_drop(field_of(self)->hold);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Is the memory still there, and of this process? 0, or -1 with an exception. */
static int check(const struct field *field)
{
    dataload_tensor tensor;
    struct hold *hold = field->hold;
    if (field->view.device < 0 && link_is_ours(hold->link))
        return 0;
    if (enter_lent(hold->link) < 0)
        return -1;
    int r = hold->batch ? dataload_batch_tensor_at(hold->batch, 0, &tensor) : 0;
    link_unlock(hold->link);
    if (r == 0)
        return 0;
    raise_code(r, "the memory of this batch has gone with the daemon that it was of", false);
    return -1;
}

/* PyTorch 1.13 gives the number of a stream as a text. */
static int read_stream(PyObject *stream, void **out)
{
    *out = NULL;
    if (!stream || stream == Py_None)
        return 0;
    PyObject *number = PyNumber_Long(stream);
    long long value = number ? PyLong_AsLongLong(number) : -1;
    /* 1 is the legacy stream; with -1 the consumer does not say which. */
    if (number && value != -1 && value != 1)
        *out = PyLong_AsVoidPtr(number);
    Py_XDECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

/* The data is complete; what the consumer's stream does with it has to end before the slot is free.
 */
static int note_stream(const struct field *field, PyObject *stream)
{
    void *queue;
    struct link *link = field->hold->link;
    if (field->view.device < 0) {
        if (!stream || stream == Py_None)
            return 0;
        PyErr_SetString(PyExc_BufferError, "this tensor is in memory of the CPU: stream is None");
        return -1;
    }
    if (read_stream(stream, &queue) < 0 || enter_lent(link) < 0)
        return -1;
    int r = hold_add_stream(field->hold, queue);
    link_unlock(link);
    if (r == 0)
        return 0;
    PyErr_SetString(PyExc_BufferError, "one batch is used on too many streams");
    return -1;
}

/* A device other than where the tensor is: -1 with an exception. */
static int check_device(const struct field *field, PyObject *device)
{
    int type, id;
    if (!device || device == Py_None)
        return 0;
    if (!PyTuple_Check(device) || !PyArg_ParseTuple(device, "ii", &type, &id))
        return PyErr_Occurred() ? -1 : (PyErr_BadArgument(), -1);
    struct dlpack_device mine = view_device(&field->view);
    if (type == mine.type && (id == mine.id || type == DLPACK_CPU))
        return 0;
    PyErr_Format(PyExc_BufferError, "this tensor is on device (%d, %d), not (%d, %d)", mine.type,
                 mine.id, type, id);
    return -1;
}

static int wants_versioned(PyObject *version)
{
    int major, minor;
    if (!version || version == Py_None)
        return 0;
    if (!PyTuple_Check(version) || !PyArg_ParseTuple(version, "ii", &major, &minor))
        return PyErr_Occurred() ? -1 : (PyErr_BadArgument(), -1);
    return major >= DLPACK_VERSION_MAJOR;
}

static PyObject *dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    struct field *field = field_of(self);
    PyObject *stream = NULL, *version = NULL, *device = NULL, *copy = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", names, &stream, &version, &device,
                                     &copy) ||
        check_device(field, device) < 0)
        return NULL;
    int versioned = wants_versioned(version), copied = copy ? PyObject_IsTrue(copy) : 0;
    if (versioned < 0 || copied < 0 || check(field) < 0 || note_stream(field, stream) < 0)
        return NULL;
    return export_capsule(field->hold, &field->view, versioned, copied);
}

static PyObject *dlpack_device(PyObject *self, PyObject *ignored)
{
    struct dlpack_device device = view_device(&field_of(self)->view);
    (void)ignored;
    return Py_BuildValue("ii", device.type, device.id);
}

static PyObject *get_shape(PyObject *self, void *ignored)
{
    const struct view *view = &field_of(self)->view;
    (void)ignored;
    PyObject *shape = PyTuple_New(view->ndim);
    for (int i = 0; shape && i < view->ndim; i++) {
        PyObject *size = PyLong_FromLongLong(view->shape[i]);
        if (!size || PyTuple_SetItem(shape, i, size) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

/* What NumPy reads, of any version, with the right to write; it keeps the Field. */
static PyObject *get_interface(PyObject *self, void *ignored)
{
    const struct field *field = field_of(self);
    const char *type = view_numpy_type(&field->view);
    (void)ignored;
    if (field->view.device >= 0 || !type) {
        PyErr_SetString(PyExc_AttributeError, "__array_interface__");
        return NULL;
    }
    if (check(field) < 0)
        return NULL;
    PyObject *shape = get_shape(self, NULL);
    return shape ? Py_BuildValue("{s:N,s:s,s:(KO),s:i}", "shape", shape, "typestr", type, "data",
                                 (unsigned long long)(uintptr_t)field->view.data,
                                 field->view.read_only ? Py_True : Py_False, "version", 3)
                 : NULL;
}

/* Where __array_interface__ has raised, which NumPy passes over, it asks here. */
static PyObject *array(PyObject *self, PyObject *args, PyObject *kwargs)
{
    const struct field *field = field_of(self);
    (void)args, (void)kwargs;
    if (check(field) == 0)
        PyErr_Format(PyExc_TypeError, "NumPy cannot have this tensor: %s",
                     field->view.device >= 0 ? "it is on a GPU" : "there is no type bfloat16");
    return NULL;
}

static PyObject *get_dtype(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyUnicode_FromString(view_type_name(&field_of(self)->view));
}

static PyObject *get_read_only(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(field_of(self)->view.read_only);
}

static PyObject *get_offsets(PyObject *self, void *ignored)
{
    const struct field *field = field_of(self);
    (void)ignored;
    if (!field->offsets)
        Py_RETURN_NONE;
    struct view view = {.data = (void *)field->offsets,
                        .dtype = DATALOAD_INT64,
                        .ndim = 1,
                        .shape = {(int64_t)field->rows + 1},
                        .bytes = (field->rows + 1) * sizeof(int64_t),
                        .device = -1,
                        .read_only = field->view.read_only};
    return make(field->hold, &view);
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None): a capsule"},
    {"__array__", (PyCFunction)(void (*)(void))array, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, "device type and number of DLPack"},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef members[] = {
    {"shape", get_shape, NULL, NULL, NULL},
    {"dtype", get_dtype, NULL, NULL, NULL},
    {"read_only", get_read_only, NULL, "others read the same memory", NULL},
    {"offsets", get_offsets, NULL, "of a ragged field: where rows begin, and the end; else None",
     NULL},
    {"__array_interface__", get_interface, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, not_made},
                              {Py_tp_dealloc, field_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, members},
                              {Py_tp_doc, "A tensor in a slot of the daemon, without a copy."},
                              {0, NULL}};

PyType_Spec field_spec = {.name = "dataload._dataload.Field",
                          .basicsize = sizeof(struct field),
                          .flags = Py_TPFLAGS_DEFAULT,
                          .slots = slots};
