#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "client/python/gpu_context.h"
#include "client/python/python_types.h"

#define SLICE_MS 50 /* a signal that another thread has got is seen after so long */

struct handle {
    PyObject ob_base;
    struct link *link;
};

static struct link *link_of(PyObject *self)
{
    return ((struct handle *)self)->link;
}

/* During the attach no other thread knows the handle. */
static int interrupted(void *context)
{
    PyGILState_STATE state = PyGILState_Ensure();
    int stop = PyErr_CheckSignals() < 0;
    PyGILState_Release(state);
    (void)context;
    return stop;
}

static int attach(const char *feed, dataload_options *options, int gpu, dataload **handle,
                  char *why, size_t size)
{
    int r = 0;
    Py_BEGIN_ALLOW_THREADS;
    *handle = NULL;
    if (gpu >= 0)
        r = gpu_enter(gpu, why, size);
    if (r == 0) {
        r = dataload_attach(feed, options, handle);
        snprintf(why, size, "%s", dataload_error(*handle));
        if (r < 0)
            dataload_detach(*handle);
        if (gpu >= 0)
            gpu_leave(gpu);
    }
    Py_END_ALLOW_THREADS;
    return r;
}

static PyObject *wrap(PyTypeObject *type, dataload *handle)
{
    struct link *link = link_new(handle);
    struct handle *self = link ? (struct handle *)PyType_GenericAlloc(type, 0) : NULL;
    if (self) {
        self->link = link;
        return (PyObject *)self;
    }
    if (link)
        link_drop(link);
    else
        dataload_detach(handle);
    return PyErr_NoMemory();
}

/* The shards of a feed of the caller's own, from a list of bytes; false with an exception. */
static bool take_files(PyObject *list, dataload_options *options)
{
    Py_ssize_t count = list ? PyList_Size(list) : 0;
    const char **files = list ? calloc((size_t)count + 1, sizeof *files) : NULL;
    options->files = files;
    options->nfiles = (size_t)count;
    if (list && !files) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!(files[i] = PyBytes_AsString(PyList_GetItem(list, i))))
            return false;
    return true;
}

static PyObject *handle_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"feed",         "socket",     "job",    "rank",  "world",
                            "batch",        "seed",       "epoch",  "slots", "resume",
                            "group",        "timeout_ms", "device", "gpu",   "program",
                            "allow_replay", "recipe",     "files",  NULL};
    const char *feed;
    dataload_options options = DATALOAD_OPTIONS_INIT;
    long long rank = -1, world = -1, batch = -1, seed = -1, epoch = -1, slots = -1;
    int gpu = -1;
    char why[1024] = "";
    dataload *handle;
    PyObject *files = NULL;
    options.interrupted = interrupted;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "z|$zzLLLLLLzziiizpzO!", names, &feed,
                                     &options.socket, &options.job, &rank, &world, &batch, &seed,
                                     &epoch, &slots, &options.resume, &options.group,
                                     &options.timeout_ms, &options.device, &gpu, &options.program,
                                     &options.allow_replay, &options.recipe, &PyList_Type, &files))
        return NULL;
    options.rank = rank;
    options.world = world;
    options.batch = batch;
    options.seed = seed;
    options.epoch = epoch;
    options.slots = slots;
    if (!take_files(files, &options)) {
        free((void *)options.files);
        return NULL;
    }
    int r = attach(feed, &options, gpu, &handle, why, sizeof why);
    free((void *)options.files);
    if (PyErr_Occurred()) {
        if (r == 0)
            dataload_detach(handle);
        return NULL;
    }
    if (r < 0)
        return raise_code(r, why, options.resume != NULL);
    return wrap(type, handle);
}

static void handle_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct link *link = link_of(self);
    Py_BEGIN_ALLOW_THREADS;
    link_close(link);
    link_drop(link);
    Py_END_ALLOW_THREADS;
    PyObject_Free(self);
    Py_DECREF(type);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* What one look gave: the hold, with what is to be known of the attachment. */
struct look {
    int result, fd;
    struct hold *hold;
    struct batch_facts facts;
    char text[1024];
};

