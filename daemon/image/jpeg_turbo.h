/* The way of image/jpeg.h through libjpeg-turbo: all kinds of JPEG, decoded to their end, so that
 * damage anywhere is found. Pixels outside the box are not kept. */
#ifndef JPEG_TURBO_H
#define JPEG_TURBO_H

#include "image/jpeg.h"

struct jpeg_turbo;

struct jpeg_turbo *jpeg_turbo_new(void);
void jpeg_turbo_free(struct jpeg_turbo *turbo);
/* Bytes that decoding takes at most where there is one scan; h, v: the largest sampling factors. */
uint64_t jpeg_turbo_scan_bytes(uint32_t width, uint32_t components, uint32_t h, uint32_t v);
/* These as those of image/jpeg.h. */
bool jpeg_turbo_open(struct jpeg_turbo *turbo, const uint8_t *bytes, size_t size,
                     struct jpeg_image_header *header);
bool jpeg_turbo_read(struct jpeg_turbo *turbo, const struct jpeg_box *box, uint8_t *dst,
                     size_t stride);
const struct jpeg_image_fault *jpeg_turbo_fault(const struct jpeg_turbo *turbo);
void jpeg_turbo_close(struct jpeg_turbo *turbo);

#endif
