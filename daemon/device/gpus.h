/* The GPUs of this node, as the CUDA driver lists them.
 *
 * They are looked for once, from the start on, by a thread of its own: a driver may take seconds,
 * or hang. Nothing is taken of a GPU: no context is made, so trainers have all of its memory. */
#ifndef GPUS_H
#define GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/cuda.h"

#define GPUS_MAX 64
#define GPUS_TEXT_MAX 300
#define GPUS_UUID_MAX 48

struct gpu {
    char uuid[GPUS_UUID_MAX]; /* "GPU-01234567-...", as nvidia-smi has it */
    char name[128];
    char bus[20];    /* "0000:3B:00.0" */
    uint64_t memory; /* bytes in all */
    dlp_cu_mode mode;
    int major, minor;          /* compute capability */
    int numa_node;             /* -1 = not known */
    bool vmm;                  /* memory apart from its address */
    bool posix_fd;             /* and passed on as a descriptor */
    char fault[GPUS_TEXT_MAX]; /* why it can't be used; empty = it can, as far as is known */
};

struct gpu_list {
    int err;                 /* negative errno: there is no usable driver, or no GPU */
    char why[GPUS_TEXT_MAX]; /* one line then */
    int version;             /* of CUDA that the driver runs: 1000 * major + 10 * minor */
    uint32_t n;
    struct gpu gpus[GPUS_MAX];
};

struct gpus;

/* Begins to look. */
struct gpus *gpus_new(void);
/* False: the driver hangs, so its thread could not be ended until then (clock_ns), and nothing was
 * freed; the process has to end by _exit. */
bool gpus_free(struct gpus *gpus, uint64_t until);
/* The process ends by _exit: nobody joins the thread, which may have ended long ago. */
void gpus_abandon(struct gpus *gpus);

/* What was found; never changes. NULL while the driver is being asked. Any thread. */
const struct gpu_list *gpus_list(const struct gpus *gpus);
/* clock_ns of gpus_new. */
uint64_t gpus_asked_since(const struct gpus *gpus);
/* One line for status and people: what there is, and where batches are. */
const char *gpus_words(const struct gpus *gpus, char text[GPUS_TEXT_MAX]);
/* "default", "exclusive process", "prohibited" */
const char *gpus_mode_name(dlp_cu_mode mode);

#endif
