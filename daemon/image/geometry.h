/* Which pixels of one picture become which pixels of its row. Pure; the same on every machine:
 * IEEE double with + - * / sqrt only (no libm function that may differ, no fused multiply-add). */
#ifndef GEOMETRY_H
#define GEOMETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "image/transform.h"

/* Take the box of the step's input, resize it to width x height, keep the window of that, mirror it
 * left to right if flip. The window may lie partly outside (center_crop of a smaller picture):
 * zeros there. */
struct geometry_step {
    int32_t box_x, box_y, box_w, box_h; /* of the step's input */
    int32_t width, height;              /* after the resize */
    int32_t win_x, win_y, win_w, win_h; /* of the resized picture */
    bool flip;
    enum filter filter;
};

/* Steps follow each other; at least one. Operations are merged into as few as give the same bytes
 * as one after the other. */
struct geometry {
    struct geometry_step steps[TRANSFORM_OPS_MAX];
    uint32_t count;
    int32_t width, height; /* of the result */
};

/* For a picture of width x height (after an EXIF turn), both >= 1; transform has passed
 * transform_check.
 *
 * Draws come from one Philox stream (seed, PHILOX_DRAW, epoch, lane 0, block = id), operations in
 * their order. random_resized_crop makes up to 10 tries; each draws two philox_unit: a, then r;
 *   target = W * H * (s0 + (s1 - s0) * a)         (scale s0-s1)
 *   aspect = q0 * exp(r * ln(q1 / q0))            (ratio q0-q1)
 *   w = round(sqrt(target * aspect)), h = round(sqrt(target / aspect)), half to even;
 * if 0 < w <= W and 0 < h <= H it draws top = philox_below(H - h + 1), then left =
 * philox_below(W - w + 1), and is done. After the tenth: torchvision's central crop, no draw. flip
 * draws one philox_unit and flips where it is < probability. */
void geometry_draw(const struct transform *transform, int32_t width, int32_t height, uint64_t seed,
                   uint64_t epoch, uint64_t id, struct geometry *out);

#endif
