/* The Python types of the extension module, and what they share. The stable ABI of Python 3.9.
 *
 * Handle: one attachment. Batch: what Handle.next() gives. Field: one tensor of a batch, which
 * others read through __dlpack__ or __array_interface__. The package in dataload/ makes a Loader of
 * them. All functions are called with the GIL held. */
#ifndef DLPY_PYTHON_TYPES_H
#define DLPY_PYTHON_TYPES_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x03090000
#endif
#include <Python.h>

#include "client/python/link.h"

extern PyTypeObject *handle_type, *batch_type, *field_type;
extern PyType_Spec handle_spec, batch_spec, field_spec;

/* Raises what dataload.errors makes of a negative errno; NULL. `resume`: a token was given. */
PyObject *raise_code(int code, const char *text, bool resume);
/* Raises the library's last error; with the link's lock held, which it gives up. NULL. */
PyObject *raise_last(struct link *link, int code);
/* The link's lock, waiting for it without the GIL; else -1 with an exception: in a forked child,
 * or, unless a batch is lent, when it is closed. */
int enter(struct link *link);
int enter_lent(struct link *link);
/* tp_new of types that only we make. */
PyObject *not_made(PyTypeObject *type, PyObject *args, PyObject *kwargs);

struct batch_facts {
    uint64_t epoch, step;
    bool replay; /* served again */
    bool shared; /* others read it too */
    int device;  /* number of the GPU, -1 = memory of the CPU */
};

/* A Batch of a batch just lent, without the lock. Takes over the hold. */
PyObject *batch_new(struct hold *hold, const struct batch_facts *facts);
/* Paths (bytes) that match a pattern (bytes), as glob(3) has it, in no order; OSError for a
 * directory that cannot be read. */
PyObject *glob_paths(PyObject *module, PyObject *pattern);
/* A Field that keeps the batch. */
PyObject *field_new(struct hold *hold, const dataload_tensor *view, bool shared, int device);

#endif
