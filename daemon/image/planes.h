/* `pixels: fast`: the planes of a JPEG, as our own decoder makes them, are scaled one by one, and
 * colours are made of the result only. Rows of the planes go through both passes and into the row
 * of the batch as they come: no picture lies between. Up to rounding, and but for colours that do
 * not exist in RGB, the result is that of image/resample.h: upsampling, resizing and the change of
 * colours are all linear (image/plane_taps.h). */
#ifndef PLANES_H
#define PLANES_H

#include "image/geometry.h"
#include "image/jpeg_partial.h"
#include "image/plane_kernels.h"
#include "image/tensor.h"

/* One per thread. */
struct planes;

/* NULL: this machine has no vector instructions for it (AVX2). */
const struct plane_kernels *planes_best(void);
struct planes *planes_new(const struct plane_kernels *kernels);
void planes_free(struct planes *planes);
/* Whether this picture and transform can go this way: one step that resizes and that
 * image/resample.h calls plain, of a grey picture or one in Y, Cb, Cr more than 4 pixels wide. */
bool planes_fit(const struct jpeg_header *header, const struct geometry *geometry);
/* Scratch for a step, without the weights of the picture's taps. */
uint64_t planes_bytes(const struct jpeg_header *header, const struct geometry_step *step);
/* The part of the picture that is needed. */
struct jpeg_box planes_box(const struct geometry_step *step);
/* Begins with a picture. taps: across and down, resampler_taps. dst: rows of win_w * 3 bytes, or
 * the values of tensor where that is not NULL, written exactly. scratch is aligned to 8 bytes. All
 * but step stay in use until the last row has come. */
void planes_begin(struct planes *planes, const struct jpeg_header *header,
                  const struct geometry_step *step, const struct taps *const taps[2],
                  const struct tensor *tensor, void *dst, uint8_t *scratch);
/* For jpeg_image_planes, with the box above. */
struct jpeg_sink planes_sink(struct planes *planes);

#endif
