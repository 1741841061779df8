/* One encoded record on its way from the shard to a worker: its parts in one block of memory.
 * Owner: the reader until its row is pushed, then the worker. */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bad.h"
#include "feed/ration.h"
#include "store/dataset.h"
#include "store/plan.h"

struct sample_part { /* of one field */
    bool value;      /* no bytes: the number is in offset */
    uint64_t offset, size;
    uint8_t *bytes;
    struct marks_place marks_place; /* no room: it has none */
    uint8_t *marks;
};

struct sample {
    uint64_t id;
    struct plan_place place;
    uint32_t number;    /* in the index of its shard */
    enum bad_class bad; /* else the parts are not to be looked at */
    uint64_t bad_offset;
    char *reason;    /* of bad */
    uint64_t charge; /* taken from the ration */
    enum ration_from from;
    struct ration *ration;
    uint32_t nparts;
    struct sample_part parts[];
};

/* What a sample of so many bytes takes from the ration, its marks included. */
uint64_t sample_charge(uint64_t bytes, uint32_t nfields);
/* Room for a record whose bytes are still to be read; one over `limit` bytes is BAD-SIZE and has
 * none. NULL: no memory now. */
struct sample *sample_new(const struct dataset_record *record, struct plan_place place,
                          uint32_t nfields, uint64_t limit, struct ration *ration,
                          enum ration_use use);
void sample_free(struct sample *sample); /* NULL is fine */
/* Memory that was given back to no ration yet: that of many samples of one ration is given back at
 * once. Begins as zeros. */
struct sample_refund {
    struct ration *ration;
    uint64_t bytes[2]; /* by enum ration_from */
};
void sample_free_for(struct sample *sample, struct sample_refund *refund); /* NULL is fine */
void sample_give_refund(const struct sample_refund *refund);
/* The first fault counts. */
void sample_fail(struct sample *sample, enum bad_class bad, uint64_t offset, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));

#endif
