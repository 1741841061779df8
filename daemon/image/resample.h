/* Antialiased resizing of 8-bit RGB, equal to Pillow bit for bit: a horizontal pass, then a
 * vertical one, rounded to 8 bits between them, a pass skipped where its size does not change;
 * where the input is more than 100 times as high as wide and shrinks in height, the vertical pass
 * comes first (Pillow 10 and later). Only the window of a step is computed.
 *
 * Rows go through both passes and into the values of the result while they are in the first-level
 * cache: no picture lies between source and result. */
#ifndef RESAMPLE_H
#define RESAMPLE_H

#include <stddef.h>

#include "image/geometry.h"
#include "image/resample_kernels.h"
#include "image/tensor.h"

/* One per thread. */
struct resampler;

struct resampler *resampler_new(const struct resample_kernels *kernels);
void resampler_free(struct resampler *resampler);
/* Bytes of scratch and of weights that a step takes at most; nothing is allocated. */
uint64_t resampler_bytes(const struct geometry_step *step);

/* The part of a step's box that is needed, counted from the box's corner; never empty. */
struct resample_reach {
    int32_t x, y, width, height;
};
struct resample_reach resampler_reach(const struct geometry_step *step);

/* One pass across, then one down, and nothing of the window outside of the picture. */
bool resampler_plain(const struct geometry_step *step);
/* The weights across and down of such a step, valid until the next step; a pass that changes
 * nothing has weights too. -ENOMEM. */
int resampler_taps(struct resampler *resampler, const struct geometry_step *step,
                   const struct taps *taps[2]);
void resampler_keys(const struct geometry_step *step, struct taps_key keys[2]);

/* Begins with a step. dst is the window: rows of win_w * 3 bytes, or the values of tensor where
 * that is not NULL, written exactly. scratch: resampler_bytes() + RESAMPLE_SLACK, aligned to 8
 * bytes, in use until the last row is pushed; so is tensor. -ENOMEM. */
int resampler_begin(struct resampler *resampler, const struct geometry_step *step,
                    const struct tensor *tensor, void *dst, uint8_t *scratch);
/* The next rows of the reach, any number at a time. */
void resampler_push(struct resampler *resampler, const uint8_t *src, size_t stride, int32_t rows);
/* All at once; src is the reach's corner. */
int resampler_run(struct resampler *resampler, const struct geometry_step *step, const uint8_t *src,
                  size_t stride, const struct tensor *tensor, void *dst, uint8_t *scratch);
void resampler_trim(struct resampler *resampler); /* lets go what a huge picture has taken */

#endif
