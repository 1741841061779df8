/* The weights of one plane of a picture (Y, Cb or Cr) along one axis, for `pixels: fast`.
 *
 * They are those of image/taps.h for the whole picture. Where a plane has half as many samples,
 * libjpeg's triangle upsampling is folded into them: a pixel is 3/4 of the sample that it lies in
 * and 1/4 of the one next to it, that nearer to the pixel; at the edges of the plane the outermost
 * sample goes on. So scaling a plane is the same linear filter as upsampling and resizing it.
 *
 * A weight is a whole number of 2^-bits, and those of an output add up to 2^bits. bits is 8, 7 or
 * less: the most for which sums of neighbouring products of a byte and a weight stay within 16 bits
 * (two weights 2^7 at most, one alone 127), and all of them too once 128 is taken from each byte;
 * bicubic weights, some of which are negative, have 7 at most for that. */
#ifndef PLANE_TAPS_H
#define PLANE_TAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/taps.h"

enum { PLANE_STRIP = 16 }; /* outputs whose weights lie together; strips come in twos */
enum { PLANE_NONE = 0, PLANE_16 = 16, PLANE_64 = 64 };

struct plane_axis {
    const struct taps *taps; /* of the picture */
    int32_t offset;          /* place of their sample 0 in the picture */
    bool half;
    int32_t size; /* of the whole plane, in samples */
    int32_t from; /* the first sample that is there */
    bool flip;    /* the last output comes first */
    int bits;     /* at most */
};

struct plane_taps {
    int32_t count; /* outputs */
    int32_t pairs; /* of weights, those too many are zero, also where no samples are */
    int bits;
    int32_t *start; /* of each output, counted from the first sample that is there */
    /* Of each strip of outputs, for each pair: two 8-bit weights an output, the first in the lower
     * half. The last strip goes on with the last output. */
    uint16_t *weights;
    /* For vector instructions (plane_taps_lanes): outputs are cut into lanes of 16 / unit, or of 32
     * where the window has 64 bytes. The next `unit` samples of all outputs of a lane lie within a
     * window of a row, from where a byte shuffle brings them next to each other; `rounds` times
     * unit are all. */
    int32_t window;
    int32_t unit, rounds;
    int32_t lanes;               /* even where the window has 16 bytes */
    int32_t *at;                 /* of each lane: where its samples begin in a row */
    uint8_t *shuffles;           /* of each lane: as many bytes as the window has */
    const uint8_t *lane_weights; /* of two lanes of 16 bytes: those of each round; not aligned */
};

/* Bytes that they take at most, with lanes or without, and those that plane_taps_make needs
 * besides. `pairs`: of the taps of the picture, at most. */
uint64_t plane_taps_bytes(int32_t count, int32_t pairs);
uint64_t plane_taps_spare(int32_t count, int32_t pairs);
/* Samples of an output at most. */
int32_t plane_taps_most(int32_t pairs);
/* memory, spare: aligned to 8 bytes. */
void plane_taps_make(struct plane_taps *taps, const struct plane_axis *axis, uint8_t *memory,
                     uint8_t *spare);
/* For windows of PLANE_64 bytes; where samples lie too far apart for it, or for PLANE_16, those of
 * 16 bytes. Fewer than 96 bytes after the last sample may be read, with weight zero. */
void plane_taps_lanes(struct plane_taps *taps, int32_t window);

/* The pairs of one output, PLANE_STRIP apart. */
static inline const uint16_t *plane_taps_of(const struct plane_taps *taps, int32_t output)
{
    size_t strip = (size_t)output / PLANE_STRIP, place = (size_t)output % PLANE_STRIP;
    return taps->weights + strip * (size_t)taps->pairs * PLANE_STRIP + place;
}

#endif
