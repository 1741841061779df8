/* A batch in the making: a slot that is being written, row by row, by the workers. The reader sets
 * it up, the worker of the last row finishes it, the loop thread hands it out. */
#ifndef BATCH_H
#define BATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/uploader.h"
#include "feed/recipe.h"
#include "feed/sample.h"

struct belt;
struct batch;
struct ferry;

struct row {
    struct batch *batch;
    uint32_t number;
    bool repeated; /* tail wrap: shown again, not valid */
    bool pushed;   /* to the workers (the reader's mark) */
    struct plan_place place;
    struct sample *sample; /* NULL before it is fetched and after the row is done */
    /* Results, for which the worker answers. */
    uint64_t id;
    enum bad_class bad;
    uint64_t bad_offset;
    char *reason; /* of bad; may be NULL */
};

/* GPUs that one group's batches may be copied to. */
#define FERRY_PORTS_MAX 16U

struct crossing { /* of a batch to one of them */
    struct upload upload;
    struct batch *batch;
};

struct batch {
    struct batch *next; /* on the belt */
    const struct recipe *recipe;
    struct belt *belt;
    struct feed_place place;
    uint32_t count; /* rows present */
    uint32_t slot;
    uint64_t generation;
    uint8_t *memory;          /* of the slot, or of its berth */
    struct ferry *ferry;      /* to GPUs; NULL: memory is the slot */
    uint32_t berth;           /* its place in staging */
    uint32_t ports;           /* a bit for each GPU that it goes to */
    _Atomic uint32_t lost;    /* and for each of them that has not got it */
    _Atomic uint32_t crosses; /* copies not ended */
    struct crossing crossings[FERRY_PORTS_MAX];
    _Atomic uint32_t left; /* rows not done */
    _Atomic bool is_void;  /* another epoch was chosen: rows need no work */
    bool landed;           /* under the belt's mutex */
    uint32_t valid, bad;   /* set by batch_finish; bad without repeated rows */
    uint64_t bytes;        /* of its rows, set by batch_finish */
    uint64_t *lengths;     /* of ragged rows: [ragged field][row], batch rows apart */
    struct row rows[];
};

struct batch *batch_new(const struct recipe *recipe, struct belt *belt);
void batch_free(struct batch *batch);
/* Makes it ready for another use. */
void batch_reset(struct batch *batch);
/* So many rows are done; true for the last ones, whose caller finishes the batch. */
bool batch_rows_done(struct batch *batch, uint32_t count);
/* All fields of a bad row become a copy of the nearest earlier good row of the batch, cyclically;
 * zeros (no bytes) where there is none. Then flags, ids, packed ragged rows. The same bytes
 * whatever the order in which rows were done. */
void batch_finish(struct batch *batch);
uint64_t *batch_length(const struct batch *batch, uint32_t field, uint32_t row);

#endif
