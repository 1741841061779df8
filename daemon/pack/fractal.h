/* Fractal noise: a sum of fields of random values on lattices of 2^k pixels, smoothly interpolated.
 */
#ifndef FRACTAL_H
#define FRACTAL_H

#include <stdint.h>

#include "base/philox.h"

#define FRACTAL_COARSEST 7

/* Adds to out (width x height) the fields of all k from `coarsest` down to `finest`.
 * fineness (of 256) is the contrast of a field over that of the next coarser one: 256 = 1/f.
 * Values lie about in -2048..2047. */
void fractal_add(int16_t *out, uint32_t width, uint32_t height, struct philox *stream,
                 uint32_t coarsest, uint32_t finest, int32_t fineness);

#endif
