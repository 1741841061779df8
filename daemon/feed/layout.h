/* What a batch of a feed looks like, as the wire says it (dlp_layout) and as rows are written.
 *
 *   image  [B,H,W,3] or [B,3,H,W] of the output's type. A transform that gives no size: ragged
 *          bytes of at most max_bytes a row (which the feed must set), and int32 "<name>.shape"
 *          [B,2] = height, width.
 *   int    int64 [B]
 *   bytes  ragged; max_bytes a row, by default the largest of the data set
 *   key    ragged: the key of the record whose data is in the row
 *   valid  u8 [B]: 1 = the row is what the plan says. 0: a repeated row of tail wrap, a bad one, or
 *          one past the end of the last batch of tail partial.
 *   index  i64 [B]: sample id that the plan has for the row, also where it is bad; -1 past the end.
 *
 * Ragged rows are written max_bytes apart, packed when the batch is complete. */
#ifndef LAYOUT_H
#define LAYOUT_H

#include "feed/spec.h"
#include "proto/slot.h"

/* Room for all rows of a bytes field by default. */
#define LAYOUT_RAGGED_DEFAULT_MAX (64ULL << 20)

#define LAYOUT_NONE UINT32_MAX

struct layout_field {
    uint32_t tensor;    /* number in wire.tensors */
    uint32_t shape;     /* of the shape tensor, or LAYOUT_NONE */
    uint32_t ragged;    /* number among the ragged ones, or LAYOUT_NONE */
    uint64_t row_bytes; /* ragged: at most */
};

struct layout {
    struct dlp_layout wire;
    struct layout_field fields[DATASET_FIELDS_MAX];
    uint32_t nfields, nragged;
    uint32_t valid, index;
};

/* -EINVAL with the field, the number and the setting. */
int layout_make(const struct feed_spec *spec, const struct dataset *dataset, uint32_t batch,
                struct layout *out, struct error *err);

/* Where a row of a field is written in a slot. */
uint8_t *layout_row(const struct layout *layout, uint8_t *slot, uint32_t field, uint32_t row);
int32_t *layout_shape(const struct layout *layout, uint8_t *slot, uint32_t field, uint32_t row);
uint8_t *layout_tensor(const struct layout *layout, uint8_t *slot, uint32_t tensor);

#endif
