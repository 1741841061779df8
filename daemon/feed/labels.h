/* The labels of single records, for questions about an order: those of the feed's first field of
 * kind int, from the index where it has them (image folders), else read from the shards in listed
 * order and kept. Bounded; owner: one thread. Blocks. */
#ifndef LABELS_H
#define LABELS_H

#include <stdbool.h>
#include <stdint.h>

#include "feed/spec.h"
#include "store/plan.h"

#define LABELS_MAX (1U << 20)   /* kept at most, in 48 MiB; of further ones nothing is known */
#define LABELS_BYTES_MAX 262144 /* a larger part is not read */

struct labels;

/* NULL: the feed has no field of kind int. */
struct labels *labels_new(const struct feed_spec *spec, const struct dataset *dataset);
void labels_free(struct labels *labels); /* NULL is fine */
/* Are the labels in the index, so that nothing needs to be read? */
bool labels_indexed(const struct feed_spec *spec, const struct dataset *dataset);
/* Reads those of the places that are not known yet, until *cancel; *done counts them up. */
void labels_read(struct labels *labels, const struct plan_place *places, uint64_t count,
                 const _Atomic bool *cancel, _Atomic uint64_t *done);
/* False: bad, or not read. */
bool labels_get(const struct labels *labels, struct plan_place place, int64_t *out);

#endif
