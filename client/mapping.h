/* An arena of the daemon in our address space, and the batches in its slots: a memfd
 * (map_memfd.c), or memory of a GPU (map_cuda.c); mapping.c is what they have in common. */
#ifndef DLC_MAPPING_H
#define DLC_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/device.h"
#include "proto/slot.h"

struct position {
    uint64_t epoch, step;
};

/* GIVEN: the caller has given it back, and its stream still works on it. */
enum batch_state { BATCH_IDLE, BATCH_READY, BATCH_HELD, BATCH_GIVEN };

/* One slot of one arena. */
struct dataload_batch {
    struct mapping *mapping;
    enum batch_state state;
    uint32_t slot, rows, valid;
    uint64_t generation; /* the last one announced */
    struct position at;
    int64_t taken_at;
    int64_t hold_ns;       /* of GIVEN */
    dlp_cu_event released; /* of the caller's stream; NULL before the first use */
    bool replay;           /* handed out before */
    bool populated;
    bool kept; /* the memory of its slot is the caller's */
};

/* An arena of the daemon in our address space. */
struct mapping {
    struct mapping *next; /* an older one, of which batches are still in use */
    struct dataload *handle;
    pid_t owner;
    enum dlp_memory memory;
    const struct device *device; /* NULL = the host's memory */
    uint8_t *bytes;              /* on the GPU: not for the CPU */
    size_t size;
    uint32_t slots, held, given;
    bool shared; /* read-only, but by IPC handle nothing keeps anybody from writing */
    bool lost;   /* the daemon that made it has gone */
    uint32_t nragged;
    uint64_t *offsets; /* of a GPU's arena: copies for the CPU, [slots][nragged][batch + 1] */
    struct dlp_layout layout;
    struct dataload_batch batches[DLP_SLOTS_MAX];
};

/* What the daemon offers of a GPU. */
struct mapping_offer {
    enum dlp_memory memory; /* VMM or IPC */
    int fd;                 /* VMM: stays the caller's */
    const uint8_t *handle;  /* IPC: sizeof(dlp_cu_ipc_memory) bytes */
    uint64_t bytes, nonce_offset;
    uint32_t slots;
    bool shared;
};

/* Without memory of its own yet; NULL without memory. */
struct mapping *mapping_new(uint32_t slots, bool shared, const struct dlp_layout *layout);
/* False: the driver of a context that is lost may have it mapped still. */
bool mapping_free(struct mapping *mapping);
/* Checks seals and size of the memfd and maps it, read-only where it is shared with other clients;
 * fd stays the caller's. 0, or -errno with the reason in text. */
int mapping_memfd(int fd, uint32_t slots, bool shared, const struct dlp_layout *layout,
                  struct mapping **out, char *text, size_t size);
void mapping_memfd_end(struct mapping *mapping);
void mapping_memfd_populate(struct dataload_batch *batch);
/* Maps what is offered and reads the nonce of it: 0, or -errno with the driver's answer (a result
 * of 0 where it was not the driver), and nothing is mapped. */
int mapping_cuda(const struct device *device, const struct mapping_offer *offer,
                 const struct dlp_layout *layout, struct mapping **out, uint8_t nonce[DLP_NONCE],
                 struct device_answer *answer);
/* Waits for the work on batches given back. As mapping_free. */
bool mapping_cuda_end(struct mapping *mapping);
bool mapping_cuda_fetch(struct dataload_batch *batch, struct device_answer *answer);

/* Address of a slot: on the GPU where the arena is. */
uint8_t *mapping_slot(const struct mapping *mapping, uint32_t slot);
/* Offsets of a ragged field [batch + 1], for the CPU. */
const uint64_t *mapping_offsets(const struct dataload_batch *batch, const struct dlp_tensor *field);
/* What is to be done before a batch is handed out: pages of a slot enter our page table the first
 * time it is used; offsets on a GPU are copied for the CPU. False with the driver's answer. */
bool mapping_populate(struct dataload_batch *batch, struct device_answer *answer);

#endif
