#include <errno.h>
#include <string.h>

#include "client/python/python_types.h"

struct batch {
    PyObject ob_base;
    struct hold *hold;
    struct batch_facts facts;
};

static struct batch *batch_of(PyObject *self)
{
    return (struct batch *)self;
}

PyObject *batch_new(struct hold *hold, const struct batch_facts *facts)
{
    struct batch *self = (struct batch *)PyType_GenericAlloc(batch_type, 0);
    if (!self) {
        hold_drop(hold);
        return NULL;
    }
    self->hold = hold;
    self->facts = *facts;
    return (PyObject *)self;
}

static void batch_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    hold_drop(batch_of(self)->hold);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* The lock, while the batch is lent; else -1 with an exception. */
static int enter_batch(const struct batch *batch)
{
    struct link *link = batch->hold->link;
    if (enter_lent(link) < 0)
        return -1;
    if (batch->hold->batch)
        return 0;
    link_unlock(link);
    raise_code(-EBADF, "this Loader is closed", false);
    return -1;
}

/* In the order of the slot. */
static PyObject *names(PyObject *self, PyObject *ignored)
{
    struct batch *batch = batch_of(self);
    struct link *link = batch->hold->link;
    dataload_tensor view;
    (void)ignored;
    if (enter_batch(batch) < 0)
        return NULL;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && dataload_batch_tensor_at(batch->hold->batch, i, &view) == 0; i++) {
        PyObject *name = PyUnicode_FromString(view.name);
        if (!name || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    link_unlock(link);
    return list;
}

static PyObject *field(PyObject *self, PyObject *args)
{
    struct batch *batch = batch_of(self);
    struct link *link = batch->hold->link;
    const char *name;
    dataload_tensor view;
    if (!PyArg_ParseTuple(args, "s", &name) || enter_batch(batch) < 0)
        return NULL;
    int r = dataload_batch_tensor(batch->hold->batch, name, &view);
    link_unlock(link);
    if (r == -ENOENT)
        return PyErr_Format(PyExc_KeyError, "%s", name);
    if (r < 0)
        return raise_code(r, "a field of a batch cannot be read", false);
    return field_new(batch->hold, &view, batch->facts.shared, batch->facts.device);
}

static int triple(PyObject *numbers, float out[3])
{
    for (Py_ssize_t i = 0; i < 3; i++) {
        PyObject *number = PySequence_GetItem(numbers, i);
        double value = number ? PyFloat_AsDouble(number) : -1;
        Py_XDECREF(number);
        if (PyErr_Occurred())
            return -1;
        out[i] = (float)value;
    }
    return 0;
}

/* Into memory of the GPU, behind what is queued on the stream; the batch goes back behind it. */
static PyObject *convert(PyObject *self, PyObject *args)
{
    struct batch *batch = batch_of(self);
    struct link *link = batch->hold->link;
    const char *name;
    unsigned long long bytes;
    int dtype;
    PyObject *address, *means, *stds, *stream;
    float mean[3], std[3];
    if (!PyArg_ParseTuple(args, "sOKiOOO", &name, &address, &bytes, &dtype, &means, &stds,
                          &stream) ||
        triple(means, mean) < 0 || triple(stds, std) < 0)
        return NULL;
    void *to = PyLong_AsVoidPtr(address), *queue = PyLong_AsVoidPtr(stream);
    if (PyErr_Occurred() || enter_batch(batch) < 0)
        return NULL;
    if (hold_add_stream(batch->hold, queue) < 0) {
        link_unlock(link);
        return raise_code(-ENOSPC, "one batch is used on too many streams", false);
    }
    int r = dataload_batch_convert(batch->hold->batch, name, to, bytes, (dataload_dtype)dtype, mean,
                                   std, queue);
    if (r < 0)
        return raise_last(link, r);
    link_unlock(link);
    Py_RETURN_NONE;
}

static PyObject *get_epoch(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromUnsignedLongLong(batch_of(self)->facts.epoch);
}

static PyObject *get_step(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromUnsignedLongLong(batch_of(self)->facts.step);
}

static PyObject *get_replay(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(batch_of(self)->facts.replay);
}

static PyObject *get_device(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLong(batch_of(self)->facts.device);
}

static PyMethodDef methods[] = {
    {"names", names, METH_NOARGS, "names of the fields, in a list"},
    {"field", field, METH_VARARGS, "field(name): a Field"},
    {"convert", convert, METH_VARARGS,
     "convert(name, address, bytes, dtype, mean, std, stream): pictures on a GPU to planes there"},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef members[] = {
    {"epoch", get_epoch, NULL, NULL, NULL},
    {"step", get_step, NULL, NULL, NULL},
    {"replay", get_replay, NULL, "it is served again", NULL},
    {"device", get_device, NULL, "number of the GPU, -1: memory of the CPU", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, not_made},
                              {Py_tp_dealloc, batch_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, members},
                              {Py_tp_doc, "A lent batch; goes back with its last tensor."},
                              {0, NULL}};

PyType_Spec batch_spec = {.name = "dataload._dataload.Batch",
                          .basicsize = sizeof(struct batch),
                          .flags = Py_TPFLAGS_DEFAULT,
                          .slots = slots};
