#include <errno.h>
#include <glob.h>
#include <locale.h>
#include <string.h>

#include "client/python/python_types.h"

static __thread struct {
    char path[256];
    int code;
} trouble;

static int note_trouble(const char *path, int code)
{
    strncpy(trouble.path, path, sizeof trouble.path - 1);
    trouble.code = code;
    return 1;
}

static PyObject *list_of(const glob_t *found)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < found->gl_pathc; i++) {
        PyObject *path = PyBytes_FromString(found->gl_pathv[i]);
        if (!path || PyList_Append(list, path) < 0)
            Py_CLEAR(list);
        Py_XDECREF(path);
    }
    return list;
}

/* As a program does that has set no locale, like the daemon: what a '?' or a range matches is of
 * the locale. */
static int glob_bytes(const char *pattern, glob_t *found)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain)
        return GLOB_NOSPACE;
    locale_t before = uselocale(plain);
    memset(&trouble, 0, sizeof trouble);
    int rc = glob(pattern, GLOB_NOSORT | GLOB_ERR, note_trouble, found);
    uselocale(before);
    freelocale(plain);
    return rc;
}

PyObject *glob_paths(PyObject *module, PyObject *pattern)
{
    const char *text = PyBytes_AsString(pattern);
    glob_t found = {0};
    int rc;
    PyObject *list = NULL;
    (void)module;
    if (!text)
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    rc = glob_bytes(text, &found);
    Py_END_ALLOW_THREADS;
    errno = trouble.code;
    if (rc == GLOB_ABORTED)
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, trouble.path);
    else if (rc && rc != GLOB_NOMATCH)
        PyErr_NoMemory();
    else
        list = list_of(&found);
    globfree(&found);
    return list;
}