/* The link's lock, without the GIL; false with the reason. */
static bool open_link(struct link *link, struct look *look)
{
    if (!link_lock(link, false)) {
        look->result = -ENOLCK;
        snprintf(look->text, sizeof look->text, "opened by process %d", (int)link->owner);
        return false;
    }
    if (link->handle && !link->closed)
        return true;
    link_unlock(link);
    look->result = -EBADF;
    snprintf(look->text, sizeof look->text, "this Loader is closed");
    return false;
}

static void read_facts(dataload *handle, const dataload_batch *batch, struct batch_facts *facts)
{
    dataload_info info = {.size = sizeof info};
    dataload_get_info(handle, &info);
    *facts = (struct batch_facts){.epoch = dataload_batch_epoch(batch),
                                  .step = dataload_batch_step(batch),
                                  .replay = dataload_batch_is_replay(batch) != 0,
                                  .shared = info.shared,
                                  .device = info.device};
}

/* Without the GIL. */
static void look(struct link *link, struct look *look)
{
    dataload_batch *batch;
    if (!open_link(link, look))
        return;
    look->result = dataload_next(link->handle, 0, &batch);
    if (look->result < 0)
        snprintf(look->text, sizeof look->text, "%s", dataload_error(link->handle));
    if (look->result == -ETIMEDOUT)
        look->fd = dataload_fd(link->handle);
    if (look->result == 0) {
        read_facts(link->handle, batch, &look->facts);
        look->hold = hold_new(link, batch);
    }
    if (look->result == 0 && !look->hold) {
        look->result = -ENOMEM;
        snprintf(look->text, sizeof look->text, "out of memory");
    }
    link_unlock(link);
}

/* Waits for the next batch, or until a slice of time is over. */
static void wait_a_while(const struct look *look, int64_t left)
{
    struct pollfd poller = {.fd = look->fd, .events = POLLIN};
    poll(&poller, 1, left < 0 || left > SLICE_MS ? SLICE_MS : (int)left);
}

static PyObject *next_batch(PyObject *self, PyObject *args)
{
    int timeout_ms;
    struct look found = {.result = -ETIMEDOUT};
    struct link *link = link_of(self);
    if (!PyArg_ParseTuple(args, "i", &timeout_ms))
        return NULL;
    int64_t deadline = timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
    for (;;) {
        int64_t left = -1;
        Py_BEGIN_ALLOW_THREADS;
        look(link, &found);
        if (found.result == -ETIMEDOUT) {
            left = deadline < 0 ? -1 : deadline - now_ms();
            if (deadline < 0 || left > 0)
                wait_a_while(&found, left);
        }
        Py_END_ALLOW_THREADS;
        if (found.result == 0)
            return batch_new(found.hold, &found.facts);
        if (found.result == DATALOAD_EPOCH_END)
            Py_RETURN_NONE;
        if (found.result != -EINTR && (found.result != -ETIMEDOUT || (deadline >= 0 && left <= 0)))
            return raise_code(found.result, found.text, false);
        if (PyErr_CheckSignals() < 0)
            return NULL;
    }
}

static PyObject *set_epoch(PyObject *self, PyObject *args)
{
    unsigned long long epoch;
    struct link *link = link_of(self);
    if (!PyArg_ParseTuple(args, "K", &epoch))
        return NULL;
    for (;;) {
        struct look asked = {.result = -ENOLCK};
        Py_BEGIN_ALLOW_THREADS;
        if (open_link(link, &asked)) {
            asked.result = dataload_set_epoch(link->handle, epoch);
            snprintf(asked.text, sizeof asked.text, "%s", dataload_error(link->handle));
            link_unlock(link);
        }
        Py_END_ALLOW_THREADS;
        if (asked.result < 0 && asked.result != -EINTR)
            return raise_code(asked.result, asked.text, false);
        if (PyErr_CheckSignals() < 0)
            return NULL;
        if (asked.result == 0)
            Py_RETURN_NONE;
    }
}

static PyObject *token(PyObject *self, PyObject *ignored)
{
    char text[DATALOAD_TOKEN_MAX];
    struct link *link = link_of(self);
    (void)ignored;
    if (enter(link) < 0)
        return NULL;
    int r = dataload_token(link->handle, text, sizeof text);
    if (r < 0)
        return raise_last(link, r);
    link_unlock(link);
    return PyUnicode_FromString(text);
}

