/* Encoded bytes -> the row of a batch. One decoder a worker thread; it owns all scratch, allocates
 * nothing of its own a picture in the steady state (libjpeg its strips of rows), and shrinks after
 * a huge one. No threads inside. */
#ifndef DECODER_H
#define DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bad.h"
#include "image/transform.h"

struct decoder;
struct jpeg_marks_entry;

/* All scratch of one picture is known from its header: pixels, libjpeg's coefficients and strips,
 * intermediate results, weights. Beside it a decoder holds up to 1 MiB of cached weights, and 500
 * KiB of tables and strips for common JPEGs. */
struct decoder_limits {
    uint64_t share; /* scratch bytes that this decoder may keep */
    uint64_t max;   /* scratch of one picture, decoded as a whole, beyond which it is BAD-SIZE */
    /* Asked before scratch over `share` is taken, and told when it is let go: the common part of
     * the budget. false: not now, the result is `busy`. Either may be NULL: then share = max, or
     * the lender knows by itself. */
    bool (*borrow)(void *context, uint64_t bytes);
    void (*give_back)(void *context, uint64_t bytes);
    void *context;
};

struct decoder_result {
    enum bad_class cls;    /* BAD_NONE = the row is written */
    bool busy;             /* with BAD_SIZE: only the common part is lacking now; to be run again */
    bool damaged;          /* decoded with warnings of the library, the first in reason: counted */
    bool turned;           /* EXIF orientation other than 1 */
    int32_t width, height; /* of the row's picture */
    uint64_t decode_ns, transform_ns; /* decode_ns has both where pixels are fast */
    char reason[200];
};

struct decoder *decoder_new(const struct decoder_limits *limits);
void decoder_free(struct decoder *decoder);

/* For the next run alone: room for an entry of the picture (image/jpeg_marks.h), and what is known.
 */
void decoder_mark(struct decoder *decoder, struct jpeg_marks_entry *entry);
/* Decodes, transforms and writes one picture to dst (capacity bytes): HWC or CHW by
 * transform->pixels; transform has passed transform_check. The class is decided by content, not by
 * name. Same bytes on every path and machine; with transform->fast, on every machine with AVX2, and
 * exact ones on others. dst may be half written where cls is not BAD_NONE. */
void decoder_run(struct decoder *decoder, const uint8_t *bytes, size_t size,
                 const struct transform *transform, uint64_t seed, uint64_t epoch, uint64_t id,
                 void *dst, size_t capacity, struct decoder_result *result);

#endif
