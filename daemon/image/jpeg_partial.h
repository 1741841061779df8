/* Our own decoder of common JPEGs: a box of the picture, equal bit for bit to the same box of
 * libjpeg-turbo's decoding. Only blocks that the box needs are transformed, nothing after its last
 * row is read (but for the markers). One object a thread; nothing is allocated where the last
 * picture needed as much. */
#ifndef JPEG_PARTIAL_H
#define JPEG_PARTIAL_H

#include "image/jpeg.h"
#include "image/jpeg_header.h"
#include "image/jpeg_marks.h"

struct jpeg_partial;

/* Rows of one component, from its row y on, each from the first column that a box needs on;
 * JPEG_SLACK + 64 bytes are readable after them. */
struct jpeg_rows {
    const uint8_t *at;
    size_t stride;
    int32_t y, count;
};

/* Takes the needed rows of all components as they come, some of each at a time. */
struct jpeg_sink {
    void (*take)(void *context, const struct jpeg_rows rows[JPEG_COMPONENTS]);
    void *context;
};

struct jpeg_partial *jpeg_partial_new(bool vector); /* false: plain C only */
void jpeg_partial_free(struct jpeg_partial *partial);
/* From now on: marks that have taken up the picture; NULL = none. */
void jpeg_partial_mark(struct jpeg_partial *partial, struct jpeg_marks *marks);
/* Rows of the box to dst as RGB. false: damage, or an oddity: libjpeg-turbo must decode it (dst may
 * be half written). The header has been parsed, the box lies in the picture. */
bool jpeg_partial_read(struct jpeg_partial *partial, const struct jpeg_header *header,
                       const struct jpeg_box *box, uint8_t *dst, size_t stride);
/* The samples of each component that the box needs go to the sink instead, as they are. */
bool jpeg_partial_planes(struct jpeg_partial *partial, const struct jpeg_header *header,
                         const struct jpeg_box *box, const struct jpeg_sink *sink);
/* Which samples of a component a box needs. */
struct jpeg_box jpeg_partial_needs(const struct jpeg_header *header, const struct jpeg_box *box,
                                   uint32_t component);
/* Lets go what a huge picture has taken. partial may be NULL. */
void jpeg_partial_trim(struct jpeg_partial *partial);

#endif
