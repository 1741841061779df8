/* A GPU as the daemon uses it: one thread makes all CUDA calls for it, in its primary context, and
 * copies complete batches to it on one non-blocking stream. The context is made when somebody holds
 * the GPU and given back when nobody has held it for a while.
 *
 * Where a call has cost the context or does not return, or a copy does not end, the GPU is lost:
 * whatever is asked of it fails with the reason until the daemon is started anew. Nothing is called
 * on it any more, so what it had stays with the driver. Any thread but the loop's, where not said
 * otherwise. */
#ifndef UPLOADER_H
#define UPLOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "proto/cuda.h"

#define UPLOADER_NAME_MAX 48 /* "GPU-01234567-..." */

struct uploader;

struct uploader_times {
    uint64_t copy_ns; /* a copy that takes longer has hung */
    uint64_t idle_ns; /* a context outlives its last use by this */
    uint64_t call_ns; /* what is called of the driver in one go and takes longer has hung */
};
extern const struct uploader_times uploader_times; /* 10 s, 60 s, 30 s */

struct uploader_device {
    const struct dlp_cuda *cuda; /* borrowed; outlives the uploader */
    dlp_cu_device device;
    int numa_node;                /* of the host's memory next to it; -1 = not known */
    char name[UPLOADER_NAME_MAX]; /* for texts */
};

/* A copy of a whole slot. Belongs to the uploader until done is called. */
struct upload {
    struct upload *next;
    dlp_cu_pointer to;
    const void *from;
    size_t bytes;
    uint64_t since, until; /* ns, at its end: the copies before it had ended, and it had */
    /* err NULL: the host has seen the copy end. Else the GPU is lost, or this copy could not be
     * made, and `from` may be in use still where the GPU is lost. On the uploader's thread, or
     * where that hangs on any. */
    void (*done)(struct upload *upload, const struct error *err);
};

/* What a task is given: on the uploader's thread, the context is current. */
struct uploader_gpu {
    struct uploader *uploader;
    const struct dlp_cuda *cuda;
    dlp_cu_device device;
    dlp_cu_stream stream;
};
typedef int (*uploader_task)(void *context, const struct uploader_gpu *gpu, struct error *err);

/* Takes nothing of the GPU yet. -EAGAIN: no thread. */
int uploader_new(const struct uploader_device *device, const struct uploader_times *times,
                 struct uploader **out, struct error *err);
/* Nobody holds it any more. False: its thread hangs in the driver and has not ended until then
 * (clock_ns), or something is not due that was to be run later; then nothing was freed, and the
 * process has to end by _exit. */
bool uploader_free(struct uploader *uploader, uint64_t until);

/* The context is there from now on, until as many drops. -ENODEV with the reason. */
int uploader_hold(struct uploader *uploader, struct error *err);
void uploader_drop(struct uploader *uploader); /* any thread */
/* Runs the task and returns what it says; -ENODEV without running it where the GPU is lost;
 * -ETIMEDOUT where the driver hangs in it, which keeps the context for good. Held. */
int uploader_run(struct uploader *uploader, uploader_task task, void *context, struct error *err);
/* In a task: sets err, -ENODEV, to what the driver's result of this call means; a result that costs
 * the context makes the GPU lost. Returns -ENODEV, 0 for success. */
int uploader_check(struct uploader *uploader, dlp_cu_result code, const char *symbol,
                   struct error *err);
/* In a task: waits for all on the stream, as long as a copy may take. */
int uploader_settle(struct uploader *uploader, struct error *err);
/* Copies in the order of the calls; held. Any thread, does not block. */
void uploader_copy(struct uploader *uploader, struct upload *upload);

/* What is to be done once something else has ended, which due tells: looked at ten times a second
 * on the uploader's thread, which then calls run, with the context current, or NULL on a GPU that
 * is lost. */
struct uploader_later {
    struct uploader_later *next;
    bool (*due)(const struct uploader_later *later);
    void (*run)(struct uploader_later *later, const struct uploader_gpu *gpu);
};
/* Holds the GPU until it has run. Belongs to the uploader until then. Any thread. */
void uploader_run_later(struct uploader *uploader, struct uploader_later *later);

/* The context goes now; the number of those who hold it where it cannot. Any thread. */
uint32_t uploader_let_go(struct uploader *uploader);

/* Memory of the GPU is lent to clients, or comes back. */
void uploader_lend(struct uploader *uploader, uint64_t bytes);
void uploader_get_back(struct uploader *uploader, uint64_t bytes);

/* Now and then, by whoever sees to it that no call takes for ever. Any thread, does not block. */
void uploader_watch(struct uploader *uploader);

/* Any thread. */
struct uploader_state {
    bool active; /* has a context */
    bool lost;   /* and why: */
    char why[ERROR_TEXT_MAX];
    uint64_t lent, copied; /* bytes now, bytes ever */
};
void uploader_state(struct uploader *uploader, struct uploader_state *out);
const char *uploader_name(const struct uploader *uploader);
int uploader_numa_node(const struct uploader *uploader);

#endif