static PyObject *steps(PyObject *self, PyObject *args)
{
    unsigned long long epoch;
    struct link *link = link_of(self);
    if (!PyArg_ParseTuple(args, "K", &epoch) || enter(link) < 0)
        return NULL;
    int64_t count = dataload_steps(link->handle, epoch);
    if (count < 0)
        return raise_last(link, (int)count);
    link_unlock(link);
    return PyLong_FromLongLong(count);
}

static PyObject *info(PyObject *self, PyObject *ignored)
{
    dataload_info all = {.size = sizeof all};
    struct link *link = link_of(self);
    (void)ignored;
    if (enter(link) < 0)
        return NULL;
    int r = dataload_get_info(link->handle, &all);
    if (r < 0)
        return raise_last(link, r);
    static const char *const memory[] = {"host", "vmm", "ipc"};
    PyObject *made = Py_BuildValue(
        "{s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:K,s:K,s:K,s:K,s:s,s:O,s:s,s:i,s:s,s:s}", "job", all.job,
        "plan_id", all.plan_id, "fingerprint", all.fingerprint, "transform", all.transform, "rank",
        all.rank, "world", all.world, "batch", all.batch, "slots", all.slots, "seed", all.seed,
        "records", all.records, "epoch", all.epoch, "step", all.step, "started", all.started,
        "shared", all.shared ? Py_True : Py_False, "memory", memory[all.memory], "device",
        all.device, "memory_why", all.memory_why, "feed", all.feed);
    link_unlock(link);
    return made;
}

static PyObject *stats(PyObject *self, PyObject *ignored)
{
    dataload_stats all = {.size = sizeof all};
    struct link *link = link_of(self);
    (void)ignored;
    if (enter(link) < 0)
        return NULL;
    int r = dataload_get_stats(link->handle, &all);
    if (r < 0)
        return raise_last(link, r);
    link_unlock(link);
    return Py_BuildValue("{s:K,s:K,s:K,s:d,s:d,s:K,s:d,s:d,s:K,s:I,s:I,s:K,s:K}", "batches",
                         all.batches, "samples", all.samples, "bytes", all.bytes, "wait_s",
                         (double)all.wait_ns / 1e9, "hold_s", (double)all.hold_ns / 1e9, "stalls",
                         all.stalls, "longest_stall_s", (double)all.longest_stall_ns / 1e9,
                         "elapsed_s", (double)all.elapsed_ns / 1e9, "reconnects", all.reconnects,
                         "ready", all.ready, "held", all.held, "skipped", all.skipped, "replayed",
                         all.replayed);
}

static PyObject *notes(PyObject *self, PyObject *ignored)
{
    struct link *link = link_of(self);
    (void)ignored;
    if (enter(link) < 0)
        return NULL;
    PyObject *list = PyList_New(0);
    const char *text;
    for (uint32_t i = 0; list && (text = dataload_note(link->handle, i)); i++) {
        PyObject *note = PyUnicode_FromString(text);
        if (!note || PyList_Append(list, note) < 0)
            Py_CLEAR(list);
        Py_XDECREF(note);
    }
    link_unlock(link);
    return list;
}

static PyObject *close_handle(PyObject *self, PyObject *ignored)
{
    struct link *link = link_of(self);
    (void)ignored;
    Py_BEGIN_ALLOW_THREADS;
    link_close(link);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"next", next_batch, METH_VARARGS, "next(timeout_ms): a Batch, or None at the end of an epoch"},
    {"set_epoch", set_epoch, METH_VARARGS, "set_epoch(epoch)"},
    {"token", token, METH_NOARGS, "where a run goes on after the last batch handed out"},
    {"steps", steps, METH_VARARGS, "steps(epoch): batches of this rank"},
    {"info", info, METH_NOARGS, "what the attachment is, as a dict"},
    {"stats", stats, METH_NOARGS, "counters, as a dict"},
    {"notes", notes, METH_NOARGS, "warnings of the attach"},
    {"close", close_handle, METH_NOARGS, "ends the attachment"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, handle_new},
                              {Py_tp_dealloc, handle_dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_doc, "One attachment of one rank to one feed."},
                              {0, NULL}};

PyType_Spec handle_spec = {.name = "dataload._dataload.Handle",
                           .basicsize = sizeof(struct handle),
                           .flags = Py_TPFLAGS_DEFAULT,
                           .slots = slots};
