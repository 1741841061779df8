#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/python/python_types.h"

PyTypeObject *handle_type, *batch_type, *field_type;

/* The exception, not raised yet. */
static PyObject *error_for(int code, const char *text, bool resume)
{
    PyObject *module = PyImport_ImportModule("dataload.errors");
    if (!module)
        return NULL;
    /* A long text is cut, maybe within a character. */
    PyObject *words = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"),
             *error = NULL;
    if (words)
        error = PyObject_CallMethod(module, "for_code", "iOi", -code, words, (int)resume);
    Py_XDECREF(words);
    Py_DECREF(module);
    return error;
}

PyObject *raise_code(int code, const char *text, bool resume)
{
    PyObject *error = error_for(code, text, resume);
    if (!error)
        return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
    return NULL;
}

PyObject *raise_last(struct link *link, int code)
{
    char text[1024];
    snprintf(text, sizeof text, "%s", dataload_error(link->handle));
    if (!*text)
        snprintf(text, sizeof text, "%s", strerror(-code));
    link_unlock(link);
    return raise_code(code, text, false);
}

static int refuse_child(const struct link *link)
{
    char text[128];
    snprintf(text, sizeof text, "opened by process %d", (int)link->owner);
    raise_code(-ENOLCK, text, false);
    return -1;
}

int enter_lent(struct link *link)
{
    while (!link_lock(link, true)) {
        bool mine;
        Py_BEGIN_ALLOW_THREADS;
        mine = link_lock(link, false);
        if (mine)
            link_unlock(link);
        Py_END_ALLOW_THREADS;
        if (!mine)
            return refuse_child(link);
    }
    return 0;
}

int enter(struct link *link)
{
    if (enter_lent(link) < 0)
        return -1;
    if (link->handle && !link->closed)
        return 0;
    link_unlock(link);
    raise_code(-EBADF, "this Loader is closed", false);
    return -1;
}

PyObject *not_made(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type, (void)args, (void)kwargs;
    PyErr_SetString(PyExc_TypeError, "batches and their fields come from a dataload.Loader");
    return NULL;
}

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromSpec(spec);
    if (!type)
        return NULL;
    Py_INCREF(type);
    if (PyModule_AddObject(module, name, type) == 0)
        return (PyTypeObject *)type;
    Py_DECREF(type);
    Py_DECREF(type);
    return NULL;
}

PyMODINIT_FUNC PyInit__dataload(void);

PyMODINIT_FUNC PyInit__dataload(void)
{
    static PyMethodDef functions[] = {
        {"glob", glob_paths, METH_O, "paths (bytes) that match a pattern, by glob(3)"},
        {NULL, NULL, 0, NULL}};
    static struct PyModuleDef definition = {
        .m_base = PyModuleDef_HEAD_INIT,
        .m_name = "dataload._dataload",
        .m_doc = "The C library libdataload for the package dataload.",
        .m_size = -1,
        .m_methods = functions,
    };
    PyObject *module = PyModule_Create(&definition);
    if (module && (handle_type = add_type(module, &handle_spec, "Handle")) &&
        (batch_type = add_type(module, &batch_spec, "Batch")) &&
        (field_type = add_type(module, &field_spec, "Field")) &&
        PyModule_AddStringConstant(module, "version", dataload_version()) == 0)
        return module;
    Py_XDECREF(module);
    return NULL;
}
