/* The GPU that a trainer's batches lie on: driver, primary context, a stream of our own.
 *
 * Owner: the handle, which outlives the mappings that use it; used by the handle's thread alone.
 * The context is current only between device_enter and device_leave: what was current in the
 * caller's thread is so again after each call of the library. Nothing is done in a forked child. */
#ifndef DLC_DEVICE_H
#define DLC_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/cuda.h"

#define DEVICE_UUID 16U

struct device {
    struct dlp_cuda cu;
    pid_t owner;
    dlp_cu_device number; /* as this process counts GPUs */
    uint8_t uuid[DEVICE_UUID];
    dlp_cu_context context;
    dlp_cu_stream stream;  /* non-blocking */
    dlp_cu_module kernels; /* NULL before the first use */
};

/* What the driver answered, and to which of its functions. */
struct device_answer {
    const char *step; /* symbol */
    dlp_cu_result result;
};

/* The GPU of the calling thread's current context; where there is none, the first one visible.
 * Starts the driver (up to seconds) and retains the primary context. 0, or -errno with why. */
int device_open(struct device **out, char *why, size_t size);
void device_close(struct device *device); /* NULL is fine */

/* Makes the primary context current, whatever was: true, or false with the answer; then it is not
 * to be left. */
bool device_enter(const struct device *device, struct device_answer *answer);
void device_leave(const struct device *device);
/* Notes what a call gave; true = done. */
bool device_did(struct device_answer *answer, const char *step, dlp_cu_result result);
/* Copies from the GPU and waits. The context is current. */
bool device_read(const struct device *device, void *to, dlp_cu_pointer from, size_t size,
                 struct device_answer *answer);
/* False, with the answer, while the stream is captured into a graph: a replay would use a slot that
 * has other contents by then. The context is current. */
bool device_idle_capture(const struct device *device, dlp_cu_stream stream,
                         struct device_answer *answer);
/* One line for a failed call; returns its -errno. */
int device_explain(const struct device_answer *answer, char *text, size_t size);

#endif
